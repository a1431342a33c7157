//! What goes wrong in a run: machines that crash, stand still or are cut off, at times or at steps of the protocols.
//!
//! ```text
//! plan ─► Fault ──┬─ at a time, or soon after a suspicion ─► a task ─► crash, pause, cut off
//!                 └─ at a step ─► Trips: a tap of the network, and the store ─► crash before it, or right after
//! ```
//! Steps are what machines write to one another ([`fencepost_txn::network::steps`]), [`SWAP`], the compare-and-swap
//! of a configuration, and those of a reconfiguration that a machine remembers ([`Step`]), which send nothing: whoever
//! crashes at one of these does so right after it was driven. Whoever crashes at one does so in the middle of what it was at: what it does until it would have
//! let others run comes to nothing, and nobody sees it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{MachineId, Nic, SimNet, Tapped};
use fencepost_txn::Machine;
use fencepost_txn::network::{Step, steps};
use parking_lot::Mutex;

use crate::doom::Doom;
use crate::sim::Sim;

/// The step that is none of a message: the store is asked to make a configuration the current one.
pub const SWAP: &str = "SWAP";
/// How often a task looks whether somebody is suspected.
const LOOK_NS: u64 = 20_000;

/// How often it is looked how far a machine is that leaves.
const LEAVE_NS: u64 = 500_000;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A machine, from 0, crashes.
    Crash(usize, When),
    /// Whoever takes a step crashes then.
    CrashAt(StepAt),
    /// A step is lost with the connection that it was to go over, and so many nanoseconds later its machine crashes, if it
    /// does.
    LoseAt(StepAt, Option<u64>),
    /// A client leaves at a step of its commit, and its machine crashes at another one that it takes after that.
    LeaveAt(StepAt, StepAt),
    /// A machine does not run for so many nanoseconds; what becomes of its network card meanwhile.
    Pause(usize, When, u64, Nic),
    /// Nothing gets to or from a machine for so many nanoseconds.
    CutOff(usize, When, u64, Direction),
    /// Nothing gets from one machine to another for so many nanoseconds, or neither way.
    Silence(usize, usize, When, u64, Direction),
    /// Nothing goes wrong, but a machine is asked to leave; so many nanoseconds after it has nothing any more it does.
    Leave(usize, When, u64),
}

impl Fault {
    /// Whether anything goes wrong.
    pub fn is_failure(self) -> bool {
        !matches!(self, Fault::Leave(..))
    }
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So many nanoseconds after the clients have begun.
    After(u64),
    /// So many nanoseconds after somebody has been suspected, if that happens.
    Suspected(u64),
}

/// A step of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAt {
    /// What it is called.
    pub name: &'static str,
    /// Whose, from 0; `None` for anybody's.
    pub by: Option<usize>,
    /// Which of them, from 1.
    pub nth: u64,
    /// Whether it is still taken, where its machine crashes.
    pub after: bool,
}

/// Which way nothing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Neither.
    Both,
    /// From the machine.
    Out,
    /// To the machine.
    In,
}

/// The steps at which somebody crashes; clones are the same ones.
#[derive(Clone)]
pub struct Trips {
    trips: Arc<Mutex<Vec<Trip>>>,
    dooms: Arc<Vec<Doom>>,
}

struct Trip {
    fault: Fault,
    at: StepAt,
    /// Where the machine crashes, once somebody's client has left at the step before.
    then: Option<StepAt>,
    seen: u64,
    /// Who has taken the step.
    by: Option<MachineId>,
}

impl Trips {
    /// None so far, of machines that may meet theirs.
    pub fn of(dooms: Vec<Doom>) -> Trips {
        Trips {
            trips: Arc::default(),
            dooms: Arc::new(dooms),
        }
    }

    /// From now on there are these, if any.
    pub fn arm(&self, net: &SimNet, faults: &[Fault]) {
        let trips = faults.iter().filter_map(|fault| {
            let (at, then) = match fault {
                Fault::CrashAt(at) | Fault::LoseAt(at, _) => (at, None),
                Fault::LeaveAt(at, then) => (at, Some(*then)),
                _ => return None,
            };
            Some(Trip {
                fault: *fault,
                at: *at,
                then,
                seen: 0,
                by: None,
            })
        });
        let trips: Vec<Trip> = trips.collect();
        if trips.is_empty() {
            return;
        }
        *self.trips.lock() = trips;
        let trips = self.clone();
        net.tap(Box::new(move |machine, place, words| {
            let mut all = steps(place.segment, words).into_iter();
            let taken = all.find_map(|step| trips.take(machine, step));
            taken.unwrap_or(Tapped::Goes)
        }));
    }

