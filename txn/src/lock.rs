//! LOCK (SOSP'15 §4 step 1): take every written object's lock at the version it is based on.
//!
//! Locks are taken in address order, so committers that wait for one another's locks never wait in a
//! circle. A patched node that has moved gets its patches anew, on top of what is there now; one that
//! no longer takes them sends the commit back to reroute them. What is locked is counted, so that a
//! panic of a node kind under the locks leaves none behind.

use fencepost_storage::ObjectRef;
use fencepost_storage::header::Header;

use crate::counters::Event;
use crate::moment::moment;
use crate::node::Refusal;
use crate::refresh::Stray;
use crate::stop::{AbortReason, Stop};
use crate::transaction::Context;
use crate::validate::unreachable;
use crate::work::Work;
use crate::write_set::{NO_BASE, Payload, What};

/// Pauses before a lock that stays held is given up.
pub(crate) const PATIENCE: u32 = 1 << 16;

/// Why LOCK did not get through; no lock is held any more.
pub(crate) enum LockFailure {
    /// Abort.
    Abort(AbortReason),
    /// Reroute the node's patches and lock again.
    Stray(Stray),
    /// Stop.
    Stop(Stop),
}

impl LockFailure {
    /// Whether others were in the way, who will be gone in a moment.
    pub fn is_busy(&self) -> bool {
        matches!(
            self,
            LockFailure::Abort(
                AbortReason::LockBusy | AbortReason::ReadLocked | AbortReason::ReadNewer
            )
        )
    }
}

