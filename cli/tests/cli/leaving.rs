//! Machines leave in good order and come back, one after the other, while clients are active: a
//! rolling restart.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::{program, said};

/// Long enough for a host that is busy with other tests.
const LEASE_MS: &str = "5000";
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The number of clients, and of accounts between which they make transfers.
const CLIENTS: usize = 3;
const ACCOUNTS: usize = 20;

/// A `fencepost start` process; dropping it kills it.
struct StartProcess {
    child: Child,
    url: String,
}

impl StartProcess {
    /// Starts a machine with the arguments of `who`, and waits until it is ready.
    fn start(directory: &Path, who: &[&str]) -> StartProcess {
        StartProcess::begin(directory, who).ready()
    }

    /// Starts machines with these arguments, which wait for each other.
    fn start_all<const N: usize>(directory: &Path, all: [&[&str]; N]) -> Vec<StartProcess> {
        let begun = all.map(|who| StartProcess::begin(directory, who));
        begun.into_iter().map(Beginning::ready).collect()
    }

    fn begin(directory: &Path, who: &[&str]) -> Beginning {
        let mut command = program(&["start", "--listen", "127.0.0.1:0", "--machines", "3"]);
        command.args(["--memory-limit", "64M", "--replicas", "2"]);
        command.args(["--lease-ms", LEASE_MS, "--cluster"]);
        command.arg(directory).args(who).stdout(Stdio::piped());
        Beginning(command.spawn().expect("the program starts"))
    }

