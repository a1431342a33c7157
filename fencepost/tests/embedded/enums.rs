//! Enums in several sessions, and after a restart: prepared statements use the current labels.

use fencepost::{CheckReport, Database, Row, SqlState, check, params};

fn texts(rows: &[Row]) -> Vec<String> {
    let text = |row: &Row| row.get(0).expect("text");
    rows.iter().map(text).collect()
}

const MADE: &str = "CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE t (id int PRIMARY KEY, m mood);
    CREATE INDEX t_m ON t (m);
    INSERT INTO t VALUES (1, 'ok'), (2, 'sad')";

#[test]
fn statements_that_are_prepared_know_labels_that_came_later() {
    let db = Database::in_memory().expect("a database in memory");
    let (mut a, mut b) = (db.blocking(), db.blocking());
    a.batch(MADE).expect("a table");
    let insert = a
        .prepare("INSERT INTO t VALUES ($1, $2)")
        .expect("it is one");
    let cast = a.prepare("SELECT ($1::mood)::text").expect("it is one");
    a.execute(&insert, params![3, "ok"]).expect("a row");
    b.batch("ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'")
        .expect("a label");
    a.execute(&insert, params![4, "meh"]).expect("a row");
    let said = a.query(&cast, params!["meh"]).expect("a value");
    assert_eq!(texts(&said), ["meh"]);
    let order = "SELECT m::text FROM t ORDER BY t.m, id";
    assert_eq!(
        texts(&b.query(order, &[]).expect("rows")),
        ["sad", "meh", "ok", "ok"]
    );
    b.batch("ALTER TYPE mood RENAME VALUE 'meh' TO 'so so'")
        .expect("another name");
    for statement in [&insert, &cast] {
        let args = params![5, "meh"];
        let args = &args[args.len() - statement.parameter_types().len()..];
        let error = a.execute(statement, args).expect_err("no label");
        assert_eq!(error.code(), SqlState::INVALID_TEXT_REPRESENTATION);
    }
    assert_eq!(
        texts(&a.query(order, &[]).expect("rows")),
        ["sad", "so so", "ok", "ok"]
    );
}

#[test]
fn use_and_drop_of_type_do_not_both_commit() {
    let db = Database::in_memory().expect("a database in memory");
    let (mut a, mut b) = (db.blocking(), db.blocking());
    a.batch("CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE t (v text)")
        .expect("a table");
    a.batch("BEGIN; INSERT INTO t VALUES ('sad'::mood::text)")
        .expect("a row");
    b.batch("DROP TYPE mood")
        .expect("no column of the enum type exists");
    let ended = a.batch("COMMIT").expect_err("the type has gone");
    assert!(ended.is_retryable());
}

#[test]
fn enums_are_the_same_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let oids = "SELECT oid::text FROM pg_enum UNION ALL SELECT oid::text FROM pg_type \
                WHERE typname LIKE '%mood' ORDER BY 1";
    let before = {
        let db = Database::open(folder.path()).expect("a database");
        let mut session = db.blocking();
        session.batch(MADE).expect("a table");
        session.batch("CHECKPOINT").expect("a checkpoint");
        session
            .batch("ALTER TYPE mood ADD VALUE 'meh' AFTER 'sad'; INSERT INTO t VALUES (3, 'meh')")
            .expect("a row");
        texts(&session.query(oids, &[]).expect("rows"))
    };
    let db = Database::open(folder.path()).expect("the database again");
    let mut session = db.blocking();
    assert_eq!(texts(&session.query(oids, &[]).expect("rows")), before);
    let some = "SELECT m::text FROM t WHERE m > 'sad' ORDER BY t.m";
    assert_eq!(
        texts(&session.query(some, &[]).expect("rows")),
        ["meh", "ok"]
    );
    drop(session);
    let CheckReport { problems, .. } = check(&db);
    assert_eq!(problems, Vec::<String>::new());
}
