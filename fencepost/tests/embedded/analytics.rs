//! Queries return the same results on DataFusion's operators as on Fencepost's own.

use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Database, SqlState};

/// Opens a session with tables that contain NULLs, equal keys, and rows without join partners.
fn session() -> BlockingSession {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    session
        .batch(
            "CREATE TABLE customers (id int PRIMARY KEY, region text, since date, vip bool, \
             code uuid);
             CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, amount numeric(10,2), \
               qty int,
                 big bigint, small smallint, at timestamp, note varchar(40), f float8, \
                   free numeric);
             INSERT INTO customers SELECT g,
                 CASE WHEN g % 11 = 0 THEN NULL ELSE 'region ' || g % 7 END,
                 date '2020-01-01' + g % 90, CASE WHEN g % 5 = 0 THEN NULL ELSE g % 2 = 0 END,
                 ('00000000-0000-0000-0000-0000000000' || 10 + g % 80)::uuid
                 FROM generate_series(1, 300) g;
             INSERT INTO orders SELECT g, CASE WHEN g % 13 = 0 THEN NULL ELSE g % 400 END,
                 (g % 1000) * 1.37, CASE WHEN g % 17 = 0 THEN NULL ELSE g % 50 - 20 END,
                 g * 4000000000000000, g % 100, timestamp '2021-01-01' + g * interval '1 hour',
                 repeat('note ', g % 4) || g % 9, g / 8.0, g % 3 + 0.5
                 FROM generate_series(1, 2000) g;
             INSERT INTO orders (id, customer, at) VALUES (2001, 3, 'infinity'), (2002, 4, \
               '-infinity')",
        )
        .expect("the tables");
    session
}

fn executor(session: &mut BlockingSession, sql: &str) -> bool {
    let rows = session.query(&format!("EXPLAIN {sql}"), &[]).expect(sql);
    let lines: Vec<String> = rows.iter().map(|r| r.get(0).expect("text")).collect();
    lines.join("\n").contains("Executor: DataFusion")
}

/// Returns the rows from one executor, sorted unless the query orders them.
fn run(session: &mut BlockingSession, setting: &str, sql: &str) -> Vec<String> {
    let set = format!("SET fencepost.analytics = {setting}");
    session.execute(&set, &[]).expect("a setting");
    let rows = session.query(sql, &[]).expect(sql);
    // As text, so that trailing digits of numerics count.
    let mut rows: Vec<String> = rows.iter().map(|r| format!("{:?}", r.values())).collect();
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    rows
}

fn both(session: &mut BlockingSession, sql: &str) {
    let ours = run(session, "off", sql);
    assert!(!executor(session, sql), "{sql}");
    let theirs = run(session, "on", sql);
    assert!(executor(session, sql), "{sql}");
    assert_eq!(ours, theirs, "{sql}");
}

