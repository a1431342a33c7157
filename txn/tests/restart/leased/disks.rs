//! The disks of all machines.

use fencepost_fabric::{CrashLoss, SimDisk};
use fencepost_txn::network::disk::ReadmitPolicy;

pub const MACHINES: u32 = 3;

/// The disks of all machines, and the number of the configuration in the store.
pub struct Disks {
    pub disks: Vec<SimDisk>,
    pub replicas: usize,
    pub stored: u64,
    /// Whether the store loses that number.
    pub forgets: bool,
    pub taken_back: ReadmitPolicy,
}

impl Disks {
    pub fn new(replicas: usize) -> Disks {
        Disks {
            disks: (1..=MACHINES)
                .map(|seed| SimDisk::new(seed.into()))
                .collect(),
            replicas,
            stored: 0,
            forgets: false,
            taken_back: ReadmitPolicy::Never,
        }
    }

    /// Returns the disks as a power loss now would leave them.
    pub fn left(&self, loss: CrashLoss) -> Disks {
        let left = |disk: &SimDisk| {
            let left = disk.fork();
            left.crash(loss);
            left
        };
        Disks {
            disks: self.disks.iter().map(left).collect(),
            ..*self
        }
    }
}
