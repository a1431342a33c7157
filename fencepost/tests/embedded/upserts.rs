//! Concurrent INSERT … ON CONFLICT DO UPDATE of one key: no session gets a duplicate error, and no
//! update is lost.

use std::thread;

use fencepost::{BlockingSession, Database, Error, params};

const UPSERT: &str =
    "INSERT INTO hits VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = hits.n + excluded.n";
const THREADS: i32 = 4;
const ROUNDS: i32 = 50;
const KEYS: i32 = 3;

fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE hits (k int PRIMARY KEY, n bigint NOT NULL)";
    db.blocking().execute(schema, &[]).expect("a table");
    db
}

/// Runs `work` in several threads, in rounds, each on one of a few keys.
fn at_once(db: &Database, work: fn(&mut BlockingSession, i32) -> Result<(), Error>) {
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let db = db.clone();
            thread::spawn(move || {
                let mut session = db.blocking();
                for round in 0..ROUNDS {
                    work(&mut session, (thread + round) % KEYS).expect("an upsert");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

fn sum(db: &Database) -> i64 {
    let sql = "SELECT sum(n)::bigint AS n FROM hits";
    let row = db.blocking().query_one(sql, &[]).expect("a row");
    row.get("n").expect("a number")
}

#[test]
fn single_upserts_add_up() {
    let db = database();
    at_once(&db, |session, key| {
        session.execute(UPSERT, params![key]).map(|_| ())
    });
    assert_eq!(sum(&db), i64::from(THREADS * ROUNDS));
}

#[test]
fn blocks_wait_for_each_other_and_add_up() {
    let db = database();
    for key in 0..KEYS {
        let done = db.blocking().execute(UPSERT, params![key]);
        done.expect("the first");
    }
    // Existing rows are queued for, so that no block ends with a conflict.
    at_once(&db, |session, key| {
        session.execute("BEGIN", &[])?;
        session.execute(UPSERT, params![key])?;
        session.execute("COMMIT", &[]).map(|_| ())
    });
    assert_eq!(sum(&db), i64::from(THREADS * ROUNDS + KEYS));
}

#[test]
fn blocks_that_make_the_row_may_have_to_begin_anew_and_add_up() {
    let db = database();
    at_once(&db, |session, key| {
        loop {
            session.execute("BEGIN", &[])?;
            let done = session.execute(UPSERT, params![key]);
            let done = done.and_then(|_| session.execute("COMMIT", &[]));
            match done {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    // After a failed COMMIT there is no block to roll back.
                    session.execute("ROLLBACK", &[])?;
                }
                Err(error) => return Err(error),
            }
        }
    });
    assert_eq!(sum(&db), i64::from(THREADS * ROUNDS));
}

#[test]
fn concurrent_do_nothing_inserts_no_duplicate() {
    let db = database();
    at_once(&db, |session, key| {
        let sql = "INSERT INTO hits VALUES ($1, 1) ON CONFLICT DO NOTHING";
        session.execute(sql, params![key]).map(|_| ())
    });
    assert_eq!(sum(&db), i64::from(KEYS));
}
