//! `fencepost dev-cluster`: three processes that are one database.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::{program, said};

const MACHINES: u16 = 3;

struct DevCluster {
    child: Child,
    first_port: u16,
    shared: tempfile::TempDir,
}

/// Free ports in a row.
fn ports() -> u16 {
    let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (0..100)
        .find_map(|_| {
            let any = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = any.local_addr().expect("bound").port();
            drop(any);
            (port < 65_000 && (port..port + MACHINES).all(free)).then_some(port)
        })
        .expect("three free ports in a row")
}

impl DevCluster {
    fn start(fabric: &str) -> DevCluster {
        let first_port = ports();
        let shared = tempfile::tempdir().expect("a directory");
        let mut child = program(&[
            "dev-cluster",
            "--memory-limit",
            "64M",
            "--fabric",
            fabric,
            "--listen",
        ])
        .arg(format!("127.0.0.1:{first_port}"))
        .arg("--directory")
        .arg(shared.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = out.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("3 machines ready")));
        DevCluster {
            child,
            first_port,
            shared,
        }
    }

    fn url(&self, machine: u16) -> String {
        let port = self.first_port + machine;
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres")
    }

    fn session(&self, machine: u16) -> PgSession {
        PgSession::connect(&self.url(machine)).expect("a session")
    }

    /// Runs a benchmark: its tables are loaded through the first of `machines`, requests go through all of
    /// them at once, and its check says "ok" through each.
    fn bench(&self, arguments: &[&str], machines: &[u16]) {
        let mut bench = program(&["bench", "--via", "pg", "--threads", "6"]);
        bench.args(["--seconds", "2", "--warmup", "0.5"]);
        bench.args(arguments);
        for machine in machines {
            bench.args(["--url", &self.url(*machine)]);
        }
        let output = bench.output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("check      ok"), "{}", said(&output));
    }

    /// Process ids of the machines.
    fn machines(&self) -> Vec<String> {
        let parent = self.child.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(children).expect("a list");
        children.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits for the end; whether it was a good one.
    fn ended(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break status.success(),
                None => assert!(Instant::now() < deadline, "it goes on"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        // It may have ended already; the machines end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([name, pid]).status();
    assert!(sent.expect("kill runs").success());
}

fn is_gone(pid: &str) -> bool {
    !std::path::Path::new("/proc").join(pid).exists()
}

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
    let left = std::fs::read_dir(cluster.shared.path()).expect("a directory");
    assert_eq!(left.count(), 0, "its memory is given back");
}

#[test]
fn benchmarks_hold_through_all_machines_at_once() {
    let cluster = DevCluster::start("shm");
    cluster.bench(&["tpcc", "--warehouses", "1", "--small"], &[0, 1, 2]);
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
