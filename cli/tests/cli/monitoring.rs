//! `--metrics-listen`: metrics, health and readiness over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Server, program, said};
use fencepost_benchmarks::sql::{PgSession, SqlSession};

/// Starts a server with metrics; returns their address.
fn monitored(dir: &Path) -> (Server, String) {
    let log = dir.join("log");
    let path = log.clone();
    let server = Server::start_with(Some(&dir.join("data")), |command| {
        command
            .args(["--metrics-listen", "0", "--log-file"])
            .arg(&path)
    });
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if let Some((_, rest)) = text.split_once("serving metrics on http://") {
            let address = rest.split('/').next().expect("an address");
            return (server, address.to_owned());
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the status and the body of an answer.
fn get(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    let request = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a line") > 0, "{head}");
    }
    let mut body = String::new();
    reader.read_to_string(&mut body).expect("a body");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body)
}

fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in:\n{text}"));
    value.trim().parse().expect("a number")
}

#[test]
fn statements_and_errors_are_in_the_metrics() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, address) = monitored(dir.path());
    let mut session = PgSession::connect(&server.url()).expect("a session");
    session
        .script("CREATE TABLE t (a int PRIMARY KEY, b int)")
        .expect("it runs");
    for a in 0..5 {
        let insert = format!("INSERT INTO t VALUES ({a}, 0)");
        session.script(&insert).expect("it runs");
    }
    session
        .script("INSERT INTO t VALUES (1, 0)")
        .expect_err("a duplicate");
    session
        .script("SELECT * FROM t; CHECKPOINT")
        .expect("it runs");
    let (status, text) = get(&address, "GET /metrics");
    assert_eq!(status, 200);
    for (name, expected) in [
        (
            "fencepost_statement_duration_seconds_count{kind=\"insert\"}",
            5.0,
        ),
        (
            "fencepost_statement_duration_seconds_count{kind=\"ddl\"}",
            1.0,
        ),
        (
            "fencepost_statement_duration_seconds_count{kind=\"select\"}",
            1.0,
        ),
        ("fencepost_errors_total{sqlstate=\"23505\"}", 1.0),
        ("fencepost_connections", 1.0),
        ("fencepost_has_lease", 1.0),
        ("fencepost_log_lines_dropped_total", 0.0),
        // This includes the row of the failed statement.
        (
            "fencepost_database_rows_total{database=\"postgres\",operation=\"inserted\"}",
            6.0,
        ),
    ] {
        assert_eq!(value(&text, &format!("{name} ")), expected, "{name}");
    }
    for name in [
        "fencepost_log_flushes_total ",
        "fencepost_checkpoint_bytes_total ",
        "fencepost_statement_duration_seconds_sum{kind=\"insert\"} ",
        "fencepost_memory_bytes{use=\"regions_and_versions\"} ",
        "process_resident_memory_bytes ",
    ] {
        assert!(value(&text, name) > 0.0, "{name}");
    }
}

#[test]
fn each_path_is_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, address) = monitored(dir.path());
    assert_eq!(get(&address, "GET /healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(&address, "GET /readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get(&address, "GET /other").0, 404);
    assert_eq!(get(&address, "POST /metrics").0, 405);
    assert!(server.terminate());
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn address_in_use_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_server, address) = monitored(dir.path());
    let output = program(&[
        "start",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        &address,
    ])
    .output()
    .expect("it runs");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("could not listen on"), "{text}");
}

/// Returns the names of metrics in a text: words with the prefixes of metrics.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    let ours = words.filter(|word| word.starts_with("fencepost_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn dashboard_uses_existing_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/grafana/fencepost.json");
    let text = std::fs::read_to_string(path).expect("a file");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("an object");
    let dir = tempfile::tempdir().expect("a directory");
    let (server, address) = monitored(dir.path());
    let mut session = PgSession::connect(&server.url()).expect("a session");
    session.script("SELECT 1").expect("it runs");
    session.script("SELECT 1/0").expect_err("it fails");
    let (_, metrics) = get(&address, "GET /metrics");
    // A single machine has no leases.
    let mut known = names(&metrics);
    known.insert("fencepost_leases_total".to_owned());
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions: Vec<&str> = targets
        .flatten()
        .map(|target| target["expr"].as_str().expect("an expression"))
        .collect();
    assert!(expressions.len() > 20, "{expressions:?}");
    for expression in expressions {
        for name in names(expression) {
            assert!(
                known.contains(&name),
                "{name} of {expression} in:\n{metrics}"
            );
        }
    }
}
