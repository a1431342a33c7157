//! The public API of the library: typed rows, retries, portals, cancel, COPY, reopening.

use std::sync::Arc;
use std::thread;

use fencepost::{
    Completion, Database, Error, MemorySink, SessionOptions, SqlState, Value, Verifier, params,
};
use pollster::FutureExt;

fn database(sql: &str) -> Database {
    let db = Database::in_memory().expect("a database");
    db.blocking().batch(sql).expect("the schema");
    db
}

fn is_send<T: Send>(_: &T) {}

#[test]
fn futures_are_send() {
    let db = database("CREATE TABLE t (a int PRIMARY KEY)");
    let mut session = db.session();
    is_send(&session);
    let future = session.query("SELECT * FROM t", &[]);
    is_send(&future);
    drop(future);
    let future = session.batch("SELECT 1");
    is_send(&future);
    drop(future);
    let future = session.copy_in("COPY t FROM STDIN", b"1\n");
    is_send(&future);
    drop(future);
    let future = session.transaction(|tx| {
        Box::pin(async move { tx.execute("INSERT INTO t VALUES (1)", &[]).await })
    });
    is_send(&future);
    assert_eq!(future.block_on().expect("a transaction"), 1);
}

#[test]
fn rows_are_typed() {
    let db = database("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric, d float8, e bool)");
    let mut session = db.blocking();
    let insert = session
        .prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5)")
        .expect("it binds");
    let values = params![
        1,
        "one",
        rust_decimal::Decimal::new(15, 1),
        2.5f64,
        None::<bool>
    ];
    assert_eq!(session.execute(&insert, values).expect("it runs"), 1);
    let row = session
        .query_one("SELECT * FROM t WHERE a = $1", params![1i64])
        .expect("a row");
    assert_eq!(row.get::<i32>("a").expect("an int"), 1);
    assert_eq!(row.get::<i64>(0).expect("an int fits a bigint"), 1);
    assert_eq!(row.get::<String>("b").expect("text"), "one");
    assert_eq!(row.get::<f64>("d").expect("a float"), 2.5);
    assert_eq!(row.get::<Option<bool>>("e").expect("NULL"), None);
    assert!(row.get::<i32>("b").is_err());
    assert!(row.get::<i32>("nope").is_err());
}

#[test]
fn portals_give_rows_bit_by_bit() {
    let db = database("CREATE TABLE t (a int PRIMARY KEY)");
    let mut session = db.session();
    async {
        session
            .execute(
                "INSERT INTO t SELECT generate_series FROM generate_series(1, 2500)",
                &[],
            )
            .await?;
        let prepared = session.parse("SELECT a FROM t ORDER BY a", &[])?;
        let mut portal = session.bind(&prepared, Vec::new())?;
        let mut seen = Vec::new();
        loop {
            let mut sink = MemorySink::default();
            let done = session.run(&mut portal, 700, &mut sink).await?;
            seen.extend(sink.rows.into_iter().map(|mut row| row.remove(0)));
            match done {
                Completion::Suspended => assert_eq!(seen.len() % 700, 0),
                Completion::Complete(tag) => break assert_eq!(tag.to_string(), "SELECT 400"),
                _ => panic!("not a query"),
            }
        }
        let expected: Vec<Value> = (1..=2500).map(Value::Int4).collect();
        assert_eq!(seen, expected);
        session.sync().await?;
        let closed = session
            .run(&mut portal, 0, &mut MemorySink::default())
            .await;
        assert!(closed.is_err_and(|e| e.sqlstate() == SqlState::INVALID_CURSOR_NAME));
        Ok::<(), Error>(())
    }
    .block_on()
    .expect("portals");
}

#[test]
fn conflicts_are_retried_and_totals_hold() {
    const THREADS: i32 = 4;
    const TRANSFERS: i32 = 300;
    let db = database("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)");
    let setup = "INSERT INTO accounts SELECT g, 1000 FROM generate_series(0, 4) g";
    db.blocking().execute(setup, &[]).expect("accounts");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = db.blocking();
                for i in 0..TRANSFERS {
                    let (from, to) = ((thread + i) % 5, (thread * 3 + i * 2 + 1) % 5);
                    session
                        .transaction(|tx| {
                            let take = "UPDATE accounts SET balance = balance - 1 WHERE id = $1";
                            let give = "UPDATE accounts SET balance = balance + 1 WHERE id = $1";
                            tx.execute(take, params![from])?;
                            tx.execute(give, params![to])
                        })
                        .expect("a transfer");
                }
            });
        }
        let db = db.clone();
        scope.spawn(move || {
            let mut session = db.blocking();
            for _ in 0..200 {
                let row = session.query_one("SELECT sum(balance)::bigint AS s FROM accounts", &[]);
                assert_eq!(row.and_then(|r| r.get::<i64>("s")).expect("a sum"), 5000);
            }
        });
    });
}