    /// From now on nobody crashes at a step.
    pub fn disarm(&self) {
        self.trips.lock().clear();
    }

    /// A machine is about to take a step: what comes in between.
    pub fn take(&self, machine: MachineId, step: &str) -> Option<Tapped> {
        let mut trips = self.trips.lock();
        let number = machine.0 as usize - 1;
        let is_at = |at: &StepAt| at.name == step && at.by.is_none_or(|by| by == number);
        let mut between = None;
        for trip in trips.iter_mut().filter(|trip| is_at(&trip.at)) {
            trip.seen += 1;
            if trip.seen == trip.at.nth {
                if let Some(then) = trip.then.take() {
                    (trip.at, trip.seen) = (then, 0);
                    self.dooms[number].dismiss();
                    continue;
                }
                trip.by = Some(machine);
                between = Some(match trip.fault {
                    Fault::LoseAt(..) => Tapped::Breaks,
                    _ if trip.at.after => Tapped::CrashesAfter,
                    _ => Tapped::CrashesBefore,
                });
            }
        }
        drop(trips);
        if between.is_some_and(|between| between != Tapped::Breaks) {
            self.dooms[number].tell();
        }
        between
    }

    /// A machine was driven, and had taken `before` of each step until then; whether it crashes.
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

    /// Who has met a fault at a step.
    fn met(&self, fault: Fault) -> Option<MachineId> {
        let trips = self.trips.lock();
        trips.iter().find(|trip| trip.fault == fault)?.by
    }

    /// The doom of a machine.
    pub fn doom(&self, machine: MachineId) -> &Doom {
        &self.dooms[machine.0 as usize - 1]
    }
}

/// What a fault has at hand.
#[derive(Clone)]
pub struct Scene {
    /// Where it happens.
    pub sim: Sim,
    /// To whom.
    pub machines: Vec<Arc<Machine>>,
    /// Which of them have crashed.
    pub dooms: Vec<Doom>,
    /// Clients that are not done.
    pub clients: Rc<Cell<usize>>,
    /// The same of each machine, from 0.
    pub clients_at: Rc<Vec<Cell<usize>>>,
    /// What happens at steps.
    pub trips: Trips,
}

impl Scene {
    /// Has a fault happen, or its sequel where it is one at a step.
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
                    self.trips.doom(machine).come();
                }
            }
            Fault::Crash(machine, when) => {
                if self.wait(when).await {
                    self.dooms[machine].come();
                }
            }
            Fault::Pause(machine, when, ns, nic) => {
                let id = self.dooms[machine].machine();
                if self.wait(when).await {
                    self.sim.pause(id, nic);
                    self.sim.nap(ns).await;
                    self.sim.resume(id);
                }
            }
            Fault::CutOff(machine, when, ns, direction) => {
                if self.wait(when).await {
                    let others = (0..self.dooms.len()).filter(|other| *other != machine);
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

    /// Has a machine leave, unless it crashes before.
    async fn leave(&self, machine: usize, ns: u64) {
        let (leaver, doom) = (&self.machines[machine], &self.dooms[machine]);
        let id = doom.machine();
        let mut empty = false;
        while !doom.has_come() && !leaver.is_evicted() {
            let mut others = self.machines.iter().zip(&self.dooms);
            let member = |(other, doom): &(&Arc<Machine>, &Doom)| {
                other.number() != leaver.number() && !doom.has_come() && !other.is_evicted()
            };
            let Some((other, fate)) = others.find(member) else {
                return self.sim.report("nobody is left".into());
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
        if !doom.has_come() && empty && !leaver.has_left() {
            self.sim
                .report(format!("{id} does not know that it has left"));
        }
    }

    /// Waits until then; false where that does not come.
    async fn wait(&self, when: When) -> bool {
        match when {
            When::After(ns) => self.sim.nap(ns).await,
            When::Suspected(ns) => {
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
        let mut all = self.machines.iter().zip(&self.dooms);
        all.any(|(machine, doom)| !doom.has_come() && !machine.is_answering())
    }

    async fn cut_off(
        &self,
        machine: usize,
        others: impl IntoIterator<Item = usize>,
        ns: u64,
        direction: Direction,
    ) {
        let (net, id) = (self.sim.net(), self.dooms[machine].machine());
        let others = others.into_iter().map(|other| self.dooms[other].machine());
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
