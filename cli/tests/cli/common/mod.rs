//! The common parts of tests of the real program: a server process, and the tools that use it.

pub mod dev_cluster;
pub mod doomed;
pub mod machines;
pub mod namespaces;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A `fencepost start` process; dropping it kills it.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts the program on a free port and waits until it is ready.
    pub fn start(data_dir: Option<&Path>) -> Server {
        Server::start_with(data_dir, |command| command)
    }

    /// Starts the program with more arguments or environment variables.
    pub fn start_with(
        data_dir: Option<&Path>,
        more: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Server {
        let mut command = program(&["start", "--listen", "127.0.0.1:0", "--region-size", "64M"]);
        if let Some(dir) = data_dir {
            command.arg("--data-dir").arg(dir);
        }
        let mut child = more(&mut command)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line
            .split(" ready on ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let port = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
        let Some(port) = port else {
            let status = child.wait().expect("ended");
            panic!("no ready line but {line:?}; {status}");
        };
        Server { child, port }
    }

    /// Returns the port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            self.port
        )
    }

    /// Kills the server with `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was running");
    }

    /// Sends SIGTERM; returns whether the server ended successfully.
    pub fn terminate(mut self) -> bool {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return status.success(),
                None if Instant::now() > deadline => return false,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Returns a command for a PostgreSQL tool that connects to this server.
    pub fn tool(&self, tool: &Path) -> Command {
        let mut command = Command::new(tool);
        command.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-p",
            &self.port.to_string(),
        ]);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a server.
pub fn signal(server: &Server, name: &str) {
    let pid = server.child.id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status();
    assert!(sent.expect("kill runs").success());
}

/// Returns a command for the tested program with arguments.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(arguments);
    command
}

/// Returns the path of a PostgreSQL tool, or writes to stderr that the test is skipped without it.
pub fn tool(name: &str, test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        dirs.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let found = dirs
        .into_iter()
        .map(|dir| dir.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        // eprintln would be hidden while the test passes.
        let _ = writeln!(
            std::io::stderr(),
            "{test}: skipped, {name} is not installed"
        );
    }
    found
}

/// Returns the status and output of a process, for failed assertions.
pub fn said(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Checks that `fencepost check` finds no error.
pub fn assert_clean(data_dir: &Path) {
    let output = program(&["check", "--data-dir"])
        .arg(data_dir)
        .output()
        .expect("check runs");
    assert!(
        output.status.success(),
        "fencepost check: {}",
        said(&output)
    );
}

/// Returns the number of rounds of a crash test: `FENCEPOST_CRASH_ROUNDS`, or a few.
pub fn crash_rounds() -> u32 {
    std::env::var("FENCEPOST_CRASH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5)
}

/// Long enough for a host that is busy with other tests.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns a free port of this host, for a process that is about to listen on it. The port is
/// outside the system's range for outgoing connections, because the connection of another test
/// could take such a port meanwhile.
pub fn free_port(host: &str) -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    // A caller that wants consecutive ports may use the next ones.
    const ROW: u32 = 10;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97) % COUNT;
    let mut ports = (0..COUNT / ROW).map(|_| {
        let tried = TRIED.fetch_add(ROW, Ordering::Relaxed) % COUNT;
        (FIRST + (begin + tried) % COUNT) as u16
    });
    let free = ports.find(|port| TcpListener::bind((host, *port)).is_ok());
    free.expect("a port")
}

/// A guard that tells clients to stop when it is dropped, also after a panic, because the scope of
/// their threads waits for them.
pub struct ClientStopGuard<'a>(pub &'a AtomicBool);

impl Drop for ClientStopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats an operation until it succeeds; panics after the time limit.
pub fn insist<T, E: std::fmt::Debug>(what: &str, mut done: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match done() {
            Ok(done) => return done,
            Err(error) => assert!(began.elapsed() < TIME_LIMIT, "{what}: {error:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
