//! The faults of a run: machines crash, pause or are cut off, at given times or at steps of the
//! protocols.
//!
//! ```text
//! plan ─► Fault ──┬─ at a time, or soon after a suspicion ─► a task ─► crash, pause, cut off
//!                 └─ at a step ─► Trips: a network tap, and the store ─► crash before or after
//! ```
//! Steps are the records and messages that machines write to each other
//! ([`fencepost_txn::network::steps`]), and [`SWAP`], the compare-and-swap of a configuration.
//! There are also steps of a reconfiguration that a machine records ([`Step`]) and that send no
//! message. A crash at one of the latter happens right after the machine was driven. A crash at any
//! other step happens in the middle of the machine's work. The rest of that work, until its next
//! yield, has no effect and is not visible.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{MachineId, Nic, SimNet, TapVerdict};
use fencepost_txn::Machine;
use fencepost_txn::network::{Step, steps};
use parking_lot::Mutex;

use crate::crash_state::CrashState;
use crate::sim::Sim;

/// The step that asks the store to make a configuration the current one.
pub const SWAP: &str = "SWAP";
/// The interval at which a task looks for suspicions.
const LOOK_NS: u64 = 20_000;

/// The interval at which the progress of a leaving machine is checked.
const LEAVE_NS: u64 = 500_000;

/// A fault, or another planned event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A machine, from 0, crashes.
    Crash(usize, FaultTime),
    /// The machine that takes a step crashes then.
    CrashAt(StepAt),
    /// The record of a step is lost with its connection. If a time is given, the machine crashes
    /// this many nanoseconds later.
    LoseAt(StepAt, Option<u64>),
    /// A client leaves at the first step of its commit, and its machine crashes at the second one
    /// after that.
    LeaveAt(StepAt, StepAt),
    /// A machine is paused for this many nanoseconds, with the given behaviour of its network card.
    Pause(usize, FaultTime, u64, Nic),
    /// A machine is cut off for this many nanoseconds.
    CutOff(usize, FaultTime, u64, Direction),
    /// Messages from the first machine to the second are delayed for this many nanoseconds, in one
    /// direction or both.
    Silence(usize, usize, FaultTime, u64, Direction),
    /// No fault: a machine is asked to leave. It leaves this many nanoseconds after it has no
    /// replicas left.
    Leave(usize, FaultTime, u64),
}

impl Fault {
    /// Returns whether this is a failure.
    pub fn is_failure(self) -> bool {
        !matches!(self, Fault::Leave(..))
    }
}

/// The time of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTime {
    /// This many nanoseconds after the clients have begun.
    After(u64),
    /// This many nanoseconds after a machine is suspected, if one is.
    Suspected(u64),
}

/// A step of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAt {
    /// The name of the step.
    pub name: &'static str,
    /// The machine that takes it, from 0; `None` for any machine.
    pub by: Option<usize>,
    /// The number of the occurrence, from 1.
    pub nth: u64,
    /// Whether the step is still taken before its machine crashes.
    pub after: bool,
}

/// The directions in which messages are blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both directions.
    Both,
    /// Messages from the machine.
    Out,
    /// Messages to the machine.
    In,
}

/// The steps at which machines crash; clones refer to the same ones.
#[derive(Clone)]
pub struct CrashPoints {
    trips: Arc<Mutex<Vec<CrashPoint>>>,
    crash_states: Arc<Vec<CrashState>>,
}

struct CrashPoint {
    fault: Fault,
    at: StepAt,
    /// The step at which the machine crashes, after a client has left at the step before.
    then: Option<StepAt>,
    seen: u64,
    /// The machine that has taken the step.
    by: Option<MachineId>,
}

impl CrashPoints {
    /// Returns an empty set of steps, for machines with these crash states.
    pub fn of(crash_states: Vec<CrashState>) -> CrashPoints {
        CrashPoints {
            trips: Arc::default(),
            crash_states: Arc::new(crash_states),
        }
    }

