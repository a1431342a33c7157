//! Deadlocks of blocks on several machines that wait for each other's rows.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use fencepost::{Database, Error, SqlState, params};

use crate::between::{Interconnect, number, until};

const ADD: &str = "UPDATE c SET n = n + 1 WHERE id = $1";

/// Creates a row for each machine, on that machine.
fn rows(machines: &[Database]) {
    let mut session = machines[0].blocking();
    session
        .batch("CREATE TABLE c (id int PRIMARY KEY, n int)")
        .expect("a table");
    for (id, db) in machines.iter().enumerate() {
        let made = db
            .blocking()
            .transaction(|tx| tx.execute("INSERT INTO c VALUES ($1, 0)", params![id as i32]));
        made.expect("a row");
    }
}

/// Returns the count of each row.
fn counted(db: &Database) -> Vec<i32> {
    let rows = db.blocking().query("SELECT n FROM c ORDER BY id", &[]);
    let rows = rows.expect("rows");
    rows.iter()
        .map(|row| row.get(0).expect("a number"))
        .collect()
}

/// Runs blocks of all machines, each of which locks its machine's row and waits for the next one.
fn check_one_block_of_deadlock_fails(between: &Interconnect) {
    const ROUNDS: usize = 5;
    let machines = between.machines(3);
    rows(&machines);
    let mut failed_machines = Vec::new();
    for _ in 0..ROUNDS {
        let all_have_one = Barrier::new(machines.len());
        let (machines, all_have_one) = (&machines, &all_have_one);
        let ends: Vec<Result<(), Error>> = thread::scope(|scope| {
            let block = |at: usize| {
                let mut session = machines[at].blocking();
                session.batch("BEGIN").expect("a block");
                let own = session.execute(ADD, params![at as i32]);
                own.expect("no other session has the row yet");
                all_have_one.wait();
                let next = (at + 1) % machines.len();
                let waited = session.execute(ADD, params![next as i32]);
                let end = if waited.is_ok() { "COMMIT" } else { "ROLLBACK" };
                session.batch(end).expect("its end");
                waited.map(|_| ())
            };
            let all = 0..machines.len();
            let all: Vec<_> = all.map(|at| scope.spawn(move || block(at))).collect();
            let all = all.into_iter();
            all.map(|one| one.join().expect("no panic")).collect()
        });
        let failed = ends.iter().enumerate();
        let failed: Vec<_> = failed
            .filter_map(|(at, end)| Some((at, end.as_ref().err()?)))
            .collect();
        let [(at, error)] = failed[..] else {
            panic!("one of them ends the circle: {ends:?}");
        };
        assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
        failed_machines.push(at);
    }
    let mut expected = vec![2 * ROUNDS as i32; machines.len()];
    for at in failed_machines {
        expected[at] -= 1;
        expected[(at + 1) % machines.len()] -= 1;
    }
    assert_eq!(counted(&machines[1]), expected);
}

#[test]
fn one_block_of_deadlock_over_shared_memory_fails() {
    check_one_block_of_deadlock_fails(&Interconnect::memory());
}

#[test]
fn one_block_of_deadlock_over_network_fails() {
    check_one_block_of_deadlock_fails(&Interconnect::network(23));
}

/// Runs blocks of all machines that share a row of the first machine; each block then writes it.
fn check_one_sharing_block_writes_row(between: &Interconnect) {
    let machines = between.machines(1);
    rows(&machines);
    let all_share = Barrier::new(machines.len());
    let all_share = &all_share;
    let block = |db: &Database| {
        let mut session = db.blocking();
        session
            .batch("BEGIN; SELECT * FROM c WHERE id = 0 FOR SHARE")
            .expect("no session writes the row");
        all_share.wait();
        let written = session.execute(ADD, params![0]);
        let end = if written.is_ok() {
            "COMMIT"
        } else {
            "ROLLBACK"
        };
        session.batch(end).expect("its end");
        written.map_err(|error| error.code())
    };
    let block = &block;
    let ends: Vec<_> = thread::scope(|scope| {
        let all = machines.iter();
        let all: Vec<_> = all.map(|db| scope.spawn(move || block(db))).collect();
        let ends = all.into_iter().map(|one| one.join().expect("no panic"));
        ends.collect()
    });
    let errors = ends.iter().filter_map(|end| end.as_ref().err());
    assert!(
        errors
            .clone()
            .all(|code| *code == SqlState::DEADLOCK_DETECTED),
        "{ends:?}"
    );
    let written = ends.iter().filter(|end| end.is_ok()).count();
    assert!(written >= 1, "{ends:?}");
    assert_eq!(counted(&machines[1])[0], written as i32);
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'tuple'";
    until(|| number(&mut machines[0].blocking(), left) == 0);
}

#[test]
fn one_sharing_block_writes_row_over_shared_memory() {
    check_one_sharing_block_writes_row(&Interconnect::memory());
}

#[test]
fn one_sharing_block_writes_row_over_network() {
    check_one_sharing_block_writes_row(&Interconnect::network(53));
}

/// Runs two sessions: one holds a row lock and wants an advisory lock, the other does the reverse.
/// The lock manager is on a third machine.
fn check_row_and_advisory_deadlock_ends(between: &Interconnect) {
    let machines = between.machines(2);
    rows(&machines);
    let mut sessions = [1, 2].map(|at: usize| machines[at].blocking());
    let [of_row, of_lock] = &mut sessions;
    of_row.batch("BEGIN").expect("a block");
    of_row.execute(ADD, params![0]).expect("the row is free");
    of_lock
        .batch("BEGIN; SELECT pg_advisory_xact_lock(1)")
        .expect("the lock is free");
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            of_lock.execute(ADD, params![0]).expect("its turn");
            of_lock.batch("COMMIT").expect("no conflict");
        });
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        until(|| number(&mut machines[0].blocking(), waits) == 1);
        let closed = of_row.batch("SELECT pg_advisory_xact_lock(1)");
        let error = closed.expect_err("a circle");
        assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
        of_row.batch("ROLLBACK").expect("its end");
        other.join().expect("no panic");
    });
    assert_eq!(counted(&machines[0])[0], 1);
}

#[test]
fn row_and_advisory_deadlock_ends_over_shared_memory() {
    check_row_and_advisory_deadlock_ends(&Interconnect::memory());
}

#[test]
fn row_and_advisory_deadlock_ends_over_network() {
    check_row_and_advisory_deadlock_ends(&Interconnect::network(24));
}

/// Longer than any timeout.
const LONG: Duration = Duration::from_millis(1500);

#[test]
fn long_remote_lock_wait_is_granted_eventually() {
    let between = Interconnect::memory();
    let machines = between.machines(2);
    rows(&machines);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let waits = || number(&mut machines[1].blocking(), waiting) == 1;
    let mut first = machines[0].blocking();
    first.batch("BEGIN").expect("a block");
    first
        .execute(ADD, params![0])
        .expect("no other session has the row");
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut session = machines[1].blocking();
            session.batch("BEGIN").expect("a block");
            session.execute(ADD, params![0]).expect("its turn");
            session.batch("COMMIT").expect("no conflict");
        });
        until(waits);
        thread::sleep(LONG);
        assert!(waits() && !second.is_finished());
        first.batch("COMMIT").expect("no conflict");
        second.join().expect("no panic");
    });
    assert_eq!(counted(&machines[0])[0], 2);
}
