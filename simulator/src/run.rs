//! One seed: a cluster, its clients, and all that must hold.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::Random;

use crate::checker::check;
use crate::cluster::Cluster;
use crate::executor::Halted;
use crate::history::Seen;
use crate::lists::check_lists;
use crate::plan::Plan;
use crate::rest::{self, LastReader};
use crate::snapshots::check_snapshots;
use crate::workload::{Client, Logbook};
use crate::world::{self, World};

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// Machines.
    pub machines: u32,
    /// Replicas of each region.
    pub replicas: usize,
    /// How transactions ended, by the reason.
    pub ends: BTreeMap<&'static str, u64>,
    /// Transactions that were dropped while they committed, and took effect.
    pub committed_unseen: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Nanoseconds of virtual time.
    pub took_ns: u64,
    /// A hash of everything that happened on the network.
    pub trace: u64,
    /// A hash of everything that clients saw.
    pub history: u64,
}

impl Summary {
    /// Transactions that took effect and were told so.
    pub fn committed(&self) -> u64 {
        self.ends.get("committed").copied().unwrap_or(0)
    }
}

/// What was recorded of a run.
pub struct Recorded {
    /// What the run came to.
    pub summary: Summary,
    /// What its clients saw.
    pub history: Vec<Seen>,
}

/// Runs a seed and checks everything.
///
/// # Errors
/// What is as it must not be.
pub fn run(seed: u64) -> Result<Summary, Halted> {
    record(seed).map(|recorded| recorded.summary)
}

/// As [`run`], with the history.
///
/// # Errors
/// As [`run`].
pub fn record(seed: u64) -> Result<Recorded, Halted> {
    let plan = Rc::new(Plan::draw(seed));
    let Cluster {
        sim,
        mut executor,
        machines,
    } = Cluster::start(&plan).map_err(Halted::Broken)?;
    let clients = plan.clients * plan.transactions;
    let markers = match plan.drop_one_in {
        0 => 0,
        one_in => clients.div_ceil(one_in as usize),
    };
    let world: Rc<RefCell<World>> = Rc::default();
    executor.spawn(
        "whoever makes the world".into(),
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
    let log: Rc<RefCell<Logbook>> = Rc::default();
    let mut random = Random::new(seed ^ 0xC1_1E_27);
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
        };
        executor.spawn(format!("client {number} of m{}", at + 1), client.run());
    }
    executor.run()?;
    executor.run_until(|_| machines.iter().all(|machine| machine.is_at_rest()))?;
    let reached: Rc<RefCell<BTreeSet<_>>> = Rc::default();
    for (at, machine) in machines.iter().enumerate() {
        let reader = LastReader {
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
    rest::look(&machines, &reached.take())?;
    let polls = executor.polls();
    drop(executor);
    let log = log.take();
    check_snapshots(&log.history).map_err(Halted::Broken)?;
    check_lists(&log.history, &log.lists).map_err(Halted::Broken)?;
    check(&log.history).map_err(Halted::Broken)?;
    let unseen = |seen: &&Seen| seen.ended == crate::history::NEVER && !seen.writes.is_empty();
    let mut hasher = DefaultHasher::new();
    log.history.hash(&mut hasher);
    log.lists.hash(&mut hasher);
    let summary = Summary {
        seed,
        machines: plan.machines,
        replicas: plan.replicas,
        ends: log.ends,
        committed_unseen: log.history.iter().filter(unseen).count() as u64,
        polls,
        took_ns: sim.now_ns(),
        trace: sim.net().trace(),
        history: hasher.finish(),
    };
    Ok(Recorded {
        summary,
        history: log.history,
    })
}
