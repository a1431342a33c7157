//! A whole network in one thread, in virtual time, from one seed.
//!
//! # Picture
//! ```text
//! post ─► in flight ─────► lands: takes effect ─► answer in flight ─────► completion
//!            │ delay drawn from the seed              │
//!            └ parked while the direction is cut, or a network card stands still
//!
//! step(): the next thing that happens, and the machine that has something to look at
//! ```
//! Nothing happens but in [`SimNet::step`]: no threads, no clock but [`SimNet::now_ns`]. The same
//! seed and the same calls give the same history, which [`SimNet::trace`] is a hash of.
//!
//! # What it promises, and what it does not
//! FAB-1…6, and nothing beyond: what different machines post, or different threads of one
//! ([`SimFabric::thread`]), lands in any order; what was posted before a machine was paused,
//! evicted or crashed may land long after, unless its target has stopped counting it as a member,
//! or has got a new connection from it.
//!
//! *Concurrency.* One lock around everything but a copy of the time, and wakers are called without it.

mod fabric;
mod flight;
mod happening;
mod link;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::happening::{Effects, Happening};
use self::state::{State, Tapping};
use crate::clock::MonotonicClock;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::segment::Place;

pub use self::fabric::SimFabric;

/// How a network behaves; times are nanoseconds of virtual time.
#[derive(Clone, Debug)]
pub struct SimKnobs {
    /// The shortest and the longest way from one machine to another.
    pub delay_ns: (u64, u64),
    /// One in so many operations and answers, and what is behind it, takes up to `late_ns` longer, leases apart; 0 for none.
    pub late_one_in: u64,
    /// See [`Self::late_one_in`].
    pub late_ns: u64,
    /// Ways on which operations take so much longer than others, leases apart: from, to, nanoseconds.
    pub slow: Vec<(MachineId, MachineId, u64)>,
    /// One in so many reads of more than one word takes up to `torn_ns` from the first of them to the last; 0 for none. What
    /// is written meanwhile it has in part, or it says that the words changed (FAB-7).
    pub torn_one_in: u64,
    /// See [`Self::torn_one_in`].
    pub torn_ns: u64,
    /// The shortest and the longest time that a new connection takes.
    pub connect_ns: (u64, u64),
    /// How long a connection hangs before it is given up.
    pub patience_ns: u64,
    /// How long it takes at least until a connection to a machine that has ended is found broken.
    pub unnoticed_ns: u64,
    /// One in so many operations breaks its connection; 0 for none.
    pub break_one_in: u64,
    /// What a machine has on its way to another when it crashes is lost, for one in so many others; 0 for none. Otherwise
    /// it arrives.
    pub lose_one_in: u64,
}

impl Default for SimKnobs {
    fn default() -> Self {
        SimKnobs {
            delay_ns: (1_000, 20_000),
            late_one_in: 0,
            late_ns: 0,
            slow: Vec::new(),
            torn_one_in: 0,
            torn_ns: 0,
            connect_ns: (10_000, 1_000_000),
            patience_ns: 50_000_000,
            unnoticed_ns: 0,
            break_one_in: 0,
            lose_one_in: 0,
        }
    }
}

/// What the network card of a paused machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// It goes on: peers read and write the machine's memory, and what it has posted lands.
    Goes,
    /// It stands still: what was posted lands after the pause.
    Stands,
}

/// What becomes of a write, and of the machine that posts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tapped {
    /// It goes on its way.
    Goes,
    /// The machine crashes before it has posted it.
    CrashesBefore,
    /// It goes on its way, and the machine crashes.
    CrashesAfter,
    /// It is lost with its connection.
    Breaks,
}

/// Looks at every write to another machine's memory that is about to be posted: the machine that posts it, its
/// place, and the words. A tap that changes the words makes a machine write bytes that no machine writes.
pub type Tap = Box<dyn FnMut(MachineId, Place, &mut [u64]) -> Tapped + Send>;

/// Something has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimStep {
    /// When.
    pub now_ns: u64,
    /// The machine that has something to look at: an answer, an event, or that its bell was rung.
    pub look: Option<MachineId>,
}

/// A network; clones are the same one.
#[derive(Clone, Debug)]
pub struct SimNet {
    state: Arc<Mutex<State>>,
    /// A copy of the state's time, which is asked for more often than anything else.
    now: Arc<AtomicU64>,
}

impl SimNet {
    /// A network without machines, which is a function of `seed` and of what is done to it.
    pub fn new(seed: u64, knobs: SimKnobs) -> Self {
        SimNet {
            state: Arc::new(Mutex::new(State::new(seed, knobs))),
            now: Arc::default(),
        }
    }

    /// A machine joins the network, a member of nothing but itself. It crashes when its last handle
    /// is dropped.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if there is such a machine already.
    pub fn join(&self, me: MachineId) -> Result<SimFabric, FabricError> {
        SimFabric::join(self, me)
    }

    /// Lets the next thing happen; `None` where nothing more will.
    pub fn step(&self) -> Option<SimStep> {
        let mut state = self.state.lock();
        let happening = state.next()?;
        self.now.store(state.now(), Ordering::Relaxed);
        let mut effects = Effects::default();
        state.happen(happening, &mut effects);
        let look = effects.look.and_then(|machine| state.look(machine));
        let now_ns = state.now();
        drop(state);
        effects.answer();
        Some(SimStep { now_ns, look })
    }

    /// A hash of everything that has happened.
    pub fn trace(&self) -> u64 {
        self.state.lock().trace()
    }

    /// Makes [`Self::step`] name a machine at a time, as a timer would.
    pub fn wake_at(&self, machine: MachineId, at_ns: u64) {
        let mut state = self.state.lock();
        state.at(at_ns, Happening::Wake(machine));
    }

    /// A machine ends. What it has posted may still land.
    pub fn crash(&self, machine: MachineId) {
        self.change(|state, effects| state.crash(machine, effects));
    }

    /// Whether a machine has joined and has not ended.
    pub fn lives(&self, machine: MachineId) -> bool {
        self.state.lock().stations.contains_key(&machine)
    }

    /// Has `tap` look at what is written from now on, in the place of one before. It is called under the network's
    /// lock, which it leaves alone.
    pub fn tap(&self, tap: Tap) {
        self.state.lock().tap = Some(Tapping(tap));
    }

    /// [`Self::step`] names the machine no more, until it resumes.
    pub fn pause(&self, machine: MachineId, nic: Nic) {
        self.change(|state, _| state.pause(machine, nic));
    }

    /// A paused machine goes on.
    pub fn resume(&self, machine: MachineId) {
        self.change(|state, effects| state.resume(machine, effects));
    }

    /// Nothing gets from one machine to the other any more, neither operations nor answers.
    pub fn cut(&self, from: MachineId, to: MachineId) {
        self.change(|state, _| state.cut(from, to));
    }

    /// Undoes [`Self::cut`]; what was under way on a connection that has not been given up arrives.
    pub fn heal(&self, from: MachineId, to: MachineId) {
        self.change(|state, effects| state.heal(from, to, effects));
    }

    /// Breaks the connection over which a machine posts to another.
    pub fn break_connection(&self, from: MachineId, to: MachineId) {
        self.change(|state, effects| state.break_now(from, to, effects));
    }

    /// Changes something, and then answers whom that concerns.
    fn change<T>(&self, change: impl FnOnce(&mut State, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let result = change(&mut self.state.lock(), &mut effects);
        effects.answer();
        result
    }
}

impl MonotonicClock for SimNet {
    fn now_ns(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
