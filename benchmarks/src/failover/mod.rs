//! The throughput when a machine is killed (SOSP'15 §6.4, Figures 9 to 12).
//!
//! ```text
//!  this process                       a process for each machine (machine.rs)
//!    start, roots, load  ──────────►    m1   m2   m3    clients commit, counted by ms (buckets.rs)
//!    kill -9             ─────────────────────────✗
//!    stop, check         ──────────►    m1   m2         time of each step, check of the data
//!    counts + marks ─► length of the outage (recovery.rs) ─► report.rs, drawing.rs, charts.rs
//! ```
//!
//! Machines are processes of this host that share memory and one clock, each with its own clients.
//! One run is one kill; many runs give a distribution. Each run ends with a check of the data by
//! all surviving machines.
//!
//! # Failure
//! A machine that fails without having been killed, or is silent for too long, ends the run with an
//! error. The results of earlier runs are lost.

mod buckets;
mod charts;
mod drawing;
mod machine;
mod pin;
mod processes;
mod protocol;
mod recovery;
mod report;

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::Duration;

use fencepost_fabric::random::Random;
use fencepost_fabric::{HostClock, MonotonicClock};
use fencepost_txn::network::Step;

use crate::error::BenchError;
use crate::harness::Workload;
use crate::native::shared_directory;
use buckets::{BUCKET_NS, Buckets};
pub use machine::{MachineOptions, run_machine};
use processes::Processes;
use protocol::{MachineMessage, Order};
pub use recovery::{Distribution, Recovery};
pub use report::FailoverReport;

/// A workload that can run on machines of which some fail.
pub(crate) trait Survivor: Workload {
    /// Verifies conditions that must hold even though other, failed machines ran the workload too.
    /// Returns the violated condition, or `None`.
    fn verify_after_failure(&self) -> Result<Option<String>, BenchError>;
}

/// The workload of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// TATP, the mobile operator's database.
    Tatp,
    /// Bank transfers; the total must not change.
    Bank,
}

impl Load {
    /// Returns the name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Load::Tatp => "tatp",
            Load::Bank => "bank",
        }
    }
}

/// The options of a failover benchmark.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// The number of machines, at least three, because a majority must survive.
    pub machines: u32,
    /// The number of machines with a copy of each region.
    pub replicas: u32,
    /// The numbers of the machines that are killed at once. The first machine is the CM.
    pub kill: Vec<u32>,
    /// The length of leases.
    pub lease: Duration,
    /// The time from the start of the clients to the kill; a random part of a lease is added.
    pub before: Duration,
    /// The time from the kill to the end.
    pub after: Duration,
    /// The number of runs.
    pub runs: usize,
    /// The number of threads of each machine.
    pub threads: usize,
    /// The number of clients of each thread.
    pub in_flight: usize,
    /// The workload of the clients.
    pub load: Load,
    /// The number of subscribers or accounts.
    pub rows: u32,
    /// The seed of all requests, and of the moment in a lease at which machines are killed.
    pub seed: u64,
    /// The size of a region in bytes; `None` is the default.
    pub region_bytes: Option<usize>,
    /// The memory limit of a machine's own data in bytes; `None` is the default.
    pub memory_limit: Option<u64>,
    /// Whether each machine stays on one processor, which it shares only if there are fewer
    /// processors than machines.
    pub pin: bool,
    /// Whether to print a line for each run.
    pub progress: bool,
}

/// The percentage of the time before the kill that is not counted, because clients are starting.
const BEGINNING: u64 = 25;
/// The longest time that is counted.
const LONGEST: Duration = Duration::from_secs(600);

/// The times at which the first and the last machine took each step, in nanoseconds after the start
/// of the first bucket.
type Steps = BTreeMap<Step, (u64, u64)>;

/// The result of one run. Times are in nanoseconds after the start of the first bucket.
#[derive(Clone, Debug)]
struct Run {
    /// The commits of all machines in each bucket.
    counts: Vec<u64>,
    killed_ns: u64,
    steps: Steps,
    recovery: Recovery,
    /// The number of suspicions of machines that had not failed.
    false_suspicions: u64,
    /// The violated condition, if there is one.
    broken: Option<String>,
}

/// Runs the benchmark: kills machines as `options` specify. `command` starts the process of a
/// machine, which must call [`run_machine`] with the given options.
///
/// # Errors
/// [`BenchError`]; broken data is part of the report.
pub fn run(
    options: &FailoverOptions,
    command: &dyn Fn(&MachineOptions) -> Result<Command, BenchError>,
) -> Result<FailoverReport, BenchError> {
    check(options)?;
    let mut runs = Vec::with_capacity(options.runs);
    for number in 1..=options.runs {
        let run = run_once(options, number as u64, command)?;
        if options.progress {
            eprintln!("{}", report::line(number, &run));
        }
        runs.push(run);
    }
    Ok(FailoverReport::new(options.clone(), runs))
}

fn check(options: &FailoverOptions) -> Result<(), BenchError> {
    let wrong = |why: &str| Err(BenchError::Options(why.to_string()));
    let FailoverOptions {
        machines,
        replicas,
        kill,
        ..
    } = options;
    let mut killed = kill.clone();
    killed.sort_unstable();
    killed.dedup();
    if !(3..=64).contains(machines) || !(2..=*machines).contains(replicas) {
        return wrong("3 to 64 machines, and at least 2 of them have each region");
    }
    if killed.is_empty() || killed.len() != kill.len() {
        return wrong("at least one machine is killed, and none twice");
    }
    if killed
        .iter()
        .any(|number| !(1..=*machines).contains(number))
    {
        return wrong("machines that are killed are there");
    }
    if killed.len() >= *replicas as usize || 2 * killed.len() >= *machines as usize {
        return wrong("a majority of the machines and a copy of each region have to be left");
    }
    if options.runs == 0 || options.before + options.after > LONGEST {
        return wrong("at least one run, and none longer than ten minutes");
    }
    Ok(())
}

