//! The configuration that a machine is in: who commits in it, and whether clients may be answered.
//!
//! ```text
//! suspicion ─► block ───────────────────────────────────────────► unblock: the next one is in force
//!                        commits of the one before ─► apply │ no record of it is written any more
//! ```
//! # Invariants
//! * CONFIGURED-1: what a commit does for a configuration, write a record or put a version in place, it does while
//!   the machine is in that one ([`Configured::during`]): once [`Configured::apply`] is through, nothing more of
//!   earlier ones comes from here (SOSP'15 §5.2 step 6).
//! * CONFIGURED-2: between the first suspicion and the commit of the next configuration nobody is told of a
//!   commit's end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_cluster::Configuration;
use fencepost_fabric::{Completer, Completion, MachineId};
use parking_lot::{Mutex, RwLock};

/// The id of no configuration.
const NONE: u64 = u64::MAX;

/// What a machine knows of its configuration.
pub(super) struct Configured {
    current: RwLock<Configuration>,
    /// Its id.
    id: AtomicU64,
    cm: AtomicU64,
    blocked: AtomicBool,
    /// Who waits for a change.
    waiting: Mutex<Vec<Completer<()>>>,
}

impl Configured {
    pub fn new(configuration: &Configuration) -> Configured {
        Configured {
            id: AtomicU64::new(configuration.id().0),
            cm: AtomicU64::new(u64::from(configuration.cm().0)),
            current: RwLock::new(configuration.clone()),
            blocked: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Its id.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Acquire)
    }

    /// Its configuration manager.
    pub fn cm(&self) -> MachineId {
        MachineId(self.cm.load(Ordering::Acquire) as u32)
    }

    /// A copy of it.
    pub fn current(&self) -> Configuration {
        self.current.read().clone()
    }

    /// Does something while the machine stays in its configuration, whose id it is told.
    #[inline]
    pub fn within<T>(&self, f: impl FnOnce(u64) -> T) -> T {
        let _current = self.current.read();
        f(self.id())
    }

    /// Does something while the machine is in configuration `id`; `None` where it is not any more.
    #[inline]
    pub fn during<T>(&self, id: u64, f: impl FnOnce() -> T) -> Option<T> {
        let _current = self.current.read();
        (self.id() == id).then(f)
    }

    /// The machine is in `new` from now on; `f` is done before anything is for it, and after all for the one before.
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

    /// The machine is in no configuration any more, and answers nobody.
    pub fn leave(&self) {
        let current = self.current.write();
        self.block();
        self.id.store(NONE, Ordering::Release);
        drop(current);
    }

    /// Answers nobody from now on.
    pub fn block(&self) {
        self.blocked.store(true, Ordering::Release);
    }

    /// The configuration is in force.
    pub fn unblock(&self) {
        self.blocked.store(false, Ordering::Release);
        self.tell_waiting();
    }

    /// Whether nobody is answered.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Comes when something may have changed: whoever waits for that looks again, once it has this.
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

    /// Whoever waits looks again.
    pub fn tell_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting
            .into_iter()
            .for_each(|waiting| waiting.complete(Ok(())));
    }

    /// Whoever waits is told that it is in vain.
    pub fn give_up(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        drop(waiting);
    }
}
