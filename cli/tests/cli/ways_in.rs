//! Unix sockets, and access rules in the configuration file.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Server, program, said, signal, tool};
use fencepost_benchmarks::sql::{PgSession, SqlSession};

/// Runs a statement in psql.
fn psql(psql: &Path, host: &str, port: u16, user: &str, sql: &str) -> Output {
    let port = port.to_string();
    let arguments = ["-X", "-A", "-t", "-w", "-h", host, "-p", &port, "-U", user];
    Command::new(psql)
        .args(arguments)
        .args(["-d", "postgres", "-c", sql])
        .output()
        .expect("it runs")
}

fn start(dir: &Path, more: &[&str]) -> Server {
    Server::start_with(None, |command| {
        command.arg("--socket-dir").arg(dir).args(more)
    })
}

fn socket_in(dir: &Path) -> PathBuf {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut sockets = paths.filter(|path| {
        let kind = std::fs::metadata(path).expect("there").file_type();
        kind.is_socket()
    });
    sockets.next().expect("a socket")
}

#[test]
fn unix_socket_serves_clients_and_is_removed_with_server() {
    let Some(tool) = tool("psql", "ways_in") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path(), &[]);
    let host = dir.path().to_str().expect("a path");
    let name = socket_in(dir.path());
    let name = name.file_name().and_then(|name| name.to_str());
    assert_eq!(name, Some(format!(".s.PGSQL.{}", server.port()).as_str()));
    let sql = "SELECT 1 FROM generate_series(1, 30000); SELECT 'end'";
    let output = psql(&tool, host, server.port(), "postgres", sql);
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stdout.ends_with(b"end\n"));
    let sql = "SELECT client_addr IS NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let output = psql(&tool, host, server.port(), "postgres", sql);
    assert_eq!(output.stdout, b"t\n", "{}", said(&output));
    assert!(server.terminate());
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
}

#[test]
fn stale_socket_is_replaced_and_used_socket_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path(), &[]);
    let listen = format!("127.0.0.2:{}", server.port());
    let second = || {
        let mut command = program(&["start", "--region-size", "64M", "--listen", &listen]);
        command.arg("--socket-dir").arg(dir.path());
        command
    };
    let output = second().output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("another server has the socket"));
    let port = server.port();
    server.kill();
    assert!(socket_in(dir.path()).exists());
    let Some(tool) = tool("psql", "ways_in") else {
        return;
    };
    let mut child = second().spawn().expect("it starts");
    let host = dir.path().to_str().expect("a path");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let answered = loop {
        let output = psql(&tool, host, port, "postgres", "SELECT 1");
        if output.status.success() || std::time::Instant::now() > deadline {
            break output;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    // The process also ends if the test fails.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(answered.stdout, b"1\n", "{}", said(&answered));
}

const RULES: &str = "\
[[access]]
type = \"local\"
database = \"all\"
user = \"all\"
method = \"scram-sha-256\"

[[access]]
type = \"host\"
database = \"all\"
user = \"postgres\"
address = \"127.0.0.1/32\"
method = \"trust\"

[[access]]
type = \"host\"
database = [\"postgres\", \"shop\"]
user = \"mallory\"
address = \"127.0.0.0/8\"
method = \"reject\"
";

#[test]
fn first_matching_rule_decides_and_rules_are_reloaded() {
    let Some(tool) = tool("psql", "ways_in") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("fencepost.toml");
    std::fs::write(&file, RULES).expect("written");
    let path = file.to_str().expect("a path");
    let server = start(dir.path(), &["--config", path]);
    let mut admin = PgSession::connect(&server.url()).expect("a rule lets in");
    for sql in [
        "CREATE ROLE ada LOGIN PASSWORD 'secret of ada'",
        "CREATE ROLE mallory LOGIN",
    ] {
        admin.script(sql).expect("it runs");
    }
    let port = server.port();
    let on_tcp = |user: &str| psql(&tool, "127.0.0.1", port, user, "SELECT 1");
    let refused = |output: &Output, why: &str| {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(why), "{stderr}");
    };
    refused(
        &on_tcp("ada"),
        "FATAL:  no pg_hba.conf entry for host \"127.0.0.1\", user \"ada\", \
         database \"postgres\", no encryption",
    );
    refused(
        &on_tcp("mallory"),
        "FATAL:  pg_hba.conf rejects connection for host \"127.0.0.1\", user \"mallory\", \
         database \"postgres\", no encryption",
    );
    let host = dir.path().to_str().expect("a path");
    let local = psql(&tool, host, port, "ada", "SELECT 1");
    refused(&local, "password");
    let output = Command::new(&tool)
        .args(["-X", "-A", "-t", "-h", host, "-p", &port.to_string()])
        .args(["-U", "ada", "-d", "postgres", "-c", "SELECT 1"])
        .env("PGPASSWORD", "secret of ada")
        .output()
        .expect("it runs");
    assert_eq!(output.stdout, b"1\n", "{}", said(&output));
    std::fs::write(
        &file,
        RULES.replace("\"postgres\"\naddress", "\"all\"\naddress"),
    )
    .expect("written");
    signal(&server, "HUP");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let output = on_tcp("ada");
        if output.status.success() {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{}", said(&output));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
