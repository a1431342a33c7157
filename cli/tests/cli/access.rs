//! Clients' access: the first password of the superuser, and the same options for a dev-cluster.

use std::path::{Path, PathBuf};
use std::process::Output;

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::dev_cluster::{DevCluster, MACHINES, signal};
use crate::common::{Server, program, said};

const VARIABLE: &str = "FENCEPOST_SUPERUSER_PASSWORD";
const PASSWORD: &str = "correct horse";

/// Opens a session with `password`; returns the reason if that fails.
fn log_in(url: &str, password: &str) -> Result<PgSession, String> {
    let url = format!("{url} password='{password}'");
    PgSession::connect(&url).map_err(|error| error.to_string())
}

#[track_caller]
fn takes_only_the_password(url: &str) {
    let mut session = log_in(url, PASSWORD).expect("it is the password");
    let session: &mut dyn SqlSession = &mut session;
    assert_eq!(session.number("SELECT 7::bigint").expect("a number"), 7);
    assert!(log_in(url, "wrong").is_err());
    assert!(PgSession::connect(url).is_err(), "no password");
}

fn password_file(dir: &Path) -> PathBuf {
    let file = dir.join("password");
    std::fs::write(&file, format!("{PASSWORD}\nsecond line\n")).expect("written");
    file
}

#[test]
fn scram_without_a_first_password_does_not_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = |more: &[&str], password: &str| -> Output {
        let mut command = program(&["start", "--listen", "127.0.0.1:0", "--auth", "scram"]);
        command.args(["--region-size", "64M"]).args(more);
        command.env(VARIABLE, password).output().expect("it runs")
    };
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let empty = dir.path().join("empty").to_string_lossy().into_owned();
    std::fs::write(&empty, "\nsecond line").expect("written");
    for (more, text) in [
        (
            &[][..],
            "HINT: pass --superuser-password-file FILE, or set FENCEPOST_SUPERUSER_PASSWORD",
        ),
        (
            &["--data-dir", &data],
            "a new database with --auth scram needs a password",
        ),
        (&["--superuser-password-file", &empty], "is empty"),
        (
            &["--superuser-password-file", "/nonexistent"],
            "/nonexistent: ",
        ),
    ] {
        let output = start(more, "");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(text), "{}", said(&output));
    }
    // The refused start has left no files that a later start could take for a database.
    let scram = ["--auth", "scram"];
    let server = Server::start_with(Some(Path::new(&data)), |command| {
        command.args(scram).env(VARIABLE, PASSWORD)
    });
    takes_only_the_password(&server.url());
    assert!(server.terminate());
    // The database keeps its password.
    let server = Server::start_with(Some(Path::new(&data)), |command| {
        command.args(scram).env(VARIABLE, "another")
    });
    takes_only_the_password(&server.url());
}

#[test]
fn password_file_is_preferred_to_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = password_file(dir.path());
    let server = Server::start_with(None, |command| {
        command.args(["--auth", "scram", "--superuser-password-file"]);
        command.arg(&file).env(VARIABLE, "another")
    });
    takes_only_the_password(&server.url());
}

#[test]
fn dev_cluster_passes_passwords_and_tls_on() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pgserver/tests/fixtures");
    let shared = tempfile::tempdir().expect("a directory");
    let cluster = DevCluster::start_as(shared.path(), "shm", |command| {
        command.args(["--auth", "scram", "--tls-required", "--tls-cert"]);
        command.arg(fixtures.join("localhost.crt")).arg("--tls-key");
        command.arg(fixtures.join("localhost.key"));
        command.env(VARIABLE, PASSWORD)
    });
    for machine in 0..MACHINES {
        takes_only_the_password(&cluster.url(machine));
        assert!(offers_tls(&cluster.url(machine)));
    }
    for machine in cluster.machines() {
        let arguments = std::fs::read(Path::new("/proc").join(machine).join("cmdline"));
        let arguments = String::from_utf8_lossy(&arguments.expect("it runs")).into_owned();
        assert!(!arguments.contains("horse"), "{arguments}");
    }
    let mut cluster = cluster;
    signal("-INT", &cluster.child.id().to_string());
    assert!(cluster.ended());
}

/// Returns whether a server accepts an SSLRequest.
fn offers_tls(url: &str) -> bool {
    use std::io::{Read, Write};
    let port = url.split(' ').find_map(|part| part.strip_prefix("port="));
    let address = format!("127.0.0.1:{}", port.expect("a port"));
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    let request = [8_u32.to_be_bytes(), 80_877_103_u32.to_be_bytes()].concat();
    stream.write_all(&request).expect("written");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    answer == *b"S"
}

#[test]
fn dev_cluster_with_scram_needs_a_first_password() {
    let shared = tempfile::tempdir().expect("a directory");
    let output = program(&["dev-cluster", "--machines", "1", "--auth", "scram"])
        .args([
            "--listen",
            "127.0.0.1:23456",
            "--memory-limit",
            "64M",
            "--directory",
        ])
        .arg(shared.path())
        .env_remove(VARIABLE)
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let text = "HINT: pass --superuser-password-file";
    assert!(said(&output).contains(text), "{}", said(&output));
}
