//! Data that has been copied to a machine which keeps its data on a disk: it is there once a checkpoint is, that began after
//! the copying had ended, and once that is written down (DISK-10).
//!
//! ```text
//! copied ─► a checkpoint ─► FILLED in the log ─► flushed ─► whole
//! ```
//! # Failure
//! A checkpoint that fails is asked for again. What a new configuration meets here is copied anew.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use fencepost_storage::RegionId;
use fencepost_storage::log::Lsn;

use crate::checkpoint_wait::WaitCheckpoint;
use crate::machine::Machine;
use crate::network::disk::Disk;
use crate::planted::{self, Planted};

/// What waits for the disk.
#[derive(Default)]
pub(super) struct Durably {
    /// Regions that have been copied since the checkpoint began.
    copied: Vec<RegionId>,
    /// A checkpoint, and the regions that it is to have.
    taking: Option<(WaitCheckpoint, Vec<RegionId>)>,
    /// Those that some checkpoint has: once the log is durable up to there.
    written: Vec<(Lsn, RegionId)>,
}

impl Durably {
    /// Goes on, `copied` being what has just been copied; what is on the disk by now.
    pub fn step(
        &mut self,
        (machine, disk): (&Machine, &Disk),
        copied: Option<RegionId>,
    ) -> Vec<RegionId> {
        self.copied.extend(copied);
        if planted::is(Planted::WholeBeforeCheckpoint) {
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

    /// Whether nothing waits.
    pub fn is_at_rest(&self) -> bool {
        self.copied.is_empty() && self.taking.is_none() && self.written.is_empty()
    }
}
