//! Statements whose parts several machines run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fencepost::{BlockingSession, Database, Row, SqlState, Value, params};
use fencepost_txn::network::{Posted, Traffic};
use pollster::FutureExt;

use crate::between::{Between, MACHINES, seen, shipping, staying, until};

const ROWS: i32 = 900;

fn over_both(test: u32, run: impl Fn(&[Database])) {
    for between in [Between::memory(), Between::network(test)] {
        run(&between.machines(2));
    }
}

/// Parts that other machines were asked for by this one, and those of them that it ran itself in the end.
fn parts(db: &Database) -> (u64, u64) {
    let counts = db.shipped();
    (counts.parts_sent, counts.parts_returned)
}

/// A table of many types over all machines, an empty one, and one with hardly any rows.
fn tables(machines: &[Database]) {
    let mut session = staying(&machines[1]);
    session
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b int, c bigint, d numeric, e text, f timestamp, g float8, h bool,
                 i date, j varchar(9), k char(3), l timestamptz)
                 PARTITION BY HASH (a) WITH (partitions = 7);
             CREATE INDEX t_ab ON t (a, b);
             CREATE INDEX t_l ON t (l);
             CREATE TABLE none (a int PRIMARY KEY, b int) PARTITION BY HASH (a) WITH (partitions = 4);
             CREATE TABLE few (a int PRIMARY KEY, b int) PARTITION BY HASH (a) WITH (partitions = 64, index = hash);
             CREATE TABLE plain (a int PRIMARY KEY, b int);
             INSERT INTO few VALUES (1, 1), (2, NULL), (3, 7);
             INSERT INTO plain VALUES (1, 1), (2, 5)",
        )
        .expect("tables");
    seen(machines);
    let insert = format!(
        "INSERT INTO t SELECT n, CASE WHEN n % 7 = 0 THEN NULL ELSE n % 10 END, n * 3000000000, n * 1.25,
             'text ' || (n % 37), (date '2024-01-01' + n % 40)::timestamp, n * 0.5,
             CASE WHEN n % 5 = 0 THEN NULL ELSE n % 2 = 0 END, date '2024-01-01' + n % 20,
             CASE WHEN n % 3 = 0 THEN 'three' END, 'k' || n % 4, timestamptz '2024-05-05 00:00+00'
         FROM generate_series(1, {ROWS}) n"
    );
    session.execute(&insert, &[]).expect("rows");
}

fn values(rows: &[Row], ordered: bool) -> Vec<Vec<Value>> {
    let mut values: Vec<_> = rows.iter().map(|row| row.values().to_vec()).collect();
    if !ordered {
        values.sort_by_key(|row| format!("{row:?}"));
    }
    values
}

/// The results of a statement in both sessions are the same, and the first has split it, or not.
fn same(
    (db, session): (&Database, &mut BlockingSession),
    local: &mut BlockingSession,
    (sql, given): (&str, &[Value]),
    splits: bool,
) -> Vec<Vec<Value>> {
    let before = parts(db);
    let rows = session.query(sql, given).expect(sql);
    let after = parts(db);
    assert_eq!(after.1, before.1, "nothing comes back undone: {sql}");
    assert_eq!(after.0 > before.0, splits, "{sql}");
    let ordered = sql.contains("ORDER BY");
    let expected = local.query(sql, given).expect(sql);
    if let (Some(row), Some(expected)) = (rows.first(), expected.first()) {
        assert_eq!(row.columns(), expected.columns(), "{sql}");
    }
    let rows = values(&rows, ordered);
    assert_eq!(rows, values(&expected, ordered), "{sql}");
    rows
}

/// Who splits over memory in common asks for it; over a network it is the default.
fn splitting(db: &Database) -> BlockingSession {
    match db.machine().maps_peers() {
        true => shipping(db),
        false => db.blocking(),
    }
}

