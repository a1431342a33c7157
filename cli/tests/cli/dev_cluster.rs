//! `fencepost dev-cluster`: three processes that form one database.

use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{Cell, SqlSession};

use crate::common::dev_cluster::{DevCluster, MACHINES, has_ended, signal};
use crate::common::insist;

#[test]
fn three_machines_are_one_database_until_ctrl_c() {
    for fabric in ["shm", "tcp"] {
        are_one_database(DevCluster::start(fabric));
    }
}

fn are_one_database(mut cluster: DevCluster) {
    let mut sessions: Vec<_> = (0..MACHINES).map(|m| cluster.session(m)).collect();
    let sessions: Vec<&mut dyn SqlSession> = sessions
        .iter_mut()
        .map(|session| session as &mut dyn SqlSession)
        .collect();
    for (at, session) in sessions.into_iter().enumerate() {
        for statement in [
            format!("CREATE TABLE t{at} (a int PRIMARY KEY)"),
            format!("INSERT INTO t{at} VALUES (7)"),
        ] {
            let prepared = session.prepare(&statement).expect("is prepared");
            session.execute(prepared, &[]).expect("runs");
        }
        for seen in 0..=at {
            let sum = session.number(&format!("SELECT sum(a)::bigint FROM t{seen}"));
            assert_eq!(sum.expect("a number"), 7);
        }
    }
    let machines = cluster.machines();
    assert_eq!(machines.len(), usize::from(MACHINES));
    signal("-INT", &cluster.child.id().to_string());
    assert!(cluster.ended());
    assert!(machines.iter().all(|pid| has_ended(pid)));
    let left = std::fs::read_dir(cluster.shared()).expect("a directory");
    assert_eq!(left.count(), 0, "its memory is given back");
}

/// Processes have their code at different addresses, but must plan alike.
#[test]
fn statement_is_split_among_processes() {
    let cluster = DevCluster::start("tcp");
    let mut session = cluster.session(1);
    for statement in [
        "CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY HASH (a) WITH (partitions = 6)",
        "INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 600) g",
    ] {
        session.script(statement).expect("runs");
    }
    let explain = "EXPLAIN ANALYZE SELECT length(b), sum(abs(a)) FROM t
        WHERE upper(b) LIKE 'ROW%' AND a > 10 GROUP BY length(b) HAVING count(*) > 1";
    let prepared = session.prepare(explain).expect("is prepared");
    let rows = session.query(prepared, &[]).expect("runs");
    let returned = rows.iter().flatten().find_map(|cell| match cell {
        Cell::Text(line) => line.trim_start().strip_prefix("Returned: "),
        _ => None,
    });
    let returned = returned.expect("it is split");
    assert!(returned.starts_with("m1 rows=2 bytes="), "{returned}");
    assert!(returned.contains(", m3 rows=2 bytes="), "{returned}");
}

#[test]
fn benchmarks_hold_through_all_machines_at_once_whichever_loads() {
    let cluster = DevCluster::start("shm");
    let tpcc = ["tpcc", "--warehouses", "1", "--small"];
    cluster.bench(&tpcc, &[0, 1, 2]);
    cluster.bench(&tpcc, &[2, 0]);
    cluster.bench(&["tatp", "--rows", "300"], &[1, 0, 2]);
}

#[test]
fn end_of_machine_or_parent_ends_dev_cluster() {
    let mut cluster = DevCluster::start("shm");
    let machines = cluster.machines();
    signal("-KILL", &machines[1]);
    assert!(!cluster.ended(), "that is a failure");
    assert!(machines.iter().all(|pid| has_ended(pid)));

    let mut cluster = DevCluster::start("shm");
    let machines = cluster.machines();
    cluster.child.kill().expect("it runs");
    assert!(!cluster.ended());
    await_end(&machines);
}

#[test]
fn directory_of_killed_cluster_is_removed_after_its_processes() {
    let parent = tempfile::tempdir().expect("a directory");
    let start = || DevCluster::start_in(parent.path(), "shm", &[]);
    let directories = || {
        std::fs::read_dir(parent.path())
            .expect("a directory")
            .count()
    };
    let kill = |mut cluster: DevCluster, machines: &[String]| {
        // The parent must not notice the end of its machines.
        signal("-STOP", &cluster.child.id().to_string());
        machines.iter().for_each(|pid| signal("-KILL", pid));
        cluster.child.kill().expect("it is there");
        assert!(!cluster.ended());
        await_end(machines);
    };

    let first = start();
    let machines = first.machines();
    kill(first, &machines);
    assert_eq!(directories(), 1, "nothing has removed it");

    // One machine of the second cluster survives, waiting for a statement, and so does the
    // directory.
    let second = start();
    assert_eq!(directories(), 1, "that of the first is gone");
    let machines = second.machines();
    let mut session = second.session(1);
    let statement = std::thread::spawn(move || session.script("SELECT pg_sleep(600)"));
    let watcher: &mut dyn SqlSession = &mut second.session(1);
    let running =
        "SELECT count(*)::bigint FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'";
    insist("the statement runs", || match watcher.number(running) {
        Ok(1) => Ok(()),
        other => Err(other),
    });
    kill(second, &[machines[0].clone(), machines[2].clone()]);
    signal("-STOP", &machines[1]);
    let third = start();
    assert_eq!(directories(), 2, "a machine of the second runs");
    signal("-KILL", &machines[1]);
    await_end(&machines);
    assert!(statement.join().expect("no panic").is_err());
    let machines = third.machines();
    kill(third, &machines);

    let fourth = start();
    assert_eq!(directories(), 1, "only its own");
    let session: &mut dyn SqlSession = &mut fourth.session(2);
    assert_eq!(session.number("SELECT 7::bigint").expect("a number"), 7);
}

/// Waits until processes have ended.
fn await_end(pids: &[String]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !pids.iter().all(|pid| has_ended(pid)) {
        assert!(Instant::now() < deadline, "machines outlive their parent");
        std::thread::sleep(Duration::from_millis(10));
    }
}
