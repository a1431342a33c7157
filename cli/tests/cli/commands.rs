//! The commands of the program, as users run them in a terminal.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::common::{Server, assert_clean, program, said};
use fencepost_benchmarks::sql::{PgSession, SqlSession};

/// Starts a database in `dir`, runs a script and ends it in good order.
fn with_script(dir: &Path, script: &str) {
    let server = Server::start(Some(dir));
    PgSession::connect(&server.url())
        .expect("a session")
        .script(script)
        .expect("the script runs");
    assert!(server.terminate(), "it ends with success");
}

#[test]
fn program_prints_version_and_commands() {
    let output = program(&["--version"]).output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        format!("fencepost {}", env!("CARGO_PKG_VERSION"))
    );
    let output = program(&["--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for command in ["start", "bench", "check", "backup", "restore", "status"] {
        assert!(help.contains(command), "{help}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2_and_failure_1() {
    for (arguments, code) in [
        (&["start", "--memory-limit", "much"][..], 2),
        (&["start", "--region-size", "3M"][..], 2),
        (&["start", "--tls-cert", "only.pem"][..], 2),
        (&["start", "--durability", "ssd"][..], 1),
        (&["start", "--listen", "nowhere:at:all"][..], 1),
        (&["bench", "nothing"][..], 2),
        (&["bench", "kv", "--via", "pg"][..], 1),
        (&["check", "--data-dir", "/nonexistent/database"][..], 1),
        (
            &["status", "--url", "host=127.0.0.1 port=1 user=postgres"][..],
            1,
        ),
    ] {
        let output = program(arguments).output().expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(!output.stderr.is_empty(), "{arguments:?} says why");
    }
}

#[test]
fn database_survives_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    with_script(
        dir.path(),
        "CREATE TABLE t (a integer PRIMARY KEY, b text); \
         INSERT INTO t SELECT g, 'row' FROM generate_series(1, 1000) g; \
         CREATE INDEX t_b ON t (b); DELETE FROM t WHERE a > 900",
    );
    assert_clean(dir.path());
    let server = Server::start(Some(dir.path()));
    let mut session = PgSession::connect(&server.url()).expect("a session");
    let session: &mut dyn SqlSession = &mut session;
    assert_eq!(session.number("SELECT count(*) FROM t"), Ok(900));
    assert_eq!(
        session.number("SELECT count(*) FROM t WHERE b = 'row'"),
        Ok(900)
    );
}

#[test]
fn data_directory_belongs_to_one_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(Some(dir.path()));
    for arguments in [
        &["start", "--listen", "127.0.0.1:0", "--data-dir"][..],
        &["check", "--data-dir"],
    ] {
        let output = program(arguments)
            .arg(dir.path())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains("in use by another process"),
            "{}",
            said(&output)
        );
    }
    assert!(server.terminate());
}

#[test]
fn status_shows_a_running_database() {
    let server = Server::start(None);
    let output = program(&["status", "--url", &server.url()])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    for part in ["server_version = 15", "answered in", " MB"] {
        assert!(said(&output).contains(part), "{}", said(&output));
    }
}

#[test]
fn bench_writes_report() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bank.json");
    let arguments = [
        "bench",
        "bank",
        "--seconds",
        "0.2",
        "--warmup",
        "0",
        "--rows",
        "10",
        "--json",
    ];
    let output = program(&arguments).arg(&file).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let report = std::fs::read_to_string(&file).expect("a report");
    assert!(report.contains("\"check\": \"ok\""), "{report}");
}

/// Returns the newest log file that is not empty.
fn log_file(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir.join("log")).expect("a log").flatten();
    let mut logs: Vec<PathBuf> = files.map(|file| file.path()).collect();
    logs.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("log-"))
    });
    logs.sort();
    logs.first().cloned().expect("a log file")
}

#[test]
fn flipped_log_byte_refuses_start_and_names_offset() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(Some(dir.path()));
    let mut session = PgSession::connect(&server.url()).expect("a session");
    session
        .script("CREATE TABLE t (a integer PRIMARY KEY)")
        .expect("a table");
    for a in 0..200 {
        session
            .script(&format!("INSERT INTO t VALUES ({a})"))
            .expect("a row");
    }
    server.kill();
    let path = log_file(dir.path());
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("the log");
    file.seek(SeekFrom::Start(30_000)).expect("long enough");
    file.write_all(&[0xff; 64]).expect("written");
    drop(file);
    for command in ["start", "check"] {
        let mut program = program(&[command, "--data-dir"]);
        program.arg(dir.path());
        let output = program.output().expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(said.contains(&name) && said.contains("at byte"), "{said}");
    }
}