#[test]
fn batches_are_run_again_whole() {
    let setup = "CREATE TABLE c (id int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0), (2, 0)";
    let db = database(setup);
    thread::scope(|scope| {
        for thread in 0..4 {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = db.blocking();
                let (first, second) = (1 + thread % 2, 2 - thread % 2);
                for _ in 0..100 {
                    // These transactions deadlock with each other.
                    let change = |id| format!("UPDATE c SET n = n + 1 WHERE id = {id}");
                    let both = format!("{}; {}", change(first), change(second));
                    session.batch(&both).expect("no conflict reaches us");
                }
            });
        }
    });
    let mut session = db.blocking();
    let row = session.query_one("SELECT min(n) AS a, max(n) AS b FROM c", &[]);
    let row = row.expect("the sums");
    let both = ["a", "b"].map(|of| row.get::<i32>(of).expect("an int"));
    assert_eq!(both, [400, 400]);
}

#[test]
fn single_statements_never_conflict_for_the_client() {
    let db = database("CREATE TABLE c (id int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0)");
    thread::scope(|scope| {
        for _ in 0..4 {
            let db = db.clone();
            scope.spawn(move || {
                let mut session = db.blocking();
                for _ in 0..250 {
                    let changed = session.execute("UPDATE c SET n = n + 1 WHERE id = 1", &[]);
                    assert_eq!(changed.expect("no conflict reaches us"), 1);
                }
            });
        }
    });
    let row = db
        .blocking()
        .query_one("SELECT n FROM c", &[])
        .expect("the row");
    assert_eq!(row.get::<i32>("n").expect("an int"), 1000);
}

#[test]
fn write_skew_and_phantoms_do_not_happen() {
    let db = database("CREATE TABLE oncall (name text PRIMARY KEY, duty bool NOT NULL)");
    let setup = "INSERT INTO oncall VALUES ('ann', true), ('bob', true)";
    db.blocking().execute(setup, &[]).expect("rows");
    let (mut one, mut two) = (db.blocking(), db.blocking());
    for session in [&mut one, &mut two] {
        session
            .execute("BEGIN ISOLATION LEVEL SERIALIZABLE", &[])
            .expect("begin");
        let row = session
            .query_one("SELECT count(*) FROM oncall WHERE duty", &[])
            .expect("count");
        assert_eq!(row.get::<i64>(0).expect("a count"), 2);
    }
    one.execute("UPDATE oncall SET duty = false WHERE name = 'ann'", &[])
        .expect("ann leaves");
    let second = two
        .execute("UPDATE oncall SET duty = false WHERE name = 'bob'", &[])
        .and_then(|_| one.execute("COMMIT", &[]))
        .and_then(|_| two.execute("COMMIT", &[]));
    assert!(
        second.is_err_and(|e| e.is_retryable()),
        "one of them must stay"
    );

    let (mut one, mut two) = (db.blocking(), db.blocking());
    one.execute("BEGIN ISOLATION LEVEL SERIALIZABLE", &[])
        .expect("begin");
    let row = one
        .query_one("SELECT count(*) FROM oncall WHERE name > 'c'", &[])
        .expect("count");
    assert_eq!(row.get::<i64>(0).expect("a count"), 0);
    two.execute("INSERT INTO oncall VALUES ('dan', true)", &[])
        .expect("a phantom");
    let late = one
        .execute("INSERT INTO oncall VALUES ('eve', true)", &[])
        .and_then(|_| one.execute("COMMIT", &[]));
    assert!(late.is_err_and(|e| e.is_retryable()));
}

#[test]
fn snapshots_stay_while_others_write() {
    let db = database("CREATE TABLE t (a int PRIMARY KEY, b int)");
    let mut writer = db.blocking();
    writer
        .execute(
            "INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g",
            &[],
        )
        .expect("rows");
    let mut reader = db.blocking();
    reader
        .execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &[])
        .expect("begin");
    let sum = |s: &mut fencepost::BlockingSession| {
        s.query_one("SELECT sum(b)::bigint, count(*) FROM t", &[])
            .and_then(|r| Ok((r.get::<i64>(0)?, r.get::<i64>(1)?)))
            .expect("a sum")
    };
    assert_eq!(sum(&mut reader), (0, 100));
    writer.execute("UPDATE t SET b = 1", &[]).expect("update");
    writer
        .execute("DELETE FROM t WHERE a > 50", &[])
        .expect("delete");
    writer
        .execute("INSERT INTO t VALUES (1000, 7)", &[])
        .expect("insert");
    assert_eq!(sum(&mut reader), (0, 100));
    reader.execute("COMMIT", &[]).expect("commit");
    assert_eq!(sum(&mut reader), (57, 51));
}

