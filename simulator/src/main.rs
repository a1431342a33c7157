//! The program: runs seeds, and reports those that find a fault.
//!
//! ```text
//! fencepost-simulator --seeds 10000 [--from S] [--threads T]     many, with progress
//! fencepost-simulator --seed S                                   one, with its hashes
//! fencepost-simulator --kind crash ...                           the same with faults
//! ```
//! It ends at the first seed that finds a fault, with exit code 1, unless `--keep-going` is given.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use fencepost_simulator::plan::{Kind, Plan};
use fencepost_simulator::run::record_plan;
use fencepost_simulator::{SituationCounts, Summary};

/// The interval of progress reports.
const REPORT: Duration = Duration::from_secs(5);
/// The duration above which a running seed is named.
const LONG: Duration = Duration::from_secs(30);

/// Runs whole clusters from seeds and checks what their clients saw.
#[derive(Parser)]
struct Options {
    /// Runs this seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "from", "threads", "keep_going"])]
    seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads; each runs one seed at a time.
    #[arg(long)]
    threads: Option<usize>,
    /// The faults of a run, or the additional actions of machines; any other name is answered with
    /// the list of kinds.
    #[arg(long, default_value = "nothing", value_parser = kind)]
    kind: Kind,
    /// The fault to inject (`fencepost_txn::fault`), if one seed is run.
    #[cfg(feature = "injected-faults")]
    #[arg(long, requires = "seed")]
    fault: Option<String>,
    /// Runs all seeds, whatever they find.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    #[cfg(feature = "injected-faults")]
    let _fault = options.fault.as_deref().map(inject);
    match options.seed {
        Some(seed) => one(options.kind, seed),
        None => many(&options),
    }
}

#[cfg(feature = "injected-faults")]
fn inject(name: &str) -> fencepost_txn::fault::InjectedFault {
    use fencepost_txn::fault::{Fault, inject};
    let mut all = Fault::all().iter();
    let found = all.find(|fault| format!("{fault:?}") == name);
    inject(*found.expect("a mistake of that name"))
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| {
        let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name).collect();
        format!("there are {}", all.join(", "))
    })
}

/// Runs a seed; returns the fault that it found as an error.
fn try_seed(kind: Kind, seed: u64) -> Result<Summary, String> {
    let plan = Rc::new(kind.draw(seed));
    match catch_unwind(AssertUnwindSafe(|| record_plan(plan))) {
        Ok(Ok(recorded)) => Ok(recorded.summary),
        Ok(Err(halted)) => Err(halted.to_string()),
        // The panic message has been printed.
        Err(_) => Err("panicked".into()),
    }
}

fn report(kind: Kind, seed: u64, what: &str) {
    let name = kind.name;
    eprintln!("{name}, seed {seed}: {what}");
    eprintln!("again: cargo run --release -p fencepost-simulator -- --kind {name} --seed {seed}");
}

fn one(kind: Kind, seed: u64) -> ExitCode {
    let plan: Plan = kind.draw(seed);
    println!("{plan:#?}");
    match try_seed(kind, seed) {
        Ok(summary) => {
            println!("{summary:#?}");
            println!(
                "trace {:016x} history {:016x}",
                summary.trace, summary.history
            );
            ExitCode::SUCCESS
        }
        Err(what) => {
            report(kind, seed, &what);
            ExitCode::FAILURE
        }
    }
}

/// The totals of all seeds so far.
#[derive(Default)]
struct Totals {
    ends: BTreeMap<&'static str, u64>,
    unseen: u64,
    virtual_ns: u64,
    polls: u64,
    met: SituationCounts,
    running: BTreeMap<u64, Instant>,
    found: u64,
}

impl Totals {
    fn add(&mut self, summary: Summary) {
        for (end, count) in summary.ends {
            *self.ends.entry(end).or_default() += count;
        }
        self.unseen += summary.committed_unseen;
        self.virtual_ns += summary.took_ns;
        self.polls += summary.polls;
        self.met += summary.met;
    }

    fn print(&self, done: u64, since: Instant) {
        let committed = self.ends.get("committed").copied().unwrap_or(0);
        let seconds = since.elapsed().as_secs_f64();
        println!(
            "{done} seeds in {seconds:.1} s, {committed} transactions committed, \
             {:.1} s of virtual time",
            self.virtual_ns as f64 / 1e9
        );
        for (seed, began) in &self.running {
            if began.elapsed() > LONG {
                println!("seed {seed} has been running for {:.0?}", began.elapsed());
            }
        }
    }
}

fn many(options: &Options) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(cores).max(1);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let (totals, over) = (Mutex::new(Totals::default()), AtomicBool::new(false));
    let lock = || {
        totals
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    let since = Instant::now();
    let work = || {
        while !over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.seeds {
                return;
            }
            let seed = options.from.wrapping_add(number);
            lock().running.insert(seed, Instant::now());
            let ended = try_seed(options.kind, seed);
            let mut totals = lock();
            totals.running.remove(&seed);
            done.fetch_add(1, Ordering::Relaxed);
            match ended {
                Ok(summary) => totals.add(summary),
                Err(what) => {
                    report(options.kind, seed, &what);
                    totals.found += 1;
                    over.store(!options.keep_going, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut reported = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if reported.elapsed() > REPORT {
                reported = Instant::now();
                lock().print(done.load(Ordering::Relaxed), since);
            }
        }
    });
    let totals = lock();
    totals.print(done.load(Ordering::Relaxed), since);
    println!("ends: {:?}", totals.ends);
    println!("{:?}", totals.met);
    println!(
        "dropped in commit and committed: {}, polls: {}",
        totals.unseen, totals.polls
    );
    match totals.found {
        0 => ExitCode::SUCCESS,
        found => {
            eprintln!("{found} seeds found something");
            ExitCode::FAILURE
        }
    }
}