    /// Arms the faults at steps, if there are any.
    pub fn arm(&self, net: &SimNet, faults: &[Fault]) {
        let trips = faults.iter().filter_map(|fault| {
            let (at, then) = match fault {
                Fault::CrashAt(at) | Fault::LoseAt(at, _) => (at, None),
                Fault::LeaveAt(at, then) => (at, Some(*then)),
                _ => return None,
            };
            Some(CrashPoint {
                fault: *fault,
                at: *at,
                then,
                seen: 0,
                by: None,
            })
        });
        let trips: Vec<CrashPoint> = trips.collect();
        if trips.is_empty() {
            return;
        }
        *self.trips.lock() = trips;
        let trips = self.clone();
        net.tap(Box::new(move |machine, place, words| {
            let mut all = steps(place.segment, words).into_iter();
            let taken = all.find_map(|step| trips.take(machine, step));
            taken.unwrap_or(TapVerdict::Goes)
        }));
    }

    /// Disarms all faults at steps.
    pub fn disarm(&self) {
        self.trips.lock().clear();
    }

    /// Returns the fault that occurs when a machine is about to take a step.
    pub fn take(&self, machine: MachineId, step: &str) -> Option<TapVerdict> {
        let mut trips = self.trips.lock();
        let number = machine.0 as usize - 1;
        let is_at = |at: &StepAt| at.name == step && at.by.is_none_or(|by| by == number);
        let mut between = None;
        for trip in trips.iter_mut().filter(|trip| is_at(&trip.at)) {
            trip.seen += 1;
            if trip.seen == trip.at.nth {
                if let Some(then) = trip.then.take() {
                    (trip.at, trip.seen) = (then, 0);
                    self.crash_states[number].dismiss();
                    continue;
                }
                trip.by = Some(machine);
                between = Some(match trip.fault {
                    Fault::LoseAt(..) => TapVerdict::Breaks,
                    _ if trip.at.after => TapVerdict::CrashesAfter,
                    _ => TapVerdict::CrashesBefore,
                });
            }
        }
        drop(trips);
        if between.is_some_and(|between| between != TapVerdict::Breaks) {
            self.crash_states[number].wake_tasks();
        }
        between
    }

    /// Checks for silent steps after a machine was driven. `before` are the counts of each step
    /// before that. Returns whether the machine crashes.
    pub fn quiet_steps(&self, machine: &Machine, before: &mut [usize; Step::ALL.len()]) -> bool {
        let awaited = |step: Step| {
            let trips = self.trips.lock();
            trips.iter().any(|trip| trip.at.name == step.name())
        };
        let mut crashes = false;
        for step in Step::ALL.into_iter().filter(|step| awaited(*step)) {
            let timelines = machine.timelines();
            let taken = timelines.iter().filter_map(|timeline| timeline.at_ns(step));
            let taken = taken.count();
            if taken > std::mem::replace(&mut before[step as usize], taken) {
                let id = MachineId(machine.number());
                crashes |= self.take(id, step.name()).is_some();
            }
        }
        crashes
    }

    /// Returns the machine at which a fault has occurred.
    fn met(&self, fault: Fault) -> Option<MachineId> {
        let trips = self.trips.lock();
        trips.iter().find(|trip| trip.fault == fault)?.by
    }

    /// Returns the crash state of a machine.
    pub fn crash_state(&self, machine: MachineId) -> &CrashState {
        &self.crash_states[machine.0 as usize - 1]
    }
}

/// The parameters of the tasks that inject faults.
#[derive(Clone)]
pub struct FaultContext {
    /// The simulated environment.
    pub sim: Sim,
    /// The machines of the cluster.
    pub machines: Vec<Arc<Machine>>,
    /// The crash states of the machines.
    pub crash_states: Vec<CrashState>,
    /// The number of clients that are not done.
    pub clients: Rc<Cell<usize>>,
    /// The same number for each machine, from 0.
    pub clients_at: Rc<Vec<Cell<usize>>>,
    /// The faults at steps.
    pub trips: CrashPoints,
}

