//! A `fencepost dev-cluster` process and its machines.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::PgSession;

use super::{free_port, program, said};

/// The number of machines of a cluster.
pub const MACHINES: u16 = 3;

/// A `fencepost dev-cluster` process that is ready; dropping it kills it.
pub struct DevCluster {
    /// The process.
    pub child: Child,
    first_port: u16,
    shared: PathBuf,
    /// A temporary directory that is removed with the cluster.
    _own: Option<tempfile::TempDir>,
}

/// Returns the first of several free consecutive ports.
fn ports() -> u16 {
    let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (0..100)
        .find_map(|_| {
            let port = free_port("127.0.0.1");
            (port..port + MACHINES).all(free).then_some(port)
        })
        .expect("three free ports in a row")
}

impl DevCluster {
    /// Starts a cluster with the fabric "shm" or "tcp" between its machines.
    pub fn start(fabric: &str) -> DevCluster {
        DevCluster::start_with(fabric, &[])
    }

    /// Starts a cluster with further arguments.
    pub fn start_with(fabric: &str, further: &[&str]) -> DevCluster {
        let own = tempfile::tempdir().expect("a directory");
        let mut cluster = DevCluster::start_in(own.path(), fabric, further);
        cluster._own = Some(own);
        cluster
    }

    /// Starts a cluster whose machines share a given directory.
    pub fn start_in(shared: &Path, fabric: &str, further: &[&str]) -> DevCluster {
        DevCluster::start_as(shared, fabric, |command| command.args(further))
    }

    /// Starts a cluster with more arguments or environment variables.
    pub fn start_as(
        shared: &Path,
        fabric: &str,
        more: impl FnOnce(&mut Command) -> &mut Command,
    ) -> DevCluster {
        let first_port = ports();
        let mut command = program(&[
            "dev-cluster",
            "--memory-limit",
            "64M",
            "--fabric",
            fabric,
            "--listen",
        ]);
        command
            .arg(format!("127.0.0.1:{first_port}"))
            .arg("--directory")
            .arg(shared);
        let mut child = more(&mut command)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = out.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("3 machines ready")));
        DevCluster {
            child,
            first_port,
            shared: shared.to_path_buf(),
            _own: None,
        }
    }

    /// Returns the URL of a machine, from 0, for clients.
    pub fn url(&self, machine: u16) -> String {
        let port = self.first_port + machine;
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres")
    }

    /// Opens a session on a machine.
    pub fn session(&self, machine: u16) -> PgSession {
        PgSession::connect(&self.url(machine)).expect("a session")
    }

    /// Runs a benchmark: loads its tables through the first of `machines`, sends requests through
    /// all of them, and checks that its check reports "ok" through each.
    pub fn bench(&self, arguments: &[&str], machines: &[u16]) {
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

    /// Returns the process ids of the machines.
    pub fn machines(&self) -> Vec<String> {
        let parent = self.child.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(children).expect("a list");
        children.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the directory that the machines share.
    pub fn shared(&self) -> &Path {
        &self.shared
    }

    /// Waits for the end of the process; returns whether it succeeded.
    pub fn ended(&mut self) -> bool {
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
        // The process may have ended already; the machines end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal, such as "-INT".
pub fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([name, pid]).status();
    assert!(sent.expect("kill runs").success());
}

/// Returns whether a process has ended.
pub fn has_ended(pid: &str) -> bool {
    !std::path::Path::new("/proc").join(pid).exists()
}
