//! Statements and blocks that write the same rows: they queue for the rows, and no session has to
//! start over.

use std::thread::{self, JoinHandle};

use fencepost::{Database, Error, params};

const ADD: &str = "UPDATE t SET x = x + $2 WHERE k = $1";
/// Reads every row before it finds the row to change.
const ADD_BY_SCAN: &str = "UPDATE t SET x = x + $2 WHERE k + 0 = $1";

/// Creates a database with rows 0 to 7, each with value 0.
fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE t (k int PRIMARY KEY, x bigint NOT NULL);
        INSERT INTO t SELECT g, 0 FROM generate_series(0, 7) g";
    db.blocking().batch(schema).expect("the schema");
    db
}

/// Runs one statement in a thread.
fn statement(db: &Database, sql: &'static str) -> JoinHandle<Result<u64, Error>> {
    let db = db.clone();
    thread::spawn(move || db.blocking().execute(sql, &[]))
}

/// Waits until `count` transactions have queued since the database was opened.
fn until_waits<T>(db: &Database, count: u64, who: &JoinHandle<T>) {
    while db.machine().counters().totals().intent_waits < count {
        assert!(!who.is_finished(), "it did not wait");
        thread::yield_now();
    }
}

fn sum(db: &Database) -> i64 {
    let sql = "SELECT sum(x)::bigint AS x FROM t";
    let row = db.blocking().query_one(sql, &[]).expect("a row");
    row.get("x").expect("a number")
}

#[test]
fn statement_waits_for_open_block_and_both_changes_count() {
    let statements: [&'static str; 3] = [
        "UPDATE t SET x = x + 10 WHERE k = 1",
        "UPDATE t SET x = x + 10 WHERE k >= 1 AND k < 2",
        "DELETE FROM t WHERE k = 1",
    ];
    for (i, sql) in statements.into_iter().enumerate() {
        let db = database();
        let mut block = db.blocking();
        block.execute("BEGIN", &[]).expect("a block");
        block.execute(ADD, params![1, 1i64]).expect("a row");
        let waiting = statement(&db, sql);
        until_waits(&db, 1, &waiting);
        block.execute(ADD, params![1, 1i64]).expect("its own row");
        block.execute("COMMIT", &[]).expect("no conflict");
        let done = waiting.join().expect("no panic").expect("no conflict");
        assert_eq!(done, 1, "{sql}");
        assert_eq!(sum(&db), [12, 12, 0][i], "{sql}");
    }
}

#[test]
fn statement_yields_in_deadlock_with_block() {
    let db = database();
    let (mut first, mut second) = (db.blocking(), db.blocking());
    for (block, row) in [(&mut first, 1), (&mut second, 2)] {
        block.execute("BEGIN", &[]).expect("a block");
        block.execute(ADD, params![row, 1i64]).expect("a row");
    }
    let waiting = statement(&db, "UPDATE t SET x = x + 10 WHERE k >= 1 AND k <= 2");
    until_waits(&db, 1, &waiting);
    first.execute("COMMIT", &[]).expect("no conflict");
    // Now the statement has row 1 and waits for row 2.
    until_waits(&db, 2, &waiting);
    second.execute(ADD, params![1, 1i64]).expect("no deadlock");
    second.execute("COMMIT", &[]).expect("no conflict");
    let done = waiting.join().expect("no panic").expect("run again");
    assert_eq!(done, 2);
    assert_eq!(sum(&db), 3 + 20);
}

#[test]
fn retried_statement_keeps_its_queue_position() {
    let db = database();
    let mut first = db.blocking();
    first.execute("BEGIN", &[]).expect("a block");
    first.execute(ADD, params![1, 1i64]).expect("a row");
    // No index serves this condition.
    let waiting = statement(&db, "UPDATE t SET x = x * 10 WHERE k + 0 = 1");
    until_waits(&db, 1, &waiting);
    let behind = thread::spawn({
        let db = db.clone();
        move || {
            let mut second = db.blocking();
            second.execute("BEGIN", &[])?;
            second.execute(ADD, params![1, 5i64])?;
            second.execute("COMMIT", &[])
        }
    });
    until_waits(&db, 2, &behind);
    first.execute("COMMIT", &[]).expect("no conflict");
    let done = waiting.join().expect("no panic").expect("run again");
    assert_eq!(done, 1);
    let done = behind.join().expect("no panic");
    done.expect("no conflict");
    assert_eq!(sum(&db), 15, "one after the other");
    let waits = db.machine().counters().totals().intent_waits;
    assert_eq!(waits, 2, "it did not have to wait again");
}

#[test]
fn blocks_and_statements_of_many_threads_never_conflict() {
    const ROUNDS: i32 = 200;
    const ROWS: i32 = 2;
    let db = database();
    thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                let mut session = db.blocking();
                for i in 0..ROUNDS {
                    let row = (thread + i) % ROWS;
                    session.execute("BEGIN", &[]).expect("a block");
                    // All threads use the same order, so no deadlock occurs.
                    for row in row..ROWS {
                        session.execute(ADD, params![row, 1i64]).expect("a turn");
                    }
                    session.execute("COMMIT", &[]).expect("no conflict");
                    let left = i64::from(ROWS - row) - 1;
                    session.execute(ADD, params![0, -left]).expect("a turn");
                }
            });
            scope.spawn(move || {
                let mut session = db.blocking();
                for i in 0..ROUNDS {
                    let row = (thread + i) % ROWS;
                    let sql = if i % 8 == 0 { ADD_BY_SCAN } else { ADD };
                    session.execute(sql, params![row, 1i64]).expect("a turn");
                }
            });
        }
    });
    assert_eq!(sum(&db), i64::from(2 * 3 * ROUNDS));
}