#[test]
fn other_columns_are_news_to_a_prepared_statement_alone() {
    let db = database("CREATE TABLE t (a int)");
    let (mut session, mut other) = (db.blocking(), db.blocking());
    let before = session.prepare("SELECT * FROM t").expect("it binds");
    other
        .batch("DROP TABLE t; CREATE TABLE t (b text, c text); INSERT INTO t VALUES ('x', 'y')")
        .expect("another table");
    let stale = session.query(&before, &[]).expect_err("it was prepared");
    assert_eq!(stale.code(), SqlState::FEATURE_NOT_SUPPORTED);
    for session in [&mut session, &mut other] {
        let row = session.query_one("SELECT * FROM t", &[]).expect("a row");
        assert_eq!(row.get::<String>(1).expect("text"), "y");
    }
}

#[test]
fn ddl_under_use_plans_again() {
    let db = database("CREATE TABLE t (a int, b int)");
    let mut session = db.blocking();
    let insert = session
        .prepare("INSERT INTO t VALUES ($1, $2)")
        .expect("it binds");
    let select = session
        .prepare("SELECT b FROM t WHERE a = $1")
        .expect("it binds");
    for i in 0..50 {
        session.execute(&insert, params![i, i * 2]).expect("a row");
    }
    let mut other = db.blocking();
    other
        .execute("ALTER TABLE t ADD PRIMARY KEY (a)", &[])
        .expect("a key");
    let row = session
        .query_one(&select, params![7])
        .expect("the new plan");
    assert_eq!(row.get::<i32>(0).expect("an int"), 14);
    let twice = session.execute(&insert, params![7, 0]);
    assert!(twice.is_err_and(|e| e.code() == SqlState::UNIQUE_VIOLATION));
    other
        .batch("DROP TABLE t; CREATE TABLE t (a int, b int)")
        .expect("another table");
    assert!(
        session
            .query(&select, params![7])
            .expect("no rows")
            .is_empty()
    );
    other.execute("DROP TABLE t", &[]).expect("gone");
    let result = session.query(&select, params![7]);
    assert!(result.is_err_and(|e| e.code() == SqlState::UNDEFINED_TABLE));
}

#[test]
fn statement_can_be_cancelled_and_times_out() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.session();
    let token = session.cancel_token();
    let canceller = thread::spawn(move || {
        for _ in 0..200 {
            thread::sleep(std::time::Duration::from_millis(10));
            token.cancel();
        }
    });
    let long = "SELECT count(*) FROM generate_series(1, 100000000)";
    let result = session.query(long, &[]).block_on();
    assert!(result.is_err_and(|e| e.code() == SqlState::QUERY_CANCELED));
    canceller.join().expect("the canceller ends");
    let mut session = db.blocking();
    session
        .execute("SET statement_timeout = '50ms'", &[])
        .expect("a setting");
    let result = session.query(long, &[]);
    let error = result.expect_err("too long");
    assert_eq!(
        error.report().message(),
        "canceling statement due to statement timeout"
    );
}

#[test]
fn copy_goes_in_and_out() {
    let db = database("CREATE TABLE t (a int PRIMARY KEY, b text, c int DEFAULT 9)");
    let mut session = db.session();
    async {
        let count = session
            .copy_in("COPY t (a, b) FROM STDIN", b"1\tone\n2\t\\N\n\\.\n")
            .await?;
        assert_eq!(count, 2);
        let csv = b"a,b\n3,\"x,\"\"y\"\"\"\n4,\n";
        let count = session
            .copy_in("COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER)", csv)
            .await?;
        assert_eq!(count, 2);
        let out = session.copy_out("COPY t TO STDOUT").await?;
        let expected = "1\tone\t9\n2\t\\N\t9\n3\tx,\"y\"\t9\n4\t\\N\t9\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        let bad = session
            .copy_in("COPY t (a, b) FROM STDIN", b"5\tfive\nsix\tx\n")
            .await;
        let bad = bad.expect_err("not a number");
        assert_eq!(bad.code(), SqlState::INVALID_TEXT_REPRESENTATION);
        let context = bad.report().fields().context.clone();
        assert_eq!(
            context.as_deref(),
            Some("COPY t, line 2, column a: \"six\"")
        );
        let few = session.copy_in("COPY t (a, b) FROM STDIN", b"7\n").await;
        let few = few.expect_err("too few columns");
        assert_eq!(few.report().message(), "missing data for column \"b\"");
        assert_eq!(session.query("SELECT * FROM t", &[]).await?.len(), 4);
        Ok::<(), Error>(())
    }
    .block_on()
    .expect("copies");
}

