//! Backups: a consistent snapshot of a database under load, and only intact backups are restored.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fencepost_benchmarks::sql::{Cell, PgSession, Rows, SqlSession};

use crate::common::{Server, program, said};

const ACCOUNTS: i64 = 200;
const TABLES: &str = r#"
    CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL) PARTITION BY HASH (id) WITH (partitions = 4);
    CREATE TABLE history (account bigint NOT NULL, at timestamp(3) DEFAULT now(), what text)
        PARTITION BY HASH (account) WITH (colocate_with = accounts);
    CREATE TABLE "Odd ""names""" (
        "select" varchar(20) NOT NULL DEFAULT 'it''s', b numeric(9,2), "C" char(3), d bytea, e double precision,
        CONSTRAINT "both of them" UNIQUE ("select", b), PRIMARY KEY ("C", "select")
    ) WITH (index = hash);
    CREATE TABLE empty (a integer UNIQUE);
    CREATE INDEX ON history (account, at DESC NULLS LAST);
    CREATE UNIQUE INDEX "an index" ON "Odd ""names""" USING hash (b);
    INSERT INTO accounts SELECT g, 100 FROM generate_series(1, 200) g;
    INSERT INTO "Odd ""names""" VALUES
        (E'tab\tend\nback\\slash', 1.50, 'x', '\x00ff', 0.1), ('', NULL, 'yy', NULL, 'NaN'), ('\N', 2, 'zzz', '', '-0');
"#;

/// A script that creates an object of every kind.
const EVERYTHING: &str = include_str!("backup.sql");

fn session(server: &Server) -> PgSession {
    PgSession::connect(&server.url()).expect("a session")
}

fn rows(server: &Server, sql: &str) -> Rows {
    let mut session = session(server);
    let statement = session.prepare(sql).expect("it is right");
    session.query(statement, &[]).expect("it is answered")
}

fn run(command: &str, dir: &Path, more: &[&str]) -> Output {
    let mut command = program(&[command]);
    command.arg(dir).args(more);
    command.output().expect("it runs")
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

fn refused(output: &Output, why: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    assert!(stderr.contains(why), "{why}: {}", said(output));
}

/// Returns the accounts of a transfer in a round.
fn accounts(round: i64) -> (i64, i64) {
    (round % ACCOUNTS + 1, (round * 7 + 3) % ACCOUNTS + 1)
}

/// Runs transfers, each recorded in the history, until `stop`.
fn transfer(server: &Server, stop: &AtomicBool, moves: &AtomicU64) {
    let mut session = session(server);
    for round in 0i64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (from, to) = accounts(round);
        let sql = format!(
            "BEGIN; UPDATE accounts SET balance = balance - 1 WHERE id = {from};
             UPDATE accounts SET balance = balance + 1 WHERE id = {to};
             INSERT INTO history (account, what) VALUES ({from}, 'line {round}\nnext'); COMMIT"
        );
        session.script(&sql).expect("no other session writes");
        moves.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn backup_is_one_snapshot_and_restores_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let backup = dir.path().join("backup");
    let server = Server::start(None);
    session(&server).script(TABLES).expect("they are made");
    let (stop, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| transfer(&server, &stop, &moves));
        while moves.load(Ordering::Relaxed) < 20 {
            thread::yield_now();
        }
        let taken = run("backup", &backup, &["--url", &server.url()]);
        stop.store(true, Ordering::Relaxed);
        done(&taken);
    });
    done(&run("restore", &backup, &["--verify"]));
    let again = Server::start(None);
    done(&run("restore", &backup, &["--url", &again.url()]));
    let ddl = "SELECT kind, schema_name, name, statement FROM pg_fencepost_ddl
        WHERE kind NOT IN ('about') ORDER BY position";
    assert_eq!(rows(&server, ddl), rows(&again, ddl));
    assert_eq!(rows(&again, ddl).len(), 6);
    let odd =
        r#"SELECT "select", b::text, "C"::text, d::text, e::text FROM "Odd ""names""" ORDER BY b"#;
    assert_eq!(rows(&server, odd), rows(&again, odd));
    assert_eq!(rows(&again, odd).len(), 3);
    // Each transfer is there with both balances and its history row, or not at all.
    let total = "SELECT sum(balance)::bigint, count(*) FROM accounts";
    let whole = vec![vec![Cell::Int(100 * ACCOUNTS), Cell::Int(ACCOUNTS)]];
    assert_eq!(rows(&again, total), whole);
    let lines = "SELECT count(*) FROM history WHERE what LIKE E'line %\\nnext'";
    let session_again: &mut dyn SqlSession = &mut session(&again);
    let lines = session_again.number(lines).expect("a count");
    assert!(lines >= 20);
    let mut balances = vec![100; ACCOUNTS as usize];
    for (from, to) in (0..lines).map(accounts) {
        balances[from as usize - 1] -= 1;
        balances[to as usize - 1] += 1;
    }
    let balances: Rows = balances.into_iter().map(|of| vec![Cell::Int(of)]).collect();
    let found = rows(&again, "SELECT balance FROM accounts ORDER BY id");
    assert_eq!(found, balances);
    // The restored database accepts writes.
    session_again
        .script("INSERT INTO history (account) VALUES (7); UPDATE accounts SET balance = 0")
        .expect("it is written to");
}

