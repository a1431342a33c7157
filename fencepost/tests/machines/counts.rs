//! Counters of sessions on several machines, added up.

use std::time::Duration;

use fencepost::{BlockingSession, Database};

use crate::between::{Interconnect, shared, until};

/// Long enough for a host that is busy with other tests.
const LEASE: Duration = Duration::from_secs(2);

fn number(session: &mut BlockingSession, sql: &str) -> i64 {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get(0).expect("a number")
}

fn run(session: &mut BlockingSession, sql: &str) {
    if let Err(error) = session.batch(sql) {
        panic!("{sql}: {error}");
    }
}

#[test]
fn counts_are_of_all_machines_that_there_are() {
    let directory = shared();
    let between = Interconnect::memory();
    let mut machines = between.machines_with(2, |_, cluster| {
        let cluster = cluster.lease(LEASE).configuration_in(directory.path());
        Database::options().region_size(16 << 20).cluster(cluster)
    });
    run(
        &mut machines[0].blocking(),
        "CREATE TABLE t (k int PRIMARY KEY)",
    );
    for (at, db) in machines.iter().enumerate() {
        // A block runs on the machine of its session.
        let insert = format!("BEGIN; INSERT INTO t VALUES ({at}); COMMIT");
        run(&mut db.blocking(), &insert);
    }
    let put = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 't'";
    for db in &machines {
        assert_eq!(number(&mut db.blocking(), put), 3);
    }
    run(&mut machines[1].blocking(), "SELECT pg_stat_reset()");
    for db in &machines {
        assert_eq!(number(&mut db.blocking(), put), 0);
    }
    for (at, db) in machines.iter().enumerate() {
        let insert = format!("BEGIN; INSERT INTO t VALUES ({}); COMMIT", at + 3);
        run(&mut db.blocking(), &insert);
    }
    // The counters of the lost machine are lost with it.
    machines.remove(2).close().expect("ends");
    for db in &machines {
        assert_eq!(number(&mut db.blocking(), put), 2);
    }
}

#[test]
fn lock_waits_are_visible_on_all_machines() {
    let between = Interconnect::memory();
    let machines = between.machines(2);
    run(
        &mut machines[0].blocking(),
        "CREATE TABLE t (k int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 0)",
    );
    let (mut first, mut second) = (machines[0].blocking(), machines[1].blocking());
    run(&mut first, "BEGIN; UPDATE t SET x = 5 WHERE k = 1");
    let holder = number(&mut first, "SELECT pg_backend_pid()::bigint");
    let waiter = number(&mut second, "SELECT pg_backend_pid()::bigint");
    run(&mut second, "BEGIN");
    let waits = std::thread::spawn(move || {
        run(&mut second, "UPDATE t SET x = x + 1 WHERE k = 1");
        run(&mut second, "COMMIT");
    });
    let blocking = format!("SELECT coalesce((pg_blocking_pids({waiter}))[1], 0)::bigint");
    let mut looks = machines[2].blocking();
    until(|| number(&mut looks, &blocking) == holder);
    let waiting = "SELECT pid::bigint FROM pg_locks WHERE NOT granted AND relation = 't'::regclass";
    assert_eq!(number(&mut looks, waiting), waiter);
    run(&mut first, "COMMIT");
    waits.join().expect("no panic");
}
