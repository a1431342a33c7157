//! Read refresh: moving the snapshot forward instead of aborting.
//!
//! A read-write transaction that meets a version newer than R picks R' = now and requires everything
//! it has read to be unlocked and unchanged; then its reads are just as good at R'. Its patches are
//! applied anew to nodes that moved, so that what it sees of them is the snapshot at R' too.

use fencepost_storage::Addr;

use crate::counters::Event;
use crate::node::{NodeKind, Refusal};
use crate::read::lock_pause;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Transaction};
use crate::write_set::What;

/// A read set up to this size is always worth checking.
const SMALL_READ_SET: usize = 1024;
/// Larger ones are checked this often, so that a long scan among writers stays linear.
const REFRESHES_OF_LARGE: u32 = 16;

/// A node that no longer takes a transaction's patches.
pub(crate) type Stray = (Addr, &'static dyn NodeKind);

impl Transaction {
    /// Moves the snapshot to now if everything that was read is still so.
    ///
    /// # Errors
    /// [`Stop::Retry`] if something was changed or is being changed.
    pub async fn refresh(&mut self) -> Result<(), Stop> {
        let strays = self.context_mut().refresh()?;
        for (addr, kind) in strays {
            kind.reroute(self, addr).await?;
        }
        Ok(())
    }

    pub(crate) fn may_refresh(&self) -> bool {
        let context = self.context();
        context.reads.len() <= SMALL_READ_SET || context.refreshes < REFRESHES_OF_LARGE
    }
}

impl Context {
    fn refresh(&mut self) -> Result<Vec<Stray>, Stop> {
        let now = self.machine.clock().now();
        if self.reads.iter().any(|read| self.check(read, false).is_err()) {
            return Err(Stop::Retry(AbortReason::RefreshFailed));
        }
        let strays = self.rebase_patches()?;
        self.r = now;
        self.slot.move_to(now);
        self.refreshes += 1;
        self.machine.counters().count(self.lane, Event::Refresh);
        Ok(strays)
    }

    fn rebase_patches(&mut self) -> Result<Vec<Stray>, Stop> {
        let mut strays = Vec::new();
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            let What::Patched(kind) = write.what else { continue };
            let object = self.machine.regions().object(write.addr).ok_or(Stop::Damaged)?;
            let mut round = 0;
            let header = loop {
                let header = object.header();
                if header == write.base {
                    break header;
                }
                if header.is_locked() {
                    lock_pause(round);
                    round += 1;
                    continue;
                }
                object.copy(0, self.writes.image_mut(write.image));
                if object.unchanged(header) {
                    break header;
                }
            };
            if header == write.base {
                continue;
            }
            self.writes.writes[at].base = header;
            let applied = if header.is_allocated() { self.writes.reapply(at, kind) } else { Err(Refusal::WrongNode) };
            match applied {
                Ok(()) => {}
                Err(Refusal::WrongNode | Refusal::Full) => strays.push((write.addr, kind)),
                Err(Refusal::Exists | Refusal::Missing) => return Err(Stop::Retry(AbortReason::NodeConflict)),
            }
        }
        Ok(strays)
    }
}
