//! Several databases: copies and drops leave nothing behind, and all is there again after a
//! restart.

use fencepost::{Database, Durability, Error, Session, SessionOptions, SqlState, check};
use fencepost_sql::catalog::Catalog;
use fencepost_txn::Mode;
use pollster::FutureExt;

fn session(db: &Database, database: &str) -> Session {
    let options = SessionOptions {
        database: database.to_owned(),
        ..SessionOptions::default()
    };
    db.session_with(options).expect("a session")
}

fn run(session: &mut Session, sql: &str) {
    let done = session.execute(sql, &[]).block_on();
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn refused(session: &mut Session, sql: &str) -> SqlState {
    let done: Result<_, Error> = session.execute(sql, &[]).block_on();
    done.err()
        .map_or_else(|| panic!("{sql} is done"), |error| error.code())
}

fn number(session: &mut Session, sql: &str) -> i64 {
    let rows = session.query(sql, &[]).block_on().expect("rows");
    rows[0].get(0).expect("a number")
}

fn is_sound(db: &Database) {
    let found = check(db);
    assert_eq!(found.problems, Vec::<String>::new());
}

const SCHEMA: [&str; 8] = [
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE SCHEMA s",
    "CREATE TABLE h (id int PRIMARY KEY, b text) WITH (index = hash)",
    "CREATE TABLE s.spread (id int PRIMARY KEY, b text) PARTITION BY HASH (id) \
     WITH (partitions = 3)",
    "CREATE INDEX h_some ON h ((length(b))) WHERE id > 50",
    "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'",
    "INSERT INTO h SELECT g, repeat('x', g) FROM generate_series(1, 1000) g",
    "INSERT INTO s.spread SELECT g, repeat('y', 3000) FROM generate_series(1, 100) g",
];

#[test]
fn databases_are_copied_dropped_and_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let db = Database::open(folder.path()).expect("a database");
        let mut first = session(&db, "postgres");
        run(&mut first, "CREATE DATABASE model");
        let mut model = session(&db, "model");
        for sql in SCHEMA {
            run(&mut model, sql);
        }
        run(&mut model, "CREATE TABLE t (id serial PRIMARY KEY, m mood)");
        run(&mut model, "INSERT INTO t (m) VALUES ('ok')");
        drop(model);
        for copy in ["one", "two", "three"] {
            run(
                &mut first,
                &format!("CREATE DATABASE {copy} TEMPLATE model"),
            );
        }
        is_sound(&db);
        run(&mut first, "DROP DATABASE two");
        is_sound(&db);
        let mut one = session(&db, "one");
        run(&mut one, "DELETE FROM h WHERE id > 10");
        run(&mut one, "DROP TABLE s.spread");
        run(&mut one, "INSERT INTO t (m) VALUES ('sad')");
        drop(one);
        is_sound(&db);
        db.close().expect("closed");
    }
    let db = Database::open(folder.path()).expect("the databases again");
    is_sound(&db);
    let mut one = session(&db, "one");
    assert_eq!(number(&mut one, "SELECT count(*) FROM h"), 10);
    assert_eq!(number(&mut one, "SELECT count(*) FROM t"), 2);
    assert_eq!(
        refused(&mut one, "TABLE s.spread"),
        SqlState::UNDEFINED_TABLE
    );
    let mut three = session(&db, "three");
    assert_eq!(number(&mut three, "SELECT count(*) FROM h"), 1000);
    assert_eq!(
        number(&mut three, "SELECT sum(length(b)) FROM s.spread"),
        300_000
    );
    assert_eq!(
        number(
            &mut three,
            "SELECT count(*) FROM h WHERE id > 50 AND length(b) = 70"
        ),
        1
    );
    let options = SessionOptions {
        database: "two".to_owned(),
        ..SessionOptions::default()
    };
    let error = db.session_with(options).err().expect("no session");
    assert_eq!(error.sqlstate(), SqlState::INVALID_CATALOG_NAME);
}