impl FaultContext {
    /// Injects a fault, or the second part of a fault at a step.
    pub async fn happen(self, fault: Fault) {
        match fault {
            Fault::CrashAt(_) | Fault::LeaveAt(..) | Fault::LoseAt(_, None) => {}
            Fault::LoseAt(_, Some(ns)) => {
                let met = || self.trips.met(fault);
                while met().is_none() && self.clients.get() > 0 {
                    self.sim.nap(LOOK_NS).await;
                }
                if let Some(machine) = met() {
                    self.sim.nap(ns).await;
                    self.trips.crash_state(machine).crash();
                }
            }
            Fault::Crash(machine, when) => {
                if self.wait(when).await {
                    self.crash_states[machine].crash();
                }
            }
            Fault::Pause(machine, when, ns, nic) => {
                let id = self.crash_states[machine].machine();
                if self.wait(when).await {
                    self.sim.pause(id, nic);
                    self.sim.nap(ns).await;
                    self.sim.resume(id);
                }
            }
            Fault::CutOff(machine, when, ns, direction) => {
                if self.wait(when).await {
                    let others = (0..self.crash_states.len()).filter(|other| *other != machine);
                    self.cut_off(machine, others, ns, direction).await;
                }
            }
            Fault::Silence(machine, other, when, ns, direction) => {
                if self.wait(when).await {
                    self.cut_off(machine, [other], ns, direction).await;
                }
            }
            Fault::Leave(machine, when, ns) => {
                if self.wait(when).await {
                    self.leave(machine, ns).await;
                }
            }
        }
    }

    /// Makes a machine leave, unless it crashes before.
    async fn leave(&self, machine: usize, ns: u64) {
        let (leaver, crash_state) = (&self.machines[machine], &self.crash_states[machine]);
        let id = crash_state.machine();
        let mut empty = false;
        while !crash_state.has_crashed() && !leaver.is_evicted() {
            let mut others = self.machines.iter().zip(&self.crash_states);
            let member = |(other, crash_state): &(&Arc<Machine>, &CrashState)| {
                other.number() != leaver.number()
                    && !crash_state.has_crashed()
                    && !other.is_evicted()
            };
            let Some((other, fate)) = others.find(member) else {
                return self.sim.report("no other machine is left".into());
            };
            let members = other.members();
            let mut members = members.machines.iter();
            let leaves = members.any(|member| member.id == id.0 && member.leaving);
            if !leaves {
                other.ask_to_leave(id);
            } else if leaver.is_to_part() {
                if self.clients_at[machine].get() == 0 {
                    leaver.ask_to_part_with(id);
                }
            } else if empty {
                other.ask_to_part_with(id);
            } else if let Some(regions) =
                fate.or_cut(async { other.all_regions().await.ok() }).await
            {
                empty = !regions.iter().any(|mapping| mapping.replicas.has(id));
                if empty {
                    self.sim.nap(ns).await;
                }
            }
            self.sim.nap(LEAVE_NS).await;
        }
        if !crash_state.has_crashed() && empty && !leaver.has_left() {
            self.sim
                .report(format!("{id} does not know that it has left"));
        }
    }

    /// Waits for the time of a fault; returns false if it does not come.
    async fn wait(&self, when: FaultTime) -> bool {
        match when {
            FaultTime::After(ns) => self.sim.nap(ns).await,
            FaultTime::Suspected(ns) => {
                while !self.is_any_suspected() {
                    if self.clients.get() == 0 {
                        return false;
                    }
                    self.sim.nap(LOOK_NS).await;
                }
                self.sim.nap(ns).await;
            }
        }
        true
    }

    fn is_any_suspected(&self) -> bool {
        let mut all = self.machines.iter().zip(&self.crash_states);
        all.any(|(machine, crash_state)| !crash_state.has_crashed() && !machine.is_answering())
    }

    async fn cut_off(
        &self,
        machine: usize,
        others: impl IntoIterator<Item = usize>,
        ns: u64,
        direction: Direction,
    ) {
        let (net, id) = (self.sim.net(), self.crash_states[machine].machine());
        let others = others
            .into_iter()
            .map(|other| self.crash_states[other].machine());
        let ways = others.flat_map(|other| {
            let out = (direction != Direction::In).then_some((id, other));
            let back = (direction != Direction::Out).then_some((other, id));
            out.into_iter().chain(back)
        });
        let ways: Vec<_> = ways.collect();
        ways.iter().for_each(|(from, to)| net.cut(*from, *to));
        self.sim.nap(ns).await;
        ways.iter().for_each(|(from, to)| net.heal(*from, *to));
    }
}