const SPLIT: [&str; 52] = [
    "SELECT * FROM t",
    "SELECT a FROM t WHERE b = 3",
    "SELECT a + b, upper(e) FROM t WHERE c > 900000000000 AND e LIKE 'text 1%'",
    "SELECT a, f FROM t WHERE f >= '2024-01-10' AND h",
    "SELECT a FROM t WHERE h IS NULL",
    "SELECT a FROM t WHERE false",
    "SELECT e, 'literal', NULL, 1.5 FROM t WHERE a > 100 AND a < 120",
    "SELECT count(*) FROM t",
    "SELECT count(*), count(b), count(h), count(j) FROM t",
    "SELECT sum(b), sum(c), sum(d), sum(g) FROM t",
    "SELECT avg(b), avg(c), avg(d), avg(g) FROM t",
    "SELECT min(a), max(a), min(e), max(e), min(f), max(d), max(k), min(l), max(i) FROM t",
    "SELECT bool_and(h), bool_or(h), every(a > 0) FROM t",
    "SELECT sum(a + b) * 2, count(*) FILTER (WHERE b > 5) FROM t WHERE a % 2 = 0",
    "SELECT count(*), sum(b), min(e) FROM t WHERE a > 100000",
    "SELECT b, count(*) FROM t GROUP BY b",
    "SELECT b, h, sum(a), avg(d) FROM t GROUP BY b, h",
    "SELECT b % 2, count(*) FROM t GROUP BY b % 2 HAVING count(*) > 100",
    "SELECT e, max(a) FROM t GROUP BY e HAVING max(a) > 880 ORDER BY e DESC",
    "SELECT b, count(*) AS n FROM t GROUP BY b ORDER BY n DESC, b LIMIT 3 OFFSET 1",
    "SELECT i, sum(c) FROM t WHERE j = 'three' GROUP BY i ORDER BY i",
    "SELECT b FROM t WHERE a > 100000 GROUP BY b",
    "SELECT DISTINCT b FROM t",
    "SELECT DISTINCT b, h FROM t ORDER BY b, h NULLS FIRST",
    "SELECT DISTINCT e FROM t ORDER BY e LIMIT 5",
    "SELECT DISTINCT now() FROM t",
    "SELECT DISTINCT current_user, current_setting('TimeZone'), statement_timestamp() = now() FROM t",
    "SELECT a, e FROM t ORDER BY e, a",
    "SELECT a, b FROM t ORDER BY b DESC, a LIMIT 10",
    "SELECT a, b FROM t ORDER BY b DESC NULLS LAST, a LIMIT 10 OFFSET 95",
    "SELECT e FROM t ORDER BY d DESC LIMIT 4",
    "SELECT a FROM t ORDER BY a",
    "SELECT a FROM t ORDER BY a LIMIT 7",
    "SELECT a, b FROM t ORDER BY a DESC LIMIT 5 OFFSET 3",
    "SELECT a, b FROM t WHERE b IS NULL ORDER BY a DESC",
    "SELECT a FROM t WHERE a BETWEEN 100 AND 500 AND b = 2 ORDER BY a OFFSET 30",
    "SELECT a, b FROM t ORDER BY a, b LIMIT 3",
    "SELECT a FROM t ORDER BY a LIMIT NULL",
    "SELECT l::text, i::text FROM t WHERE a > 4 AND a < 7",
    "SELECT a FROM none",
    "SELECT count(*), sum(b), min(a), avg(b) FROM none",
    "SELECT b, count(*) FROM none GROUP BY b",
    "SELECT a FROM none ORDER BY a LIMIT 1",
    "SELECT * FROM few",
    "SELECT count(b), sum(b) FROM few",
    "SELECT count(DISTINCT b) FROM t",
    "SELECT count(DISTINCT b), sum(c), min(e) FROM t WHERE a > 33",
    "SELECT string_agg(e, ',' ORDER BY a DESC) FROM t WHERE a % 20 = 3",
    "SELECT b, count(DISTINCT h), sum(DISTINCT a % 7) FROM t WHERE a > 10 GROUP BY b HAVING count(DISTINCT e) > 1",
    "SELECT string_agg(DISTINCT j, '-') FROM t",
    "SELECT count(DISTINCT a) FROM none",
    "SELECT a FROM few ORDER BY a DESC",
];

const WHOLE: [&str; 12] = [
    "SELECT a FROM t LIMIT 0",
    "SELECT a, b FROM t WHERE l = '2024-05-05 00:00+00' AND a < 10",
    "SELECT string_agg(e, ',') FROM t WHERE a < 20",
    "SELECT t.a FROM t JOIN plain ON plain.a = t.a",
    "SELECT count(*) FROM t x JOIN t y ON x.a = y.a",
    "SELECT n FROM (SELECT count(*) AS n FROM t) s",
    "SELECT count(*) FROM plain",
    "SELECT count(*) FROM t WHERE random() < 2",
    "SELECT a FROM t WHERE a IN (1, 2, 3)",
    "SELECT a FROM t WHERE a = 4",
    "SELECT a FROM t WHERE a < 5 FOR UPDATE",
    "SELECT 1",
];