    /// Waits for the end of the process; returns whether it succeeded.
    fn ended(&mut self) -> bool {
        let began = Instant::now();
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return status.success(),
                None => assert!(began.elapsed() < TIME_LIMIT, "it goes on"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for StartProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A machine that is not ready yet.
struct Beginning(Child);

impl Beginning {
    fn ready(mut self) -> StartProcess {
        let stdout = self.0.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let address = line.split(" ready on ").nth(1);
        let address = address.and_then(|rest| rest.split(' ').next());
        let port = address.and_then(|address| address.rsplit(':').next());
        let port = port.unwrap_or_else(|| panic!("no ready line but {line:?}"));
        // The output is read to its end, so that the process does not block on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let url = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        StartProcess { child: self.0, url }
    }
}

/// Runs a command about a machine to its end.
fn command(name: &str, machine: usize, url: &str) {
    let number = machine.to_string();
    let output = program(&[name, &number, "--url", url]).output();
    let output = output.expect("it runs");
    assert!(
        output.status.success(),
        "{name} {machine}: {}",
        said(&output)
    );
}

/// The URLs of the machines, those that have run longest first.
type Urls = Arc<Mutex<Vec<String>>>;

/// Runs a client that makes transfers until it is stopped; returns their number.
fn work(client: usize, urls: &Urls, stop: &AtomicBool) -> i64 {
    let mut moved = 0;
    let connect = |round: usize| {
        let began = Instant::now();
        for at in round.. {
            let all = urls.lock().expect("no thread panics").clone();
            // A leaving machine accepts no new sessions.
            if let Ok(session) = PgSession::connect(&all[at % all.len()]) {
                return (session, at);
            }
            assert!(began.elapsed() < TIME_LIMIT, "no machine accepts clients");
            std::thread::sleep(Duration::from_millis(20));
        }
        unreachable!("rounds do not end")
    };
    let (mut session, mut at) = connect(client);
    let mut draw = client as u64 + 1;
    while !stop.load(Ordering::Relaxed) {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let from = (draw >> 33) as usize % ACCOUNTS;
        let to = (from + 1 + (draw >> 20) as usize % (ACCOUNTS - 1)) % ACCOUNTS;
        let statement = format!(
            "UPDATE accounts SET balance = balance + \
             CASE a WHEN {from} THEN -1 WHEN {to} THEN 1 ELSE 1 END \
             WHERE a IN ({from}, {to}, {})",
            ACCOUNTS + client
        );
        match session.script(&statement) {
            Ok(()) => moved += 1,
            // The session has ended and its transaction was aborted.
            Err(error) if error.is_connection_lost() => (session, at) = connect(at + 1),
            Err(error) => panic!("client {client}: {error}"),
        }
    }
    moved
}

#[test]
fn machines_are_restarted_one_after_the_other_and_no_transaction_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let three: [&[&str]; 3] = [
        &["--machine", "1"],
        &["--machine", "2"],
        &["--machine", "3"],
    ];
    let mut machines = StartProcess::start_all(directory.path(), three);
    let mut first = PgSession::connect(&machines[0].url).expect("a session");
    for statement in [
        "CREATE TABLE accounts (a int PRIMARY KEY, balance int)".to_owned(),
        format!(
            "INSERT INTO accounts SELECT g, 0 FROM generate_series(0, {}) g",
            ACCOUNTS + CLIENTS - 1
        ),
    ] {
        first.script(&statement).expect("it is made");
    }
    // A machine that has regions, or is not a member, is not removed. A machine is not drained if
    // too few would remain.
    let refused = first.script("ALTER SYSTEM REMOVE MACHINE 2");
    assert_eq!(refused.expect_err("it is not drained").sqlstate, "55000");
    let refused = first.script("ALTER SYSTEM DRAIN MACHINE 9");
    assert_eq!(refused.expect_err("it is not there").sqlstate, "22023");
    drop(first);
    let urls: Urls = Arc::new(Mutex::new(machines.iter().map(|m| m.url.clone()).collect()));
    let stop = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|client| {
        let (urls, stop) = (Arc::clone(&urls), Arc::clone(&stop));
        std::thread::spawn(move || work(client, &urls, &stop))
    });
    let clients: Vec<_> = clients.collect();
    for number in 1..=3 {
        let through = urls.lock().expect("no thread panics")[1].clone();
        command("drain", number, &through);
        command("remove", number, &through);
        assert!(machines[0].ended(), "machine {number} ends well");
        let again = format!("again-{number}");
        let machine = StartProcess::start(directory.path(), &["--joining", &again]);
        let mut urls = urls.lock().expect("no thread panics");
        urls.remove(0);
        urls.push(machine.url.clone());
        drop(urls);
        machines.remove(0);
        machines.push(machine);
    }
    stop.store(true, Ordering::Relaxed);
    let moved = clients.into_iter().map(|client| client.join());
    let moved: Vec<i64> = moved
        .map(|moved| moved.expect("no client failed"))
        .collect();
    assert!(moved.iter().all(|moved| *moved > 0), "{moved:?}");
    let mut last = PgSession::connect(&machines[2].url).expect("a session");
    let session: &mut dyn SqlSession = &mut last;
    let sum = format!("SELECT sum(balance) FROM accounts WHERE a < {ACCOUNTS}");
    assert_eq!(session.number(&sum).expect("a sum"), 0);
    for (client, moved) in moved.iter().enumerate() {
        let done = format!(
            "SELECT balance FROM accounts WHERE a = {}",
            ACCOUNTS + client
        );
        let done = session.number(&done).expect("a number");
        assert_eq!(done, *moved, "client {client} was told of all it did");
    }
    // One machine never left, and two are enough for two replicas; without another one there would
    // be too few.
    let members = "SELECT count(*) FROM pg_fencepost_machines WHERE state = 'member'";
    assert_eq!(session.number(members).expect("a number"), 3);
}

/// Machines with retained memory leave and join as others do. The final members start again with
/// their data.
#[test]
fn nvram_machines_leave_and_join() {
    const NVRAM: [&str; 2] = ["--durability", "nvram"];
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let called = |who: [&'static str; 2]| [&NVRAM[..], &who].concat();
    let three = ["1", "2", "3"].map(|number| called(["--machine", number]));
    let mut machines = StartProcess::start_all(path, [&three[0], &three[1], &three[2]]);
    let mut session = PgSession::connect(&machines[1].url).expect("a session");
    for statement in [
        "CREATE TABLE t (a int PRIMARY KEY, b text)",
        "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 2000) g",
    ] {
        session.script(statement).expect("it is made");
    }
    let joining = called(["--joining", "another"]);
    machines.push(StartProcess::start(path, &joining));
    command("drain", 1, &machines[1].url);
    command("remove", 1, &machines[1].url);
    let mut left = machines.remove(0);
    assert!(left.ended(), "it ends well");
    session
        .script("INSERT INTO t SELECT g, 'y' FROM generate_series(2001, 3000) g")
        .expect("rows");
    drop(session);
    for round in 0..2 {
        // Dropping the machines kills them with kill -9.
        machines.clear();
        machines = StartProcess::start_all(path, [&joining, &three[1], &three[2]]);
        for machine in &machines {
            let mut session = PgSession::connect(&machine.url).expect("a session");
            let session: &mut dyn SqlSession = &mut session;
            let number = |session: &mut dyn SqlSession, query: &str| session.number(query).ok();
            let rows = number(session, "SELECT count(*) FROM t");
            assert_eq!(rows, Some(3000 + round));
            let there = number(session, "SELECT count(*) FROM pg_fencepost_machines");
            assert_eq!(there, Some(3));
        }
        let mut session = PgSession::connect(&machines[0].url).expect("a session");
        let row = format!("INSERT INTO t VALUES ({}, 'z')", 5000 + round);
        session.script(&row).expect("a row");
    }
    // The first machine comes back like a machine that was never a member.
    machines.push(StartProcess::start(path, &three[0]));
    let mut session = PgSession::connect(&machines[3].url).expect("a session");
    let session: &mut dyn SqlSession = &mut session;
    assert_eq!(session.number("SELECT count(*) FROM t").ok(), Some(3002));
}