#[test]
fn reopened_database_has_committed_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let db = Database::open(folder.path()).expect("a database");
        let mut session = db.blocking();
        session
            .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
            .expect("a table");
        session
            .execute("CREATE INDEX t_b ON t (b)", &[])
            .expect("an index");
        let rows = "INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 1000) g";
        session.execute(rows, &[]).expect("rows");
        session.execute("BEGIN", &[]).expect("begin");
        session
            .execute("DELETE FROM t", &[])
            .expect("never committed");
    }
    let db = Database::open(folder.path()).expect("the database again");
    let mut session = db.blocking();
    let row = session
        .query_one("SELECT count(*) FROM t", &[])
        .expect("the rows");
    assert_eq!(row.get::<i64>(0).expect("a count"), 1000);
    let row = session
        .query_one("SELECT a FROM t WHERE b = 'v77'", &[])
        .expect("by the index");
    assert_eq!(row.get::<i32>(0).expect("an int"), 77);
}

#[test]
fn databases_in_one_process_are_apart() {
    let one = database("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let two = Arc::new(database("CREATE TABLE t (a int)"));
    let count = |db: &Database| {
        let row = db
            .blocking()
            .query_one("SELECT count(*) FROM t", &[])
            .expect("a count");
        row.get::<i64>(0).expect("a count")
    };
    assert_eq!((count(&one), count(&two)), (1, 0));
}

#[test]
fn checkpoint_is_on_disk_when_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let db = Database::open(folder.path()).expect("a database");
        let mut session = db.blocking();
        session
            .batch("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
            .expect("a table");
        session.execute("BEGIN", &[]).expect("begin");
        session
            .execute("INSERT INTO t VALUES (3)", &[])
            .expect("a row");
        session.execute("CHECKPOINT", &[]).expect("a checkpoint");
        session.execute("COMMIT", &[]).expect("commit");
    }
    let db = Database::open(folder.path()).expect("the database again");
    let started = db.machine().started();
    assert!(started.checkpoint_objects > 0, "{started:?}");
    assert_eq!(started.replayed.commits, 1, "only the row after it");
    let row = db.blocking().query_one("SELECT count(*) FROM t", &[]);
    assert_eq!(row.expect("a count").get::<i64>(0).expect("a count"), 3);
    let memory = Database::in_memory().expect("a database");
    memory
        .blocking()
        .execute("CHECKPOINT", &[])
        .expect("nothing to do");
}

