//! Serializable blocks of sessions whose earlier blocks ended with conflicts take turns.

use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Database, SqlState};

/// The number of consecutive conflicts after which blocks take turns.
const CONFLICTS: u32 = 4;

fn run(session: &mut BlockingSession, sql: &str) {
    if let Err(error) = session.execute(sql, &[]) {
        panic!("{sql}: {error}");
    }
}

/// Begins a serializable block, and runs its first statement.
fn begin(session: &mut BlockingSession) {
    run(session, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    run(session, "SELECT cents FROM account WHERE id = 1");
}

/// Returns a session whose blocks have all ended with conflicts.
fn contended(db: &Database) -> BlockingSession {
    let (mut session, mut beside) = (db.blocking(), db.blocking());
    for _ in 0..CONFLICTS {
        begin(&mut session);
        run(&mut session, "UPDATE account SET cents = 1 WHERE id = 2");
        run(
            &mut beside,
            "UPDATE account SET cents = cents + 1 WHERE id = 1",
        );
        let error = session.execute("COMMIT", &[]).expect_err("a conflict");
        assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
    }
    session
}

fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE account (id int PRIMARY KEY, cents int);
        INSERT INTO account VALUES (1, 0), (2, 0)";
    db.blocking().batch(schema).expect("the schema");
    db
}

#[test]
fn contended_block_waits_for_the_turn_of_another_one() {
    let db = database();
    let (mut first, mut second) = (contended(&db), contended(&db));
    begin(&mut first);
    let begun = Instant::now();
    let waits = std::thread::spawn(move || {
        begin(&mut second);
        (second, begun.elapsed())
    });
    let (mut second, waited) = waits.join().expect("no panic");
    // The first block is idle, so its turn ends after a while.
    assert!(waited >= Duration::from_millis(100), "{waited:?}");
    run(&mut first, "COMMIT");
    run(&mut second, "COMMIT");
}

#[test]
fn other_blocks_do_not_wait_for_a_turn() {
    let db = database();
    let mut first = contended(&db);
    let mut plain = db.blocking();
    begin(&mut first);
    begin(&mut plain);
    run(&mut plain, "COMMIT");
    run(&mut first, "UPDATE account SET cents = 5 WHERE id = 2");
    run(&mut first, "COMMIT");
}

#[test]
fn cancelled_block_does_not_wait_for_its_turn() {
    let db = database();
    let (mut first, mut second) = (contended(&db), contended(&db));
    begin(&mut first);
    run(&mut second, "SET statement_timeout = '5ms'");
    run(&mut second, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    let error = second
        .execute("SELECT 1", &[])
        .expect_err("the time is over");
    assert_eq!(error.code(), SqlState::QUERY_CANCELED, "{error}");
    run(&mut second, "ROLLBACK");
    run(&mut first, "COMMIT");
}
