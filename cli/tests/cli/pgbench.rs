//! pgbench against the real program: every built-in script in every protocol mode, pipelines, and
//! kill -9 under TPC-B load. Without pgbench the tests report that they are skipped, and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Server, assert_clean, crash_rounds, said, tool};
use fencepost_benchmarks::sql::{PgSession, SqlSession};
use fencepost_fabric::random::Random;

const CLIENTS: i64 = 4;

fn number(server: &Server, sql: &str) -> i64 {
    let mut session = PgSession::connect(&server.url()).expect("a session");
    let session: &mut dyn SqlSession = &mut session;
    session.number(sql).expect("a number")
}

/// Checks the sums that TPC-B keeps equal.
fn assert_sums_agree(server: &Server) {
    let sums = [
        "SELECT CAST(coalesce(sum(abalance), 0) AS bigint) FROM pgbench_accounts",
        "SELECT CAST(coalesce(sum(tbalance), 0) AS bigint) FROM pgbench_tellers",
        "SELECT CAST(coalesce(sum(bbalance), 0) AS bigint) FROM pgbench_branches",
        "SELECT CAST(coalesce(sum(delta), 0) AS bigint) FROM pgbench_history",
    ]
    .map(|sql| number(server, sql));
    assert!(
        sums.iter().all(|sum| *sum == sums[0]),
        "accounts, tellers, branches, history: {sums:?}"
    );
}

fn history(server: &Server) -> i64 {
    number(server, "SELECT count(*) FROM pgbench_history")
}

fn pgbench(server: &Server, pgbench: &Path, arguments: &[&str]) -> String {
    let output = server
        .tool(pgbench)
        .args(arguments)
        .arg("postgres")
        .output()
        .expect("pgbench runs");
    let said = said(&output);
    assert!(output.status.success(), "pgbench {arguments:?}: {said}");
    said
}

/// Returns the number that follows `label` in pgbench's output.
fn after(said: &str, label: &str) -> Option<i64> {
    let rest = said.split(label).nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn initialized(pgbench_tool: &Path, dir: Option<&Path>) -> Server {
    let server = Server::start(dir);
    pgbench(&server, pgbench_tool, &["-i", "-q", "-s", "1"]);
    server
}

#[test]
fn every_script_runs_in_every_mode_without_errors_and_tpcb_balances() {
    let Some(tool) = tool("pgbench", "pgbench scripts") else {
        return;
    };
    let server = initialized(&tool, None);
    assert_eq!(
        number(&server, "SELECT count(*) FROM pgbench_accounts"),
        100_000
    );
    let run = |mode: &str, script: &str| {
        let arguments = [
            "-n", "-M", mode, "-b", script, "-c", "4", "-j", "2", "-t", "50",
        ];
        let said = pgbench(&server, &tool, &arguments);
        assert_eq!(
            after(&said, "number of failed transactions: "),
            Some(0),
            "{said}"
        );
        assert_eq!(after(&said, "actually processed: "), Some(200), "{said}");
    };
    let modes = ["simple", "extended", "prepared"];
    for mode in modes {
        run(mode, "select-only");
        run(mode, "tpcb-like");
    }
    assert_eq!(history(&server), 600);
    assert_sums_agree(&server);
    // These scripts change accounts and history only.
    for mode in modes {
        run(mode, "simple-update");
    }
    assert_eq!(history(&server), 1200);
}

#[test]
fn pipelined_scripts_run() {
    let Some(tool) = tool("pgbench", "pgbench pipelines") else {
        return;
    };
    let server = initialized(&tool, None);
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("pipeline.sql");
    let statement = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
    let text = format!(
        "\\set aid random(1, 100000)\n\\startpipeline\n{}\\endpipeline\n",
        statement.repeat(16)
    );
    std::fs::write(&script, text).expect("a script");
    let script = script.to_str().expect("a path in UTF-8");
    for mode in ["extended", "prepared"] {
        let said = pgbench(
            &server,
            &tool,
            &["-n", "-M", mode, "-f", script, "-c", "4", "-t", "50"],
        );
        assert_eq!(
            after(&said, "number of failed transactions: "),
            Some(0),
            "{said}"
        );
    }
}

/// Runs TPC-B until the server is killed; returns the number of acknowledged transactions.
fn load_and_kill(server: Server, tool: &Path, time: Duration) -> i64 {
    let mut load: Command = server.tool(tool);
    load.args([
        "-n",
        "-M",
        "prepared",
        "-c",
        &CLIENTS.to_string(),
        "-j",
        "2",
        "-T",
        "60",
    ]);
    let load = load
        .arg("postgres")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let load = load.expect("pgbench starts");
    thread::sleep(time);
    server.kill();
    let said = said(&load.wait_with_output().expect("pgbench ends"));
    // If the server is killed before the clients have connected, pgbench reports no number.
    after(&said, "actually processed: ").unwrap_or(0)
}

#[test]
fn kill_9_under_tpcb_load_loses_nothing_acknowledged() {
    let Some(tool) = tool("pgbench", "kill -9 under TPC-B load") else {
        return;
    };
    let tool: PathBuf = tool;
    let dir = tempfile::tempdir().expect("a directory");
    initialized(&tool, Some(dir.path())).kill();
    let mut random = Random::new(3);
    let mut known = 0;
    for round in 0..crash_rounds() {
        let server = Server::start(Some(dir.path()));
        let time = Duration::from_millis(100 + random.below(900));
        let acknowledged = load_and_kill(server, &tool, time);
        if round % 2 == 0 {
            assert_clean(dir.path());
        }
        let server = Server::start(Some(dir.path()));
        assert_sums_agree(&server);
        let found = history(&server);
        let range = known + acknowledged..=known + acknowledged + CLIENTS;
        assert!(
            range.contains(&found),
            "{found} transactions in the history, not {range:?}"
        );
        known = found;
        server.kill();
        assert_clean(dir.path());
    }
    assert!(known > 0, "some transactions were acknowledged");
}
