//! Snapshots that one session exports and other sessions import.

use fencepost::{BlockingSession, Database, SqlState};

const IMPORTING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

fn number(session: &mut BlockingSession, sql: &str) -> i64 {
    let row = session.query_one(sql, &[]).expect(sql);
    row.get(0).expect("a number")
}

fn exported(session: &mut BlockingSession) -> String {
    let row = session.query_one("SELECT pg_export_snapshot()", &[]);
    row.expect("a name").get(0).expect("text")
}

fn imported(session: &mut BlockingSession, name: &str) -> Result<(), SqlState> {
    let sql = format!("{IMPORTING}; SET TRANSACTION SNAPSHOT '{name}'");
    session.batch(&sql).map_err(|error| error.code())
}

#[test]
fn sessions_share_snapshot_despite_writes() {
    const SUM: &str = "SELECT coalesce(sum(n), 0)::bigint FROM t";
    let db = Database::in_memory().expect("a database");
    let mut writer = db.blocking();
    writer
        .batch("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)")
        .expect("rows");
    let (mut first, mut second, mut third) = (db.blocking(), db.blocking(), db.blocking());
    first.batch(IMPORTING).expect("a block");
    let name = exported(&mut first);
    assert_ne!(exported(&mut first), name);
    writer
        .batch("DELETE FROM t WHERE n = 1; INSERT INTO t VALUES (10)")
        .expect("rows");
    assert_eq!(imported(&mut second, &name), Ok(()));
    assert_eq!((number(&mut first, SUM), number(&mut second, SUM)), (3, 3));
    // An importing transaction continues after the exporting one has ended; later imports fail.
    first.batch("COMMIT").expect("an end");
    for round in 10..200 {
        let sql = format!("UPDATE t SET n = {round} WHERE n > 2; VACUUM");
        sql.split(';')
            .for_each(|sql| writer.batch(sql).expect("its own row"));
    }
    assert_eq!(
        (number(&mut second, SUM), number(&mut writer, SUM)),
        (3, 2 + 199)
    );
    let result = imported(&mut third, &name);
    assert_eq!(result, Err(SqlState::INVALID_PARAMETER_VALUE));
    second.batch("COMMIT").expect("an end");
    third.batch("ROLLBACK").expect("an end");
}

#[test]
fn writing_transaction_exports_earlier_snapshot() {
    let db = Database::in_memory().expect("a database");
    let (mut first, mut second) = (db.blocking(), db.blocking());
    first
        .batch("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        .expect("a row");
    first
        .batch("BEGIN; INSERT INTO t VALUES (2)")
        .expect("a row");
    let name = exported(&mut first);
    first.batch("COMMIT; BEGIN").expect("a block");
    assert!(imported(&mut second, &name).is_err(), "it has ended");
    second.batch("ROLLBACK").expect("an end");
    first.batch("INSERT INTO t VALUES (3)").expect("a row");
    let name = exported(&mut first);
    assert_eq!(imported(&mut second, &name), Ok(()));
    first.batch("COMMIT").expect("an end");
    assert_eq!(number(&mut second, "SELECT count(*) FROM t"), 2);
    drop(first);
    second.batch("COMMIT").expect("an end");
    assert_eq!(number(&mut second, "SELECT count(*) FROM t"), 3);
}