#[test]
fn roles_are_kept_and_only_superusers_change_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let verifier = Verifier::of_password("old", [7; 16]).to_string();
    {
        let db = Database::open(folder.path()).expect("a database");
        let sql = format!(
            "CREATE USER ann PASSWORD '{verifier}'; CREATE USER root SUPERUSER;
             CREATE ROLE off PASSWORD 'plain'; ALTER USER root NOLOGIN"
        );
        db.blocking().batch(&sql).expect("roles");
    }
    let db = Database::open(folder.path()).expect("the database again");
    let ann = db.role("ann").expect("a role");
    assert_eq!(ann.verifier.as_deref(), Some(verifier.as_str()));
    assert!(ann.login && !ann.superuser);
    let off = db.role("off").expect("a role").verifier.clone();
    assert!(
        off.as_deref().and_then(Verifier::parse).is_some(),
        "{off:?}"
    );
    let as_user = |user: &str| {
        db.session_with(SessionOptions {
            user: user.to_owned(),
            ..SessionOptions::default()
        })
    };
    for (user, message) in [
        ("root", "role \"root\" is not permitted to log in"),
        ("unprivileged", "role \"unprivileged\" does not exist"),
    ] {
        let refused = as_user(user).err().expect("no session");
        assert_eq!(refused.sqlstate(), SqlState::INVALID_AUTHORIZATION);
        assert_eq!(refused.message(), message);
    }
    let mut session = as_user("ann").expect("a session");
    for (sql, message) in [
        ("CREATE ROLE x", "permission denied to create role"),
        (
            "CREATE ROLE x SUPERUSER",
            "must be superuser to create superusers",
        ),
        ("ALTER ROLE off PASSWORD 'x'", "permission denied"),
        ("ALTER ROLE ann PASSWORD 'x' LOGIN", "permission denied"),
        (
            "ALTER ROLE ann SUPERUSER",
            "must be superuser to alter superuser roles or change superuser attribute",
        ),
        (
            "ALTER ROLE postgres PASSWORD 'x'",
            "must be superuser to alter superuser roles or change superuser attribute",
        ),
        ("DROP ROLE off", "permission denied to drop role"),
        (
            "CHECKPOINT",
            "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
        ),
    ] {
        let error = session.execute(sql, &[]).block_on().expect_err(sql);
        assert_eq!(error.code(), SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
        assert_eq!(error.report().message(), message);
    }
    let own = session.execute("ALTER ROLE ann PASSWORD NULL", &[]);
    own.block_on().expect("its own password");
    assert_eq!(db.role("ann").expect("a role").verifier, None);
    let lost = db
        .blocking()
        .execute("ALTER ROLE postgres NOSUPERUSER", &[]);
    let lost = lost.expect_err("the last superuser cannot give up SUPERUSER");
    assert_eq!(lost.code(), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(fencepost::check(&db).problems, Vec::<String>::new());
}

#[test]
fn conflict_error_names_its_table_and_key() {
    let db = database(
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0);
         CREATE TABLE h (id text PRIMARY KEY) WITH (index = hash); CREATE TABLE bag (v int)",
    );
    let (mut one, mut other) = (db.blocking(), db.blocking());
    for (read, changed, about) in [
        (
            "SELECT * FROM t WHERE id = 1",
            "UPDATE t SET v = v + 1 WHERE id = 1",
            "The row with key (id)=(1) of table \"t\"",
        ),
        (
            "SELECT * FROM t WHERE id = 50",
            "INSERT INTO t VALUES (50, 0)",
            "The set of keys of index \"t_pkey\" of table \"t\" around (id)=(1)",
        ),
        (
            "SELECT * FROM h WHERE id = 'x'",
            "INSERT INTO h VALUES ('x')",
            "The set of keys of index \"h_pkey\" of table \"h\"",
        ),
        (
            "SELECT * FROM bag",
            "INSERT INTO bag VALUES (1)",
            "The set of rows of table \"bag\"",
        ),
        (
            "SELECT * FROM bag",
            "UPDATE bag SET v = 2",
            "A row of table \"bag\"",
        ),
    ] {
        one.batch("BEGIN ISOLATION LEVEL SERIALIZABLE")
            .expect("a block");
        one.query(read, &[]).expect("a snapshot");
        one.execute("UPDATE t SET v = v + 1 WHERE id = 2", &[])
            .expect("a change");
        other.execute(changed, &[]).expect("it commits");
        let error = one.execute("COMMIT", &[]).expect_err("a conflict");
        assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE);
        let detail = error.report().fields().detail.clone().expect("a detail");
        let prefix = format!("{about} was changed by a concurrent transaction. Reason: ");
        assert!(detail.starts_with(&prefix), "{detail}");
    }
}

#[test]
fn parameters_of_ddl_are_refused_but_in_queries() {
    let db = database("CREATE TABLE t (a int)");
    let mut session = db.blocking();
    for ddl in [
        "ALTER TABLE t ADD b text DEFAULT $1",
        "ALTER TABLE t ALTER a TYPE bigint USING a + $1",
        "ALTER TABLE t ADD CHECK (a > $1)",
        "CREATE TABLE u (a int DEFAULT $1)",
        "CREATE TABLE u (a int CHECK (a > $1))",
        "CREATE DOMAIN d AS int DEFAULT $1",
        "CREATE VIEW v AS SELECT $1::int",
        "COPY (SELECT $1::int) TO STDOUT",
    ] {
        let refused = session.prepare(ddl).err().expect(ddl);
        assert_eq!(refused.code(), SqlState::UNDEFINED_PARAMETER, "{ddl}");
    }
    session
        .execute("CREATE TABLE u AS SELECT $1::int AS a", params![5])
        .expect("a table of a query");
    let row = session.query_one("SELECT a FROM u", &[]).expect("a row");
    assert_eq!(row.get::<i32>(0).expect("an int"), 5);
}
