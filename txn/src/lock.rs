//! LOCK (SOSP'15 §4 step 1): take every written object's lock at the version it is based on.
//!
//! Locks are taken in address order, so committers that wait for one another's locks never wait in a
//! circle. A patched node that has moved gets its patches anew, on top of what is there now; one that
//! no longer takes them sends the commit back to reroute them.

use fencepost_storage::header::Header;

use crate::counters::Event;
use crate::node::Refusal;
use crate::read::lock_pause;
use crate::refresh::Stray;
use crate::stop::{AbortReason, Stop};
use crate::transaction::Context;
use crate::write_set::What;

/// Pauses before a lock that stays held is given up.
const PATIENCE: u32 = 1 << 16;

/// Why LOCK did not get through; no lock is held any more.
pub(crate) enum LockFailure {
    /// Abort.
    Abort(AbortReason),
    /// Reroute the node's patches and lock again.
    Stray(Stray),
    /// Stop.
    Stop(Stop),
}

impl Context {
    /// Takes all locks, or none.
    pub(crate) fn lock(&mut self, order: &mut Vec<u32>) -> Result<(), LockFailure> {
        order.clear();
        let writes = &self.writes.writes;
        order.extend((0..writes.len() as u32).filter(|at| {
            !matches!(writes[*at as usize].what, What::New { .. } | What::Dead)
        }));
        order.sort_unstable_by_key(|at| writes[*at as usize].addr);
        for i in 0..order.len() {
            if let Err(failure) = self.lock_one(order[i] as usize) {
                self.unlock(&order[..i]);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Gives the locks of these entries back, nothing changed.
    pub(crate) fn unlock(&self, order: &[u32]) {
        for at in order {
            let write = &self.writes.writes[*at as usize];
            if let Some(object) = self.machine.regions().object(write.addr) {
                object.unlock(write.base);
            }
        }
    }

    fn lock_one(&mut self, at: usize) -> Result<(), LockFailure> {
        let write = self.writes.writes[at];
        let object = self.machine.regions().object(write.addr).ok_or(LockFailure::Stop(Stop::Damaged))?;
        let mut expected = write.base;
        let mut round = 0;
        loop {
            match object.try_lock(expected) {
                Ok(()) if expected == write.base => return Ok(()),
                Ok(()) => return self.lock_moved(at, expected),
                Err(there) if there.is_locked() => {
                    if round == PATIENCE {
                        return Err(LockFailure::Abort(AbortReason::LockBusy));
                    }
                    lock_pause(round);
                    round += 1;
                }
                Err(there) => match write.what {
                    What::Patched(_) => expected = there,
                    _ => return Err(LockFailure::Abort(AbortReason::WriteConflict)),
                },
            }
        }
    }

    /// The node moved since it was patched and is locked at `header`: patch what is there now.
    fn lock_moved(&mut self, at: usize, header: Header) -> Result<(), LockFailure> {
        let write = self.writes.writes[at];
        let What::Patched(kind) = write.what else {
            return Err(LockFailure::Abort(AbortReason::WriteConflict));
        };
        self.writes.writes[at].base = header;
        self.machine.counters().count(self.lane, Event::PatchReapplied);
        let mut applied = Err(Refusal::WrongNode);
        if let Some(object) = self.machine.regions().object(write.addr) {
            object.copy(0, self.writes.image_mut(write.image));
            if header.is_allocated() {
                applied = self.writes.reapply(at, kind);
            }
            if applied.is_err() {
                object.unlock(header);
            }
        }
        applied.map_err(|refusal| match refusal {
            Refusal::WrongNode | Refusal::Full => LockFailure::Stray((write.addr, kind)),
            Refusal::Exists | Refusal::Missing => LockFailure::Abort(AbortReason::NodeConflict),
        })
    }
}
