//! TRUNCATE (SOSP'15 §4 step 5): releases resources once the commit has taken effect.
//!
//! On one machine without backups, no log holds records for a peer. Only freed slots remain: they
//! go to the lane, which reuses them after every reader has passed the tombstone.

use fencepost_storage::Timestamp;

use crate::context::Context;
use crate::write_set::WriteKind;

impl Context {
    /// Retires freed slots and the transaction's hold on the log.
    pub(crate) fn truncate(&mut self, w: Timestamp) {
        let mut lane = None;
        for write in &self.writes.writes {
            let retires = match write.what {
                // A slot that was freed at another machine is retired there.
                WriteKind::Freed => self.machine.regions().is_own(write.addr),
                // No reader knows the slot of a new object that was freed again; it is retired like
                // the others.
                WriteKind::Unborn(_) => self.has_slot_of(write),
                _ => continue,
            };
            if retires {
                lane.get_or_insert_with(|| self.machine.lanes().enter(self.lane))
                    .retire(write.addr, w);
            } else {
                self.give_reserved_back(write);
            }
        }
        if self.prewritten {
            self.slot.release_log();
            self.prewritten = false;
        }
    }
}
