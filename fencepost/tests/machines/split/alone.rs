//! Parts that fail, are ended, or that no other machine runs.

use super::*;

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
        // The error fails the block, and the session continues.
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

/// Creates and drops indexes of `t`.
fn change_indexes(db: &Database) {
    let mut ddl = staying(db);
    for round in 0..12 {
        for sql in [
            format!("CREATE INDEX t_{round} ON t (a, c)"),
            format!("CREATE UNIQUE INDEX t_u_{round} ON t (a DESC)"),
            format!("DROP INDEX t_{round}"),
        ] {
            ddl.batch(&sql).expect("ddl");
        }
    }
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
            let changes = scope.spawn(|| change_indexes(&machines[1]));
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
        // The table is dropped, and created again with other rows.
        let mut there = staying(&machines[2]);
        there.batch("DROP TABLE t").expect("drops");
        let error = session.query(&statement, &[]).expect_err("is gone");
        assert_eq!(error.code(), SqlState::UNDEFINED_TABLE);
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
        // With other columns: machines that know the text plan it again for a client that does not.
        let all = |session: &mut BlockingSession| {
            // A machine that learns of the new table late may still plan the old one.
            let mut rows = None;
            until(|| {
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
                 CREATE TABLE t (a int PRIMARY KEY, {columns}) PARTITION BY HASH (a) \
                   WITH (partitions = 5);
                 INSERT INTO t SELECT g, {value} FROM generate_series(1, 40) g"
            );
            there.batch(&rows).expect("a table");
            let expected = all(&mut there);
            for db in machines {
                until(|| {
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
fn part_that_no_peer_runs_is_executed_locally() {
    over_both(48, |machines| {
        tables(machines);
        let db = &machines[0];
        let (mut session, mut local) = (splitting(db), staying(db));
        // Parts with more rows than fit in a message.
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
        // A machine that ends without notice.
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
fn cancel_and_timeout_end_all_parts() {
    over_both(51, |machines| {
        tables(machines);
        // Long enough to be ended during execution on each machine.
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
            // The session continues.
            let row = session.query_one("SELECT 1", &[]).block_on();
            assert_eq!(row.expect("runs").get::<i32>(0).expect("a number"), 1);
        }
    });
}
