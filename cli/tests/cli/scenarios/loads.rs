//! The loads during failures of machines, and their checks.
//!
//! A client that loses its server continues at another one. Acknowledged transactions must be
//! there; transactions with an unknown outcome may be there, completely.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_fabric::random::Random;
use fencepost_simulator::appends::check_appends;

use crate::common::{ClientStopGuard, insist, program};
use crate::crash_bank::{self, CLIENTS, Journal};
use crate::histories::client::{self, Notes, SharedState, settled};

/// The duration of load before the fault, once all clients are active, and after it.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(1);
/// The least number of transactions of each client by then.
const DEEDS: usize = 5;
/// The pause between two transactions of a client, so that histories stay short enough to be
/// checked.
const PAUSE: Duration = Duration::from_millis(5);

/// The load of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Transfers, each with its own row.
    Bank,
    /// Appends to lists, which must be strictly serializable.
    Lists,
    Tatp,
    Tpcc,
}

/// A process that is killed if the fault panics.
struct KillGuard(Child);

impl Drop for KillGuard {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Load {
    pub const ALL: [Load; 4] = [Load::Bank, Load::Lists, Load::Tatp, Load::Tpcc];

    /// Runs the load over `urls` during `fault`, which returns the URLs that serve clients after
    /// it. Returns a description of the check. A benchmark, which does not know the end of the
    /// fault, runs for `seconds`.
    pub fn run(self, urls: &[String], seconds: u32, fault: impl FnOnce() -> Vec<String>) -> String {
        match self {
            Load::Bank => bank(urls, fault),
            Load::Lists => lists(urls, fault),
            Load::Tatp => bench(&["tatp", "--rows", "300"], seconds, urls, fault),
            Load::Tpcc => bench(&["tpcc", "--small"], seconds, urls, fault),
        }
    }
}

/// The state that clients share with the threads that wait for them.
#[derive(Default)]
struct LoadProgress {
    stop: AtomicBool,
    /// The number of transactions of all clients together.
    deeds: AtomicUsize,
}

impl LoadProgress {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, deeds: usize) {
        self.deeds.fetch_add(deeds, Ordering::Relaxed);
    }

    /// Waits for `more` further transactions.
    fn await_more(&self, more: usize) {
        let wanted = self.deeds.load(Ordering::Relaxed) + more;
        insist("deeds of clients", || {
            let done = self.deeds.load(Ordering::Relaxed);
            if done >= wanted { Ok(()) } else { Err(done) }
        });
    }
}

/// Runs clients until the fault is over; each counts its transactions.
fn among<N: Send>(
    clients: usize,
    run: impl Fn(usize, &LoadProgress) -> N + Sync,
    fault: impl FnOnce() -> Vec<String>,
) -> (Vec<String>, Vec<N>) {
    let pace = LoadProgress::default();
    thread::scope(|scope| {
        let (run, pace) = (&run, &pace);
        let start = |number| scope.spawn(move || run(number, pace));
        let running: Vec<_> = (0..clients).map(start).collect();
        let ends = ClientStopGuard(&pace.stop);
        pace.await_more(clients * DEEDS);
        thread::sleep(BEFORE);
        let served = fault();
        pace.await_more(clients * DEEDS);
        thread::sleep(AFTER);
        drop(ends);
        let ended = running.into_iter().map(|client| client.join());
        (served, ended.map(|end| end.expect("a good end")).collect())
    })
}

