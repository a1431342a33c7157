//! PostgreSQL's own clients, if they are installed: psql and pgbench.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::common::server;
use fencepost_pgserver::{AuthMode, ListenOptions, Server, TlsOptions, listen};
use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

/// Runs a client program on `server`. Prints a message and returns `None` if it is not installed.
fn tool(server: &Server, name: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(name);
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p"]);
    command
        .arg(server.local_addr().port().to_string())
        .args(arguments)
        .arg("postgres");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {name}: {error}");
            None
        }
    }
}

fn succeeded(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

#[test]
fn psql_sets_passwords_that_the_server_checks() {
    let database = fencepost::Database::in_memory().expect("a database");
    database
        .blocking()
        .batch("CREATE USER \"Ann\"")
        .expect("a role");
    let open = listen(&database, "127.0.0.1:0").expect("a free port");
    let guarded = ListenOptions {
        auth: AuthMode::Scram,
        ..ListenOptions::new("127.0.0.1:0")
    };
    let guarded = listen(&database, guarded).expect("a free port");
    // Without a terminal \\password reads its standard input.
    let mut command = Command::new("setsid");
    command.args(["--wait", "psql", "-X", "-h", "127.0.0.1", "-U", "postgres"]);
    command.args(["-p", &open.local_addr().port().to_string()]);
    command.args(["-c", "\\password \"Ann\"", "postgres"]);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return eprintln!("skipped: setsid: {error}"),
    };
    let mut answers = child.stdin.take().expect("a pipe");
    answers
        .write_all(b"pass word\npass word\n")
        .expect("psql reads");
    drop(answers);
    let output = child.wait_with_output().expect("psql ends");
    if output.status.code() == Some(127) {
        return eprintln!("skipped: psql is not installed");
    }
    succeeded(&output);
    for (password, right) in [("pass word", true), ("password", false)] {
        let mut command = Command::new("psql");
        command.env("PGPASSWORD", password);
        command.args(["-X", "-w", "-h", "127.0.0.1", "-U", "Ann", "-c", "SELECT 1"]);
        command.args(["-p", &guarded.local_addr().port().to_string(), "postgres"]);
        let output = command.output().expect("psql is there");
        assert_eq!(output.status.success(), right, "{output:?}");
    }
}

/// Starts a server that requires passwords, with a certificate that is signed with `algorithm`.
fn server_signed_with(algorithm: &'static SignatureAlgorithm) -> Server {
    let database = fencepost::Database::in_memory().expect("a database");
    let password = "ALTER ROLE postgres PASSWORD 'pass word'";
    database.blocking().batch(password).expect("a password");
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let (crt, pem) = (folder.path().join("crt"), folder.path().join("key"));
    std::fs::write(&crt, certificate.pem()).expect("written");
    std::fs::write(&pem, key.serialize_pem()).expect("written");
    let options = ListenOptions {
        auth: AuthMode::Scram,
        tls: Some(TlsOptions {
            certificate: crt,
            key: pem,
            client_ca: None,
            required: false,
        }),
        ..ListenOptions::new("127.0.0.1:0")
    };
    listen(&database, options).expect("a free port")
}

#[test]
fn psql_binds_a_password_to_the_certificate() {
    for (algorithm, can_bind) in [
        (&rcgen::PKCS_ECDSA_P256_SHA256, true),
        (&rcgen::PKCS_ECDSA_P384_SHA384, true),
        (&rcgen::PKCS_ED25519, false),
    ] {
        let server = server_signed_with(algorithm);
        for (ssl, binding, works) in [
            ("require", "require", can_bind),
            ("require", "prefer", true),
            ("require", "disable", true),
            ("disable", "prefer", true),
            ("disable", "require", false),
        ] {
            let mut command = Command::new("psql");
            command.env("PGPASSWORD", "pass word");
            command.args(["-X", "-w", "-c", "SELECT 1"]);
            command.arg(format!(
                "host=127.0.0.1 port={} user=postgres dbname=postgres sslmode={ssl} \
                 channel_binding={binding}",
                server.local_addr().port()
            ));
            let output = match command.output() {
                Ok(output) => output,
                Err(error) => return eprintln!("skipped: psql: {error}"),
            };
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), works, "{ssl} {binding}: {errors}");
        }
    }
}

#[test]
fn psql_shows_rows_and_errors() {
    let server = server();
    let script = "CREATE TABLE t (id int PRIMARY KEY, v text); \
                  INSERT INTO t VALUES (1, 'one'), (2, NULL); SELECT * FROM t ORDER BY id";
    let Some(output) = tool(&server, "psql", &["-X", "-A", "-t", "-c", script]) else {
        return;
    };
    assert_eq!(
        succeeded(&output).lines().rev().take(2).collect::<Vec<_>>(),
        ["2|", "1|one"]
    );
    let failed = [
        "-X",
        "-v",
        "VERBOSITY=verbose",
        "-c",
        "INSERT INTO t VALUES (1, 'again')",
    ];
    let Some(output) = tool(&server, "psql", &failed) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("23505") && text.contains("CONSTRAINT NAME:  t_pkey"),
        "{text}"
    );
}

#[test]
fn psql_copies() {
    let server = server();
    let script = "\\set ON_ERROR_STOP on\nCREATE TABLE t (id int PRIMARY KEY, v text);\n\
                  COPY t FROM STDIN;\n1\tone\n2\ttwo\n\\.\nCOPY t TO STDOUT;\n";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), script).expect("written");
    let path = file.path().display().to_string();
    let Some(output) = tool(&server, "psql", &["-X", "-q", "-f", &path]) else {
        return;
    };
    assert_eq!(succeeded(&output), "1\tone\n2\ttwo\n");
}

#[test]
fn pgbench_runs_in_every_mode() {
    let server = server();
    let Some(output) = tool(&server, "pgbench", &["-i", "-s", "1", "-q"]) else {
        return;
    };
    succeeded(&output);
    for mode in ["simple", "extended", "prepared"] {
        for script in ["-S", "-N", "-b tpcb-like"] {
            let mut arguments = vec!["-n", "-c", "4", "-t", "50", "-M", mode];
            arguments.extend(script.split(' '));
            let Some(output) = tool(&server, "pgbench", &arguments) else {
                return;
            };
            let text = succeeded(&output);
            assert!(
                text.contains("number of failed transactions: 0"),
                "{mode} {script}: {text}"
            );
        }
    }
    let totals = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
                  (SELECT sum(tbalance) FROM pgbench_tellers)";
    let sums: Vec<String> = ["pgbench_accounts.abalance", "pgbench_tellers.tbalance"]
        .iter()
        .filter_map(|column| {
            let (table, name) = column.split_once('.')?;
            let sql = format!("SELECT sum({name}) FROM {table}");
            let output = tool(&server, "psql", &["-X", "-A", "-t", "-c", &sql])?;
            Some(succeeded(&output))
        })
        .collect();
    assert_eq!(sums.len(), 2, "{totals}");
}

#[test]
fn pgbench_pipelines() {
    let server = server();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let script = format!(
        "\\startpipeline\n{}\\endpipeline\n",
        "SELECT 1;\n".repeat(16)
    );
    std::fs::write(file.path(), script).expect("written");
    let path = file.path().display().to_string();
    let arguments = ["-n", "-c", "2", "-t", "100", "-M", "prepared", "-f", &path];
    let Some(output) = tool(&server, "pgbench", &arguments) else {
        return;
    };
    succeeded(&output);
}
