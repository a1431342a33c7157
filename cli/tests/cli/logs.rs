//! The log of a server: its content, changes of settings while the server runs, and the absence of
//! secrets.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{Server, program, said, signal};
use fencepost_benchmarks::sql::{PgSession, SqlSession};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Waits until a log has a text, and returns it.
fn wait_for(path: &Path, text: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let log = read(path);
        if log.contains(text) {
            return log;
        }
        assert!(Instant::now() < deadline, "no {text:?} in:\n{log}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a server that logs to a file of `dir`, with further arguments.
fn logging(dir: &Path, more: &[&str]) -> (Server, PathBuf) {
    let log = dir.join("log");
    let data = dir.join("data");
    let path = log.clone();
    let server = Server::start_with(Some(&data), |command| {
        command.arg("--log-file").arg(&path).args(more)
    });
    (server, log)
}

fn session(server: &Server) -> PgSession {
    PgSession::connect(&server.url()).expect("a session")
}

#[test]
fn start_errors_and_stop_are_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, log) = logging(dir.path(), &[]);
    session(&server)
        .script("SELECT no_such_column")
        .expect_err("it fails");
    let unprivileged = server.url().replace("user=postgres", "user=unprivileged");
    assert!(PgSession::connect(&unprivileged).is_err());
    assert!(server.terminate());
    let log = wait_for(&log, "database system is shut down");
    for line in [
        "LOG:  starting fencepost",
        "LOG:  database system is ready to accept connections",
        "ERROR:  column \"no_such_column\" does not exist at character 8",
        "STATEMENT:  SELECT no_such_column",
        "FATAL:  role \"unprivileged\" does not exist",
        "LOG:  received SIGTERM: ending sessions",
    ] {
        assert!(log.contains(line), "{line} in:\n{log}");
    }
    assert!(!log.contains("connection authorized"), "{log}");
}

#[test]
fn alter_system_changes_logging_and_survives_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, log) = logging(dir.path(), &[]);
    let mut before = session(&server);
    before.script("SELECT 'unlogged'").expect("it runs");
    let mut admin = session(&server);
    for sql in [
        "ALTER SYSTEM SET log_statement = 'ddl'",
        "ALTER SYSTEM SET log_min_duration_statement = '50ms'",
        "ALTER SYSTEM SET log_connections = on",
        "ALTER SYSTEM SET log_line_prefix = '<%u@%d> '",
        "SELECT pg_reload_conf()",
    ] {
        admin.script(sql).expect("it runs");
    }
    // Existing sessions apply the new settings, too.
    before
        .script("CREATE TABLE t (a int PRIMARY KEY)")
        .expect("it runs");
    before.script("SELECT pg_sleep(0.06)").expect("it runs");
    before.script("SELECT 'fast'").expect("it runs");
    let text = wait_for(&log, "SELECT pg_sleep(0.06)");
    assert!(
        text.contains("<postgres@postgres> LOG:  statement: CREATE TABLE t (a int PRIMARY KEY)"),
        "{text}"
    );
    assert!(
        text.contains("ms  statement: SELECT pg_sleep(0.06)"),
        "{text}"
    );
    assert!(
        !text.contains("'fast'") && !text.contains("'unlogged'"),
        "{text}"
    );
    drop((before, admin));
    assert!(server.terminate());
    let (server, log) = logging(dir.path(), &[]);
    session(&server).script("SELECT 1").expect("it runs");
    wait_for(
        &log,
        "<postgres@postgres> LOG:  connection authorized: user=postgres",
    );
    // An option of the process has precedence over ALTER SYSTEM.
    drop(server);
    let (server, _) = logging(dir.path(), &["--set", "log_statement=all"]);
    session(&server).script("SELECT 'seen'").expect("it runs");
    wait_for(&log, "LOG:  statement: SELECT 'seen'");
}