#[test]
fn results_are_those_of_one_machine() {
    over_both(41, |machines| {
        tables(machines);
        for db in machines {
            let (mut session, mut local) = (splitting(db), staying(db));
            for setting in ["SET TimeZone = 'Asia/Tokyo'", "SET DateStyle = 'ISO, DMY'"] {
                session.batch(setting).expect("a setting");
                local.batch(setting).expect("a setting");
            }
            for sql in SPLIT {
                if sql.contains("now()") {
                    assert_eq!(session.query(sql, &[]).expect(sql).len(), 1, "{sql}");
                    continue;
                }
                same((db, &mut session), &mut local, (sql, &[]), true);
            }
            // A whole key is another matter: it may be shipped, or is read from here.
            for sql in WHOLE {
                same((db, &mut session), &mut local, (sql, &[]), false);
            }
            // Without an order any rows will do, each of them once.
            for (sql, rows) in [
                ("SELECT a FROM t WHERE b = 3 LIMIT 20", 20),
                ("SELECT DISTINCT b FROM t LIMIT 100", 11),
                ("SELECT a FROM t OFFSET 890", 10),
            ] {
                let mut found = values(&session.query(sql, &[]).expect(sql), false);
                found.dedup();
                assert_eq!(found.len(), rows, "{sql}");
            }
        }
    });
}