#[test]
fn incomplete_backup_or_existing_objects_refuse_restore() {
    let dir = tempfile::tempdir().expect("a directory");
    let backup = dir.path().join("backup");
    let server = Server::start(None);
    session(&server).script(TABLES).expect("they are made");
    let url = server.url();
    done(&run("backup", &backup, &["--url", &url]));
    refused(
        &run("backup", &backup, &["--url", &url]),
        "is there already",
    );
    refused(
        &run("restore", &backup, &["--url", &url]),
        "nothing was restored",
    );
    let nowhere = dir.path().join("none").join("backup");
    refused(&run("backup", &nowhere, &["--url", &url]), "none");
    refused(&run("restore", &nowhere, &["--verify"]), "manifest");
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("there").collect();
    assert_eq!(left.len(), 1, "nothing is left of what failed: {left:?}");

    let again = Server::start(None);
    for file in ["0.copy", "2.copy", "manifest"] {
        let path = backup.join(file);
        let whole = std::fs::read(&path).expect("there");
        let (mut bent, mut torn) = (whole.clone(), whole.clone());
        bent[whole.len() / 2] ^= 1;
        torn.truncate(whole.len() - 1);
        for broken in [bent, torn] {
            std::fs::write(&path, broken).expect("written");
            refused(&run("restore", &backup, &["--verify"]), file);
            refused(&run("restore", &backup, &["--url", &again.url()]), file);
        }
        std::fs::remove_file(&path).expect("there");
        refused(&run("restore", &backup, &["--verify"]), file);
        std::fs::write(&path, whole).expect("written");
    }
    let ddl = "SELECT statement FROM pg_fencepost_ddl WHERE kind = 'table'";
    assert_eq!(rows(&again, ddl), Rows::new());
    done(&run("restore", &backup, &["--url", &again.url()]));
    assert_eq!(rows(&again, ddl), rows(&server, ddl));
}

/// Returns the output of a PostgreSQL program; `None` if the program is not installed.
fn written(program: &str, server: &Server, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let url = format!("--dbname={}", server.url());
    let output = command.arg(url).args(arguments).output().ok()?;
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Newer versions add lines with a random key.
    let lines = text.lines();
    let lines = lines.filter(|line| !line.contains("restrict "));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn all_objects_are_restored() {
    let dir = tempfile::tempdir().expect("a directory");
    let backup = dir.path().join("backup");
    let server = Server::start(None);
    session(&server).script(EVERYTHING).expect("it is made");
    done(&run("backup", &backup, &["--url", &server.url()]));
    let manifest = std::fs::read_to_string(backup.join("manifest")).expect("there");
    assert!(manifest.contains("SCRAM-SHA-256$") && !manifest.contains("hunter2"));
    let again = Server::start(None);
    done(&run("restore", &backup, &["--url", &again.url()]));
    let ddl = "SELECT kind, schema_name, name, statement FROM pg_fencepost_ddl ORDER BY 1, 2, 3, 4";
    assert_eq!(rows(&server, ddl), rows(&again, ddl));
    let dump = written("pg_dump", &server, &["--create"]);
    assert_eq!(dump, written("pg_dump", &again, &["--create"]));
    let dump = dump.unwrap_or_default();
    for kind in [
        "TRIGGER",
        "MATERIALIZED VIEW",
        "PROCEDURE",
        "DOMAIN",
        "DEFAULT PRIVILEGES",
    ] {
        assert!(dump.is_empty() || dump.contains(kind), "{kind}: {dump}");
    }
    let roles = written("pg_dumpall", &server, &["--roles-only"]);
    assert_eq!(roles, written("pg_dumpall", &again, &["--roles-only"]));
    // The restored objects work: triggers run, defaults apply, privileges hold.
    let script = "INSERT INTO app.author (name) VALUES ('new'); \
                  INSERT INTO app.book (author, price) VALUES (1, 5);
        SET ROLE reader; SELECT id FROM app.book; RESET ROLE";
    session(&again).script(script).expect("it goes on");
    let code = "SELECT code, (SELECT count(*) FROM app.touched) FROM app.author WHERE name = 'new'";
    let touched = rows(&server, "SELECT count(*) + 2 FROM app.touched");
    let found = rows(&again, code);
    assert_eq!(found[0][1..], touched[0]);
}

#[test]
fn existing_roles_are_unchanged_by_restore() {
    let dir = tempfile::tempdir().expect("a directory");
    let backup = dir.path().join("backup");
    let server = Server::start(None);
    let roles = "CREATE ROLE here LOGIN; CREATE ROLE more; GRANT more TO here; \
                 CREATE TABLE t (x int); GRANT SELECT ON t TO here";
    session(&server).script(roles).expect("they are made");
    done(&run("backup", &backup, &["--url", &server.url()]));
    let again = Server::start(None);
    session(&again)
        .script("CREATE ROLE here NOLOGIN")
        .expect("it is made");
    let restored = run("restore", &backup, &["--url", &again.url()]);
    done(&restored);
    let notices = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert_eq!(
        notices.matches("role \"here\" is there already").count(),
        1,
        "{notices}"
    );
    let login = "SELECT rolcanlogin::text, (SELECT count(*) FROM pg_auth_members) FROM pg_roles \
                 WHERE rolname = 'here'";
    assert_eq!(
        rows(&again, login),
        vec![vec![Cell::Text("false".into()), Cell::Int(0)]]
    );
    let allowed = "SELECT has_table_privilege('here', 't', 'SELECT')::text";
    assert_eq!(rows(&again, allowed), vec![vec![Cell::Text("true".into())]]);
}
