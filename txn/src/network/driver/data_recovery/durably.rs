//! Copied data on a machine with a disk. The data is durable after a checkpoint that began after
//! the copy had ended, and once the log records that (DISK-10).
//!
//! ```text
//! copied ─► a checkpoint ─► FILLED in the log ─► flushed ─► complete
//! ```
//! # Failure
//! A failed checkpoint is requested again. Regions that wait here when a new configuration is
//! applied are copied anew.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use fencepost_storage::RegionId;
use fencepost_storage::log::Lsn;

use crate::checkpoint_wait::CheckpointWait;
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::network::disk::Disk;

/// Copied regions that wait for the disk.
#[derive(Default)]
pub(super) struct DiskWaits {
    /// Regions that were copied since the checkpoint began.
    copied: Vec<RegionId>,
    /// The checkpoint in progress, and the regions that it will contain.
    taking: Option<(CheckpointWait, Vec<RegionId>)>,
    /// Regions in a completed checkpoint: they wait until the log is durable up to a position.
    written: Vec<(Lsn, RegionId)>,
}

impl DiskWaits {
    /// Performs a step with the region just `copied`. Returns the regions that are durable now.
    pub fn step(
        &mut self,
        (machine, disk): (&Machine, &Disk),
        copied: Option<RegionId>,
    ) -> Vec<RegionId> {
        self.copied.extend(copied);
        if fault::injected(Fault::WholeBeforeCheckpoint) {
            let filled = |region| (disk.is_filled(region), region);
            self.written.extend(self.copied.drain(..).map(filled));
        }
        if let Some((taking, regions)) = &mut self.taking
            && let Poll::Ready(taken) =
                Pin::new(taking).poll(&mut Context::from_waker(Waker::noop()))
        {
            let regions = std::mem::take(regions);
            self.taking = None;
            match taken {
                Ok(()) => {
                    let filled = |region| (disk.is_filled(region), region);
                    self.written.extend(regions.into_iter().map(filled));
                }
                Err(_) => self.copied.extend(regions),
            }
        }
        if self.taking.is_none() && !self.copied.is_empty() {
            let asked = machine.ask_checkpoint();
            self.taking = asked.map(|asked| (asked, std::mem::take(&mut self.copied)));
        }
        let durable = |(lsn, _): &mut (Lsn, RegionId)| disk.is_flushed(*lsn);
        let there = self.written.extract_if(.., durable);
        let there = there.map(|(_, region)| region).collect();
        if let Some((lsn, _)) = self.written.first() {
            disk.arm(*lsn);
        }
        there
    }

    /// Returns whether no region waits.
    pub fn is_at_rest(&self) -> bool {
        self.copied.is_empty() && self.taking.is_none() && self.written.is_empty()
    }
}