#[test]
fn parameters_and_prepared_statements_go_along() {
    over_both(42, |machines| {
        tables(machines);
        let db = &machines[0];
        let (mut session, mut local) = (splitting(db), staying(db));
        let cases: [(&str, &[Value]); 6] = [
            ("SELECT a FROM t WHERE b = $1", params![3]),
            (
                "SELECT a, $2::text FROM t WHERE e = $1 ORDER BY a",
                params!["text 4", "two"],
            ),
            (
                "SELECT count(*), sum(a * $1) FROM t WHERE d < $2",
                params![2, 700],
            ),
            (
                "SELECT a FROM t ORDER BY a DESC LIMIT $1 OFFSET $2",
                params![4i64, 2i64],
            ),
            ("SELECT b + $1, count(*) FROM t GROUP BY b + $1", params![5]),
            (
                "SELECT count(*) FROM t WHERE f > $1",
                params!["2024-01-20 12:00"],
            ),
        ];
        for (sql, given) in cases {
            same((db, &mut session), &mut local, (sql, given), true);
        }
        let statement = session
            .prepare("SELECT sum(a) FROM t WHERE b = $1")
            .expect("prepares");
        for b in 0..10 {
            let before = parts(db).0;
            let sum: Option<i64> = session
                .query_one(&statement, params![b])
                .expect("a row")
                .get(0)
                .expect("a sum");
            assert!(parts(db).0 > before);
            let sum_of = |n: &i32| n % 7 != 0 && n % 10 == b;
            let expected: i32 = (1..=ROWS).filter(sum_of).sum();
            assert_eq!(sum, Some(i64::from(expected)));
        }
        let copy = "COPY (SELECT a, b FROM t WHERE a <= 20) TO STDOUT";
        let lines = |session: BlockingSession| {
            let text = session.into_inner().copy_out(copy).block_on();
            let text = String::from_utf8(text.expect("rows")).expect("a text");
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let before = parts(db).0;
        let copied = lines(session);
        assert_eq!((copied.len(), parts(db).0), (20, before + 2));
        assert_eq!(copied, lines(local));
    });
}

/// Conditions, keys and orders put together at random.
#[test]
fn statements_at_random_come_to_what_they_do_on_one_machine() {
    const TRIALS: u32 = 150;
    over_both(43, |machines| {
        tables(machines);
        let db = &machines[2];
        let (mut session, mut local) = (splitting(db), staying(db));
        let mut random = fencepost_fabric::Random::new(7);
        for _ in 0..TRIALS {
            let mut one_of =
                |list: &[&str]| list[random.below(list.len() as u64) as usize].to_owned();
            let conditions = [
                "b = 4",
                "b IS NULL",
                "h",
                "NOT h",
                "c > 1000000000000",
                "e LIKE '%1'",
                "d < 500.5",
                "g >= 100",
                "a % 3 = 1",
                "j IS NOT NULL",
                "a > 700",
                "a BETWEEN 50 AND 400",
                "i = '2024-01-05'",
                "k = 'k2'",
                "f < '2024-01-15'",
                "true",
            ];
            let between = [" AND ", " OR "];
            let condition = format!(
                "({}{}{}){}{}",
                one_of(&conditions),
                one_of(&between),
                one_of(&conditions),
                one_of(&between),
                one_of(&conditions)
            );
            let keys = ["b", "h", "e", "a % 10", "i", "j"];
            let sums = [
                "count(*)",
                "sum(c)",
                "avg(d)",
                "min(e)",
                "max(f)",
                "count(j)",
                "sum(d)",
                "bool_or(h)",
                "avg(b)",
                "sum(g)",
            ];
            let sql = match one_of(&["groups", "all", "rows", "first", "index", "distinct"])
                .as_str()
            {
                "groups" => {
                    let key = one_of(&keys);
                    format!(
                        "SELECT {key}, {}, {} FROM t WHERE {condition} GROUP BY {key}",
                        one_of(&sums),
                        one_of(&sums)
                    )
                }
                "all" => format!(
                    "SELECT {}, {}, {} FROM t WHERE {condition}",
                    one_of(&sums),
                    one_of(&sums),
                    one_of(&sums)
                ),
                "rows" => format!("SELECT a, {} FROM t WHERE {condition}", one_of(&keys)),
                "first" => format!(
                    "SELECT a, {} FROM t WHERE {condition} ORDER BY {} {}, a LIMIT {} OFFSET {}",
                    one_of(&keys),
                    one_of(&["b", "e", "d", "h", "f"]),
                    one_of(&["ASC", "DESC", "DESC NULLS LAST"]),
                    one_of(&["1", "10", "200"]),
                    one_of(&["0", "3", "100"])
                ),
                "index" => format!(
                    "SELECT a, e FROM t WHERE {condition} ORDER BY a {} LIMIT {}",
                    one_of(&["ASC", "DESC"]),
                    one_of(&["5", "100", "NULL"])
                ),
                _ => format!(
                    "SELECT DISTINCT {}, {} FROM t WHERE {condition}",
                    one_of(&keys),
                    one_of(&keys)
                ),
            };
            same((db, &mut session), &mut local, (&sql, &[]), true);
        }
    });
}

/// What each machine has posted since `before`, but for what goes on by itself.
fn posted(machines: &[Database], before: &[Traffic]) -> Vec<Vec<(Posted, u64)>> {
    let by_itself = [
        Posted::Board,
        Posted::Message,
        Posted::Truncate,
        Posted::Unreserve,
    ];
    let of = |(db, before): (&Database, &Traffic)| {
        let posted = db.machine().traffic().since(before);
        let counts = Posted::ALL.into_iter().map(|what| (what, posted.of(what)));
        let counts = counts.filter(|(what, count)| *count > 0 && !by_itself.contains(what));
        counts.collect()
    };
    machines.iter().zip(before).map(of).collect()
}

#[test]
fn a_count_over_many_rows_costs_a_request_and_a_reply_a_machine_and_no_reads() {
    const RUNS: u64 = 5;
    let between = Between::network(44);
    let machines = between.machines(2);
    tables(&machines);
    let mut session = machines[0].blocking();
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT b, sum(c) FROM t WHERE e LIKE '%1%' GROUP BY b",
        "SELECT a, e FROM t ORDER BY d DESC LIMIT 10",
        "SELECT a FROM t WHERE b = 4",
    ] {
        session.query(sql, &[]).expect("runs, and is planned");
        let before: Vec<Traffic> = machines.iter().map(|db| db.machine().traffic()).collect();
        for _ in 0..RUNS {
            session.query(sql, &[]).expect("runs");
        }
        let expected = [
            vec![(Posted::Request, 2 * RUNS)],
            vec![(Posted::Answer, RUNS)],
            vec![(Posted::Answer, RUNS)],
        ];
        assert_eq!(posted(&machines, &before), expected, "{sql}");
    }
    // Rows that only one machine could have are read from here otherwise.
    let before: Vec<Traffic> = machines.iter().map(|db| db.machine().traffic()).collect();
    staying(&machines[0])
        .query("SELECT count(*) FROM t", &[])
        .expect("runs");
    let reads = posted(&machines, &before)[0]
        .iter()
        .find(|(what, _)| *what == Posted::Object)
        .map(|(_, n)| *n);
    assert!(reads > Some(ROWS as u64 / 2), "{reads:?}");
}

