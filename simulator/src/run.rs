//! The run of one seed: a cluster, its clients, and all checks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::Random;
use fencepost_txn::network::PostKind;
use fencepost_txn::{Machine, Timestamp, disable_yield};

use crate::checker::check;
use crate::cluster::Cluster;
use crate::crash_state::CrashState;
use crate::executor::{Executor, RunFailure};
use crate::faults::{Fault, FaultContext, FaultTime};
use crate::history::ObservedTransaction;
use crate::joining_machine::JoiningMachine;
use crate::leases;
use crate::levels::check_levels;
use crate::lists::check_lists;
use crate::plan::Plan;
use crate::rest::{self, FinalReader};
use crate::snapshots::check_snapshots;
use crate::workload::{Client, ClientRecords};
use crate::world::{self, World};

/// The summary of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The seed of the run.
    pub seed: u64,
    /// The number of machines.
    pub machines: u32,
    /// The number of replicas of each region.
    pub replicas: usize,
    /// The numbers of transactions, by outcome or reason of abort.
    pub ends: BTreeMap<&'static str, u64>,
    /// The number of transactions that were dropped during their commit and took effect.
    pub committed_unseen: u64,
    /// The situations that transactions met.
    pub met: SituationCounts,
    /// The number of polls of tasks.
    pub polls: u64,
    /// The duration in nanoseconds of virtual time.
    pub took_ns: u64,
    /// A hash of all events of the network.
    pub trace: u64,
    /// A hash of the history of all clients.
    pub history: u64,
}

/// Counters of situations that transactions of all machines met, to show that the run tested them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SituationCounts {
    /// Snapshots that were moved forward.
    pub refreshes: u64,
    /// Reads answered from an old version.
    pub old_versions: u64,
    /// Reads that waited for a lock.
    pub locks: u64,
    /// Intents that waited in a row-lock queue.
    pub intents: u64,
    /// Patches that were applied again under the lock.
    pub patches: u64,
    /// Headers of other machines' objects that were read to validate or to refresh.
    pub headers_read: u64,
    /// Messages that asked for many headers at once.
    pub headers_asked: u64,
    /// Truncations that waited for a version at a backup: a few hundred runs have some.
    pub versions_awaited: u64,
    /// One-sided reads and writes of peers' memory.
    pub reads: u64,
    /// See [`Self::reads`].
    pub writes: u64,
    /// Exchanges of clock readings.
    pub exchanges: u64,
    /// Regions that machines needed beyond their first ones.
    pub regions: u64,
    /// Renewals of machines' leases.
    pub renewals: u64,
}

impl SituationCounts {
    fn by(machines: &[Arc<Machine>]) -> SituationCounts {
        let mut met = SituationCounts::default();
        for machine in machines {
            let (totals, posted) = (machine.counters().totals(), machine.traffic());
            met += SituationCounts {
                refreshes: totals.refreshes,
                old_versions: totals.old_version_reads,
                locks: totals.lock_waits,
                intents: totals.intent_waits,
                patches: totals.patches_reapplied,
                headers_read: posted.of(PostKind::Header),
                headers_asked: posted.of(PostKind::Validate),
                versions_awaited: totals.versions_awaited,
                reads: machine.fabric_counts().map_or(0, |counts| counts.reads),
                writes: machine.fabric_counts().map_or(0, |counts| counts.writes),
                exchanges: machine.clock_state().exchanges,
                regions: u64::from(machine.regions().count().saturating_sub(1)),
                renewals: machine.lease_counts().map_or(0, |counts| counts.renewals),
            };
        }
        met
    }

    /// Returns the counters that are nonzero over a few dozen runs.
    pub fn all(&self) -> [u64; 12] {
        let SituationCounts {
            refreshes,
            old_versions,
            locks,
            intents,
            patches,
            headers_read,
            headers_asked,
            versions_awaited: _,
            reads,
            writes,
            exchanges,
            regions,
            renewals,
        } = *self;
        [
            refreshes,
            old_versions,
            locks,
            intents,
            patches,
            headers_read,
            headers_asked,
            reads,
            writes,
            exchanges,
            regions,
            renewals,
        ]
    }
}

impl std::ops::AddAssign for SituationCounts {
    fn add_assign(&mut self, other: SituationCounts) {
        self.refreshes += other.refreshes;
        self.old_versions += other.old_versions;
        self.locks += other.locks;
        self.intents += other.intents;
        self.patches += other.patches;
        self.headers_read += other.headers_read;
        self.headers_asked += other.headers_asked;
        self.versions_awaited += other.versions_awaited;
        self.reads += other.reads;
        self.writes += other.writes;
        self.exchanges += other.exchanges;
        self.regions += other.regions;
        self.renewals += other.renewals;
    }
}

impl Summary {
    /// Returns the number of transactions that took effect and whose clients learned it.
    pub fn committed(&self) -> u64 {
        self.ends.get("committed").copied().unwrap_or(0)
    }
}

/// Returns whether no work from before `since` remains, and no transaction reads as of before it.
fn over(machine: &Machine, since: Timestamp) -> bool {
    machine.is_at_rest() && machine.oldest() >= since
}

