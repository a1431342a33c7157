//! A serializable transaction depends on the key that its INSERT has found.

use fencepost::{BlockingSession, Database, SqlState};

fn database(primary: &str) -> Database {
    let db = Database::in_memory().expect("a database");
    let schema = format!(
        "CREATE TABLE t (a int PRIMARY KEY) {primary}; CREATE TABLE u (id int PRIMARY KEY, x int);
         INSERT INTO t VALUES (1); INSERT INTO u VALUES (1, 0)"
    );
    db.blocking().batch(&schema).expect("the schema");
    db
}

/// Runs two transactions, each of which changes a row that the other has read.
fn skew(db: &Database, meet: impl FnOnce(&mut BlockingSession)) {
    let (mut first, mut second) = (db.blocking(), db.blocking());
    first
        .batch("BEGIN ISOLATION LEVEL SERIALIZABLE")
        .expect("a block");
    meet(&mut first);
    second
        .batch(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT x FROM u WHERE id = 1;
             DELETE FROM t WHERE a = 1; COMMIT",
        )
        .expect("no conflict yet");
    let late = first
        .batch("UPDATE u SET x = 1 WHERE id = 1; COMMIT")
        .expect_err("the key that it met is gone");
    assert_eq!(late.code(), SqlState::SERIALIZATION_FAILURE);
}

#[test]
fn removed_key_conflicts_with_insert_that_yielded_to_it() {
    for primary in ["", "WITH (index = hash)"] {
        skew(&database(primary), |session| {
            let sql = "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING";
            assert_eq!(session.execute(sql, &[]).expect("no conflict"), 0);
        });
    }
}

#[test]
fn removed_key_conflicts_with_insert_that_failed_at_it() {
    for primary in ["", "WITH (index = hash)"] {
        skew(&database(primary), |session| {
            session.batch("SAVEPOINT s").expect("a savepoint");
            let error = session.execute("INSERT INTO t VALUES (1)", &[]);
            let error = error.expect_err("it is there");
            assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
            session.batch("ROLLBACK TO s").expect("back");
        });
    }
}