impl Context {
    /// Takes all locks, or none.
    pub(crate) async fn lock(&mut self) -> Result<(), LockFailure> {
        let Context {
            order,
            writes,
            machine,
            ..
        } = self;
        let writes = &writes.writes;
        order.clear();
        order.extend((0..writes.len() as u32).filter(|at| {
            let write = &writes[*at as usize];
            // What other machines are primaries of, they lock.
            write.takes_lock() && machine.is_primary_of(write.addr)
        }));
        order.sort_unstable_by_key(|at| writes[*at as usize].addr);
        for i in 0..self.order.len() {
            let at = self.order[i] as usize;
            if !self.lock_at_once(at)
                && let Err(failure) = self.lock_one(at).await
            {
                self.unlock();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Takes the lock of an object that is at its base.
    #[inline]
    fn lock_at_once(&mut self, at: usize) -> bool {
        let write = &self.writes.writes[at];
        let object = self.machine.regions().own_object(write.addr);
        let taken = object.is_some_and(|object| object.try_lock(write.base).is_ok());
        self.locked += usize::from(taken);
        taken
    }

    /// Gives the locks back, nothing changed, and with them the write timestamp if one was taken. `false`, and
    /// nothing is given back, where it is decided later whether the commit has an effect (COMMITTING-2).
    pub(crate) fn unlock(&mut self) -> bool {
        if !self.abort_spread() {
            return false;
        }
        self.release_locks();
        self.locked = 0;
        self.slot.end_commit();
        true
    }

    /// Forgets the locks that it has, which stay.
    pub(crate) fn keep_locks(&mut self) {
        self.spread.forget();
        self.spread.new_locked = false;
        self.locked = 0;
        self.slot.end_commit();
    }

    /// Locks the new objects of this machine, which nothing leads to yet (COMMITTING-4).
    pub(crate) fn lock_new(&mut self) {
        self.spread.new_locked = true;
        for object in self.new_objects() {
            object.lock_own();
        }
    }

    /// The slots of new objects of this machine.
    fn new_objects(&self) -> impl Iterator<Item = ObjectRef<'_>> {
        let new = self.writes.writes.iter().filter(|write| {
            matches!(write.what, What::New { .. }) && matches!(write.payload(), Payload::Slot(_))
        });
        new.filter_map(|write| self.machine.regions().own_object(write.addr))
    }

    /// Releases the locks that are held on this machine.
    pub(crate) fn release_locks(&mut self) {
        if std::mem::take(&mut self.spread.new_locked) {
            for object in self.new_objects() {
                object.unlock(object.header());
            }
        }
        for at in self.order.iter().take(self.locked) {
            let write = &self.writes.writes[*at as usize];
            if let Some(object) = self.machine.regions().own_object(write.addr) {
                object.unlock(write.base);
            }
        }
    }

    fn lock_one(&mut self, at: usize) -> Work<'_, Result<(), LockFailure>> {
        Box::pin(async move {
            let write = self.writes.writes[at];
            let Some(mut object) = self.machine.regions().own_object(write.addr) else {
                // Freed, and its block given back since the snapshot moved past that.
                return Err(match write.what {
                    What::Patched(kind) => LockFailure::Stray((write.addr, kind)),
                    _ => self.abort_at(write.addr, AbortReason::WriteConflict),
                });
            };
            let mut expected = write.base;
            let mut round = 0;
            loop {
                match object.try_lock(expected) {
                    Ok(()) => {
                        self.locked += 1;
                        return if expected == write.base {
                            Ok(())
                        } else {
                            self.lock_moved(at, expected).await
                        };
                    }
                    Err(there) if there.is_locked() => {
                        if round == PATIENCE {
                            return Err(self.abort_at(write.addr, AbortReason::LockBusy));
                        }
                        moment(round).await;
                        round += 1;
                        // Its region may have gone to another machine meanwhile.
                        let Some(own) = self.machine.regions().own_object(write.addr) else {
                            return Err(self.abort_at(write.addr, AbortReason::LockBusy));
                        };
                        object = own;
                    }
                    Err(there) => match write.what {
                        What::Patched(_) => expected = there,
                        _ => return Err(self.abort_at(write.addr, AbortReason::WriteConflict)),
                    },
                }
            }
        })
    }

    /// The node moved since it was patched and is locked at `header`: patch what is there now.
    pub(crate) async fn lock_moved(
        &mut self,
        at: usize,
        header: Header,
    ) -> Result<(), LockFailure> {
        let write = self.writes.writes[at];
        let What::Patched(kind) = write.what else {
            return Err(self.abort_at(write.addr, AbortReason::WriteConflict));
        };
        self.writes.writes[at].base = header;
        self.newest = self.newest.max(header.timestamp());
        self.machine
            .counters()
            .count(self.lane, Event::PatchReapplied);
        let mut applied = Err(Refusal::WrongNode);
        if header.is_allocated() && self.copy_locked(at).await? {
            applied = self.writes.reapply(at, kind);
        }
        applied.map_err(|refusal| {
            self.unlock();
            // The image is of no use until the patches have been applied to it anew.
            self.writes.writes[at].base = NO_BASE;
            match refusal {
                Refusal::WrongNode | Refusal::Full => LockFailure::Stray((write.addr, kind)),
                Refusal::Exists | Refusal::Missing => {
                    self.abort_at(write.addr, AbortReason::NodeConflict)
                }
            }
        })
    }

    /// Copies a node that is locked by this commit to the image of entry `at`; `false` where there is none.
    async fn copy_locked(&mut self, at: usize) -> Result<bool, LockFailure> {
        let write = self.writes.writes[at];
        let image = self.writes.image_mut(write.image);
        if let Some(network) = self.machine.far(write.addr) {
            let copy = network.fetch(write.addr).await;
            let copy = copy.map_err(|stop| LockFailure::Abort(unreachable(stop)))?;
            let Some(copy) = copy.filter(|copy| copy.header().is_locked()) else {
                return Ok(false);
            };
            copy.view().copy(0, image);
            self.keep_base(write.addr, copy.header().unlocked(), copy.payload());
            return Ok(true);
        }
        let object = self.machine.regions().object(write.addr);
        Ok(object.map(|object| object.copy(0, image)).is_some())
    }
}
