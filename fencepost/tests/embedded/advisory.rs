//! Advisory locks of sessions that wait for each other.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Database, Error, SqlState};

/// Runs statements in a session of their own, in a thread. Returns the session and the result of
/// the last statement.
fn session(
    db: &Database,
    statements: &'static [&'static str],
) -> JoinHandle<(BlockingSession, Result<(), Error>)> {
    let db = db.clone();
    thread::spawn(move || {
        let mut session = db.blocking();
        let mut done = Ok(());
        for sql in statements {
            done = done.and_then(|()| session.execute(*sql, &[]).map(|_| ()));
        }
        (session, done)
    })
}

fn count(db: &Database, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) AS n FROM pg_locks WHERE {condition}");
    let row = db.blocking().query_one(&sql, &[]).expect("a row");
    row.get("n").expect("a number")
}

/// Waits until `many` sessions wait for advisory locks.
fn until_wait(db: &Database, many: i64) {
    while count(db, "NOT granted") < many {
        thread::yield_now();
    }
}

fn run(session: &mut BlockingSession, sql: &str) {
    if let Err(error) = session.execute(sql, &[]) {
        panic!("{sql}: {error}");
    }
}

#[test]
fn waiter_gets_lock_after_any_kind_of_release() {
    let ends: [(&[&str], &[&str]); 5] = [
        (
            &["SELECT pg_advisory_lock(1)"],
            &["SELECT pg_advisory_unlock(1)"],
        ),
        (
            &["SELECT pg_advisory_lock(1)"],
            &["SELECT pg_advisory_unlock_all()"],
        ),
        (&["BEGIN", "SELECT pg_advisory_xact_lock(1)"], &["COMMIT"]),
        (&["BEGIN", "SELECT pg_advisory_xact_lock(1)"], &["ROLLBACK"]),
        (
            &["BEGIN", "SAVEPOINT s", "SELECT pg_advisory_xact_lock(1)"],
            &["ROLLBACK TO s"],
        ),
    ];
    for (begin, end) in ends {
        let db = Database::in_memory().expect("a database");
        let mut first = db.blocking();
        begin.iter().for_each(|sql| run(&mut first, sql));
        let waiting = session(&db, &["SELECT pg_advisory_lock(1)"]);
        until_wait(&db, 1);
        let sharing = session(&db, &["SELECT pg_advisory_lock_shared(1)"]);
        until_wait(&db, 2);
        end.iter().for_each(|sql| run(&mut first, sql));
        // One waiter at a time gets the lock; the next waiter gets it when that session ends.
        for one in [waiting, sharing] {
            let (session, done) = one.join().expect("no panic");
            done.expect("the lock");
            assert_eq!(count(&db, "granted"), 1);
            drop(session);
        }
        assert_eq!(count(&db, "true"), 0);
    }
}

#[test]
fn session_end_releases_its_locks() {
    let db = Database::in_memory().expect("a database");
    let mut first = db.blocking();
    run(
        &mut first,
        "SELECT pg_advisory_lock(1), pg_advisory_lock_shared(2)",
    );
    run(&mut first, "BEGIN");
    run(&mut first, "SELECT pg_advisory_xact_lock(3)");
    let waiting = session(
        &db,
        &["SELECT pg_advisory_lock(1), pg_advisory_lock(2), pg_advisory_lock(3)"],
    );
    until_wait(&db, 1);
    drop(first);
    let (_session, done) = waiting.join().expect("no panic");
    done.expect("the locks");
    assert_eq!(count(&db, "granted"), 3);
}

#[test]
fn advisory_deadlock_aborts_one_session() {
    let db = Database::in_memory().expect("a database");
    let mut first = db.blocking();
    run(&mut first, "BEGIN");
    run(&mut first, "SELECT pg_advisory_xact_lock(1)");
    let other = session(
        &db,
        &[
            "BEGIN",
            "SELECT pg_advisory_xact_lock(2)",
            "SELECT pg_advisory_xact_lock(1)",
        ],
    );
    until_wait(&db, 1);
    let closed = first.execute("SELECT pg_advisory_xact_lock(2)", &[]);
    let error = closed.expect_err("a circle");
    assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
    run(&mut first, "ROLLBACK");
    let (_session, done) = other.join().expect("no panic");
    done.expect("its lock");
}

