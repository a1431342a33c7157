//! The thread that runs a machine's leases: it sleeps at the lease bell until a message arrives or
//! an action is due.
//!
//! Its loop allocates no memory besides that which the fabric needs to post. While it sleeps it
//! keeps only the bell alive. It ends with the machine.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencepost_fabric::{Fabric, ask_for_priority};

use super::LeaseService;

impl LeaseService {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let (weak, fabric) = (Arc::downgrade(self), Arc::clone(&self.fabric));
        let thread = std::thread::Builder::new().name(format!("leases {}", self.me));
        let thread_main = move || {
            let urgent = ask_for_priority();
            if let Some(leasing) = weak.upgrade() {
                leasing.urgent.store(urgent, Ordering::Relaxed);
            }
            run(&weak, &fabric);
        };
        *self.thread.lock() = Some(thread.spawn(thread_main)?);
        Ok(())
    }

    /// Ends the thread, once [`Self::is_stopped`].
    pub(super) fn end_thread(&self) {
        self.fabric.lease_bell().ring();
        let thread = self.thread.lock().take();
        // The thread itself, which delivers events, may hold the last reference to the machine.
        let thread = thread.filter(|thread| thread.thread().id() != std::thread::current().id());
        if let Some(thread) = thread {
            // A thread that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl Drop for LeaseService {
    fn drop(&mut self) {
        // The thread, if there is one, finds that the leases are gone.
        self.fabric.lease_bell().ring();
    }
}

fn run(weak: &Weak<LeaseService>, fabric: &Arc<dyn Fabric>) {
    // The latest time at which the thread was to run again.
    let mut due = u64::MAX;
    loop {
        let armed = fabric.lease_bell().arm();
        let Some(leasing) = weak.upgrade().filter(|leasing| !leasing.is_stopped()) else {
            return;
        };
        leasing.excuse(due);
        let next = leasing.poll();
        let now = leasing.clock.now_ns();
        // It sleeps at most one renewal interval, so that it can tell for how long it did not run.
        let rest = next.saturating_sub(now).min(leasing.terms.renewal_ns());
        due = now.saturating_add(rest);
        // A sleeping thread must not keep the machine alive.
        drop(leasing);
        match rest {
            0 => fabric.lease_bell().disarm(),
            _ => {
                fabric.lease_bell().wait(armed, Duration::from_nanos(rest));
            }
        }
    }
}
