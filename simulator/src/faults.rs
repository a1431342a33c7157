//! What goes wrong in a run: machines that crash, stand still or are cut off, at times or at steps of the protocols.
//!
//! ```text
//! plan ─► Fault ──┬─ at a time, or soon after a suspicion ─► a task ─► crash, pause, cut off
//!                 └─ at a step ─► Trips: a tap of the network, and the store ─► crash before it, or right after
//! ```
//! Steps are what machines write to one another ([`fencepost_txn::network::steps`]), and [`SWAP`], the compare-and-swap
//! of a configuration. Whoever crashes at one does so in the middle of what it was at: what it does until it would have
//! let others run comes to nothing, and nobody sees it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{MachineId, Nic, SimNet, Tapped};
use fencepost_txn::Machine;
use fencepost_txn::network::steps;
use parking_lot::Mutex;

use crate::doom::Doom;
use crate::sim::Sim;

/// The step that is none of a message: the store is asked to make a configuration the current one.
pub const SWAP: &str = "SWAP";
/// How often a task looks whether somebody is suspected.
const LOOK_NS: u64 = 20_000;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A machine, from 0, crashes.
    Crash(usize, When),
    /// Whoever takes a step crashes then.
    CrashAt(StepAt),
    /// A machine does not run for so many nanoseconds; what becomes of its network card meanwhile.
    Pause(usize, When, u64, Nic),
    /// Nothing gets to or from a machine for so many nanoseconds.
    CutOff(usize, When, u64, Direction),
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
    /// Whether it is still taken.
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
    at: StepAt,
    seen: u64,
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
        let at = faults.iter().filter_map(|fault| match fault {
            Fault::CrashAt(at) => Some(*at),
            _ => None,
        });
        let trips: Vec<Trip> = at.map(|at| Trip { at, seen: 0 }).collect();
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

    /// A machine is about to take a step: whether it crashes there.
    pub fn take(&self, machine: MachineId, step: &str) -> Option<Tapped> {
        let mut trips = self.trips.lock();
        let number = machine.0 as usize - 1;
        let is_at = |at: &StepAt| at.name == step && at.by.is_none_or(|by| by == number);
        let mut crashes = None;
        for trip in trips.iter_mut().filter(|trip| is_at(&trip.at)) {
            trip.seen += 1;
            if trip.seen == trip.at.nth {
                crashes = Some(match trip.at.after {
                    true => Tapped::CrashesAfter,
                    false => Tapped::CrashesBefore,
                });
            }
        }
        drop(trips);
        if crashes.is_some() {
            self.dooms[number].tell();
        }
        crashes
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
}

impl Scene {
    /// Has a fault happen that is not one at a step.
    pub async fn happen(self, fault: Fault) {
        match fault {
            Fault::CrashAt(_) => {}
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
                    self.cut_off(machine, ns, direction).await;
                }
            }
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

    async fn cut_off(&self, machine: usize, ns: u64, direction: Direction) {
        let (net, id) = (self.sim.net(), self.dooms[machine].machine());
        let others = self.dooms.iter().map(Doom::machine);
        let ways = others.filter(|other| *other != id).flat_map(|other| {
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
