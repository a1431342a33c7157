//! Machines that crash in the middle of a run, and what becomes of their clients.
//!
//! A crashed machine is driven no more, and its clients are cut off at once: where their transaction was about to
//! commit, nobody was told of its end. A client may also leave before its machine crashes, in the midst of its commit.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use fencepost_fabric::{MachineId, SimNet};
use parking_lot::Mutex;

/// Whether a machine has crashed; clones are of the same one.
#[derive(Clone)]
pub struct Doom {
    net: SimNet,
    machine: MachineId,
    waiting: Arc<Mutex<Vec<Waker>>>,
    /// Whoever commits there now leaves.
    leaves: Arc<AtomicBool>,
}

impl Doom {
    /// Of a machine of a network.
    pub fn of(net: &SimNet, machine: MachineId) -> Doom {
        Doom {
            net: net.clone(),
            machine,
            waiting: Arc::default(),
            leaves: Arc::default(),
        }
    }

    /// The machine.
    pub fn machine(&self) -> MachineId {
        self.machine
    }

    /// Whether it has.
    pub fn has_come(&self) -> bool {
        !self.net.lives(self.machine)
    }

    /// Crashes the machine.
    pub fn come(&self) {
        self.net.crash(self.machine);
        self.tell();
    }

    /// The machine crashes: whoever runs there is to look.
    pub fn tell(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Who commits there now is to leave, and does not wait for the end of it.
    pub fn dismiss(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Whether who asks is to leave; once.
    pub fn is_dismissed(&self) -> bool {
        self.leaves.swap(false, Ordering::Relaxed)
    }

    /// What a future answers, unless its machine crashes before or meanwhile.
    pub async fn or_cut<T>(&self, future: impl Future<Output = Option<T>>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.has_come() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(cx);
            if self.has_come() {
                return Poll::Ready(None);
            }
            if polled.is_pending() {
                self.waiting.lock().push(cx.waker().clone());
            }
            polled
        })
        .await
    }
}