/// Describes the remaining work of machines that have not crashed.
fn unrest(machines: &[Arc<Machine>], crashes: &[CrashState], since: Timestamp) -> String {
    let say = |(machine, _): (&Arc<Machine>, _)| {
        let (number, left, oldest) = (machine.number(), machine.unrest(), machine.oldest());
        let lacks = machine.lacks_data();
        let members = machine.members();
        let others: Vec<_> = members.machines.iter().map(|member| member.id).collect();
        let (configuration, answers) = (members.configuration, machine.is_answering());
        let evicted = machine.is_evicted();
        format!(
            "m{number} (left: {left:?}, lacks data: {lacks}; \
             configuration {configuration} of {others:?}, answers: {answers}, evicted: {evicted}; \
             read back to {oldest:?}, {since:?} is due)"
        )
    };
    let living = machines.iter().zip(crashes);
    let living = living.filter(|(_, crash_state)| !crash_state.has_crashed());
    let living: Vec<_> = living.map(say).collect();
    living.join(", ")
}

/// Returns whether all work of clients is done and all failures are handled: evicted machines know
/// it, and the others have recovered.
fn rest(machines: &[Arc<Machine>], crashes: &[CrashState], since: Timestamp) -> bool {
    let all = || machines.iter().zip(crashes);
    let living = || all().filter(|(_, crash_state)| !crash_state.has_crashed());
    // This runs at each turn, and mostly decides here.
    if !living().all(|(machine, _)| machine.is_evicted() || over(machine, since)) {
        return false;
    }
    // An evicted machine has no configuration.
    let newest = living().map(|(machine, _)| machine);
    let newest = newest.filter(|machine| !machine.is_evicted());
    let newest = newest.max_by_key(|machine| machine.configuration());
    let Some(newest) = newest.map(|machine| machine.members()) else {
        return false;
    };
    let is_in = |number: u32| newest.machines.iter().any(|member| member.id == number);
    let changed = newest.configuration > 1;
    let member = |machine: &Machine| {
        let current = machine.configuration() == newest.configuration;
        current && (!changed || machine.is_answering()) && over(machine, since)
    };
    all().all(
        |(machine, crash_state)| match (crash_state.has_crashed(), is_in(machine.number())) {
            (true, is_in) => !is_in,
            (false, true) => member(machine),
            (false, false) => machine.is_evicted(),
        },
    )
}

/// Runs until all work is done; returns the machines that are members then.
fn come_to_rest(
    executor: &mut Executor,
    machines: &[Arc<Machine>],
    crashes: &[CrashState],
) -> Result<Vec<Arc<Machine>>, RunFailure> {
    let since = machines[0].now();
    let rest = executor.run_until(|_| rest(machines, crashes, since));
    let living = machines.iter().zip(crashes);
    let living =
        living.filter(|(machine, crash_state)| !crash_state.has_crashed() && !machine.is_evicted());
    let living: Vec<_> = living.map(|(machine, _)| Arc::clone(machine)).collect();
    rest.map_err(|halted| match halted {
        RunFailure::Stuck(_) => RunFailure::Stuck(unrest(machines, crashes, since)),
        broken => broken,
    })?;
    Ok(living)
}

/// The recorded results of a run.
pub struct RunRecord {
    /// The summary of the run.
    pub summary: Summary,
    /// The history of its clients.
    pub history: Vec<ObservedTransaction>,
}

/// Runs a seed and checks all invariants.
///
/// # Errors
/// The violated invariant.
pub fn run(seed: u64) -> Result<Summary, RunFailure> {
    record(seed).map(|recorded| recorded.summary)
}

/// Runs a seed as [`run`], and returns the history, too.
///
/// # Errors
/// As [`run`].
pub fn record(seed: u64) -> Result<RunRecord, RunFailure> {
    record_plan(Rc::new(Plan::draw(seed)))
}

