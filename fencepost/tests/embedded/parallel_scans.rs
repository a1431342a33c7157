//! Scans that helper threads take part in return the rows of scans by one thread, in their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost::{BlockingSession, Database, SqlState};
use fencepost_fabric::processors;

const ALONE: &str = "SET max_parallel_workers_per_gather = 0";
const TOGETHER: &str = "SET max_parallel_workers_per_gather = 2";

/// Creates a table of 60,000 rows, some of them long, with holes in its index.
fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    db.blocking()
        .batch(
            "CREATE TABLE t (id int PRIMARY KEY, k int, amount numeric(10,2), name text, at date);
             INSERT INTO t SELECT i, CASE WHEN i % 17 = 0 THEN NULL ELSE i * 7919 % 1009 END,
                 i % 1000 / 4.0, CASE WHEN i % 5000 = 3 THEN repeat('long', 5000)
                 ELSE 'name ' || i % 500 END, date '2020-01-01' + i % 900
                 FROM generate_series(1, 60000) i;
             CREATE INDEX ON t (k, id);
             DELETE FROM t WHERE id % 29 = 0",
        )
        .expect("a table");
    db
}

/// Returns whether the process has helper threads.
fn has_helpers() -> bool {
    processors::count() > 1
}

/// Returns the rows of a query as text, and whether helpers took part.
fn answer(session: &mut BlockingSession, sql: &str) -> (Vec<Option<String>>, bool) {
    let rows = session.query(sql, &[]).expect(sql);
    let rows = rows.iter().map(|row| row.get(0).expect("text")).collect();
    let lines = session.query(&format!("EXPLAIN ANALYZE {sql}"), &[]);
    let mut lines = lines.expect(sql).into_iter();
    let helped = lines.any(|line| {
        let line: String = line.get(0).expect("text");
        line.starts_with("Parallel Scans: ")
    });
    (rows, helped)
}

const LARGE: &[&str] = &[
    "SELECT count(*)::text FROM t",
    "SELECT t.id::text FROM t",
    "SELECT (id || name || coalesce(k, 0)) FROM t",
    "SELECT md5(string_agg(name, ',')) FROM t WHERE id % 2 = 0",
    "SELECT (sum(amount) || ' ' || count(k) || ' ' || max(at)) FROM t WHERE amount > 12.5",
    "SELECT (k || ' ' || count(*)) FROM t GROUP BY k ORDER BY 1",
    "SELECT (a.id || ' ' || b.k) FROM t a JOIN t b ON b.id = a.k WHERE a.amount < 3 ORDER BY a.id",
    "SELECT (id || ' ' || k) FROM t ORDER BY k DESC, id DESC",
    "SELECT id::text FROM t WHERE id > 5000 AND k > 500",
    "SELECT id::text FROM t WHERE id BETWEEN 10000 AND 50000 OFFSET 20000 LIMIT 5000",
    "SELECT name FROM t WHERE length(name) > 100",
];

#[test]
fn rows_and_their_order_are_those_of_one_thread() {
    let mut session = database().blocking();
    for sql in LARGE {
        session.batch(ALONE).expect("a setting");
        let (alone, helped) = answer(&mut session, sql);
        assert!(!helped, "{sql}");
        session.batch(TOGETHER).expect("a setting");
        let (together, helped) = answer(&mut session, sql);
        assert_eq!(helped, has_helpers(), "{sql}");
        assert_eq!(together.len(), alone.len(), "{sql}");
        let unlike = together.iter().zip(&alone).position(|(a, b)| a != b);
        assert_eq!(unlike, None, "{sql}");
    }
}

#[test]
fn small_and_changing_reads_need_no_helper() {
    let mut session = database().blocking();
    let sql = "SELECT name FROM t LIMIT 100";
    assert!(!answer(&mut session, sql).1, "few rows");
    let sql = "SELECT name FROM t WHERE id < 5000";
    assert!(!answer(&mut session, sql).1, "a narrow range");
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE"] {
        session.batch(begin).expect("a block");
        let (rows, helped) = answer(&mut session, "SELECT count(*)::text FROM t");
        let expected = begin == "BEGIN" && has_helpers();
        assert_eq!(
            (rows[0].as_deref(), helped),
            (Some("57932"), expected),
            "{begin}"
        );
        session.batch("ROLLBACK").expect("an end");
    }
    session
        .batch("BEGIN; DELETE FROM t WHERE id = 7")
        .expect("a change");
    let (rows, helped) = answer(&mut session, "SELECT count(*)::text FROM t");
    assert_eq!(
        (rows[0].as_deref(), helped),
        (Some("57931"), false),
        "its own change"
    );
    session.batch("ROLLBACK").expect("an end");
}

/// Moves amounts between rows until `over` is set.
fn move_amounts(mut session: BlockingSession, over: &AtomicBool, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut row = || random.i32(1..2000) * 29 + 1;
    while !over.load(Ordering::Relaxed) {
        let (from, to) = (row(), row());
        let sql = format!(
            "BEGIN; UPDATE t SET amount = amount - 1 WHERE id = {from};
             UPDATE t SET amount = amount + 1 WHERE id = {to}; COMMIT"
        );
        if session.batch(&sql).is_err() {
            session.batch("ROLLBACK").expect("an end");
        }
    }
}

#[test]
fn all_threads_read_one_snapshot() {
    let db = database();
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|seed| {
            let (session, over) = (db.blocking(), Arc::clone(&over));
            std::thread::spawn(move || move_amounts(session, &over, seed))
        })
        .collect();
    let mut session = db.blocking();
    let sql = "SELECT (sum(amount) || ' ' || count(*)) FROM t";
    let (first, _) = answer(&mut session, sql);
    for round in 0..30 {
        let begin = ["BEGIN", "BEGIN READ ONLY"][round % 2];
        session.batch(begin).expect("a block");
        assert_eq!(answer(&mut session, sql).0, first);
        session.batch("COMMIT").expect("an end");
    }
    over.store(true, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|w| w.join().expect("no panic"));
}

#[test]
fn cancelled_and_abandoned_scans_leave_nothing() {
    let db = database();
    let mut session = db.blocking();
    session
        .batch("SET statement_timeout = '3ms'")
        .expect("a setting");
    for _ in 0..20 {
        let sql = "SELECT count(*) FROM t a WHERE name LIKE '%a%a%a%a%' OR length(name) > 7";
        if let Err(error) = session.query(sql, &[]) {
            assert_eq!(error.code(), SqlState::QUERY_CANCELED);
        }
    }
    session
        .batch("SET statement_timeout = 0")
        .expect("a setting");
    for _ in 0..20 {
        session
            .batch("BEGIN READ ONLY; DECLARE c CURSOR FOR SELECT name FROM t; FETCH 12000 FROM c")
            .expect("rows");
        session.batch("ROLLBACK").expect("an end");
    }
    // The helpers' snapshots have ended, so the versions of the rows can be freed.
    session.batch("DROP TABLE t").expect("dropped");
    session
        .batch("CREATE TABLE t (n int); VACUUM")
        .expect("an end");
}
