//! The current configuration of a machine: which commits may proceed in it, and whether clients may
//! be answered.
//!
//! ```text
//! suspicion ─► block ─────────────────────────────────────────► unblock: the next one is in force
//!                       commits of the one before ─► apply │ no record of it is written any more
//! ```
//! # Invariants
//! * CONFIGURED-1: a commit acts in a configuration, by writing a record or installing a version,
//!   only while the machine is in it ([`CurrentConfiguration::during`]). After
//!   [`CurrentConfiguration::apply`] returns, this machine writes nothing more for earlier ones
//!   (SOSP'15 §5.2 step 6).
//! * CONFIGURED-2: between the first suspicion and the commit of the next configuration no client
//!   is told how a commit ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_cluster::Configuration;
use fencepost_fabric::{Completer, Completion, MachineId};
use parking_lot::{Mutex, RwLock};

/// Stands for no configuration.
const NONE: u64 = u64::MAX;

/// The current configuration of a machine.
pub(super) struct CurrentConfiguration {
    current: RwLock<Configuration>,
    /// The id of `current`; `NONE` after the machine has left.
    id: AtomicU64,
    cm: AtomicU64,
    blocked: AtomicBool,
    /// Waiters for a change.
    waiting: Mutex<Vec<Completer<()>>>,
}

impl CurrentConfiguration {
    pub fn new(configuration: &Configuration) -> CurrentConfiguration {
        CurrentConfiguration {
            id: AtomicU64::new(configuration.id().0),
            cm: AtomicU64::new(u64::from(configuration.cm().0)),
            current: RwLock::new(configuration.clone()),
            blocked: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Returns the id of the configuration.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Acquire)
    }

    /// Returns the configuration manager.
    pub fn cm(&self) -> MachineId {
        MachineId(self.cm.load(Ordering::Acquire) as u32)
    }

    /// Returns a copy of the configuration.
    pub fn current(&self) -> Configuration {
        self.current.read().clone()
    }

    /// Calls `f` with the id of the configuration, which does not change meanwhile.
    #[inline]
    pub fn within<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        let _current = self.current.read();
        f(self.id())
    }

    /// Calls `f` while the machine is in configuration `id`; returns `None` if it is not in it any
    /// more.
    #[inline]
    pub fn during<T>(&self, id: u64, f: impl FnOnce() -> T) -> Option<T> {
        let _current = self.current.read();
        (self.id() == id).then(f)
    }

    /// Changes to configuration `new`. `f` runs after all actions in the previous one and before
    /// any in the new one.
    pub fn apply<T>(&self, new: &Configuration, f: impl FnOnce() -> T) -> T {
        let mut current = self.current.write();
        *current = new.clone();
        self.id.store(new.id().0, Ordering::Release);
        self.cm.store(u64::from(new.cm().0), Ordering::Release);
        let done = f();
        drop(current);
        self.tell_waiting();
        done
    }

    /// Leaves the configuration: the machine is in none any more, and answers no client.
    pub fn leave(&self) {
        let current = self.current.write();
        self.block();
        self.id.store(NONE, Ordering::Release);
        drop(current);
    }

    /// Stops answers to clients from now on.
    pub fn block(&self) {
        self.blocked.store(true, Ordering::Release);
    }

    /// Allows answers to clients: the configuration is in force.
    pub fn unblock(&self) {
        self.blocked.store(false, Ordering::Release);
        self.tell_waiting();
    }

    /// Returns whether answers to clients are blocked.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Completes when the configuration or a lease may have changed. The caller must check its
    /// condition again after this call.
    pub fn change(&self) -> Completion<()> {
        let (completer, change) = Completion::pending();
        self.waiting.lock().push(completer);
        change
    }

    /// Waits until the machine is in a configuration later than `id`, or stops.
    pub async fn later_than(&self, id: u64) {
        while self.id() <= id {
            let change = self.change();
            if self.id() <= id && change.await.is_err() {
                return;
            }
        }
    }

    /// Wakes all waiters, which check their conditions again.
    pub fn tell_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting
            .into_iter()
            .for_each(|waiting| waiting.complete(Ok(())));
    }

    /// Tells all waiters that no change will come.
    pub fn give_up(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        drop(waiting);
    }
}
