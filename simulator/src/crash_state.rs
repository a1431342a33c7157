//! The crash state of machines, and its effect on their clients.
//!
//! A crashed machine is no longer driven, and its clients are cut off at once: a client whose
//! transaction was committing does not learn the outcome. A client may also leave during its
//! commit, before its machine crashes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use fencepost_fabric::{MachineId, SimNet};
use parking_lot::Mutex;

/// The crash state of a machine; clones refer to the same machine.
#[derive(Clone)]
pub struct CrashState {
    net: SimNet,
    machine: MachineId,
    waiting: Arc<Mutex<Vec<Waker>>>,
    /// Whether the next client that commits there leaves.
    leaves: Arc<AtomicBool>,
}

impl CrashState {
    /// Returns the crash state of a machine in a network.
    pub fn of(net: &SimNet, machine: MachineId) -> CrashState {
        CrashState {
            net: net.clone(),
            machine,
            waiting: Arc::default(),
            leaves: Arc::default(),
        }
    }

    /// Returns the machine.
    pub fn machine(&self) -> MachineId {
        self.machine
    }

    /// Returns whether the machine has crashed.
    pub fn has_crashed(&self) -> bool {
        !self.net.is_running(self.machine)
    }

    /// Crashes the machine.
    pub fn crash(&self) {
        self.net.crash(self.machine);
        self.wake_tasks();
    }

    /// Wakes the tasks of the machine, because it has crashed.
    pub fn wake_tasks(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Makes the next committing client leave without waiting for the outcome.
    pub fn dismiss(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Returns whether the asking client is to leave; true only once.
    pub fn is_dismissed(&self) -> bool {
        self.leaves.swap(false, Ordering::Relaxed)
    }

    /// Returns the result of a future; `None` if the machine crashes before or meanwhile.
    pub async fn or_cut<T>(&self, future: impl Future<Output = Option<T>>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.has_crashed() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(cx);
            if self.has_crashed() {
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
