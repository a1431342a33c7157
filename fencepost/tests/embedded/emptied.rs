//! Tables are emptied, truncated and loaded again while other sessions use them. No read reports
//! damage, and no object stays without an owner.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost::{Database, Error, Session, SqlState};
use fencepost_fabric::Random;
use pollster::FutureExt;

/// The run time of the threads. CI does not search for failures that need minutes.
const SECONDS: u64 = 8;
const THREADS: u64 = 5;

/// The errors that a statement may end with.
const EXPECTED: [SqlState; 3] = [
    SqlState::SERIALIZATION_FAILURE,
    SqlState::UNIQUE_VIOLATION,
    SqlState::DEADLOCK_DETECTED,
];

async fn whole_table(session: &mut Session, random: &mut Random) -> Result<(), Error> {
    let rows = 4200 + random.below(1000);
    let from = random.below(5000);
    let load = format!(
        "INSERT INTO t SELECT g * 7919 % {rows} + {from}, g % 10,
         CASE WHEN g % 5 = 0 THEN NULL ELSE 'c' || (g * 7919 % {rows} + {from}) END
         FROM generate_series(1, {rows}) g"
    );
    let around = match random.below(6) {
        0 => ["DELETE FROM t", ""],
        1 => ["TRUNCATE t", ""],
        2 => ["BEGIN; DELETE FROM t", "COMMIT"],
        3 => ["BEGIN; TRUNCATE t", "COMMIT"],
        4 => ["BEGIN; DELETE FROM t; SAVEPOINT s", "ROLLBACK TO s; COMMIT"],
        _ => [
            "BEGIN; DELETE FROM t",
            "UPDATE t SET b = b + 1 WHERE a % 50 = 0; ROLLBACK",
        ],
    };
    session.batch(around[0]).await?;
    session.batch(&load).await?;
    session.batch(around[1]).await
}

async fn few_rows(session: &mut Session, random: &mut Random) -> Result<(), Error> {
    let key = random.below(8000);
    let statement = match random.below(3) {
        0 => format!("INSERT INTO t VALUES ({key}, 1, 'c{key}') ON CONFLICT DO NOTHING"),
        1 => format!("DELETE FROM t WHERE a = {key}"),
        _ => format!(
            "BEGIN; INSERT INTO t VALUES ({key}, 3, NULL) ON CONFLICT DO NOTHING; SAVEPOINT a;
             DELETE FROM t WHERE b = {}; ROLLBACK TO a; COMMIT",
            key % 10
        ),
    };
    session.batch(&statement).await
}

#[test]
fn tables_that_are_emptied_under_others_stay_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path()).expect("an empty database");
    db.blocking()
        .batch("CREATE TABLE t (a int PRIMARY KEY, b int, c text UNIQUE); CREATE INDEX ON t (b)")
        .expect("a table");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut session = db.session();
                let mut random = Random::new(number);
                while !stop.load(Ordering::Relaxed) {
                    let done = if number < 2 {
                        whole_table(&mut session, &mut random).block_on()
                    } else {
                        thread::sleep(Duration::from_millis(random.below(20)));
                        few_rows(&mut session, &mut random).block_on()
                    };
                    if let Err(error) = done {
                        assert!(EXPECTED.contains(&error.code()), "{error:?}");
                        session.batch("ROLLBACK").block_on().expect("rolls back");
                    }
                }
            });
        }
        thread::sleep(Duration::from_secs(SECONDS));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fencepost::check(&db).problems, Vec::<String>::new());
    db.close().expect("closes");
    let db = Database::open(dir.path()).expect("opens again");
    assert_eq!(fencepost::check(&db).problems, Vec::<String>::new());
}
