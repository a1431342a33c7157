//! What becomes of the throughput when a machine is killed (SOSP'15 §6.4, Figures 9 to 12).
//!
//! ```text
//!  this process                       a process for each machine (machine.rs)
//!    start, roots, load  ──────────►    m1   m2   m3    clients commit, counted by the millisecond (buckets.rs)
//!    kill -9             ─────────────────────────✗
//!    stop, check         ──────────►    m1   m2         when each step happened, and whether the data are whole
//!    counts + marks ─► how long service was gone (recovery.rs) ─► report.rs, drawing.rs, charts.rs
//! ```
//! Machines are processes of this host that share memory, each with clients of its own, and one clock. One run is one
//! kill; many of them give a distribution. Each run ends with a check of the data by all that have survived.
//!
//! # Failure
//! A machine that fails without having been killed, or says nothing for long, ends the run with an error; the runs
//! before are lost with it.

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
use protocol::{Said, Told};
pub use recovery::{Recovery, Spread};
pub use report::FailoverReport;

/// A workload that machines can run of which some die.
pub(crate) trait Survivor: Workload {
    /// Checks what must hold although others ran it, too, who are dead: `None` if it does, or what broke.
    fn verify_after_failure(&self) -> Result<Option<String>, BenchError>;
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The mobile operator's database.
    Tatp,
    /// Transfers; the total must hold.
    Bank,
}

impl Load {
    /// Name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Load::Tatp => "tatp",
            Load::Bank => "bank",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// Machines, at least three: a majority has to go on.
    pub machines: u32,
    /// How many have a copy of each region.
    pub replicas: u32,
    /// Machines that are killed at once, by their numbers. The first machine is the CM.
    pub kill: Vec<u32>,
    /// How long leases are.
    pub lease: Duration,
    /// Time from the beginning of the clients to the kill, and a little more by chance.
    pub before: Duration,
    /// Time from the kill on.
    pub after: Duration,
    /// Runs.
    pub runs: usize,
    /// Threads of each machine.
    pub threads: usize,
    /// Clients of each thread.
    pub in_flight: usize,
    /// What clients do.
    pub load: Load,
    /// Subscribers or accounts.
    pub rows: u32,
    /// All requests, and when in a lease machines are killed, follow from it.
    pub seed: u64,
    /// Bytes of a region, where not the default.
    pub region_bytes: Option<usize>,
    /// Bytes that a machine's own data may take, where not the default.
    pub memory_limit: Option<u64>,
    /// Whether each machine has a processor, which it shares with others only where there are fewer.
    pub pin: bool,
    /// Whether a line is printed for each run.
    pub progress: bool,
}

/// Of the time before the kill this part is not counted, in percent: clients begin.
const BEGINNING: u64 = 25;
/// Longest that is counted.
const LONGEST: Duration = Duration::from_secs(600);

/// When the first and the last machine took each step, in nanoseconds after the first bucket began.
type Steps = BTreeMap<Step, (u64, u64)>;

/// What one run gave. Times are in nanoseconds after the first bucket began.
#[derive(Clone, Debug)]
struct Run {
    /// Commits of all machines by bucket.
    counts: Vec<u64>,
    killed_ns: u64,
    steps: Steps,
    recovery: Recovery,
    /// Suspicions of machines that had not failed.
    false_suspicions: u64,
    /// What is broken, if anything is.
    broken: Option<String>,
}

/// Kills machines as often as `options` say; `command` starts the process of a machine, which is to call
/// [`run_machine`] with what it is given.
///
/// # Errors
/// [`BenchError`]; data that are not whole are in the report.
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
    // Anywhere between two messages that lengthen a lease.
    let before = options.before + Duration::from_nanos(random.below(lease_ns.max(1)));
    let whole = before + options.after;
    let buckets = (whole.as_nanos() as u64 / BUCKET_NS) as usize;
    let shared = shared_directory()?;
    let mut counted = Vec::new();
    let mut commands = Vec::new();
    // All machines load the same data, each its part.
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
        Said::Roots(roots) => Some(roots),
        _ => None,
    })?;
    machines.tell(&Told::Roots(roots))?;
    machines.await_all(|_, said| (said == Said::Loaded).then_some(()))?;
    let origin = HostClock.now_ns();
    machines.tell(&Told::Go(origin))?;
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
    machines.tell(&Told::Stop)?;
    machines.await_all(|_, said| (said == Said::Stopped).then_some(()))?;
    machines.tell(&Told::Check)?;
    let mut marks = Vec::new();
    let mut false_suspicions = 0;
    let checked = machines.await_all(|machine, said| match said {
        Said::Mark(_, step, at) => {
            marks.push((step, at.saturating_sub(origin)));
            None
        }
        Said::Leases(_, returned) => {
            false_suspicions += returned;
            None
        }
        Said::Checked(broken) => Some(broken.map(|broken| format!("m{machine}: {broken}"))),
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

/// When the first and the last machine took each step after the kill, and how many machines suspected somebody before.
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
    fn a_step_is_from_the_first_machine_to_the_last() {
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
    fn what_cannot_go_on_is_refused() {
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