fn bank(urls: &[String], fault: impl FnOnce() -> Vec<String>) -> String {
    crash_bank::create(&urls[0]);
    let run = |number: usize, pace: &LoadProgress| {
        let mut random = Random::new(number as u64);
        let mut journal = Journal::default();
        let mut connections = 0;
        let mut at = number;
        while pace.goes_on() {
            // The next server, if the last one is gone.
            let client = insist("a server", || {
                at += 1;
                crash_bank::Client::try_connect(&urls[at % urls.len()])
            });
            let first = ((number as i64) << 40) | (connections << 24);
            let own = client.run_and_tell(first, random.fork(), &pace.stop, &|| pace.count(1));
            journal.add(own);
            connections += 1;
        }
        (journal, connections)
    };
    let (served, journals) = among(CLIENTS as usize, run, fault);
    let mut journal = Journal::default();
    let mut connections = 0;
    for (own, count) in journals {
        journal.add(own);
        connections += count;
    }
    assert!(journal.has_any(), "some transfers were acknowledged");
    assert!(
        connections > CLIENTS as i64,
        "no client has lost its server"
    );
    for url in &served {
        crash_bank::verify(url, &mut journal);
    }
    format!(
        "{} transfers, all that were acknowledged and nothing half, through {} machines",
        journal.len(),
        served.len()
    )
}

fn lists(urls: &[String], fault: impl FnOnce() -> Vec<String>) -> String {
    client::load(&urls[0]);
    let common = SharedState::default();
    let run = |number: usize, pace: &LoadProgress| {
        let client = client::Client::connect(&urls[number % urls.len()], &common, number as u64);
        let mut client = client.survives(urls);
        while pace.goes_on() {
            client.go();
            pace.count(1);
            thread::sleep(PAUSE);
        }
        client.notes
    };
    let (served, mut notes) = among(2 * urls.len(), run, fault);
    for url in &served {
        let mut client = client::Client::connect(url, &common, 0);
        client.look();
        notes.push(client.notes);
    }
    let sum = |of: fn(&Notes) -> usize| notes.iter().map(of).sum::<usize>();
    let (committed, in_doubt) = (sum(|n| n.committed), sum(|n| n.in_doubt.len()));
    let (totals, lost) = (sum(|notes| notes.totals), sum(|notes| notes.lost));
    assert!(lost > 0, "no client has lost its server");
    let history = settled(notes);
    if let Err(wrong) = check_appends(&history) {
        panic!("{wrong}");
    }
    assert!(committed > urls.len(), "no more than {committed} committed");
    format!(
        "{} transactions over lists strictly serializable ({committed} committed, \
         {in_doubt} in doubt), {totals} totals right, through {} machines",
        history.len(),
        served.len()
    )
}

fn bench(
    arguments: &[&str],
    seconds: u32,
    urls: &[String],
    fault: impl FnOnce() -> Vec<String>,
) -> String {
    let mut bench = program(&["bench"]);
    bench.args(arguments).args(["--via", "pg", "--survive"]);
    bench.args([
        "--threads",
        "6",
        "--seconds",
        &seconds.to_string(),
        "--warmup",
        "0",
    ]);
    for url in urls {
        bench.args(["--url", url]);
    }
    let mut bench = KillGuard(bench.stderr(Stdio::piped()).spawn().expect("it starts"));
    let mut lines = BufReader::new(bench.0.stderr.take().expect("a pipe"))
        .lines()
        .map_while(Result::ok);
    // All clients are active after this line.
    let loaded = lines.any(|line| line.starts_with("measured"));
    let began = Instant::now();
    let said = thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
    let served = match loaded {
        true => {
            thread::sleep(BEFORE);
            fault()
        }
        false => Vec::new(),
    };
    let took = began.elapsed();
    let goes_on = matches!(bench.0.try_wait(), Ok(None));
    let status = bench.0.wait().expect("it ends");
    let said = said.join().expect("no panic");
    assert!(status.success(), "{status}: {said}\nthe fault: {took:?}");
    assert!(said.contains("check      ok"), "{said}");
    assert!(goes_on, "it ended before the fault was over: {took:?}");
    let line = |what: &str| {
        let line = said.lines().find(|line| line.contains(what));
        let line = line.unwrap_or_else(|| panic!("nothing about {what}: {said}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // These lines are part of the report; earlier lines show the progress.
    let committed = line("committed   ");
    let lost = line("connection lost");
    format!(
        "{committed}, {lost}; its check ok through {} machines",
        served.len()
    )
}
