//! Cursors and their memory: reads belong to the transaction, and kept rows count against the
//! limit.

use fencepost::{Database, Error, Row, params};

fn ids(rows: &[Row]) -> Vec<i32> {
    let id = |row: &Row| row.get(0).expect("an integer");
    rows.iter().map(id).collect()
}

fn database(rows: i32) -> Database {
    let db = Database::in_memory().expect("a database in memory");
    let mut session = db.blocking();
    session
        .batch("CREATE TABLE t (id int PRIMARY KEY, v text)")
        .expect("a table");
    let fill = "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, $1) g";
    session.execute(fill, params![rows]).expect("rows");
    db
}

#[test]
fn change_of_rows_read_by_cursor_aborts_its_transaction() {
    let db = database(10);
    let (mut reader, mut writer) = (db.blocking(), db.blocking());
    reader
        .batch("BEGIN ISOLATION LEVEL SERIALIZABLE")
        .expect("a block");
    let declare = "DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id";
    reader.execute(declare, &[]).expect("a cursor");
    let first = reader.query("FETCH 3 FROM c", &[]).expect("rows");
    assert_eq!(ids(&first), [1, 2, 3]);
    writer
        .execute("DELETE FROM t WHERE id IN (2, 9)", &[])
        .expect("rows go");
    let sum = "INSERT INTO t VALUES (100, 'sum')";
    let ended = reader
        .execute(sum, &[])
        .and_then(|_| reader.batch("COMMIT"));
    assert!(ended.expect_err("a row it has read is gone").is_retryable());
}

#[test]
fn cursor_of_read_only_transaction_keeps_snapshot() {
    let db = database(1000);
    let (mut reader, mut writer) = (db.blocking(), db.blocking());
    reader.batch("BEGIN READ ONLY").expect("a block");
    let declare = "DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id";
    reader.execute(declare, &[]).expect("a cursor");
    assert_eq!(
        ids(&reader.query("FETCH 1 FROM c", &[]).expect("a row")),
        [1]
    );
    writer.execute("DELETE FROM t", &[]).expect("rows go");
    let rest = reader.query("FETCH ALL FROM c", &[]).expect("rows");
    assert_eq!(rest.len(), 999);
    reader.batch("COMMIT").expect("a commit");
}

#[test]
fn held_rows_count_against_the_memory_limit() -> Result<(), Error> {
    let options = Database::options().memory_limit(64 << 20);
    let db = options.open().expect("a database in memory");
    let mut session = db.blocking();
    let declare =
        "DECLARE h CURSOR WITH HOLD FOR SELECT repeat('x', 1000) FROM generate_series(1, 200000)";
    let refused = session.execute(declare, &[]).expect_err("200 MB");
    assert_eq!(refused.code().as_str(), "53200");
    // The refused cursor has left nothing.
    for _ in 0..20 {
        session.execute(
            "DECLARE h CURSOR WITH HOLD FOR SELECT repeat('x', 1000) \
             FROM generate_series(1, 10000)",
            &[],
        )?;
        session.execute("CLOSE h", &[])?;
    }
    Ok(())
}
