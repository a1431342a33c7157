//! Read refresh: moving the snapshot forward instead of aborting.
//!
//! A read-write transaction that meets a version newer than R picks R' = now and requires everything
//! it has read, or changed from an exact version, to be unlocked and unchanged; then its reads are
//! just as good at R'. Its patches are applied anew to nodes that moved, so that what it sees of them
//! is the snapshot at R' too: a node that has moved beyond R' in the meantime moves R' once more.

use fencepost_storage::header::Header;
use fencepost_storage::object::ObjectRef;
use fencepost_storage::{Addr, Timestamp};

use crate::counters::Event;
use crate::lock::PATIENCE;
use crate::node::{NodeKind, Refusal};
use crate::read::lock_pause;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Transaction};
use crate::write_set::{NO_BASE, What};

/// A read set up to this size is always worth checking.
const SMALL_READ_SET: usize = 1024;
/// Larger ones are checked this often, so that a long scan among writers stays linear.
const REFRESHES_OF_LARGE: u32 = 16;
/// Times that R' is picked anew because a patched node has moved beyond it.
const ROUNDS: u32 = 64;

/// A node that no longer takes a transaction's patches.
pub(crate) type Stray = (Addr, &'static dyn NodeKind);

impl Transaction {
    /// Moves the snapshot to now if everything that was read is still so.
    ///
    /// # Errors
    /// [`Stop::Retry`] if something was changed or is being changed.
    pub async fn refresh(&mut self) -> Result<(), Stop> {
        let strays = self.context_mut().refresh()?;
        if !strays.is_empty() {
            self.context_mut().adrift += 1;
            for (addr, kind) in strays {
                kind.reroute(self, addr).await?;
            }
            self.context_mut().adrift -= 1;
        }
        Ok(())
    }

    /// What seems damaged may only be gone: a transaction among others that free what it is about to
    /// use meets remains. Then what it has read does not hold any more, and `stop` is a conflict.
    pub async fn doubt(&mut self, stop: Stop) -> Stop {
        match stop {
            Stop::Damaged => match Box::pin(self.refresh()).await {
                Err(conflict @ Stop::Retry(_)) => conflict,
                _ => stop,
            },
            _ => stop,
        }
    }

    /// Brings patched nodes to the snapshot where a rollback has left them behind it.
    #[inline]
    pub(crate) async fn catch_up(&mut self) -> Result<(), Stop> {
        if self.context().behind {
            self.refresh().await
        } else {
            Ok(())
        }
    }

    pub(crate) fn may_refresh(&self) -> bool {
        let context = self.context();
        context.reads.len() <= SMALL_READ_SET || context.refreshes < REFRESHES_OF_LARGE
    }
}

/// The header of an object once it is not locked, or has been for long.
fn settled_header(object: ObjectRef<'_>) -> Header {
    let mut round = 0;
    loop {
        let header = object.header();
        if !header.is_locked() || round == PATIENCE {
            return header;
        }
        lock_pause(round);
        round += 1;
    }
}

impl Context {
    fn refresh(&mut self) -> Result<Vec<Stray>, Stop> {
        let done = self.refresh_rounds();
        // Patches may have been applied to images that nobody will bring to the end now; should the
        // transaction go back to a savepoint, they are to be seen as of a whole refresh.
        self.behind |= done.is_err() && self.writes.has_patches();
        done
    }

    fn refresh_rounds(&mut self) -> Result<Vec<Stray>, Stop> {
        for _ in 0..ROUNDS {
            let now = self.machine.clock().now();
            if let Some(moved) = self.moved_image().or_else(|| self.moved_read(now)) {
                return Err(self.conflict_at(moved, AbortReason::RefreshFailed));
            }
            if let Some(strays) = self.rebase_patches(now)? {
                self.r = now;
                self.slot.move_to(now);
                self.refreshes += 1;
                self.behind = false;
                self.machine.counters().count(self.lane, Event::Refresh);
                return Ok(strays);
            }
        }
        Err(Stop::Retry(AbortReason::RefreshFailed))
    }

    /// What was read and does not hold at `now`, if anything. Once the snapshot has moved, the slot of
    /// a freed node may come round to another object; so what was read there is looked for elsewhere
    /// from now on.
    fn moved_read(&mut self, now: Timestamp) -> Option<Addr> {
        for at in 0..self.reads.len() {
            let mut round = 0;
            let elsewhere = loop {
                match self.check(self.reads.get(at), now, false) {
                    // Mostly it will change, but the lock may also be given back.
                    Err(AbortReason::ReadLocked) if round < PATIENCE => {
                        lock_pause(round);
                        round += 1;
                    }
                    Err(_) => return Some(self.reads.get(at).seen.addr),
                    Ok(elsewhere) => break elsewhere,
                }
            };
            if let Some(elsewhere) = elsewhere {
                self.reads.move_to(at, elsewhere);
            }
        }
        None
    }

    /// What is to be replaced at an exact version and is not at that version any more, if anything.
    fn moved_image(&self) -> Option<Addr> {
        let moved = self.writes.writes.iter().find(|write| match write.what {
            What::Image { .. } | What::Freed => self
                .machine
                .regions()
                .object(write.addr)
                .is_none_or(|object| settled_header(object) != write.base),
            _ => false,
        });
        moved.map(|write| write.addr)
    }

    /// Applies patches anew where nodes have moved; the nodes that no longer take them. `None` where a
    /// node has moved beyond `now`.
    fn rebase_patches(&mut self, now: Timestamp) -> Result<Option<Vec<Stray>>, Stop> {
        let mut strays = Vec::new();
        let mut beyond = false;
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            let What::Patched(kind) = write.what else {
                continue;
            };
            let Some(object) = self.machine.regions().object(write.addr) else {
                // Freed, and its block given back since an earlier refresh.
                strays.push((write.addr, kind));
                continue;
            };
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
            beyond |= header.timestamp() > now;
            self.newest = self.newest.max(header.timestamp());
            self.writes.writes[at].base = NO_BASE;
            let applied = if header.is_allocated() {
                self.writes.reapply(at, kind)
            } else {
                Err(Refusal::WrongNode)
            };
            match applied {
                Ok(()) => self.writes.writes[at].base = header,
                Err(Refusal::WrongNode | Refusal::Full) => strays.push((write.addr, kind)),
                Err(Refusal::Exists | Refusal::Missing) => {
                    return Err(self.conflict_at(write.addr, AbortReason::NodeConflict));
                }
            }
        }
        Ok((!beyond).then_some(strays))
    }
}
