//! A simulated network in one thread and virtual time, from one seed.
//!
//! # Picture
//! ```text
//! post ─► in flight ─────► lands: takes effect ─► answer in flight ─────► completion
//!            │ delay drawn from the seed              │
//!            └ parked while the direction is cut, or a network card is paused
//!
//! step(): the next event, and the machine that must look for new data
//! ```
//! All events happen in [`SimNet::step`]: there are no threads, and no clock but
//! [`SimNet::now_ns`]. The same seed and the same calls give the same history, whose hash
//! [`SimNet::trace`] returns.
//!
//! # Guarantees
//! The network keeps FAB-1…6, and nothing else. Operations of different machines, or of different
//! threads of one machine ([`SimFabric::thread`]), land in any order. An operation may land long
//! after its machine was paused, evicted or crashed. It does not land if its target no longer has
//! the machine as a member, or has a new connection from it.
//!
//! *Concurrency.* One lock protects everything but a copy of the time; wakers are called without
//! it.

mod connection;
mod fabric;
mod flight;
mod happening;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::happening::{Effects, SimEvent};
use self::state::{InstalledTap, State};
use crate::clock::MonotonicClock;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::segment::Place;

pub use self::fabric::SimFabric;

/// The parameters of a network; times are nanoseconds of virtual time.
#[derive(Clone, Debug)]
pub struct SimKnobs {
    /// The shortest and the longest delay from one machine to another.
    pub delay_ns: (u64, u64),
    /// One in this many operations and answers, and those queued behind it, takes up to `late_ns`
    /// longer, except for leases; 0 for none.
    pub late_one_in: u64,
    /// See [`Self::late_one_in`].
    pub late_ns: u64,
    /// Pairs of machines whose operations are delayed further, except for leases: from, to,
    /// nanoseconds.
    pub slow: Vec<(MachineId, MachineId, u64)>,
    /// One in this many reads of more than one word takes up to `torn_ns` between its first word
    /// and its last; 0 for none. Such a read returns a part of the words written meanwhile, or
    /// reports that the words changed (FAB-7).
    pub torn_one_in: u64,
    /// See [`Self::torn_one_in`].
    pub torn_ns: u64,
    /// The shortest and the longest time to open a connection.
    pub connect_ns: (u64, u64),
    /// The time after which a hanging connection is given up.
    pub patience_ns: u64,
    /// The shortest time after which a connection to an ended machine is found broken.
    pub unnoticed_ns: u64,
    /// One in this many operations breaks its connection; 0 for none.
    pub break_one_in: u64,
    /// When a machine crashes, its operations in flight are lost for one in this many other
    /// machines; 0 for none. Otherwise they arrive.
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

/// The behaviour of the network card of a paused machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// The card works: peers read and write the machine's memory, and its posted operations land.
    Goes,
    /// The card is paused, too: posted operations land after the pause.
    Stands,
}

/// The fate of a write and of the machine that posts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapVerdict {
    /// The write is sent.
    Goes,
    /// The machine crashes before it has posted the write.
    CrashesBefore,
    /// The write is sent, and the machine crashes.
    CrashesAfter,
    /// The write is lost with its connection.
    Breaks,
}

/// A hook that gets every write to another machine's memory before it is posted: the posting
/// machine, the place, and the words. A tap that changes the words simulates a machine that writes
/// invalid data.
pub type WriteTap = Box<dyn FnMut(MachineId, Place, &mut [u64]) -> TapVerdict + Send>;

/// The result of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimStep {
    /// The virtual time of the event.
    pub now_ns: u64,
    /// The machine that must look: it has an answer or an event, or its bell was rung.
    pub look: Option<MachineId>,
}

/// A simulated network; clones refer to the same network.
#[derive(Clone, Debug)]
pub struct SimNet {
    state: Arc<Mutex<State>>,
    /// A copy of the state's time, which is read more often than anything else.
    now: Arc<AtomicU64>,
}

impl SimNet {
    /// Returns a network without machines, which depends only on `seed` and the calls.
    pub fn new(seed: u64, knobs: SimKnobs) -> Self {
        SimNet {
            state: Arc::new(Mutex::new(State::new(seed, knobs))),
            now: Arc::default(),
        }
    }

    /// Adds a machine to the network; it is its own only member. The machine crashes when its last
    /// handle is dropped.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the machine exists already; [`FabricError::Io`] if there is no
    /// memory for its bells.
    pub fn join(&self, me: MachineId) -> Result<SimFabric, FabricError> {
        SimFabric::join(self, me)
    }

    /// Carries out the next event; returns `None` if there are no more events. Completes operations
    /// and wakes their tasks on the calling thread.
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

    /// Returns a hash of all past events.
    pub fn trace(&self) -> u64 {
        self.state.lock().trace()
    }

    /// Makes [`Self::step`] name a machine at a virtual time in nanoseconds, as a timer would.
    pub fn wake_at(&self, machine: MachineId, at_ns: u64) {
        let mut state = self.state.lock();
        state.at(at_ns, SimEvent::Wake(machine));
    }

    /// Ends a machine. Its posted operations may still land.
    pub fn crash(&self, machine: MachineId) {
        self.change(|state, effects| state.crash(machine, effects));
    }

    /// Returns whether a machine has joined and has not ended.
    pub fn is_running(&self, machine: MachineId) -> bool {
        self.state.lock().stations.contains_key(&machine)
    }

    /// Sets the hook for all further writes, in place of an earlier one. The tap is called under
    /// the network's lock, so it must not use the network.
    pub fn tap(&self, tap: WriteTap) {
        self.state.lock().tap = Some(InstalledTap(tap));
    }

    /// Pauses a machine: [`Self::step`] does not name it until it resumes.
    pub fn pause(&self, machine: MachineId, nic: Nic) {
        self.change(|state, _| state.pause(machine, nic));
    }

    /// Resumes a paused machine.
    pub fn resume(&self, machine: MachineId) {
        self.change(|state, effects| state.resume(machine, effects));
    }

    /// Stops all operations and answers from one machine to the other.
    pub fn cut(&self, from: MachineId, to: MachineId) {
        self.change(|state, _| state.cut(from, to));
    }

    /// Undoes [`Self::cut`]; operations in flight on a connection that has not been given up
    /// arrive.
    pub fn heal(&self, from: MachineId, to: MachineId) {
        self.change(|state, effects| state.heal(from, to, effects));
    }

    /// Breaks the connection over which a machine posts to another: operations in flight on it
    /// answer [`FabricError::Lost`].
    pub fn break_connection(&self, from: MachineId, to: MachineId) {
        self.change(|state, effects| state.break_now(from, to, effects));
    }

    /// Makes a change, then completes the affected operations without the lock.
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
