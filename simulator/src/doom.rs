//! Machines that crash in the middle of a run: when, and what becomes of their clients.
//!
//! A crashed machine is driven no more, and its clients are cut off at once: where their transaction was about to
//! commit, nobody was told of its end.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use fencepost_fabric::MachineId;

use crate::sim::Sim;

/// What a plan has crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The machine, from 0.
    pub machine: usize,
    /// Nanoseconds after its clients have begun.
    pub after_ns: u64,
}

/// Whether a machine has crashed; clones are of the same one.
#[derive(Clone, Default)]
pub struct Doom(Rc<Inner>);

#[derive(Default)]
struct Inner {
    dead: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Doom {
    /// Whether it has.
    pub fn has_come(&self) -> bool {
        self.0.dead.get()
    }

    /// Crashes machine number `at` at its time.
    pub async fn come(self, sim: Sim, crash: Crash) {
        sim.nap(crash.after_ns).await;
        self.strike(&sim, MachineId(crash.machine as u32 + 1));
    }

    /// Crashes it now, which is `machine`.
    pub fn strike(&self, sim: &Sim, machine: MachineId) {
        sim.net().crash(machine);
        self.0.dead.set(true);
        let waiting = self.0.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What a future answers, unless its machine crashes before.
    pub async fn or_cut<T>(&self, future: impl Future<Output = Option<T>>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.has_come() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(cx);
            if polled.is_pending() {
                self.0.waiting.borrow_mut().push(cx.waker().clone());
            }
            polled
        })
        .await
    }
}
