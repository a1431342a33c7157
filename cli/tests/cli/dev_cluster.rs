//! `fencepost dev-cluster`: three processes that are one database.

use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::SqlSession;

use crate::common::dev_cluster::{DevCluster, MACHINES, is_gone, signal};

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
    assert!(machines.iter().all(|pid| is_gone(pid)));
    let left = std::fs::read_dir(cluster.shared()).expect("a directory");
    assert_eq!(left.count(), 0, "its memory is given back");
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
fn a_machine_that_dies_ends_the_others_and_so_does_the_parent() {
    let mut cluster = DevCluster::start("shm");
    let machines = cluster.machines();
    signal("-KILL", &machines[1]);
    assert!(!cluster.ended(), "that is a failure");
    assert!(machines.iter().all(|pid| is_gone(pid)));

    let mut cluster = DevCluster::start("shm");
    let machines = cluster.machines();
    cluster.child.kill().expect("it runs");
    assert!(!cluster.ended());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !machines.iter().all(|pid| is_gone(pid)) {
        assert!(Instant::now() < deadline, "machines outlive their parent");
        std::thread::sleep(Duration::from_millis(10));
    }
}
