//! The environment of a task in a simulated cluster: time, sleeping, and the reporting of violated
//! invariants.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use fencepost_fabric::{MachineId, MonotonicClock, Nic, SimNet};

/// The machine id that stands for tasks in the network's wake-ups.
const NO_MACHINE: MachineId = MachineId(u32::MAX);

/// The environment of a cluster; clones refer to the same one.
#[derive(Clone)]
pub struct Sim {
    inner: Rc<Inner>,
}

struct Inner {
    net: SimNet,
    /// The logical clock: events of one thread are ordered, also at the same virtual time.
    moments: Cell<u64>,
    naps: RefCell<BTreeMap<(u64, u64), Waker>>,
    progress: Cell<u64>,
    /// The paused machines, and whether one has resumed since the last query.
    paused: RefCell<BTreeSet<MachineId>>,
    resumed: Cell<bool>,
    broken: RefCell<Option<String>>,
}

impl Sim {
    /// Returns the environment of a network.
    pub fn new(net: SimNet) -> Sim {
        Sim {
            inner: Rc::new(Inner {
                net,
                moments: Cell::new(0),
                naps: RefCell::default(),
                progress: Cell::new(0),
                paused: RefCell::default(),
                resumed: Cell::new(false),
                broken: RefCell::default(),
            }),
        }
    }

    /// Returns the network, which is also the clock.
    pub fn net(&self) -> &SimNet {
        &self.inner.net
    }

    /// Returns the virtual time.
    pub fn now_ns(&self) -> u64 {
        self.inner.net.now_ns()
    }

    /// Advances and returns the logical time.
    pub fn moment(&self) -> u64 {
        let moment = self.inner.moments.get() + 1;
        self.inner.moments.set(moment);
        moment
    }

    /// Sleeps for a virtual time.
    pub async fn nap(&self, ns: u64) {
        let key = (self.now_ns().saturating_add(ns), self.moment());
        self.wake_at(key.0);
        poll_fn(|cx| {
            let mut naps = self.inner.naps.borrow_mut();
            if self.now_ns() >= key.0 {
                naps.remove(&key);
                return Poll::Ready(());
            }
            naps.insert(key, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Makes the network stop at a time.
    pub(crate) fn wake_at(&self, at_ns: u64) {
        self.inner.net.wake_at(NO_MACHINE, at_ns);
    }

    /// Wakes the tasks whose sleep is over.
    pub(crate) fn end_naps(&self) {
        let now = self.now_ns();
        loop {
            let mut naps = self.inner.naps.borrow_mut();
            let over = naps.first_entry().filter(|first| first.key().0 <= now);
            let Some(over) = over else { return };
            let waker = over.remove();
            drop(naps);
            waker.wake();
        }
    }

    /// Pauses all tasks and drives of a machine.
    pub fn pause(&self, machine: MachineId, nic: Nic) {
        self.net().pause(machine, nic);
        self.inner.paused.borrow_mut().insert(machine);
    }

    /// Resumes a machine.
    pub fn resume(&self, machine: MachineId) {
        self.net().resume(machine);
        self.inner.paused.borrow_mut().remove(&machine);
        self.inner.resumed.set(true);
    }

    /// Returns whether a machine is paused now.
    pub(crate) fn is_paused(&self, machine: MachineId) -> bool {
        self.inner.paused.borrow().contains(&machine)
    }

    /// Returns whether a machine has resumed since the last call.
    pub(crate) fn any_resumed(&self) -> bool {
        self.inner.resumed.take()
    }

    /// Records that some work has ended.
    pub fn progress(&self) {
        self.inner.progress.set(self.now_ns());
    }

    /// Returns the time of the last [`Self::progress`].
    pub(crate) fn last_progress(&self) -> u64 {
        self.inner.progress.get()
    }

    /// Reports a violated invariant, which ends the run; only the first report is kept.
    pub fn report(&self, what: String) {
        self.inner.broken.borrow_mut().get_or_insert(what);
    }

    pub(crate) fn reported(&self) -> Option<String> {
        self.inner.broken.borrow_mut().take()
    }
}
