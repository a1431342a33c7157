//! Interactions of sessions on several machines: advisory locks, notifications, signals.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fencepost::{BlockingSession, Database, Error, SqlState};

use crate::between::{Interconnect, shared, until};

/// Long enough for a host that is busy with other tests.
const LEASE: Duration = Duration::from_secs(2);

fn run(session: &mut BlockingSession, sql: &str) {
    if let Err(error) = session.execute(sql, &[]) {
        panic!("{sql}: {error}");
    }
}

fn truth(session: &mut BlockingSession, sql: &str) -> bool {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get(0).expect("a boolean")
}

fn count(db: &Database, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) AS n FROM pg_locks WHERE {condition}");
    let row = db.blocking().query_one(&sql, &[]).expect("a row");
    row.get("n").expect("a number")
}

/// Requests a lock in a thread; the request has to wait.
fn wait(db: &Database, sql: &'static str) -> JoinHandle<(BlockingSession, Result<u64, Error>)> {
    let mut session = db.blocking();
    thread::spawn(move || {
        let done = session.execute(sql, &[]);
        (session, done)
    })
}

fn locks_are_of_all_machines(between: &Interconnect) {
    let machines = between.machines(2);
    let mut sessions: Vec<_> = machines.iter().map(Database::blocking).collect();
    run(&mut sessions[1], "SELECT pg_advisory_lock(1)");
    for (at, session) in sessions.iter_mut().enumerate() {
        let had = truth(session, "SELECT pg_try_advisory_lock(1)");
        assert_eq!(had, at == 1);
    }
    for db in &machines {
        assert_eq!(count(db, "objid = 1 AND granted"), 1);
    }
    // Requests on the lock manager's machine and on others get the lock in order.
    let mut waiting = Vec::new();
    for (before, at) in [0, 2].into_iter().enumerate() {
        waiting.push(wait(&machines[at], "SELECT pg_advisory_lock(1)"));
        until(|| count(&machines[1], "NOT granted") == before as i64 + 1);
    }
    run(&mut sessions[1], "SELECT pg_advisory_unlock_all()");
    for (at, one) in waiting.into_iter().enumerate() {
        let (session, done) = one.join().expect("no panic");
        done.expect("the lock");
        drop(session);
        until(|| count(&machines[0], "objid = 1") == 1 - at as i64);
    }
    // A deadlock over two machines.
    let (mut a, mut b) = (machines[0].blocking(), machines[2].blocking());
    run(&mut a, "BEGIN");
    run(&mut b, "BEGIN");
    run(&mut a, "SELECT pg_advisory_xact_lock(1)");
    run(&mut b, "SELECT pg_advisory_xact_lock(2)");
    let other = thread::spawn(move || {
        let done = a.execute("SELECT pg_advisory_xact_lock(2)", &[]);
        (a, done)
    });
    until(|| count(&machines[1], "NOT granted") == 1);
    let closed = b.execute("SELECT pg_advisory_xact_lock(1)", &[]);
    let error = closed.expect_err("a circle");
    assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
    run(&mut b, "ROLLBACK");
    let (_a, done) = other.join().expect("no panic");
    done.expect("its lock");
    // A request that times out leaves the queue at the lock manager.
    run(&mut b, "SET lock_timeout = 20");
    let late = b.execute("SELECT pg_advisory_lock_shared(2)", &[]);
    let error = late.expect_err("out of time");
    assert_eq!(error.code(), SqlState::LOCK_NOT_AVAILABLE, "{error}");
    until(|| count(&machines[1], "NOT granted") == 0);
}

#[test]
fn advisory_locks_are_of_all_machines_that_share_memory() {
    locks_are_of_all_machines(&Interconnect::memory());
}

#[test]
fn advisory_locks_are_of_all_machines_of_a_network() {
    locks_are_of_all_machines(&Interconnect::network(21));
}

/// Checks that locks survive the loss of machine 1, which is the lock manager, or of another
/// machine.
fn locks_survive(lost: usize) {
    let directory = shared();
    let between = Interconnect::memory();
    let mut machines = between.machines_with(2, |_, cluster| {
        let cluster = cluster.lease(LEASE).configuration_in(directory.path());
        Database::options().region_size(16 << 20).cluster(cluster)
    });
    let mut staying = machines[1].blocking();
    run(&mut staying, "SELECT pg_advisory_lock(1)");
    let mut lost_one = machines[lost].blocking();
    run(&mut lost_one, "SELECT pg_advisory_lock(2)");
    let waiting: Vec<_> = [2 - lost, 1]
        .map(|at| wait(&machines[at], "SELECT pg_advisory_lock_shared(2)"))
        .into_iter()
        .collect();
    until(|| count(&machines[1], "NOT granted") == 2);
    machines.remove(lost).close().expect("ends");
    let sessions: Vec<_> = waiting
        .into_iter()
        .map(|one| {
            let (session, done) = one.join().expect("no panic");
            done.expect("the machine that held the lock is closed");
            session
        })
        .collect();
    for db in &machines {
        let mut session = db.blocking();
        assert!(!truth(&mut session, "SELECT pg_try_advisory_lock(1)"));
        assert!(!truth(&mut session, "SELECT pg_try_advisory_lock(2)"));
        assert_eq!(count(db, "granted"), 3);
    }
    drop((sessions, lost_one));
    assert!(truth(&mut staying, "SELECT pg_advisory_unlock(1)"));
    until(|| count(&machines[0], "true") == 0);
}