#[test]
fn both_executors_give_the_same() {
    let mut session = session();
    let queries = [
        "SELECT c.region, count(*), sum(o.amount), max(o.at) FROM orders o
         JOIN customers c ON o.customer = c.id GROUP BY c.region ORDER BY 1",
        "SELECT count(*), count(qty), sum(qty), avg(qty), min(qty), max(qty) FROM orders",
        "SELECT sum(big), avg(big), min(big), max(big), sum(small), avg(amount) FROM orders",
        "SELECT count(*), sum(qty), min(note) FROM orders WHERE id < 0 AND qty > 5",
        "SELECT qty, count(*) FROM orders WHERE qty < 1000 GROUP BY qty HAVING count(*) > 3",
        "SELECT note, small % 4, count(*) FILTER (WHERE qty > 0), sum(amount * (1 - small)) \
         FROM orders
         GROUP BY note, small % 4",
        "SELECT note, sum(amount * qty * 1.25), avg(amount + qty) FROM orders GROUP BY note",
        "SELECT sum(qty * o.small) AS s, c.vip, c.since FROM orders o \
         JOIN customers c ON c.id = o.customer
         WHERE o.qty > c.id % 10 GROUP BY c.vip, c.since ORDER BY 1, 2, 3",
        "SELECT c.id, o.id, o.note, o.f, c.code FROM orders o \
         JOIN customers c ON o.customer = c.id",
        "SELECT c.id, o.id, o.at FROM customers c LEFT JOIN orders o ON o.customer = c.id \
         AND o.qty > 20",
        "SELECT c.id, o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id \
         WHERE c.vip IS NULL",
        "SELECT c.region, count(o.id), count(*) FROM customers c \
         LEFT JOIN orders o ON o.customer = c.id
         GROUP BY c.region",
        "SELECT count(*), count(c.id), count(o.id) FROM customers c \
         FULL JOIN orders o ON o.customer = c.id",
        "SELECT a.code, count(*) FROM customers a JOIN customers b ON a.code = b.code \
         GROUP BY a.code",
        "SELECT a.since, count(*), max(a.region) FROM customers a JOIN customers b
         ON a.since = b.since AND a.vip = b.vip GROUP BY a.since ORDER BY 1 DESC LIMIT 5",
        "SELECT o.at, c.region FROM orders o JOIN customers c ON o.customer = c.id ORDER BY o.id \
         LIMIT 7",
        "SELECT x.note, count(*) FROM orders x JOIN orders y ON x.note = y.note AND x.id = y.id + 1
         GROUP BY x.note",
        "SELECT c.region, count(*) FROM orders o JOIN customers c ON o.customer = c.id
         JOIN customers d ON d.id = o.qty GROUP BY c.region",
        "SELECT region, rank() OVER (ORDER BY count(*)) FROM customers GROUP BY region \
         ORDER BY 2, 1",
        "SELECT DISTINCT c.region FROM orders o JOIN customers c ON o.customer = c.id",
    ];
    for sql in queries {
        both(&mut session, sql);
    }
}

#[test]
fn inexact_aggregates_are_not_eligible() {
    let mut session = session();
    let queries = [
        "SELECT sum(f) FROM orders",
        "SELECT f, count(*) FROM orders GROUP BY f",
        "SELECT sum(free) FROM orders",
        "SELECT count(DISTINCT qty) FROM orders",
        "SELECT string_agg(note, ',' ORDER BY id) FROM orders",
        "SELECT count(*) FROM orders WHERE id = 5",
        "SELECT sum(qty) FROM orders WHERE id BETWEEN 5 AND 10",
        "SELECT note FROM orders o JOIN customers c ON o.customer = c.id WHERE c.id = 7 \
         AND o.id = 8",
        "SELECT note FROM orders o JOIN customers c ON o.customer = c.id LIMIT 3",
        "SELECT qty, small, count(*) FROM orders GROUP BY ROLLUP (qty, small)",
        "SELECT count(*) FROM orders o JOIN customers c ON o.f = c.id",
        "SELECT 1",
    ];
    session
        .execute("SET fencepost.analytics = on", &[])
        .expect("a setting");
    for sql in queries {
        assert!(!executor(&mut session, sql), "{sql}");
    }
    session
        .execute("SET fencepost.analytics = auto", &[])
        .expect("a setting");
    let few = "SELECT count(*) FROM orders o JOIN customers c ON o.customer = c.id";
    assert!(!executor(&mut session, few));
}

#[test]
fn explain_says_which_executor_runs_in_every_form() {
    let mut session = session();
    session
        .execute("SET fencepost.analytics = on", &[])
        .expect("a setting");
    let query =
        "SELECT c.vip, count(*) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY 1";
    let mut explained = |options: &str| {
        let rows = session.query(&format!("EXPLAIN {options} {query}"), &[]);
        let rows = rows.expect("an explanation");
        let lines: Vec<String> = rows.iter().map(|r| format!("{:?}", r.values())).collect();
        lines.join("\n").replace("\\\"", "\"")
    };
    assert!(explained("(ANALYZE)").contains("  Executor: DataFusion"));
    assert!(explained("(FORMAT JSON)").contains("\"Executor\": \"DataFusion\""));
    assert!(explained("(FORMAT XML)").contains("<Executor>DataFusion</Executor>"));
}

