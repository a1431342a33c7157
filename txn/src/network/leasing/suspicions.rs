//! The machines suspected at present.

use fencepost_cluster::MachineId;
use fencepost_cluster::few::FewSet;
use fencepost_cluster::lease::LeaseEvent;
use parking_lot::Mutex;

/// Counters of a machine's leases since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Number of renewals of its own lease.
    pub renewals: u64,
    /// Number of other machines' leases that expired here.
    pub expired: u64,
    /// Number of machines heard of again after that: false suspicions.
    pub returned: u64,
    /// Machine numbers of those whose leases have expired and that were not heard of since.
    pub suspected: Vec<u32>,
    /// Whether the lease thread has the priority that it asked for.
    pub urgent: bool,
}

/// The machines that are suspected now.
#[derive(Debug, Default)]
pub(in crate::network) struct Suspicions(Mutex<FewSet<MachineId>>);

impl Suspicions {
    /// Records an event.
    pub fn note(&self, event: LeaseEvent) {
        match event {
            LeaseEvent::Expired(machine) => {
                self.0.lock().insert(machine);
            }
            LeaseEvent::Returned(machine) => {
                self.0.lock().remove(&machine);
            }
            LeaseEvent::Newer(..) | LeaseEvent::Outdated(_) | LeaseEvent::OldRunOut(_) => (),
        }
    }

    /// Removes all suspicions.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// Returns the numbers of the suspected machines.
    pub fn suspected(&self) -> Vec<u32> {
        self.0.lock().iter().map(|machine| machine.0).collect()
    }
}
