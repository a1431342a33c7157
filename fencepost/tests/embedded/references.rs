//! Foreign keys under concurrent writers: the check holds at the time of the commit.

use std::thread;

use fencepost::{Database, Error, params};

fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE parent (id int PRIMARY KEY, v int NOT NULL DEFAULT 0);
        CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent);
        INSERT INTO parent VALUES (1), (2)";
    db.blocking().batch(schema).expect("the schema");
    db
}

fn state(result: Result<u64, Error>) -> String {
    match result {
        Ok(_) => "00000".to_owned(),
        Err(error) => error.code().to_string(),
    }
}

#[test]
fn delete_of_parent_waits_for_transaction_that_references_it() {
    let db = database();
    let (mut first, mut second) = (db.blocking(), db.blocking());
    first.execute("BEGIN", &[]).expect("a block");
    let insert = "INSERT INTO child VALUES (1, 1)";
    first.execute(insert, &[]).expect("its parent is there");
    let delete = "DELETE FROM parent WHERE id = 1";
    second.batch("SET lock_timeout = '50ms'").expect("set");
    assert_eq!(state(second.execute(delete, &[])), "55P03");
    first.execute("COMMIT", &[]).expect("a commit");
    assert_eq!(state(second.execute(delete, &[])), "23503");
}

#[test]
fn insert_of_child_waits_for_transaction_that_deletes_its_parent() {
    let db = database();
    let (mut first, mut second) = (db.blocking(), db.blocking());
    first.execute("BEGIN", &[]).expect("a block");
    let delete = "DELETE FROM parent WHERE id = 1";
    first.execute(delete, &[]).expect("no row references it");
    let insert = "INSERT INTO child VALUES (1, 1)";
    second.batch("SET lock_timeout = '50ms'").expect("set");
    assert_eq!(state(second.execute(insert, &[])), "55P03");
    first.execute("COMMIT", &[]).expect("a commit");
    assert_eq!(state(second.execute(insert, &[])), "23503");
}

#[test]
fn concurrent_writes_leave_no_dangling_reference() {
    let db = database();
    let writers: Vec<_> = (0..4)
        .map(|thread| {
            let db = db.clone();
            thread::spawn(move || {
                let mut session = db.blocking();
                for round in 0..60 {
                    let id = round % 5 + 1;
                    let (sql, params) = match thread % 2 {
                        0 => (
                            "INSERT INTO child VALUES ($1, $2)",
                            vec![thread * 1000 + round, id],
                        ),
                        _ if round % 2 == 0 => ("DELETE FROM parent WHERE id = $1", vec![id]),
                        _ => (
                            "INSERT INTO parent (id) VALUES ($1) ON CONFLICT DO NOTHING",
                            vec![id],
                        ),
                    };
                    let params: Vec<_> = params.iter().map(|p| params![*p][0].clone()).collect();
                    let state = state(session.execute(sql, &params));
                    assert!(
                        ["00000", "23503"].contains(&state.as_str()),
                        "{sql}: {state}"
                    );
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    let sql = "SELECT count(*) AS n FROM child LEFT JOIN parent ON child.parent = parent.id
        WHERE parent.id IS NULL";
    let row = db.blocking().query_one(sql, &[]).expect("a row");
    assert_eq!(row.get::<i64>("n").expect("a number"), 0);
}
