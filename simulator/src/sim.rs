//! What a task of a simulated cluster has of the world outside: the time, naps, and somebody to tell of
//! what must not be.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use fencepost_fabric::{MachineId, MonotonicClock, Nic, SimNet};

/// Who is woken for tasks: no machine of the network.
const NOBODY: MachineId = MachineId(u32::MAX);

/// One cluster's world; clones are the same one.
#[derive(Clone)]
pub struct Sim {
    inner: Rc<Inner>,
}

struct Inner {
    net: SimNet,
    /// Moments so far: what happens in one thread happens one after the other, also at one time.
    moments: Cell<u64>,
    naps: RefCell<BTreeMap<(u64, u64), Waker>>,
    progress: Cell<u64>,
    /// Machines that do not run, and whether one has gone on since anybody asked.
    paused: RefCell<BTreeSet<MachineId>>,
    resumed: Cell<bool>,
    broken: RefCell<Option<String>>,
}

impl Sim {
    /// The world around a network.
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

    /// The network, which is the clock, too.
    pub fn net(&self) -> &SimNet {
        &self.inner.net
    }

    /// Virtual time.
    pub fn now_ns(&self) -> u64 {
        self.inner.net.now_ns()
    }

    /// The next moment.
    pub fn moment(&self) -> u64 {
        let moment = self.inner.moments.get() + 1;
        self.inner.moments.set(moment);
        moment
    }

    /// Sleeps for some virtual time.
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

    /// Lets the network stop at a time.
    pub(crate) fn wake_at(&self, at_ns: u64) {
        self.inner.net.wake_at(NOBODY, at_ns);
    }

    /// Wakes whoever has slept long enough.
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

    /// Nothing of a machine runs any more.
    pub fn pause(&self, machine: MachineId, nic: Nic) {
        self.net().pause(machine, nic);
        self.inner.paused.borrow_mut().insert(machine);
    }

    /// It goes on.
    pub fn resume(&self, machine: MachineId) {
        self.net().resume(machine);
        self.inner.paused.borrow_mut().remove(&machine);
        self.inner.resumed.set(true);
    }

    /// Whether a machine does not run now.
    pub(crate) fn is_paused(&self, machine: MachineId) -> bool {
        self.inner.paused.borrow().contains(&machine)
    }

    /// Whether one has gone on since this was asked last.
    pub(crate) fn any_resumed(&self) -> bool {
        self.inner.resumed.take()
    }

    /// Something has come to its end.
    pub fn progress(&self) {
        self.inner.progress.set(self.now_ns());
    }

    /// When something came to its end last.
    pub(crate) fn last_progress(&self) -> u64 {
        self.inner.progress.get()
    }

    /// Something is as it must not be; the run ends, and the first to be told of is its end.
    pub fn report(&self, what: String) {
        self.inner.broken.borrow_mut().get_or_insert(what);
    }

    pub(crate) fn reported(&self) -> Option<String> {
        self.inner.broken.borrow_mut().take()
    }
}
