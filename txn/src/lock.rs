//! LOCK (SOSP'15 §4 step 1): locks every written object at the version on which the write is based.
//!
//! Locks are taken in address order, so commits that wait for one another's locks never form a
//! cycle. If a patched node has moved, its patches are applied again to its newest version. If the
//! node no longer accepts them, the commit goes back to re-route them. Locked objects are counted,
//! so that a panic of a node kind under the locks leaves no lock.

use fencepost_storage::ObjectRef;
use fencepost_storage::header::Header;

use crate::backoff::moment;
use crate::context::Context;
use crate::counters::Event;
use crate::node::Refusal;
use crate::refresh::MisplacedPatch;
use crate::stop::{AbortReason, Stop};
use crate::validate::unreachable;
use crate::work::Work;
use crate::write_set::{NO_BASE, Payload, WriteKind};

/// The distance in objects at which objects are prefetched.
const OBJECTS_AHEAD: usize = 8;
/// The number of objects above which they are prefetched.
const PREFETCHED_FROM: usize = 64;
/// The bytes of the header words of an object.
pub(crate) const HEADER_BYTES: usize = 16;

/// Backoff rounds before a commit gives up on a lock that stays held.
pub(crate) const BACKOFF_ROUNDS_MAX: u32 = 1 << 16;

/// The reason why LOCK failed; no lock is held any more.
pub(crate) enum LockFailure {
    /// Abort the transaction.
    Abort(AbortReason),
    /// Re-route the node's patches and lock again.
    Stray(MisplacedPatch),
    /// Stop the transaction.
    Stop(Stop),
}

impl LockFailure {
    /// Returns whether the failure is temporary: another transaction held or changed the object.
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
            // The other primaries lock their own objects.
            write.takes_lock() && machine.is_primary_of(write.addr)
        }));
        order.sort_unstable_by_key(|at| writes[*at as usize].addr);
        for i in 0..self.order.len() {
            let at = self.order[i] as usize;
            self.prefetch_ahead(i, HEADER_BYTES);
            if !self.lock_at_once(at)
                && let Err(failure) = self.lock_one(at).await
            {
                self.unlock();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Prefetches the first `bytes` of an object that is written soon after the one at `i` in the
    /// order of locking.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, i: usize, bytes: usize) {
        // The few objects of a short transaction have been read just before.
        if self.order.len() > PREFETCHED_FROM
            && let Some(ahead) = self.order.get(i + OBJECTS_AHEAD)
        {
            let write = &self.writes.writes[*ahead as usize];
            self.machine.regions().prefetch(write.addr, bytes);
        }
    }

    /// Locks an object if its version is the base of the write. Does not wait.
    #[inline]
    fn lock_at_once(&mut self, at: usize) -> bool {
        let write = &self.writes.writes[at];
        let object = self.machine.regions().own_object(write.addr);
        let taken = object.is_some_and(|object| object.try_lock(write.base).is_ok());
        self.locked += usize::from(taken);
        taken
    }

    /// Releases the locks with nothing changed, and gives back the write timestamp if one was
    /// taken. Returns `false`, and releases nothing, where it is decided later whether the commit
    /// has an effect (INFLIGHT-2).
    pub(crate) fn unlock(&mut self) -> bool {
        if !self.abort_spread() {
            return false;
        }
        self.release_locks();
        self.locked = 0;
        self.slot.end_commit();
        true
    }

    /// Forgets the locks of this commit; the objects stay locked.
    pub(crate) fn keep_locks(&mut self) {
        self.remote.forget();
        self.remote.new_locked = false;
        self.locked = 0;
        self.slot.end_commit();
    }

    /// Locks the new objects of this machine, which no object points to yet (INFLIGHT-4).
    pub(crate) fn lock_new(&mut self) {
        self.remote.new_locked = true;
        for object in self.new_objects() {
            object.lock_own();
        }
    }

    /// Returns the slots of new objects of this machine.
    fn new_objects(&self) -> impl Iterator<Item = ObjectRef<'_>> {
        let new = self.writes.writes.iter().filter(|write| {
            matches!(write.what, WriteKind::New { .. })
                && matches!(write.payload(), Payload::Slot(_))
        });
        new.filter_map(|write| self.machine.regions().own_object(write.addr))
    }

    /// Releases the locks that this commit holds on this machine.
    pub(crate) fn release_locks(&mut self) {
        if std::mem::take(&mut self.remote.new_locked) {
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
                // The object was freed and its block released, because the snapshot has moved past
                // the tombstone.
                return Err(match write.what {
                    WriteKind::Patched(kind) => LockFailure::Stray((write.addr, kind)),
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
                        if round == BACKOFF_ROUNDS_MAX {
                            return Err(self.abort_at(write.addr, AbortReason::LockBusy));
                        }
                        moment(round).await;
                        round += 1;
                        // Its region may have been handed over to another machine meanwhile.
                        let Some(own) = self.machine.regions().own_object(write.addr) else {
                            return Err(self.abort_at(write.addr, AbortReason::LockBusy));
                        };
                        object = own;
                    }
                    Err(there) => match write.what {
                        WriteKind::Patched(_) => expected = there,
                        _ => return Err(self.abort_at(write.addr, AbortReason::WriteConflict)),
                    },
                }
            }
        })
    }

    /// Applies the patches again to a node that has moved since it was patched and is now locked at
    /// `header`.
    pub(crate) async fn lock_moved(
        &mut self,
        at: usize,
        header: Header,
    ) -> Result<(), LockFailure> {
        let write = self.writes.writes[at];
        let WriteKind::Patched(kind) = write.what else {
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
            // The image is invalid until the patches have been applied again.
            self.writes.writes[at].base = NO_BASE;
            match refusal {
                Refusal::WrongNode | Refusal::Full => LockFailure::Stray((write.addr, kind)),
                Refusal::Exists | Refusal::Missing => {
                    self.abort_at(write.addr, AbortReason::NodeConflict)
                }
            }
        })
    }

    /// Copies a node that this commit has locked to the image of entry `at`. Returns `false` if the
    /// node does not exist.
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
