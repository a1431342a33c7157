//! The configuration stores of machines of a network, by kind: faults of the stores while machines
//! serve and fail, and refused outsiders.

mod group;
mod zookeeper;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{Cell, PgSession, SqlSession};

use crate::common::doomed::ShortLivedProgram;
use crate::common::{ClientStopGuard, free_port, insist, program};

const TIME_LIMIT: Duration = Duration::from_secs(90);
/// Long enough for a host that is busy with other tests.
const LEASE: [&str; 4] = ["--replicas", "2", "--lease-ms", "2000"];
const ACCOUNTS: i64 = 20;
const OPENING: i64 = 1000;
const MACHINES: &str = "SELECT count(*) FROM pg_fencepost_machines";

/// Opens a session with a machine that may not be ready yet.
pub fn session(url: &str) -> PgSession {
    insist("a session", || {
        let mut session = PgSession::connect(url).map_err(|error| error.to_string())?;
        let limit = session.script("SET statement_timeout = '30s'");
        limit.map_err(|error| error.to_string()).map(|()| session)
    })
}

/// Waits until a query returns this number.
pub fn becomes(url: &str, query: &str, expected: i64) {
    let began = Instant::now();
    loop {
        let session: &mut dyn SqlSession = &mut session(url);
        let answer = session.number(query);
        if answer.as_ref().ok() == Some(&expected) {
            return;
        }
        assert!(began.elapsed() < TIME_LIMIT, "{query}: {answer:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Runs transfers until it is stopped; counts and returns the acknowledged ones.
fn move_money(url: &str, first: i64, stop: &AtomicBool, done: &AtomicU64) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut bank = session(url);
    for id in first.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (from, to) = (id % ACCOUNTS, (id + 1 + id / 7 % (ACCOUNTS - 1)) % ACCOUNTS);
        let moved = format!(
            "BEGIN; UPDATE account SET balance = balance - 1 WHERE id = {from}; \
             UPDATE account SET balance = balance + 1 WHERE id = {to}; \
             INSERT INTO transfer VALUES ({id}); COMMIT"
        );
        match bank.script(&moved) {
            Ok(()) => {
                acknowledged.push(id);
                done.fetch_add(1, Ordering::Relaxed);
            }
            // The final check decides about transfers with an unknown outcome.
            Err(_) => {
                if bank.script("ROLLBACK").is_err() {
                    bank = session(url);
                }
            }
        }
    }
    acknowledged
}

/// The running clients of some machines.
pub struct Load<'a> {
    done: &'a [AtomicU64; 2],
}

impl Load<'_> {
    /// Waits until each client has completed 20 more transfers.
    pub fn goes_on(&self) {
        for done in self.done {
            let before = done.load(Ordering::Relaxed);
            let began = Instant::now();
            while done.load(Ordering::Relaxed) < before + 20 {
                assert!(began.elapsed() < TIME_LIMIT, "a client stands still");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Runs transfers on two machines during `happens`; then checks the total and all acknowledged
/// transfers.
pub fn under_load(urls: [&str; 2], happens: impl FnOnce(Load<'_>)) {
    let mut first = session(urls[0]);
    first
        .script(
            "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
             CREATE TABLE transfer (id bigint PRIMARY KEY)",
        )
        .expect("tables");
    let last = ACCOUNTS - 1;
    let accounts =
        format!("INSERT INTO account SELECT g, {OPENING} FROM generate_series(0, {last}) g");
    first.script(&accounts).expect("rows");
    let stop = AtomicBool::new(false);
    let done = [AtomicU64::new(0), AtomicU64::new(0)];
    let acknowledged: Vec<i64> = thread::scope(|scope| {
        let clients = urls.into_iter().zip(&done).enumerate();
        let clients: Vec<_> = clients
            .map(|(at, (url, done))| {
                let (first, stop) = ((at as i64) << 32, &stop);
                scope.spawn(move || move_money(url, first, stop, done))
            })
            .collect();
        let ends = ClientStopGuard(&stop);
        happens(Load { done: &done });
        drop(ends);
        let all = clients
            .into_iter()
            .map(|client| client.join().expect("a client ends"));
        all.flatten().collect()
    });
    for url in urls {
        let total = ACCOUNTS * OPENING;
        becomes(url, "SELECT sum(balance)::bigint FROM account", total);
        let session: &mut dyn SqlSession = &mut session(url);
        let all = session.prepare("SELECT id FROM transfer").expect("a plan");
        let all = session.query(all, &[]).expect("rows");
        let there: BTreeSet<i64> = all.iter().map(|row| number(&row[0])).collect();
        let lost = acknowledged.iter().find(|id| !there.contains(id));
        assert_eq!(lost, None, "acknowledged, and gone");
    }
}

fn number(cell: &Cell) -> i64 {
    match cell {
        Cell::Int(number) => *number,
        cell => panic!("not a number: {cell:?}"),
    }
}

/// A machine that the test has started; dropping it kills the machine.
pub struct MachineProcess(Child);

impl MachineProcess {
    pub fn start(arguments: &[&str]) -> MachineProcess {
        let child = program(arguments).stdout(Stdio::piped()).spawn();
        MachineProcess(child.expect("the program starts"))
    }

    /// Waits until the machine is ready; returns the URL for clients.
    pub fn url(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.split(" ready on ").nth(1);
        let address = address.and_then(|rest| rest.split(' ').next());
        let port = address.and_then(|address| address.rsplit(':').next());
        let port = port.unwrap_or_else(|| panic!("no ready line but {line:?}"));
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres")
    }
}

impl Drop for MachineProcess {
    fn drop(&mut self) {
        // The machine may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The parameters of one of two machines.
pub struct MachineParameters<'a> {
    pub addresses: &'a str,
    pub secret: &'a str,
    pub store: &'a str,
}

impl<'a> MachineParameters<'a> {
    pub fn arguments(&self, who: [&'a str; 2]) -> Vec<&'a str> {
        let start = ["start", "--listen", "127.0.0.1:0", "--memory-limit", "64M"];
        let store = [
            "--configuration-store",
            self.store,
            "--join",
            self.addresses,
        ];
        let secret = ["--workers", "1", "--cluster-secret", self.secret];
        [&start[..], &LEASE, &store, &secret, &who].concat()
    }

    pub fn start(&self, who: [&'a str; 2]) -> MachineProcess {
        MachineProcess::start(&self.arguments(who))
    }

    pub fn fails(&self, who: [&'a str; 2]) -> ShortLivedProgram {
        ShortLivedProgram::start(&self.arguments(who))
    }
}

/// Creates two files with secrets, in a directory.
pub fn secrets() -> (tempfile::TempDir, [String; 2]) {
    let directory = tempfile::tempdir().expect("a directory");
    let files = ["ours", "theirs"].map(|name| {
        let file = directory.path().join(name);
        std::fs::write(&file, format!("{name}: known to one cluster")).expect("is written");
        file.to_str().expect("a path").to_owned()
    });
    (directory, files)
}

pub fn address(host: &str) -> String {
    format!("{host}:{}", free_port(host))
}

pub const FIRST: [&str; 2] = ["--machine", "1"];
pub const SECOND: [&str; 2] = ["--machine", "2"];
