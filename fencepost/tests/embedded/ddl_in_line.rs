//! DDL of several sessions queues for locks, as in PostgreSQL, and no session has to start over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use fencepost::{BlockingSession, Database, Error};

/// Runs statements in a session of their own, in a thread.
fn elsewhere(db: &Database, statements: &'static [&'static str]) -> JoinHandle<Result<(), Error>> {
    let db = db.clone();
    thread::spawn(move || {
        let mut session = db.blocking();
        statements.iter().try_for_each(|sql| run(&mut session, sql))
    })
}

fn run(session: &mut BlockingSession, sql: &str) -> Result<(), Error> {
    session.execute(sql, &[]).map(|_| ())
}

fn all(session: &mut BlockingSession, statements: &[&str]) {
    for sql in statements {
        run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Waits until a session waits for a table or row lock.
fn until_waits<T>(db: &Database, who: &JoinHandle<T>) {
    const WAITING: &str = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted";
    let mut session = db.blocking();
    let mut waits = || {
        let row = session.query_one(WAITING, &[]).expect("a row");
        row.get::<i64>("n").expect("a number") > 0
    };
    while !waits() {
        assert!(!who.is_finished(), "it did not wait");
        thread::yield_now();
    }
}

#[test]
fn ddl_waits_for_that_of_an_open_block_and_both_are_there() {
    let waiting: [&'static [&'static str]; 4] = [
        &["CREATE TABLE b (i int)"],
        &[
            "BEGIN",
            "CREATE TABLE b (i int)",
            "INSERT INTO b VALUES (1)",
            "COMMIT",
        ],
        &[
            "BEGIN",
            "SELECT * FROM t",
            "CREATE TABLE b (i int)",
            "INSERT INTO b VALUES (1)",
            "COMMIT",
        ],
        &["DO $$ BEGIN CREATE TABLE b (i int); INSERT INTO b VALUES (1); END $$"],
    ];
    for statements in waiting {
        let db = Database::in_memory().expect("a database");
        let mut block = db.blocking();
        all(
            &mut block,
            &["CREATE TABLE t (i int)", "BEGIN", "CREATE TABLE a (i int)"],
        );
        let other = elsewhere(&db, statements);
        until_waits(&db, &other);
        all(&mut block, &["INSERT INTO a VALUES (1)", "COMMIT"]);
        other.join().expect("no panic").expect("no conflict");
        all(&mut block, &["SELECT * FROM a, b"]);
    }
}

#[test]
fn waiting_ddl_changes_current_definition() {
    let db = Database::in_memory().expect("a database");
    let mut block = db.blocking();
    all(
        &mut block,
        &[
            "CREATE TABLE t (i int)",
            "BEGIN",
            "ALTER TABLE t ADD COLUMN j int",
        ],
    );
    let other = elsewhere(&db, &["BEGIN", "ALTER TABLE t ADD COLUMN k int", "COMMIT"]);
    until_waits(&db, &other);
    all(&mut block, &["COMMIT"]);
    other.join().expect("no panic").expect("no conflict");
    all(&mut block, &["INSERT INTO t (i, j, k) VALUES (1, 2, 3)"]);
}

#[test]
fn blocks_that_empty_tables_and_fill_them_all_commit() {
    const BLOCKS: [&[&str]; 3] = [
        &[
            "BEGIN",
            "TRUNCATE a",
            "INSERT INTO a SELECT generate_series(1, 200)",
            "COMMIT",
        ],
        &[
            "BEGIN",
            "TRUNCATE b",
            "INSERT INTO b SELECT generate_series(1, 200)",
            "COMMIT",
        ],
        &["CREATE INDEX x ON c (i)", "DROP INDEX x"],
    ];
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    for table in ["a", "b", "c"] {
        run(&mut session, &format!("CREATE TABLE {table} (i int)")).expect("a table");
    }
    let others: Vec<_> = BLOCKS
        .map(|block| {
            let db = db.clone();
            thread::spawn(move || {
                let mut session = db.blocking();
                (0..10).for_each(|_| all(&mut session, block));
            })
        })
        .into();
    for other in others {
        other.join().expect("no conflict");
    }
    let sql = "SELECT count(*) AS n FROM a, b";
    let row = session.query_one(sql, &[]).expect("a row");
    assert_eq!(row.get::<i64>("n").expect("a number"), 200 * 200);
}

#[test]
fn ddl_wait_ends_at_lock_timeout() {
    let db = Database::in_memory().expect("a database");
    let mut block = db.blocking();
    all(&mut block, &["BEGIN", "CREATE TABLE a (i int)"]);
    let mut other = db.blocking();
    run(&mut other, "SET lock_timeout = '50ms'").expect("a setting");
    let error = run(&mut other, "CREATE TABLE b (i int)").expect_err("it waits");
    assert_eq!(error.code().to_string(), "55P03", "{error}");
}

#[test]
fn deadlock_of_ddl_and_row_lock_aborts_one_session() {
    let db = Database::in_memory().expect("a database");
    let mut block = db.blocking();
    all(
        &mut block,
        &["CREATE TABLE t (i int)", "INSERT INTO t VALUES (1)"],
    );
    all(&mut block, &["BEGIN", "UPDATE t SET i = 2"]);
    let ready = std::sync::Arc::new(AtomicBool::new(false));
    let (other_db, set_ready) = (db.clone(), ready.clone());
    let other = thread::spawn(move || {
        let mut session = other_db.blocking();
        all(&mut session, &["BEGIN", "CREATE TABLE a (i int)"]);
        set_ready.store(true, Ordering::Release);
        run(&mut session, "UPDATE t SET i = 3").and_then(|()| run(&mut session, "COMMIT"))
    });
    while !ready.load(Ordering::Acquire) {
        thread::yield_now();
    }
    until_waits(&db, &other);
    let mine = run(&mut block, "CREATE TABLE b (i int)").and_then(|()| run(&mut block, "COMMIT"));
    if mine.is_err() {
        all(&mut block, &["ROLLBACK"]);
    }
    let theirs = other.join().expect("no panic");
    let victims = [&mine, &theirs]
        .into_iter()
        .filter_map(|end| end.as_ref().err());
    let codes: Vec<String> = victims.map(|error| error.code().to_string()).collect();
    assert_eq!(codes, ["40P01"]);
}
