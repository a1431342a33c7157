//! `fencepost dev-cluster`: three processes that are one database.

use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{Cell, SqlSession};

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

/// Processes have their code at different addresses, and yet plan alike.
#[test]
fn a_statement_is_split_among_processes() {
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
