//! The configuration file, the environment, and their precedence.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Server, program, said, signal};
use fencepost_benchmarks::sql::{PgSession, SqlSession};

fn file(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("fencepost.toml");
    std::fs::write(&path, text).expect("written");
    path
}

fn start_with(path: &Path) -> Command {
    let mut command = program(&["start"]);
    command.arg("--config").arg(path);
    command
}

fn checked(command: &mut Command) -> (Option<i32>, String) {
    let output = command.arg("--check-config").output().expect("it runs");
    (output.status.code(), said(&output))
}

/// Returns the value of a numeric setting.
fn setting(server: &Server, name: &str) -> i64 {
    let mut session = PgSession::connect(&server.url()).expect("a session");
    let sql = format!("SELECT setting::bigint FROM pg_settings WHERE name = '{name}'");
    let session: &mut dyn SqlSession = &mut session;
    session.number(&sql).expect("a number")
}

#[test]
fn valid_file_is_accepted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(
        dir.path(),
        "listen = \"127.0.0.1:0\"\nmemory_limit = \"64M\"\nworkers = 1\nmax-connections = 10\n\
         tls_required = false\n[settings]\nlog_min_duration_statement = \"250ms\"\njit = false\n",
    );
    let (code, output) = checked(&mut start_with(&path));
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("the configuration is valid"), "{output}");
}

#[test]
fn errors_name_the_line_of_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    for (text, code, why) in [
        (
            "\nlisten_to = \"x\"",
            2,
            "toml:2: unknown option \"listen-to\"",
        ),
        ("config = \"x\"", 2, "toml:1: unknown option \"config\""),
        (
            "workers = \"many\"",
            2,
            "toml:1: error: invalid value 'many' for '--workers <N>'",
        ),
        ("listen = ", 2, "toml:1: "),
        (
            "tls_required = 5",
            2,
            "toml:1: tls-required is true or false",
        ),
        ("listen = [\"a\", \"b\"]", 2, "toml:1: listen has one value"),
        (
            "[settings]\nlog_statment = \"all\"",
            1,
            "toml:2: unrecognized configuration parameter \"log_statment\"",
        ),
        (
            "[settings]\njit = 1\nlog_statement = \"some\"",
            1,
            "toml:3: invalid value for parameter \"log_statement\": \"some\"",
        ),
        ("tls_cert = \"only.pem\"", 2, "--tls-key"),
        ("machine = 1", 1, "--machine"),
    ] {
        let path = file(dir.path(), text);
        let (found, output) = checked(&mut start_with(&path));
        assert_eq!(found, Some(code), "{text}: {output}");
        assert!(output.contains(why), "{text}: {output}");
    }
    let (code, output) = checked(&mut start_with(Path::new("/nonexistent.toml")));
    assert!(
        code == Some(2) && output.contains("/nonexistent.toml"),
        "{output}"
    );
}

#[test]
fn command_line_overrides_environment_overrides_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(
        dir.path(),
        "listen = \"nowhere:at:all\"\nlog_file = \"/nonexistent/file\"\nlog_format = \"json\"\n\
         max_connections = 7\n[settings]\nwork_mem = \"5MB\"\nlog_statement = \"all\"\n",
    );
    let log = dir.path().join("log");
    let server = Server::start_with(None, |command| {
        command
            .arg("--config")
            .arg(&path)
            .args(["--set", "work_mem=6MB"])
            .env("FENCEPOST_LISTEN", "also:not:this")
            .env("FENCEPOST_LOG_FILE", &log)
    });
    assert_eq!(setting(&server, "work_mem"), 6 * 1024);
    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(log.starts_with('{') && log.contains("work_mem"), "{log}");
}

#[test]
fn settings_of_the_file_are_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(dir.path(), "[settings]\nwork_mem = \"5MB\"\n");
    let server = Server::start_with(None, |command| command.arg("--config").arg(&path));
    assert_eq!(setting(&server, "work_mem"), 5 * 1024);
    file(dir.path(), "[settings]\nwork_mem = \"7MB\"\n");
    let mut session = PgSession::connect(&server.url()).expect("a session");
    session.script("SELECT pg_reload_conf()").expect("it runs");
    assert_eq!(setting(&server, "work_mem"), 7 * 1024);
    // An invalid file changes no setting.
    file(dir.path(), "[settings\n");
    signal(&server, "HUP");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(setting(&server, "work_mem"), 7 * 1024);
}
