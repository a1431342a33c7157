//! Sequences used by several sessions at once: no value is returned twice, even if transactions
//! abort.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use fencepost::{Database, SqlState};
use pollster::FutureExt;

#[test]
fn no_value_is_given_twice() {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE SEQUENCE s; CREATE TABLE t (id serial PRIMARY KEY, v int)";
    db.blocking().batch(schema).expect("the schema");
    let drawers: Vec<_> = (0..4)
        .map(|thread| {
            let db = db.clone();
            thread::spawn(move || {
                let mut session = db.blocking();
                let (mut drawn, mut kept) = (Vec::new(), 0);
                for round in 0..100 {
                    let in_block = round % 3 == 0;
                    if in_block {
                        session.execute("BEGIN", &[]).expect("a block");
                    }
                    let row = session.query_one("SELECT nextval('s') AS n", &[]);
                    drawn.push(row.expect("a value").get::<i64>("n").expect("a number"));
                    let insert = "INSERT INTO t (v) VALUES (1), (2)";
                    let mut done = session.execute(insert, &[]).map(|_| true);
                    if in_block {
                        let commits = thread % 2 == 0 && done.is_ok();
                        let end = if commits { "COMMIT" } else { "ROLLBACK" };
                        let ended = session.execute(end, &[]);
                        done = done.and(ended.map(|_| commits));
                    }
                    match done {
                        Ok(committed) => kept += 2 * i64::from(committed),
                        // Blocks that insert adjacent rows may conflict.
                        Err(error) => assert!(in_block && error.is_retryable(), "{error}"),
                    }
                }
                (drawn, kept)
            })
        })
        .collect();
    let (mut drawn, mut kept) = (HashSet::new(), 0);
    for drawer in drawers {
        let (own, rows) = drawer.join().expect("no panic");
        drawn.extend(own);
        kept += rows;
    }
    assert_eq!(drawn.len(), 400);
    let sql = "SELECT count(*) AS n FROM t";
    let row = db.blocking().query_one(sql, &[]).expect("a row");
    assert_eq!(row.get::<i64>("n").expect("a number"), kept);
}

#[test]
fn statement_draws_later_value_than_statements_that_ended_before_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Database::options().data_dir(directory.path());
    let db = options.open().expect("a database");
    let schema = "CREATE SEQUENCE s; CREATE TABLE t (id serial, n bigint DEFAULT nextval('s'))";
    db.blocking().batch(schema).expect("the schema");
    let greatest = Arc::new(AtomicI64::new(0));
    let drawers: Vec<_> = (0..8)
        .map(|thread| {
            let (db, greatest) = (db.clone(), Arc::clone(&greatest));
            thread::spawn(move || {
                let mut session = db.blocking();
                for round in 0..150 {
                    let sql = match (thread, round % 50) {
                        // More values than a statement takes in one range.
                        (0, 0) => {
                            "SELECT min(n) AS n FROM (SELECT nextval('s') AS n \
                                   FROM generate_series(1, 200)) AS a"
                        }
                        (1, _) => "INSERT INTO t DEFAULT VALUES RETURNING n",
                        _ => "SELECT nextval('s') AS n",
                    };
                    let before = greatest.load(Ordering::SeqCst);
                    let row = session.query_one(sql, &[]).expect("a value");
                    let value = row.get::<i64>("n").expect("a number");
                    assert!(value > before, "{value} after {before}: {sql}");
                    greatest.fetch_max(value, Ordering::SeqCst);
                }
            })
        })
        .collect();
    drawers
        .into_iter()
        .for_each(|drawer| drawer.join().expect("no panic"));
}

#[test]
fn load_takes_needed_sequence_ranges() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    let schema = "CREATE TABLE t (id serial PRIMARY KEY, v int)";
    session.execute(schema, &[]).expect("a table");
    let lines: String = (0..1000).map(|v| format!("{v}\n")).collect();
    let mut loader = db.session();
    let copied = loader.copy_in("COPY t (v) FROM STDIN", lines.as_bytes());
    assert_eq!(copied.block_on().expect("rows"), 1000);
    let sql = "SELECT count(*) AS n, max(id) AS greatest FROM t WHERE id = v + 1";
    let row = session.query_one(sql, &[]).expect("a row");
    assert_eq!(row.get::<i64>("n").expect("a number"), 1000);
    assert_eq!(row.get::<i32>("greatest").expect("a number"), 1000);
}

#[test]
fn sequence_of_rolled_back_block_is_removed() {
    let db = Database::in_memory().expect("a database");
    let (mut session, mut other) = (db.blocking(), db.blocking());
    session.execute("BEGIN", &[]).expect("a block");
    session
        .execute("CREATE SEQUENCE s", &[])
        .expect("a sequence");
    let sql = "SELECT nextval('s') AS n";
    assert!(session.query_one(sql, &[]).is_ok());
    let unseen = other.query_one(sql, &[]).map(|_| ());
    assert!(unseen.is_err_and(|e| e.code() == SqlState::UNDEFINED_TABLE));
    session.execute("COMMIT", &[]).expect("a commit");
    let mut values = HashSet::new();
    for session in [&mut session, &mut other] {
        for _ in 0..40 {
            let row = session.query_one(sql, &[]).expect("a value");
            assert!(values.insert(row.get::<i64>("n").expect("a number")));
        }
    }
}

#[test]
fn insert_of_many_rows_draws_consecutive_values() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    let schema = "CREATE TABLE t (id serial PRIMARY KEY, v int); SELECT nextval('t_id_seq')";
    session.batch(schema).expect("the schema");
    let insert = |rows: usize| format!("INSERT INTO t (v) VALUES {}", vec!["(1)"; rows].join(","));
    for rows in [500, 3, 40, 500] {
        session.execute(&insert(rows), &[]).expect("rows");
    }
    let range = "SELECT min(id)::text || ' ' || max(id) || ' ' || count(*) FROM t";
    let row = session.query_one(range, &[]).expect("a row");
    assert_eq!(row.get::<String>(0).expect("a text"), "2 1044 1043");
    // A sequence with fewer values than the statement has rows ends with its own error.
    let limit = "ALTER SEQUENCE t_id_seq MAXVALUE 1100";
    session.batch(limit).expect("a limit");
    let error = session.execute(&insert(500), &[]).expect_err("too many");
    assert_eq!(error.code(), SqlState::new(b"2200H"));
    let cycle = "ALTER SEQUENCE t_id_seq MAXVALUE 3000 CYCLE RESTART 2900";
    session.batch(cycle).expect("a cycle");
    session
        .batch("DELETE FROM t WHERE id < 2000")
        .expect("a delete");
    session
        .execute(&insert(500), &[])
        .expect("the values go around");
}
