//! A machine of a database is killed, and the others continue with its data.

use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::dev_cluster::{DevCluster, signal};

/// Long enough for a host that is busy with other tests.
const LEASE: [&str; 4] = ["--replicas", "2", "--lease-ms", "2000"];
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Opens a session with a timeout for statements.
fn session(cluster: &DevCluster, machine: u16) -> PgSession {
    let mut session = cluster.session(machine);
    session
        .script("SET statement_timeout = '30s'")
        .expect("is set");
    session
}

/// Opens a session with a machine that may not be ready yet.
fn session_soon(cluster: &DevCluster, machine: u16) -> PgSession {
    let began = Instant::now();
    loop {
        match PgSession::connect(&cluster.url(machine)) {
            Ok(mut session) => {
                session
                    .script("SET statement_timeout = '30s'")
                    .expect("is set");
                return session;
            }
            Err(error) => assert!(began.elapsed() < TIME_LIMIT, "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the result of a query, with retries.
fn answer(session: &mut dyn SqlSession, query: &str) -> i64 {
    let began = Instant::now();
    loop {
        match session.number(query) {
            Ok(number) => return number,
            Err(error) => assert!(began.elapsed() < TIME_LIMIT, "{query}: {error:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn others_go_on(fabric: &str, killed: usize) {
    let cluster = DevCluster::start_with(fabric, &LEASE);
    let mut first = session(&cluster, killed as u16);
    first
        .script("CREATE TABLE t (a int PRIMARY KEY, b int)")
        .expect("a table");
    first
        .script("INSERT INTO t SELECT g, 1 FROM generate_series(1, 2000) g")
        .expect("rows");
    let mut others = (0..3u16).filter(|at| usize::from(*at) != killed);
    let (one, other) = (others.next().expect("one"), others.next().expect("another"));
    // This session was open before the failure, and stays open.
    let mut alive = session(&cluster, one);
    assert_eq!(answer(&mut alive, "SELECT count(*) FROM t"), 2000);
    signal("-KILL", &cluster.machines()[killed]);
    assert_eq!(answer(&mut alive, "SELECT sum(b) FROM t"), 2000);
    alive
        .script("UPDATE t SET b = b + 1 WHERE a <= 500")
        .expect("writes go on");
    alive
        .script("CREATE TABLE u (a int PRIMARY KEY)")
        .expect("tables, too");
    let mut alive = session(&cluster, other);
    assert_eq!(answer(&mut alive, "SELECT sum(b) FROM t"), 2500);
    alive.script("INSERT INTO u VALUES (1)").expect("a row");
    let machines = "SELECT count(*) FROM pg_fencepost_machines";
    assert_eq!(answer(&mut alive, machines), 2);
    let committed = "SELECT configuration FROM pg_fencepost_reconfigurations WHERE step = 'commit'";
    assert_eq!(answer(&mut alive, committed), 2);
}

#[test]
fn killed_cm_is_replaced_over_shm() {
    others_go_on("shm", 0);
}

#[test]
fn another_machine_that_shares_memory_is_killed() {
    others_go_on("shm", 2);
}

#[test]
fn killed_cm_is_replaced_over_tcp() {
    others_go_on("tcp", 0);
}

fn comes_back(fabric: &str) {
    let cluster = DevCluster::start_with(fabric, &[&LEASE[..], &["--restart"]].concat());
    let mut first = session(&cluster, 0);
    first
        .script("CREATE TABLE t (a int PRIMARY KEY, b int)")
        .expect("a table");
    first
        .script("INSERT INTO t SELECT g, 1 FROM generate_series(1, 2000) g")
        .expect("rows");
    signal("-KILL", &cluster.machines()[2]);
    // The machine comes back, and its clients read and write all data.
    let mut back = session_soon(&cluster, 2);
    assert_eq!(answer(&mut back, "SELECT sum(b) FROM t"), 2000);
    back.script("UPDATE t SET b = b + 1 WHERE a <= 500")
        .expect("writes");
    back.script("CREATE TABLE u (a int PRIMARY KEY)")
        .expect("tables, too");
    back.script("INSERT INTO u VALUES (1)").expect("a row");
    let machines = "SELECT count(*) FROM pg_fencepost_machines";
    assert_eq!(answer(&mut first, machines), 3);
    assert_eq!(answer(&mut first, "SELECT sum(b) FROM t"), 2500);
    drop(first);
    // The manager is killed and comes back, too.
    signal("-KILL", &cluster.machines()[0]);
    assert_eq!(answer(&mut back, "SELECT sum(b) FROM t"), 2500);
    let mut first = session_soon(&cluster, 0);
    assert_eq!(answer(&mut first, "SELECT sum(b) FROM t"), 2500);
    first.script("INSERT INTO u VALUES (2)").expect("a row");
    assert_eq!(answer(&mut back, "SELECT count(*) FROM u"), 2);
    assert_eq!(answer(&mut back, machines), 3);
}

#[test]
fn killed_machine_returns_over_shm() {
    comes_back("shm");
}

#[test]
fn killed_machine_returns_over_tcp() {
    comes_back("tcp");
}
