//! Loads into empty tables, whose index entries are built in bulk.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use fencepost::{Database, Error, SqlState};
use pollster::FutureExt;

/// Returns the lines `1\tv1` to `last\tv<last>` in an order that differs from the key order, and
/// then `more`.
fn many_lines(last: u32, more: &str) -> Vec<u8> {
    let line = |n: u32| format!("{}\tv{}\n", n * 7919 % last + 1, n % 10);
    let mut lines: String = (0..last).map(line).collect();
    lines.push_str(more);
    lines.into_bytes()
}

#[test]
fn bulk_load_fills_every_index() {
    const ROWS: u32 = 9001;
    let committed = "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE INDEX t_b ON t (b)";
    let fresh = "BEGIN; CREATE TABLE t (a int PRIMARY KEY, b text); CREATE INDEX t_b ON t (b)";
    let truncated = "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE INDEX t_b ON t (b);
        INSERT INTO t VALUES (3, 'old'); BEGIN; TRUNCATE t";
    for setup in [committed, fresh, truncated] {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Database::open(folder.path()).expect("a database");
        let mut session = db.session();
        async {
            session.batch(setup).await?;
            let lines = many_lines(ROWS, "");
            let loaded = session.copy_in("COPY t FROM STDIN", &lines).await?;
            assert_eq!(loaded, u64::from(ROWS));
            let more = "DELETE FROM t WHERE a = 17; INSERT INTO t VALUES (20000, 'v3')";
            session.batch(more).await?;
            let all = i64::from(ROWS);
            assert_eq!(count(&mut session, "true").await?, all, "{setup}");
            let of_b = count(&mut session, "b = 'v3'").await?;
            if setup != committed {
                session.batch("COMMIT").await?;
            }
            assert_eq!(count(&mut session, "true").await?, all, "{setup}");
            assert_eq!(count(&mut session, "b = 'v3'").await?, of_b);
            assert_eq!(count(&mut session, "b || '' = 'v3'").await?, of_b);
            assert_eq!(count(&mut session, "a BETWEEN 100 AND 199").await?, 100);
            Ok::<(), Error>(())
        }
        .block_on()
        .expect("a load");
        drop(session);
        let checked = fencepost::check(&db);
        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
        db.close().expect("a clean end");
        let db = Database::open(folder.path()).expect("the database again");
        let checked = fencepost::check(&db);
        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
    }
}

async fn count(session: &mut fencepost::Session, filter: &str) -> Result<i64, Error> {
    let sql = format!("SELECT count(*) FROM t WHERE {filter}");
    session.query(&sql, &[]).await?[0].get(0)
}

#[test]
fn bulk_load_with_duplicate_names_key_and_inserts_nothing() {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE t (a int PRIMARY KEY, b text)";
    db.blocking().batch(schema).expect("the schema");
    for rows in [10, 9001] {
        let lines = many_lines(rows, "5\ttwin\n");
        let mut session = db.session();
        let copy = session.copy_in("COPY t FROM STDIN", &lines).block_on();
        let error = copy.expect_err("5 is there twice");
        assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
        let report = error.report();
        let line = format!("COPY t, line {}", rows + 1);
        assert_eq!(report.fields().context.as_deref(), Some(&*line));
        assert_eq!(
            report.fields().detail.as_deref(),
            Some("Key (a)=(5) already exists.")
        );
    }
    let mut session = db.blocking();
    let twice = "INSERT INTO t SELECT g % 5000 FROM generate_series(1, 9000) g";
    let error = session.execute(twice, &[]).expect_err("keys come twice");
    assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
    assert!(
        session
            .query("SELECT * FROM t", &[])
            .expect("rows")
            .is_empty()
    );
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Checks that `wait`, which queues behind a block that has run `first`, can be cancelled.
fn can_be_cancelled(first: &str, wait: &str) {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE t (a int PRIMARY KEY, b text)";
    db.blocking().batch(schema).expect("the schema");
    let lines = many_lines(9001, "");
    let (mut one, mut two) = (db.session(), db.session());
    one.batch("BEGIN").block_on().expect("a block");
    match first {
        "COPY" => drop(one.copy_in("COPY t FROM STDIN", &lines).block_on()),
        sql => one.batch(sql).block_on().expect("a change"),
    }
    let token = two.cancel_token();
    let mut waiting = pin!(async {
        match wait {
            "COPY" => two.copy_in("COPY t FROM STDIN", &lines).await.map(drop),
            sql => two.batch(sql).await,
        }
    });
    for _ in 0..1000 {
        if db.machine().counters().totals().intent_waits > 0 {
            break;
        }
        assert!(poll(waiting.as_mut()).is_pending(), "{wait}");
    }
    assert!(poll(waiting.as_mut()).is_pending(), "{wait}");
    token.cancel();
    let Poll::Ready(Err(error)) = poll(waiting.as_mut()) else {
        panic!("{wait} goes on");
    };
    assert_eq!(error.code(), SqlState::QUERY_CANCELED);
}

#[test]
fn waiting_bulk_load_can_be_cancelled() {
    can_be_cancelled("COPY", "COPY");
}

#[test]
fn ddl_that_waits_for_other_ddl_can_be_cancelled() {
    can_be_cancelled("CREATE TABLE u (a int)", "CREATE TABLE v (a int)");
}

#[test]
fn load_into_view_fires_its_triggers() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.session();
    let setup = "CREATE TABLE t (a int PRIMARY KEY, b text, c int);
        CREATE VIEW v AS SELECT a, b, a * 10 AS c FROM t;
        ALTER VIEW v ALTER c SET DEFAULT 7";
    let triggers = "CREATE FUNCTION put() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.a < 0 THEN RETURN NULL; END IF;
            INSERT INTO t VALUES (NEW.a, upper(NEW.b), NEW.c);
            RETURN NEW;
        END $$;
        CREATE TRIGGER put INSTEAD OF INSERT ON v FOR EACH ROW EXECUTE FUNCTION put()";
    async {
        session.batch(setup).await?;
        let refused = session.copy_in("COPY v FROM STDIN", b"1\tx\t1\n").await;
        let refused = refused.expect_err("no trigger takes it");
        assert_eq!(refused.code(), SqlState::WRONG_OBJECT_TYPE);
        session.batch(triggers).await?;
        let copy = "COPY v (a, b) FROM STDIN";
        let loaded = session.copy_in(copy, b"1\tone\n-1\tgone\n2\ttwo\n").await?;
        assert_eq!(loaded, 2);
        let twice = session.copy_in(copy, b"3\tthree\n1\tagain\n").await;
        let twice = twice.expect_err("the key is there");
        assert_eq!(twice.code(), SqlState::UNIQUE_VIOLATION);
        let some = "COPY v FROM STDIN WITH (FORMAT csv) WHERE a > 5";
        assert_eq!(session.copy_in(some, b"5,x,1\n6,y,2\n").await?, 1);
        let out = session.copy_out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT");
        let expected = "1\tONE\t7\n2\tTWO\t7\n6\tY\t2\n";
        assert_eq!(String::from_utf8_lossy(&out.await?), expected);
        Ok::<(), Error>(())
    }
    .block_on()
    .expect("copies");
}