/// Runs a given plan as [`record`] does.
///
/// # Errors
/// As [`run`].
pub fn record_plan(plan: Rc<Plan>) -> Result<RunRecord, RunFailure> {
    disable_yield();
    let seed = plan.seed;
    let Cluster {
        sim,
        mut executor,
        mut machines,
        crash_states: mut crashes,
        trips,
        ground,
    } = Cluster::start(&plan).map_err(RunFailure::Broken)?;
    let clients = plan.clients * plan.transactions;
    let markers = match plan.drop_one_in {
        // Every client may be cut off during a commit.
        _ if !plan.faults.is_empty() => clients,
        0 => 0,
        one_in => clients.div_ceil(one_in as usize),
    };
    let world: Rc<RefCell<World>> = Rc::default();
    executor.spawn(
        "the creator of the world".into(),
        world::make(
            Plan::clone(&plan),
            sim.clone(),
            machines.clone(),
            markers,
            Rc::clone(&world),
        ),
    );
    executor.run()?;
    let world = Rc::new(world.take());
    let log: Rc<RefCell<ClientRecords>> = Rc::default();
    let mut random = Random::new(seed ^ 0xC1_1E_27);
    let at_work = Rc::new(Cell::new(plan.clients));
    let at_machines: Rc<Vec<Cell<usize>>> =
        Rc::new(machines.iter().map(|_| Cell::new(0)).collect());
    for number in 0..plan.clients {
        let at = random.below(machines.len() as u64) as usize;
        let client = Client {
            number,
            machine: (at, Arc::clone(&machines[at])),
            world: Rc::clone(&world),
            plan: Rc::clone(&plan),
            sim: sim.clone(),
            log: Rc::clone(&log),
            random: random.fork(),
            crash_state: crashes[at].clone(),
        };
        let (name, at_work) = (format!("client {number} of m{}", at + 1), at_work.clone());
        let client_counts = Rc::clone(&at_machines);
        client_counts[at].set(client_counts[at].get() + 1);
        executor.spawn_on(Some(crashes[at].machine()), name, async move {
            client.run().await;
            at_work.set(at_work.get() - 1);
            client_counts[at].set(client_counts[at].get() - 1);
        });
    }
    trips.arm(sim.net(), &plan.faults);
    let scene = FaultContext {
        sim: sim.clone(),
        machines: machines.clone(),
        crash_states: crashes.clone(),
        clients: Rc::clone(&at_work),
        clients_at: at_machines,
        trips: trips.clone(),
    };
    for fault in &plan.faults {
        executor.spawn(format!("{fault:?}"), scene.clone().happen(*fault));
    }
    let joining = plan.join_after_ns.map(|after_ns| {
        let client = Client {
            number: plan.clients,
            machine: (0, Arc::clone(&machines[0])),
            world: Rc::clone(&world),
            plan: Rc::clone(&plan),
            sim: sim.clone(),
            log: Rc::clone(&log),
            random: random.fork(),
            // This is replaced by the state of the joining machine.
            crash_state: crashes[0].clone(),
        };
        JoiningMachine::come(&ground, (&sim, &mut executor), after_ns, client)
    });
    executor.run().map_err(|halted| match halted {
        RunFailure::Stuck(who) => {
            let since = machines[0].now();
            RunFailure::Stuck(format!("{who}; {}", unrest(&machines, &crashes, since)))
        }
        RunFailure::Broken(what) => {
            let since = machines[0].now();
            RunFailure::Broken(format!("{what}; {}", unrest(&machines, &crashes, since)))
        }
    })?;
    if let Some(joining_machine) = &joining {
        for (machine, crash_state) in joining_machine.machines() {
            machines.push(machine);
            crashes.push(crash_state);
        }
    }
    let mut alive = come_to_rest(&mut executor, &machines, &crashes)?;
    if let Some(machine) = plan.next_crash {
        let crash = Fault::Crash(machine, FaultTime::After(0));
        executor.spawn("the next crash".into(), scene.clone().happen(crash));
        executor.run()?;
        alive = come_to_rest(&mut executor, &machines, &crashes)?;
        if let Some(joining_machine) = &joining {
            executor.spawn(
                "the check for replicas".into(),
                joining_machine.has_become_replica(&sim),
            );
            executor.run()?;
        }
    }
    let machines = alive;
    trips.disarm();
    let reached: Rc<RefCell<BTreeSet<_>>> = Rc::default();
    for (at, machine) in machines.iter().enumerate() {
        let reader = FinalReader {
            machine: (at, Arc::clone(machine)),
            world: Rc::clone(&world),
            plan: Rc::clone(&plan),
            sim: sim.clone(),
            log: Rc::clone(&log),
            reached: Rc::clone(&reached),
        };
        executor.spawn(format!("the last reader of m{}", at + 1), reader.run());
    }
    executor.run()?;
    // Slot stocks that were unused meanwhile are being returned.
    executor.run_until(|_| machines.iter().all(|machine| machine.is_at_rest()))?;
    rest::look(&machines, &reached.take())?;
    if plan.faults.is_empty() && plan.next_crash.is_none() {
        leases::look(&machines)?;
    }
    let polls = executor.polls();
    drop(executor);
    let log = log.take();
    check_levels(&log.executions).map_err(|found| RunFailure::Broken(found.to_string()))?;
    check_snapshots(&log.history).map_err(RunFailure::Broken)?;
    check_lists(&log.history, &log.lists).map_err(RunFailure::Broken)?;
    check(&log.history).map_err(RunFailure::Broken)?;
    let unseen = |seen: &&ObservedTransaction| {
        seen.ended == crate::history::NEVER && !seen.writes.is_empty()
    };
    let mut hasher = DefaultHasher::new();
    log.history.hash(&mut hasher);
    log.lists.hash(&mut hasher);
    if !log.executions.is_empty() {
        format!("{:?}", log.executions).hash(&mut hasher);
    }
    let summary = Summary {
        seed,
        machines: plan.machines,
        replicas: plan.replicas,
        ends: log.ends,
        committed_unseen: log.history.iter().filter(unseen).count() as u64,
        met: SituationCounts::by(&machines),
        polls,
        took_ns: sim.now_ns(),
        trace: sim.net().trace(),
        history: hasher.finish(),
    };
    Ok(RunRecord {
        summary,
        history: log.history,
    })
}