#[test]
fn advisory_locks_survive_loss_of_lock_manager() {
    locks_survive(0);
}

#[test]
fn advisory_locks_of_a_lost_machine_go() {
    locks_survive(2);
}

fn value(session: &mut BlockingSession, sql: &str) -> String {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get(0).expect("a text")
}

fn sessions_hear_and_end_one_another(between: &Interconnect) {
    const TIMES: usize = 20;
    let machines = between.machines(2);
    let mut sessions: Vec<_> = machines.iter().map(Database::blocking).collect();
    run(
        &mut sessions[0],
        "CREATE TABLE t (k int PRIMARY KEY, n int)",
    );
    run(&mut sessions[0], "INSERT INTO t VALUES (1, 0)");
    crate::between::seen(&machines);
    for session in &mut sessions {
        run(session, "LISTEN a");
    }
    thread::scope(|scope| {
        for db in &machines {
            scope.spawn(|| {
                let mut session = db.blocking();
                for _ in 0..TIMES {
                    // The row records the order of the commits.
                    loop {
                        let steps = [
                            "BEGIN",
                            "UPDATE t SET n = n + 1 WHERE k = 1",
                            "SELECT pg_notify('a', n::text) FROM t",
                            "COMMIT",
                        ];
                        let done = steps
                            .iter()
                            .try_for_each(|sql| session.execute(*sql, &[]).map(|_| ()));
                        match done {
                            Ok(()) => break,
                            Err(error) => assert!(error.is_retryable(), "{error}"),
                        }
                        run(&mut session, "ROLLBACK");
                    }
                }
            });
        }
    });
    let all: Vec<String> = (1..=machines.len() * TIMES)
        .map(|n| n.to_string())
        .collect();
    for session in &mut sessions {
        let notifications = session.take_notifications();
        let payloads: Vec<_> = notifications
            .iter()
            .map(|n| n.notification.payload.clone())
            .collect();
        assert_eq!(payloads, all);
    }
    // Sessions can be seen and signalled from every machine.
    let victim = value(&mut sessions[2], "SELECT pg_backend_pid()::text");
    run(&mut sessions[0], "SELECT pg_advisory_lock(1)");
    let mut waiting = sessions.pop().expect("three sessions");
    let (tell, first_ended) = mpsc::channel();
    let waiting = thread::spawn(move || {
        let cancelled = waiting.execute("SELECT pg_advisory_lock(1)", &[]);
        tell.send(()).expect("the test waits for the message");
        let ended = waiting.execute("SELECT pg_advisory_lock(1)", &[]);
        (cancelled, ended)
    });
    let seen =
        format!("SELECT coalesce(max(wait_event), '') FROM pg_stat_activity WHERE pid = {victim}");
    for (at, signal) in [(0, "pg_cancel_backend"), (1, "pg_terminate_backend")] {
        until(|| count(&machines[1], &format!("NOT granted AND pid = {victim}")) == 1);
        assert_eq!(value(&mut sessions[at], &seen), "advisory");
        assert!(truth(
            &mut sessions[at],
            &format!("SELECT {signal}({victim})")
        ));
        if at == 0 {
            first_ended.recv().expect("it is cancelled");
        }
    }
    let (cancelled, ended) = waiting.join().expect("no panic");
    let code = |done: Result<u64, Error>| done.expect_err("it was told").code();
    assert_eq!(code(cancelled), SqlState::QUERY_CANCELED);
    assert_eq!(code(ended), SqlState::ADMIN_SHUTDOWN);
    until(|| value(&mut sessions[1], &seen).is_empty());
    let terminate = format!("SELECT pg_terminate_backend({victim})");
    assert!(!truth(&mut sessions[0], &terminate));
}

#[test]
fn sessions_of_machines_that_share_memory_hear_and_end_one_another() {
    sessions_hear_and_end_one_another(&Interconnect::memory());
}

#[test]
fn sessions_of_machines_of_a_network_hear_and_end_one_another() {
    sessions_hear_and_end_one_another(&Interconnect::network(22));
}