#[test]
fn errors_of_a_part_are_the_clients() {
    over_both(45, |machines| {
        tables(machines);
        let db = &machines[0];
        let (mut session, mut local) = (splitting(db), staying(db));
        for (sql, code) in [
            ("SELECT 100 / (a - 77) FROM t", SqlState::DIVISION_BY_ZERO),
            (
                "SELECT sum(100 / (a - 78)) FROM t",
                SqlState::DIVISION_BY_ZERO,
            ),
            (
                "SELECT a FROM t WHERE 100 / (a - 79) = 1",
                SqlState::DIVISION_BY_ZERO,
            ),
            (
                "SELECT b / (a - 80), count(*) FROM t GROUP BY b / (a - 80)",
                SqlState::DIVISION_BY_ZERO,
            ),
            (
                "SELECT a FROM t ORDER BY 1 / (a - 81) LIMIT 1",
                SqlState::DIVISION_BY_ZERO,
            ),
            (
                "SELECT e::int FROM t",
                SqlState::INVALID_TEXT_REPRESENTATION,
            ),
            (
                "SELECT sum(d * 1e26) FROM t",
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            ),
            (
                "SELECT a FROM t LIMIT -1",
                SqlState::INVALID_ROW_COUNT_IN_LIMIT,
            ),
        ] {
            let split = session.query(sql, &[]).expect_err(sql);
            assert_eq!(split.code(), code, "{sql}");
            let whole = local.query(sql, &[]).expect_err(sql);
            if !sql.contains("::int") {
                assert_eq!(split.report(), whole.report(), "{sql}");
            }
        }
        // A block is failed by it, and the session goes on.
        session.batch("BEGIN READ ONLY").expect("a block");
        session
            .query("SELECT 1 / (a - 82) FROM t", &[])
            .expect_err("fails");
        let failed = session.query("SELECT 1", &[]).expect_err("has failed");
        assert_eq!(failed.code(), SqlState::IN_FAILED_SQL_TRANSACTION);
        session.batch("ROLLBACK").expect("ends");
        same(
            (db, &mut session),
            &mut local,
            ("SELECT count(*) FROM t", &[]),
            true,
        );
    });
}

#[test]
fn only_what_is_never_validated_is_split() {
    over_both(46, |machines| {
        tables(machines);
        let (db, other) = (&machines[0], &mut staying(&machines[1]));
        let mut session = splitting(db);
        let count = |session: &mut BlockingSession, splits: bool| -> i64 {
            let before = parts(db).0;
            let row = session
                .query_one("SELECT count(*) FROM t", &[])
                .expect("a row");
            assert_eq!(parts(db).0 > before, splits);
            row.get(0).expect("a count")
        };
        // Of one snapshot, whatever comes meanwhile.
        session.batch("BEGIN READ ONLY").expect("a block");
        assert_eq!(count(&mut session, true), i64::from(ROWS));
        other
            .batch("DELETE FROM t WHERE a <= 100")
            .expect("deletes");
        assert_eq!(count(&mut session, true), i64::from(ROWS));
        session.batch("COMMIT").expect("ends");
        assert_eq!(count(&mut session, true), i64::from(ROWS) - 100);
        // Its own writes are nowhere else, and what it has read is validated.
        session.batch("BEGIN").expect("a block");
        assert_eq!(count(&mut session, false), i64::from(ROWS) - 100);
        session
            .batch("DELETE FROM t WHERE a <= 200")
            .expect("deletes");
        assert_eq!(count(&mut session, false), i64::from(ROWS) - 200);
        session.batch("ROLLBACK").expect("ends");
        session
            .batch("BEGIN; SET TRANSACTION READ ONLY")
            .expect("a block");
        assert_eq!(count(&mut session, true), i64::from(ROWS) - 100);
        session.batch("COMMIT").expect("ends");
        // Several statements are one transaction, that may write.
        let before = parts(db).0;
        session
            .batch("SELECT count(*) FROM t; DELETE FROM t WHERE a <= 300")
            .expect("runs");
        assert_eq!(parts(db).0, before);
        session
            .batch("SET fencepost.ship = off")
            .expect("a setting");
        assert_eq!(count(&mut session, false), i64::from(ROWS) - 300);
        if db.machine().maps_peers() {
            assert_eq!(count(&mut db.blocking(), false), i64::from(ROWS) - 300);
        }
    });
}

