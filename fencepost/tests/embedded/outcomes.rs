//! Outcomes of transactions by number (`txid_status`).

use fencepost::{Database, SqlState, params};

fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    db.blocking()
        .batch("CREATE TABLE t (k int PRIMARY KEY)")
        .expect("the schema");
    db
}

fn number(session: &mut fencepost::BlockingSession) -> i64 {
    let row = session.query_one("SELECT txid_current() AS n", &[]);
    row.expect("a row").get("n").expect("a number")
}

fn status(db: &Database, number: i64) -> Option<String> {
    let row = db
        .blocking()
        .query_one("SELECT txid_status($1) AS s", params![number]);
    row.expect("a row").get("s").expect("a text")
}

#[test]
fn transaction_number_reports_its_outcome() {
    let db = database();
    let mut session = db.blocking();
    let mut numbers = Vec::new();
    for (k, end) in [(1, "COMMIT"), (2, "ROLLBACK"), (3, "COMMIT")] {
        session.execute("BEGIN", &[]).expect("a block");
        let own = number(&mut session);
        assert_eq!(number(&mut session), own, "the same all the time");
        session
            .execute("INSERT INTO t VALUES ($1)", params![k])
            .expect("a row");
        let row = session.query_one("SELECT txid_status($1) AS s", params![own]);
        let its: String = row.expect("a row").get("s").expect("a text");
        assert_eq!(its, "in progress");
        session.execute(end, &[]).expect("its end");
        numbers.push(own);
    }
    // A single read-only statement is a transaction, too.
    numbers.push(number(&mut session));
    let ends = ["committed", "aborted", "committed", "committed"];
    for (number, end) in numbers.iter().zip(ends) {
        for _ in 0..2 {
            assert_eq!(status(&db, *number).as_deref(), Some(end));
        }
    }
    let row = session.query_one("SELECT s FROM txid_status($1) s", params![numbers[0]]);
    let from: String = row.expect("a row").get("s").expect("a text");
    assert_eq!(from, "committed");
}

#[test]
fn reported_outcome_never_changes() {
    let db = database();
    let mut session = db.blocking();
    session.execute("BEGIN", &[]).expect("a block");
    let number = number(&mut session);
    session
        .execute("INSERT INTO t VALUES (1)", &[])
        .expect("a row");
    assert_eq!(status(&db, number).as_deref(), Some("aborted"));
    let error = session.execute("COMMIT", &[]).expect_err("it was given up");
    assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE);
    assert_eq!(status(&db, number).as_deref(), Some("aborted"));
    let row = session.query_one("SELECT count(*) AS n FROM t", &[]);
    let rows: i64 = row.expect("a row").get("n").expect("a number");
    assert_eq!(rows, 0);
}

#[test]
fn future_number_is_refused_and_old_number_is_unknown() {
    let db = database();
    let mut session = db.blocking();
    for none in [0i64, -5, i64::MAX] {
        let error = session.query_one("SELECT txid_status($1)", params![none]);
        let error = error.expect_err("no transaction");
        assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
    }
    assert_eq!(status(&db, 1 << 20), None);
    let row = session.query_one("SELECT txid_status(NULL) AS s", &[]);
    assert_eq!(
        row.expect("a row")
            .get::<Option<String>>("s")
            .expect("NULL"),
        None
    );
}