#[test]
fn roles_and_revoked_privileges_apply_to_all_databases() {
    let db = Database::in_memory().expect("a database");
    let mut first = session(&db, "postgres");
    run(&mut first, "CREATE DATABASE other");
    let mut other = session(&db, "other");
    run(&mut other, "CREATE TABLE t (a int)");
    run(&mut first, "CREATE ROLE readers");
    run(&mut other, "GRANT SELECT ON t TO readers");
    run(&mut first, "CREATE ROLE ann LOGIN IN ROLE readers");
    let mut ann = db
        .session_with(SessionOptions {
            user: "ann".to_owned(),
            database: "other".to_owned(),
            ..SessionOptions::default()
        })
        .expect("a session");
    assert_eq!(number(&mut ann, "SELECT count(*) FROM t"), 0);
    // A cached plan is not used for a role that has lost its privileges.
    run(&mut first, "REVOKE readers FROM ann");
    let denied = refused(&mut ann, "SELECT count(*) FROM t");
    assert_eq!(denied, SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(
        refused(&mut first, "DROP ROLE readers"),
        SqlState::DEPENDENT_OBJECTS
    );
    run(&mut other, "REVOKE ALL ON t FROM readers");
    run(&mut first, "DROP ROLE readers");
}

#[test]
fn sequences_and_messages_are_of_one_database() {
    let db = Database::in_memory().expect("a database");
    let mut first = session(&db, "postgres");
    run(&mut first, "CREATE SEQUENCE s");
    for copy in ["a", "b"] {
        run(&mut first, &format!("CREATE DATABASE {copy}"));
    }
    let (mut a, mut b) = (session(&db, "a"), session(&db, "b"));
    run(&mut a, "CREATE SEQUENCE s");
    drop(a);
    run(&mut first, "CREATE DATABASE c TEMPLATE a");
    let (mut a, mut c) = (session(&db, "a"), session(&db, "c"));
    // A copy continues at the value of its template, not after the range that a session has taken.
    assert_eq!(number(&mut first, "SELECT nextval('s')"), 1);
    drop(first);
    let mut a_too = session(&db, "a");
    run(&mut a_too, "CREATE DATABASE d TEMPLATE postgres");
    assert_eq!(number(&mut session(&db, "d"), "SELECT nextval('s')"), 2);
    let mut first = session(&db, "postgres");
    run(&mut first, "SELECT setval('s', 1, false)");
    for n in 1..=100 {
        // The sequences of a template and of its copy have the same oid.
        for session in [&mut a, &mut c, &mut first] {
            assert_eq!(number(session, "SELECT nextval('s')"), n);
        }
    }
    for session in [&mut first, &mut a, &mut b] {
        run(session, "LISTEN news");
    }
    run(&mut a, "NOTIFY news, 'hello'");
    assert_eq!(a.take_notifications().len(), 1);
    assert!(b.take_notifications().is_empty() && first.take_notifications().is_empty());
}

#[test]
fn superuser_password_is_of_the_new_database_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |password: &str| {
        let options = Database::options().region_size(16 << 20);
        let options = options
            .data_dir(directory.path())
            .require_superuser_password();
        let options = match password {
            "" => options,
            password => options.superuser_password(password),
        };
        assert!(
            !format!("{options:?}").contains("horse"),
            "it is not logged"
        );
        options.open()
    };
    let refused = open("").err().map(|error| error.to_string());
    assert_eq!(
        refused.as_deref(),
        Some("a new database needs a password of its superuser")
    );
    let first = open("correct horse").expect("it has a password");
    let verifier = first.verifier("postgres").expect("a verifier");
    assert!(verifier.starts_with("SCRAM-SHA-256$"), "{verifier}");
    first.close().expect("closes");
    for later in ["", "another horse"] {
        let again = open(later).expect("it is there");
        assert_eq!(again.verifier("postgres").as_ref(), Some(&verifier));
        again.close().expect("closes");
    }
}

#[test]
fn superuser_password_may_be_a_verifier() {
    let text = "SCRAM-SHA-256$4096:je6l9rsU0ThF4b5kzigWVQ==$7dF6yAYBjAYHE9dsXGUP10m53GRPISv8EnXZkZRUvRM=:4YzjozLgzhhK2/216TkdCIWu8MnQW5NxDGad8nRJ1E4=";
    let options = Database::options().durability(Durability::Memory);
    let database = options.superuser_password(text).open().expect("opens");
    assert_eq!(database.verifier("postgres").as_deref(), Some(text));
}

/// Checks that opening an existing database as a new one detects its catalog.
#[test]
fn existing_catalog_is_not_replaced() {
    let db = Database::in_memory().expect("a database");
    db.blocking()
        .batch("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
        .expect("a table");
    let machine = db.machine();
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let made = Catalog::create(&mut tx, machine.root(), None).block_on();
    assert!(made.is_err(), "there is one");
    tx.abort();
    let mut session = db.blocking();
    assert_eq!(
        session
            .execute("UPDATE t SET a = 2", &[])
            .expect("is there"),
        1
    );
}
