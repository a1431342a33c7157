//! Temporary tables end with their session.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Database};

fn count(session: &mut BlockingSession, sql: &str) -> i64 {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get::<i64>(0).expect("a count")
}

const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pg_temp_%'";

/// Waits until no schema of an ended session is left.
fn await_none(session: &mut BlockingSession) {
    let until = Instant::now() + Duration::from_secs(30);
    while count(session, SCHEMAS) > 0 {
        assert!(Instant::now() < until, "it is still there");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn temporary_tables_end_with_session() {
    let db = Database::in_memory().expect("a database");
    let mut other = db.blocking();
    let mut session = db.blocking();
    session
        .execute("CREATE TEMP TABLE t (a serial PRIMARY KEY, b text)", &[])
        .expect("a table");
    session
        .execute("INSERT INTO t (b) VALUES ('x')", &[])
        .expect("a row");
    assert_eq!(count(&mut session, "SELECT count(*) FROM t"), 1);
    assert!(other.query("SELECT * FROM t", &[]).is_err());
    assert_eq!(count(&mut other, SCHEMAS), 1);
    drop(session);
    await_none(&mut other);
    let left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
    assert_eq!(count(&mut other, left), 0);
}
