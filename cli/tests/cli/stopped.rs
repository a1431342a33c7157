//! A machine's process is stopped for longer than its lease and resumed. The other machines have
//! evicted it; it returns no outdated answer, and ends.

use std::time::Duration;

use fencepost_benchmarks::sql::{PgSession, SqlFailure, SqlSession};

use crate::common::insist;
use crate::common::machines::Machines;

/// Long enough for a host that is busy with other tests.
const LEASE: [&str; 4] = ["--replicas", "2", "--lease-ms", "2000"];
/// The exit code of an evicted machine.
const LEFT: i32 = 3;

fn script(session: &mut PgSession, text: &str) {
    session.script(text).expect(text);
}

fn number(session: &mut PgSession, query: &str) -> Result<i64, SqlFailure> {
    let session: &mut dyn SqlSession = session;
    session.number(query)
}

fn stopped_machine_is_evicted_and_ends(fabric: &str, stopped: usize) {
    let mut machines = Machines::start(fabric, 3, &LEASE);
    let others: Vec<usize> = (0..3).filter(|at| *at != stopped).collect();
    let mut first = machines.session(stopped);
    script(&mut first, "CREATE TABLE t (a int PRIMARY KEY, b int)");
    let rows = "INSERT INTO t SELECT g, 0 FROM generate_series(1, 500) g";
    script(&mut first, rows);
    let mut other = machines.session(others[0]);
    let sum = "SELECT sum(b) FROM t";
    assert_eq!(insist(sum, || number(&mut other, sum)), 0);
    // One of its sessions is in a transaction, and another is about to start a query.
    script(&mut first, "BEGIN");
    script(&mut first, "UPDATE t SET b = 1000 WHERE a = 1");
    let mut asker = machines.session(stopped);
    let mut reader = machines.session(stopped);
    script(&mut reader, "BEGIN");
    assert_eq!(
        number(&mut reader, "SELECT b FROM t WHERE a = 2").ok(),
        Some(0)
    );

    machines.signal(stopped, "-STOP");
    for round in 1..=3 {
        insist("an update", || other.script("UPDATE t SET b = b + 1"));
        assert_eq!(insist(sum, || number(&mut other, sum)), round * 500);
    }
    let asks = std::thread::spawn(move || number(&mut asker, sum));
    let reads = std::thread::spawn(move || number(&mut reader, sum));
    let commits = std::thread::spawn(move || first.script("COMMIT"));
    // The queries have arrived when the process resumes.
    std::thread::sleep(Duration::from_millis(200));
    machines.signal(stopped, "-CONT");

    let answer = asks.join().expect("no panic");
    assert!(!matches!(answer, Ok(found) if found != 1500), "{answer:?}");
    // The reads of the transaction may not be consistent any more.
    let read = reads.join().expect("no panic");
    assert!(read.is_err(), "{read:?}");
    assert!(
        commits.join().expect("no panic").is_err(),
        "no client is told that the transaction has committed"
    );
    assert_eq!(machines.code(stopped), Some(LEFT));
    let said = machines.said(stopped);
    assert!(said.contains("no member of the cluster any more"), "{said}");
    let lines = said.lines().filter(|line| line.starts_with("fencepost: "));
    assert_eq!(lines.count(), 1, "{said}");
    for at in others {
        assert!(machines.runs(at), "{}", machines.said(at));
        let mut session = machines.session(at);
        assert_eq!(insist(sum, || number(&mut session, sum)), 1500);
    }
}

#[test]
fn stopped_member_is_evicted_over_shm() {
    stopped_machine_is_evicted_and_ends("shm", 2);
}

#[test]
fn stopped_cm_is_evicted_over_shm() {
    stopped_machine_is_evicted_and_ends("shm", 0);
}

#[test]
fn stopped_member_is_evicted_over_tcp() {
    stopped_machine_is_evicted_and_ends("tcp", 2);
}

#[test]
fn stopped_cm_is_evicted_over_tcp() {
    stopped_machine_is_evicted_and_ends("tcp", 0);
}
