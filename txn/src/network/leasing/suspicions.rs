//! Who is suspected, for whoever asks.

use fencepost_cluster::MachineId;
use fencepost_cluster::few::FewSet;
use fencepost_cluster::lease::LeaseEvent;
use parking_lot::Mutex;

/// What has happened to the leases of a machine since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// How often its own lease was lengthened.
    pub renewals: u64,
    /// Leases of others that have expired here.
    pub expired: u64,
    /// Machines that were heard of again after that: false suspicions.
    pub returned: u64,
    /// Those whose leases have expired and who were not heard of since, by their numbers.
    pub suspected: Vec<u32>,
    /// Whether the thread that looks after leases has the priority that it asked for.
    pub urgent: bool,
}

/// The machines that are suspected now.
#[derive(Debug, Default)]
pub(in crate::network) struct Suspicions(Mutex<FewSet<MachineId>>);

impl Suspicions {
    /// Takes note of an event.
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

    /// Nobody is.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// Their numbers.
    pub fn suspected(&self) -> Vec<u32> {
        self.0.lock().iter().map(|machine| machine.0).collect()
    }
}
