//! All parts read one snapshot, in transactions whose reads need no validation.

use super::*;

#[test]
fn only_unvalidated_reads_are_split() {
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
        // All reads are of one snapshot, independent of concurrent changes.
        session
            .batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .expect("a block");
        assert_eq!(count(&mut session, true), i64::from(ROWS));
        other
            .batch("DELETE FROM t WHERE a <= 100")
            .expect("deletes");
        assert_eq!(count(&mut session, true), i64::from(ROWS));
        session.batch("COMMIT").expect("ends");
        assert_eq!(count(&mut session, true), i64::from(ROWS) - 100);
        // A transaction's own writes exist here only, and its reads are validated, so it is not
        // split.
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
        // Several statements form one transaction, which may write.
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
fn sums_hold_while_money_moves_between_partitions() {
    const ACCOUNTS: i32 = 60;
    const READS: u32 = 150;
    over_both(49, |machines| {
        let mut session = staying(&machines[0]);
        session
            .batch(
                "CREATE TABLE t (a int PRIMARY KEY, n int NOT NULL) PARTITION BY HASH (a) \
                 WITH (partitions = 6)",
            )
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