fn run_once(
    options: &FailoverOptions,
    number: u64,
    command: &dyn Fn(&MachineOptions) -> Result<Command, BenchError>,
) -> Result<Run, BenchError> {
    let mut random = Random::new(options.seed ^ number.rotate_left(32));
    let lease_ns = options.lease.as_nanos() as u64;
    // The kill comes at any moment between two lease renewals.
    let before = options.before + Duration::from_nanos(random.below(lease_ns.max(1)));
    let whole = before + options.after;
    let buckets = (whole.as_nanos() as u64 / BUCKET_NS) as usize;
    let shared = shared_directory()?;
    let mut counted = Vec::new();
    let mut commands = Vec::new();
    // All machines load parts of the same data.
    let seed = random.next_u64();
    for machine in 1..=options.machines {
        let path = machine::counts_of(shared.path(), machine);
        counted.push(Buckets::create(&path, options.threads.max(1), buckets)?);
        commands.push(command(&MachineOptions {
            directory: shared.path().to_owned(),
            machine,
            machines: options.machines,
            replicas: options.replicas,
            lease: options.lease,
            load: options.load,
            rows: options.rows,
            threads: options.threads,
            in_flight: options.in_flight,
            seed,
            buckets,
            region_bytes: options.region_bytes,
            memory_limit: options.memory_limit,
            pin: options.pin,
        })?);
    }
    let mut machines = Processes::start(commands)?;
    let roots = machines.await_all(|_, said| match said {
        MachineMessage::Roots(roots) => Some(roots),
        _ => None,
    })?;
    machines.tell(&Order::Roots(roots))?;
    machines.await_all(|_, said| (said == MachineMessage::Loaded).then_some(()))?;
    let origin = HostClock.now_ns();
    machines.tell(&Order::Go(origin))?;
    let nap_until = |after: Duration| {
        let passed = Duration::from_nanos(HostClock.now_ns().saturating_sub(origin));
        thread::sleep(after.saturating_sub(passed));
    };
    nap_until(before);
    let killed_ns = HostClock.now_ns().saturating_sub(origin);
    for number in &options.kill {
        machines.kill(*number)?;
    }
    nap_until(whole);
    machines.tell(&Order::Stop)?;
    machines.await_all(|_, said| (said == MachineMessage::Stopped).then_some(()))?;
    machines.tell(&Order::Check)?;
    let mut marks = Vec::new();
    let mut false_suspicions = 0;
    let checked = machines.await_all(|machine, said| match said {
        MachineMessage::Mark(_, step, at) => {
            marks.push((step, at.saturating_sub(origin)));
            None
        }
        MachineMessage::Leases(_, returned) => {
            false_suspicions += returned;
            None
        }
        MachineMessage::Checked(broken) => {
            Some(broken.map(|broken| format!("m{machine}: {broken}")))
        }
        _ => None,
    })?;
    let mut counts = vec![0; buckets];
    for machine in &counted {
        machine.add_to(&mut counts);
    }
    let (early, steps) = steps(&marks, killed_ns);
    let suspected = steps.get(&Step::Suspect).map(|(first, _)| *first);
    let first = (killed_ns / BUCKET_NS * BEGINNING / 100) as usize;
    Ok(Run {
        recovery: Recovery::of(&counts, first, killed_ns, suspected),
        counts,
        killed_ns,
        steps,
        false_suspicions: false_suspicions + early,
        broken: checked.into_iter().flatten().next(),
    })
}

/// Returns the number of machines that suspected another one before the kill. Also returns the
/// times of the first and the last machine for each step after it.
fn steps(marks: &[(Step, u64)], killed_ns: u64) -> (u64, Steps) {
    let mut steps = Steps::new();
    let mut early = 0;
    for (step, at) in marks {
        if *at < killed_ns {
            early += u64::from(*step == Step::Suspect);
            continue;
        }
        let (first, last) = steps.entry(*step).or_insert((*at, *at));
        *first = (*first).min(*at);
        *last = (*last).max(*at);
    }
    (early, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_spans_first_to_last_machine() {
        let marks = [
            (Step::Suspect, 5),
            (Step::Commit, 7),
            (Step::Suspect, 120),
            (Step::Suspect, 110),
            (Step::Commit, 130),
            (Step::Commit, 140),
            (Step::Commit, 135),
        ];
        let (early, steps) = steps(&marks, 100);
        assert_eq!(early, 1);
        let wanted = [(Step::Suspect, (110, 120)), (Step::Commit, (130, 140))];
        assert_eq!(steps, Steps::from(wanted));
    }

    #[test]
    fn options_without_survivors_are_refused() {
        let options = report::options_for_tests();
        assert!(check(&options).is_ok());
        let refused = |change: &dyn Fn(&mut FailoverOptions)| {
            let mut other = options.clone();
            change(&mut other);
            check(&other).is_err()
        };
        assert!(refused(&|options| options.machines = 2));
        assert!(refused(&|options| options.replicas = 1));
        assert!(refused(&|options| options.replicas = 4));
        assert!(refused(&|options| options.kill = vec![]));
        assert!(refused(&|options| options.kill = vec![4]));
        assert!(refused(&|options| options.kill = vec![0]));
        assert!(refused(&|options| options.kill = vec![1, 1]));
        assert!(refused(&|options| options.kill = vec![1, 2]));
        assert!(refused(&|options| options.runs = 0));
        assert!(refused(&|options| options.after = LONGEST));
    }
}