#[test]
fn tables_that_change_are_planned_anew() {
    over_both(47, |machines| {
        tables(machines);
        let db = &machines[0];
        let mut session = splitting(db);
        let statement = session
            .prepare("SELECT count(*), max(a) FROM t")
            .expect("prepares");
        let expected = [Value::Int8(i64::from(ROWS)), Value::Int4(ROWS)];
        thread::scope(|scope| {
            let changes = scope.spawn(|| {
                let mut ddl = staying(&machines[1]);
                for round in 0..12 {
                    for sql in [
                        format!("CREATE INDEX t_{round} ON t (a, c)"),
                        format!("CREATE UNIQUE INDEX t_u_{round} ON t (a DESC)"),
                        format!("DROP INDEX t_{round}"),
                    ] {
                        ddl.batch(&sql).expect("ddl");
                    }
                }
            });
            while !changes.is_finished() {
                let row = session.query_one(&statement, &[]).expect("a row");
                assert_eq!(row.values(), expected);
            }
        });
        let before = parts(db);
        let row = session.query_one(&statement, &[]).expect("a row");
        assert_eq!(row.values(), expected);
        let after = parts(db);
        assert_eq!(
            (after.0 - before.0, after.1),
            (2, before.1),
            "plans agree again"
        );
        // Gone, and made again with other rows.
        let mut there = staying(&machines[2]);
        there.batch("DROP TABLE t").expect("drops");
        let gone = session.query(&statement, &[]).expect_err("is gone");
        assert_eq!(gone.code(), SqlState::UNDEFINED_TABLE);
        there
            .batch(
                "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY HASH (a) WITH (partitions = 5);
                 INSERT INTO t VALUES (1), (2), (3)",
            )
            .expect("a table");
        until(|| {
            let row = session.query_one("SELECT count(*), max(a) FROM t", &[]);
            row.is_ok_and(|row| row.values() == [Value::Int8(3), Value::Int4(3)])
        });
        // With other columns: machines that knew its text plan it anew for a client that does not.
        let all = |session: &mut BlockingSession| {
            // Who is slow to hear of the new table may still plan the old one.
            let mut rows = None;
            machines::until(|| {
                session.batch("DISCARD PLANS").expect("none is kept");
                rows = session.query("SELECT * FROM t", &[]).ok();
                rows.is_some()
            });
            values(&rows.expect("rows"), false)
        };
        for (columns, value) in [
            ("b text", "'x'"),
            ("b bigint, c date", "5, NULL"),
            ("b text", "'y'"),
        ] {
            let rows = format!(
                "DROP TABLE t;
                 CREATE TABLE t (a int PRIMARY KEY, {columns}) PARTITION BY HASH (a) WITH (partitions = 5);
                 INSERT INTO t SELECT g, {value} FROM generate_series(1, 40) g"
            );
            there.batch(&rows).expect("a table");
            let expected = all(&mut there);
            for db in machines {
                machines::until(|| {
                    let count = splitting(db).query_one("SELECT count(*) FROM t", &[]);
                    count.is_ok_and(|count| count.values() == [Value::Int8(40)])
                });
                let before = parts(db);
                assert_eq!(all(&mut splitting(db)), expected);
                let after = parts(db);
                assert_eq!((after.0 - before.0, after.1), (2, before.1), "{columns}");
            }
        }
    });
}

#[test]
fn what_no_other_machine_does_is_done_here() {
    over_both(48, |machines| {
        tables(machines);
        let db = &machines[0];
        let (mut session, mut local) = (splitting(db), staying(db));
        // Parts of more than a message's rows.
        for sql in [
            "SELECT a, repeat(e, 2000) FROM t",
            "SELECT a, repeat(e, 2000) FROM t ORDER BY a",
            "SELECT a, repeat(e, 2000) FROM t ORDER BY d DESC",
            "SELECT repeat(e, 2000) || a, count(*) FROM t GROUP BY repeat(e, 2000) || a",
            "SELECT DISTINCT a, repeat(e, 2000) FROM t",
        ] {
            let before = parts(db);
            let rows = session.query(sql, &[]).expect("runs here");
            let after = parts(db);
            assert_eq!((after.0 - before.0, after.1 - before.1), (2, 2), "{sql}");
            let expected = local.query(sql, &[]).expect("runs");
            let ordered = sql.contains("ORDER");
            assert!(
                values(&rows, ordered) == values(&expected, ordered),
                "{sql}"
            );
        }
        // A machine that tells nobody that it has gone.
        machines[1].machine().close().expect("closes");
        for sql in [
            "SELECT count(*), sum(c) FROM t",
            "SELECT a, b FROM t ORDER BY a",
            "SELECT a FROM t WHERE b = 4",
        ] {
            let before = parts(db);
            let rows = session.query(sql, &[]).expect("runs");
            let after = parts(db);
            assert_eq!((after.0 - before.0, after.1 - before.1), (2, 1), "{sql}");
            let expected = local.query(sql, &[]).expect("runs");
            let ordered = sql.contains("ORDER");
            assert_eq!(values(&rows, ordered), values(&expected, ordered), "{sql}");
        }
    });
}