#[test]
fn deadlock_through_row_lock_aborts_one_session() {
    let db = Database::in_memory().expect("a database");
    let mut first = db.blocking();
    run(&mut first, "CREATE TABLE t (k int PRIMARY KEY, x int)");
    run(&mut first, "INSERT INTO t VALUES (1, 0)");
    run(&mut first, "BEGIN");
    run(&mut first, "UPDATE t SET x = x + 1 WHERE k = 1");
    let other = session(
        &db,
        &[
            "BEGIN",
            "SELECT pg_advisory_xact_lock(1)",
            "UPDATE t SET x = x + 1 WHERE k = 1",
        ],
    );
    while db.machine().counters().totals().intent_waits == 0 {
        thread::yield_now();
    }
    let closed = first.execute("SELECT pg_advisory_xact_lock(1)", &[]);
    let error = closed.expect_err("a circle");
    assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
    run(&mut first, "ROLLBACK");
    let (mut session, done) = other.join().expect("no panic");
    done.expect("its row");
    run(&mut session, "COMMIT");
}

#[test]
fn cancelled_or_timed_out_waiter_leaves_queue() {
    let db = Database::in_memory().expect("a database");
    let mut first = db.blocking();
    run(&mut first, "SELECT pg_advisory_lock_shared(1)");
    let out_of_time = session(
        &db,
        &["SET lock_timeout = 50", "SELECT pg_advisory_lock(1)"],
    );
    until_wait(&db, 1);
    // This request is queued behind the one that will time out.
    let behind = session(&db, &["SELECT pg_advisory_lock_shared(1)"]);
    let (session, done) = out_of_time.join().expect("no panic");
    let error = done.expect_err("out of time");
    assert_eq!(error.code(), SqlState::LOCK_NOT_AVAILABLE, "{error}");
    let (_other, done) = behind.join().expect("no panic");
    done.expect("no session holds a conflicting lock");
    assert_eq!(count(&db, "granted"), 2);
    assert_eq!(count(&db, "NOT granted"), 0);
    drop(session);
}

#[test]
fn statement_after_lock_wait_reads_newer_snapshot() {
    let db = Database::in_memory().expect("a database");
    let mut first = db.blocking();
    run(&mut first, "CREATE TABLE t (k int PRIMARY KEY)");
    run(&mut first, "SELECT pg_advisory_lock(1)");
    let waiting = session(
        &db,
        &[
            "BEGIN",
            "SELECT pg_advisory_xact_lock(1)",
            "INSERT INTO t SELECT coalesce(max(k), 0) + 1 FROM t",
            "COMMIT",
        ],
    );
    until_wait(&db, 1);
    run(
        &mut first,
        "INSERT INTO t SELECT coalesce(max(k), 0) + 1 FROM t",
    );
    run(&mut first, "SELECT pg_advisory_unlock(1)");
    let (_session, done) = waiting.join().expect("no panic");
    done.expect("no conflict");
    let row = first
        .query_one("SELECT max(k) AS k FROM t", &[])
        .expect("a row");
    assert_eq!(row.get::<i32>("k").expect("a number"), 2);
}

#[test]
fn many_sessions_count_under_one_lock() {
    const SESSIONS: i64 = 8;
    const TIMES: i64 = 20;
    let db = Database::in_memory().expect("a database");
    run(
        &mut db.blocking(),
        "CREATE TABLE t (k int PRIMARY KEY, x int)",
    );
    run(&mut db.blocking(), "INSERT INTO t VALUES (1, 0)");
    let count = || {
        let db = db.clone();
        thread::spawn(move || {
            let mut session = db.blocking();
            for _ in 0..TIMES {
                run(&mut session, "BEGIN");
                run(&mut session, "SELECT pg_advisory_xact_lock(7)");
                run(&mut session, "UPDATE t SET x = x + 1");
                run(&mut session, "COMMIT");
            }
        })
    };
    let began = Instant::now();
    let all: Vec<_> = (0..SESSIONS).map(|_| count()).collect();
    all.into_iter()
        .for_each(|one| one.join().expect("no conflict"));
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "the waiting sessions are woken too late"
    );
    let row = db.blocking().query_one("SELECT x::bigint AS x FROM t", &[]);
    assert_eq!(
        row.expect("a row").get::<i64>("x").expect("a number"),
        SESSIONS * TIMES
    );
}