#[test]
fn analytic_query_sees_own_writes() {
    let mut session = session();
    let sql =
        "SELECT c.region, count(*), sum(o.qty) FROM orders o JOIN customers c ON o.customer = c.id
               GROUP BY c.region ORDER BY 1";
    session.batch("BEGIN").expect("a block");
    session
        .batch(
            "DELETE FROM orders WHERE id % 3 = 0;
             UPDATE customers SET region = 'moved' WHERE id < 50;
             INSERT INTO orders (id, customer, qty) SELECT 10000 + g, g, 1000 \
               FROM generate_series(1, 30) g",
        )
        .expect("changes");
    both(&mut session, sql);
    session.batch("ROLLBACK").expect("its end");
    both(&mut session, sql);
}

#[test]
fn errors_come_only_from_rows_read() {
    let mut session = session();
    let fails = [
        (
            "SELECT sum(id / (qty - 3)) FROM orders",
            SqlState::DIVISION_BY_ZERO,
        ),
        (
            "SELECT c.region, sum(c.id / (o.qty - 3)) FROM orders o \
             JOIN customers c ON o.customer = c.id
             GROUP BY c.region",
            SqlState::DIVISION_BY_ZERO,
        ),
        (
            "SELECT sum(qty * 200000000) FROM orders",
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        ),
        (
            "SELECT max(a.big + b.big) FROM orders a JOIN orders b ON a.small = b.small",
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        ),
    ];
    for (sql, state) in fails {
        for setting in ["off", "on"] {
            let set = format!("SET fencepost.analytics = {setting}");
            session.execute(&set, &[]).expect("a setting");
            let error = session.query(sql, &[]).expect_err(sql);
            assert_eq!(error.code(), state, "{sql} {setting}");
        }
    }
    both(
        &mut session,
        "SELECT c.region, sum(c.id / (o.qty - 3)) FROM orders o \
         JOIN customers c ON o.customer = c.id
         WHERE o.qty <> 3 GROUP BY c.region",
    );
    both(
        &mut session,
        "SELECT sum(id / (qty - 3)) FILTER (WHERE qty > 3) FROM orders WHERE qty IS NOT NULL",
    );
}

#[test]
fn analytic_query_ends_at_time_limit_and_goes_on_at_memory_limit() {
    let db = Database::options()
        .memory_limit(40 << 20)
        .open()
        .expect("a database");
    let mut session = db.blocking();
    session
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b text);
             INSERT INTO t SELECT g, 'a text that is long enough to be apart ' || g
                 FROM generate_series(1, 20000) g;
             SET fencepost.analytics = on",
        )
        .expect("rows");
    let before = db.machine().account().used();
    let sql = "SELECT b || repeat('x', 1500), count(*) FROM t GROUP BY 1";
    assert!(executor(&mut session, sql));
    // The row executor runs it, with a temporary file.
    assert_eq!(session.query(sql, &[]).expect("groups").len(), 20_000);
    given_back(&db, before);
    session
        .execute("SET statement_timeout = '20ms'", &[])
        .expect("a setting");
    let sql = "SELECT count(*) FROM t x JOIN t y ON x.a % 2 = y.a % 2 AND x.b <> y.b";
    let sql = sql.replace("x.a % 2 = y.a % 2", "length(x.b) = length(y.b)");
    let began = Instant::now();
    let error = session.query(&sql, &[]).expect_err("too long");
    assert_eq!(error.code(), SqlState::QUERY_CANCELED);
    assert!(began.elapsed() < Duration::from_secs(20));
    given_back(&db, before);
}

/// Waits until all counted memory is released, which happens once DataFusion's threads have ended.
fn given_back(db: &Database, before: u64) {
    let began = Instant::now();
    while db.machine().account().used() != before {
        assert!(began.elapsed() < Duration::from_secs(20), "still counted");
        std::thread::sleep(Duration::from_millis(5));
    }
}