#[test]
fn sums_hold_while_money_moves_between_partitions() {
    const ACCOUNTS: i32 = 60;
    const READS: u32 = 150;
    over_both(49, |machines| {
        let mut session = staying(&machines[0]);
        session
            .batch("CREATE TABLE t (a int PRIMARY KEY, n int NOT NULL) PARTITION BY HASH (a) WITH (partitions = 6)")
            .expect("a table");
        seen(machines);
        let insert = format!("INSERT INTO t SELECT g, 100 FROM generate_series(1, {ACCOUNTS}) g");
        session.execute(&insert, &[]).expect("rows");
        let ended = AtomicBool::new(false);
        let all = Value::Int8(i64::from(ACCOUNTS) * 100);
        thread::scope(|scope| {
            for (seed, db) in machines.iter().enumerate() {
                let ended = &ended;
                scope.spawn(move || {
                    let mut session = staying(db);
                    let mut random = fencepost_fabric::Random::new(seed as u64);
                    while !ended.load(Ordering::Acquire) {
                        let mut account = || random.below(ACCOUNTS as u64) as i32 + 1;
                        let (from, to) = (account(), account());
                        let moved = session.transaction(|tx| {
                            tx.execute("UPDATE t SET n = n - 1 WHERE a = $1", params![from])?;
                            tx.execute("UPDATE t SET n = n + 1 WHERE a = $1", params![to])
                        });
                        moved.expect("moves");
                    }
                });
            }
            let reads = machines.iter().map(|db| {
                let all = &all;
                scope.spawn(move || {
                    let mut session = splitting(db);
                    for read in 0..READS {
                        let row = session
                            .query_one("SELECT sum(n), count(*) FROM t", &[])
                            .expect("a sum");
                        assert_eq!(
                            row.values(),
                            [all.clone(), Value::Int8(i64::from(ACCOUNTS))]
                        );
                        if read % 10 == 0 {
                            session.batch("BEGIN READ ONLY").expect("a block");
                            let rows = |session: &mut BlockingSession, sql: &str| -> i64 {
                                let rows = session.query(sql, &[]).expect("rows");
                                rows.iter()
                                    .map(|row| i64::from(row.get::<i32>(0).expect("a number")))
                                    .sum()
                            };
                            let first = rows(&mut session, "SELECT n FROM t");
                            assert_eq!(Value::Int8(first), *all);
                            assert_eq!(rows(&mut session, "SELECT n FROM t ORDER BY a"), first);
                            session.batch("COMMIT").expect("ends");
                        }
                    }
                })
            });
            let reads: Vec<_> = reads.collect();
            let done: Vec<_> = reads.into_iter().map(|read| read.join()).collect();
            ended.store(true, Ordering::Release);
            assert!(done.iter().all(Result::is_ok));
        });
        for db in machines {
            assert!(parts(db).0 >= u64::from(READS) * u64::from(MACHINES - 1));
        }
    });
}

/// The plan of a statement, without its time.
fn explained(session: &mut BlockingSession, sql: &str) -> Vec<String> {
    let rows = session.query(sql, &[]).expect(sql);
    let line = |row: &Row| row.get::<String>(0).expect("a line");
    let lines = rows.iter().map(line);
    lines
        .filter(|line| !line.starts_with("Execution Time"))
        .collect()
}