#[test]
fn sighup_reads_the_settings_and_opens_the_file_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, log) = logging(dir.path(), &[]);
    let mut admin = session(&server);
    let sql = "ALTER SYSTEM SET log_statement = 'all'";
    admin.script(sql).expect("it runs");
    let moved = dir.path().join("moved");
    std::fs::rename(&log, &moved).expect("renamed");
    signal(&server, "HUP");
    wait_for(&log, "received SIGHUP, reloading configuration files");
    admin.script("SELECT 'after'").expect("it runs");
    let text = wait_for(&log, "LOG:  statement: SELECT 'after'");
    assert!(!text.contains("starting fencepost"), "{text}");
    assert!(read(&moved).contains("starting fencepost"));
    admin.script("SELECT pg_rotate_logfile()").expect("it runs");
    admin.script("SELECT 'rotated'").expect("it runs");
    let text = wait_for(&log, "SELECT 'rotated'");
    assert!(!text.contains("'after'"), "{text}");
    let first = dir.path().join("log.1");
    assert!(read(&first).contains("'after'"));
}

#[test]
fn passwords_are_not_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let more = [
        "--set",
        "log_statement=all",
        "--set",
        "log_min_duration_statement=0",
    ];
    let (server, log) = logging(dir.path(), &more);
    let mut admin = session(&server);
    let create = "CREATE ROLE ada LOGIN PASSWORD 'tops3cret'";
    admin.script(create).expect("it runs");
    for wrong in [
        "ALTER ROLE unprivileged PASSWORD 'tops3cret'",
        "ALTER ROLE ada PASSWORD 'tops3cret' 'tops3cret'",
        "ALTER ROLE ada PASSWORD E'tops3cret",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE unprivileged PASSWORD ''tops3cret'''; END $$",
    ] {
        admin.script(wrong).expect_err(wrong);
    }
    admin.script("SELECT 'end'").expect("it runs");
    let text = wait_for(&log, "SELECT 'end'");
    assert!(
        text.contains("CREATE ROLE ada LOGIN PASSWORD '********'"),
        "{text}"
    );
    assert!(!text.contains("tops3cret"), "{text}");
}

#[test]
fn json_lines_have_postgresqls_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, log) = logging(dir.path(), &["--log-format", "json"]);
    session(&server).script("SELECT 1/0").expect_err("it fails");
    let text = wait_for(&log, "division by zero");
    let lines = text.lines();
    let lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let failed = lines.iter().find(|line| line["error_severity"] == "ERROR");
    let failed = failed.expect("an error");
    assert_eq!(failed["state_code"], "22012");
    assert_eq!(failed["statement"], "SELECT 1/0");
    assert_eq!(failed["user"], "postgres");
    assert_eq!(failed["dbname"], "postgres");
    assert_eq!(failed["backend_type"], "client backend");
    assert!(failed["remote_port"].is_u64(), "{failed}");
}

#[test]
fn long_waits_for_locks_are_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let more = [
        "--set",
        "log_lock_waits=on",
        "--set",
        "deadlock_timeout=100ms",
    ];
    let (server, log) = logging(dir.path(), &more);
    let mut first = session(&server);
    first
        .script("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1)")
        .expect("it runs");
    first.script("BEGIN; UPDATE t SET b = 2").expect("it runs");
    let mut second = session(&server);
    let waiting = std::thread::spawn(move || second.script("UPDATE t SET b = 3"));
    let text = wait_for(&log, "still waiting for");
    assert!(
        text.contains("DETAIL:  Process holding the lock: "),
        "{text}"
    );
    first.script("COMMIT").expect("it runs");
    waiting.join().expect("no panic").expect("it runs");
    wait_for(&log, "acquired FOR ");
}

#[test]
fn bad_log_options_are_refused() {
    for arguments in [
        &["start", "--log-rotation", "often"][..],
        &["start", "--log-format", "xml"][..],
        &["start", "--set", "log_statement"][..],
    ] {
        let output = program(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
}
