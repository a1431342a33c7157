//! Machines that crash in the middle of a run, and what becomes of their clients.
//!
//! A crashed machine is driven no more, and its clients are cut off at once: where their transaction was about to
//! commit, nobody was told of its end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use fencepost_fabric::{MachineId, SimNet};
use parking_lot::Mutex;

/// Whether a machine has crashed; clones are of the same one.
#[derive(Clone)]
pub struct Doom {
    net: SimNet,
    machine: MachineId,
    waiting: Arc<Mutex<Vec<Waker>>>,
}

impl Doom {
    /// Of a machine of a network.
    pub fn of(net: &SimNet, machine: MachineId) -> Doom {
        Doom {
            net: net.clone(),
            machine,
            waiting: Arc::default(),
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