#[test]
fn explain_says_how_a_statement_is_split_and_what_came_back() {
    over_both(50, |machines| {
        tables(machines);
        let mut session = splitting(&machines[0]);
        for (sql, plan) in [
            (
                "SELECT b, count(*) FROM t WHERE a > 10 GROUP BY b HAVING count(*) > 1 ORDER BY b LIMIT 2",
                "Limit
                   ->  Sort
                         Sort Key: b
                         ->  Finalize HashAggregate
                               Group Key: b
                               Filter: (count(*) > 1)
                               ->  Gather
                                     Machines: m1, m2, m3
                                     ->  Partial HashAggregate
                                           Group Key: b
                                           ->  Index Scan using t_pkey on t
                                                 Index Cond: (a > 10)
                                                 Partitions: 7 of 7",
            ),
            (
                "SELECT count(*) FROM t",
                "Finalize Aggregate
                   ->  Gather
                         Machines: m1, m2, m3
                         ->  Partial Aggregate
                               ->  Seq Scan on t
                                     Partitions: 7 of 7",
            ),
            (
                "SELECT a FROM t WHERE b = 4 ORDER BY d LIMIT 3",
                "Limit
                   ->  Sort
                         Sort Key: d
                         ->  Gather
                               Machines: m1, m2, m3
                               ->  Limit
                                     ->  Sort
                                           Sort Key: d
                                           ->  Seq Scan on t
                                                 Filter: (b = 4)
                                                 Partitions: 7 of 7",
            ),
            (
                "SELECT DISTINCT b FROM t ORDER BY b",
                "Sort
                   Sort Key: b
                   ->  HashAggregate
                         Group Key: b
                         ->  Gather
                               Machines: m1, m2, m3
                               ->  HashAggregate
                                     Group Key: b
                                     ->  Seq Scan on t
                                           Partitions: 7 of 7",
            ),
            (
                "SELECT a FROM t ORDER BY a DESC LIMIT 3",
                "Limit
                   ->  Gather Merge
                         Machines: m1, m2, m3
                         ->  Limit
                               ->  Index Scan Backward using t_pkey on t
                                     Partitions: 7 of 7",
            ),
        ] {
            let said = explained(&mut session, &format!("EXPLAIN {sql}"));
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(&said.join("\n")), words(plan), "{said:?}");
        }
        let said = explained(
            &mut session,
            "EXPLAIN SELECT count(DISTINCT b) FROM t WHERE b > 2",
        );
        let expected = [
            "Aggregate",
            "  ->  Gather",
            "        Machines: m1, m2, m3",
            "        ->  Seq Scan on t",
            "              Filter: (b > 2)",
            "              Partitions: 7 of 7",
        ];
        assert_eq!(said, expected);
        let said = explained(
            &mut session,
            "EXPLAIN ANALYZE SELECT b, count(*) FROM t WHERE b < 2 GROUP BY b",
        );
        assert_eq!(said[0], "Finalize HashAggregate (actual rows=2)");
        assert_eq!(said[3], "        Machines: m1, m2, m3");
        assert!(
            said[4].starts_with("        Returned: m2 rows=2 bytes="),
            "{said:?}"
        );
        assert_eq!(
            said.last().map(String::as_str),
            Some("Fabric: reads=0 messages=2")
        );
        // What comes back too long is told of, too.
        let said = explained(
            &mut session,
            "EXPLAIN ANALYZE SELECT repeat(e, 2000) FROM t",
        );
        assert_eq!(
            said[2], "  Returned: m2 none, run here, m3 none, run here",
            "{said:?}"
        );
        for sql in WHOLE {
            let said = explained(&mut session, &format!("EXPLAIN {sql}")).join("\n");
            assert!(
                !said.contains("Gather") || sql.contains("LIMIT 0"),
                "{said}"
            );
        }
        let analyze = "EXPLAIN ANALYZE SELECT count(*) FROM t";
        let gathers =
            |session: &mut BlockingSession| explained(session, analyze)[0].starts_with("Finalize");
        session.batch("BEGIN").expect("a block");
        assert!(!gathers(&mut session));
        session.batch("ROLLBACK; BEGIN READ ONLY").expect("a block");
        assert!(gathers(&mut session));
        session.batch("ROLLBACK").expect("ends");
        assert!(!gathers(&mut staying(&machines[0])));
        assert!(gathers(&mut session));
    });
}

#[test]
fn a_cancel_and_a_timeout_end_all_parts() {
    over_both(51, |machines| {
        tables(machines);
        // Long enough to be ended on its way, on each machine.
        let slow = "SELECT count(*) FROM t WHERE md5(repeat(e, 60000)) = 'none'";
        for cancelled in [true, false] {
            let mut session = splitting(&machines[0]).into_inner();
            let token = session.cancel_token();
            let served = machines[2].shipped().parts_served;
            let error = thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    if !cancelled {
                        let limit = "SET statement_timeout = '30ms'";
                        session.batch(limit).block_on().expect("a setting");
                    }
                    session.query(slow, &[]).block_on().map(drop)
                });
                until(|| machines[2].shipped().parts_served > served || waits.is_finished());
                if cancelled {
                    token.cancel();
                }
                waits.join().expect("no panic").expect_err("is ended")
            });
            assert_eq!(error.code(), SqlState::QUERY_CANCELED);
            let why = if cancelled {
                "user request"
            } else {
                "statement timeout"
            };
            assert!(error.to_string().contains(why), "{error}");
            until(|| machines.iter().all(|db| db.machine().is_at_rest()));
            // The session goes on.
            let row = session.query_one("SELECT 1", &[]).block_on();
            assert_eq!(row.expect("runs").get::<i32>(0).expect("a number"), 1);
        }
    });
}
