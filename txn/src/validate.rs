//! VALIDATE (SOSP'15 §4 step 2): everything that was read must be unlocked and unchanged.
//!
//! An object that is also written is locked by this very commit; then the version under the lock must
//! be the one that was seen. An object locked by another commit fails even if its version matches:
//! two transactions, each holding the lock on what the other read, must not both pass.

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp, View};

use crate::lock::LockFailure;
use crate::node::Revalidate;
use crate::read_set::Read;
use crate::stop::AbortReason;
use crate::transaction::Context;

/// Nodes that one scanned node may have been split into.
const MAX_PIECES: usize = 4096;

impl Context {
    /// Validates the whole read set with the commit's locks held.
    pub(crate) fn validate(&mut self, w: Timestamp) -> Result<(), LockFailure> {
        let failed = self.reads.iter().find_map(|read| {
            let reason = self.check(read, w, true).err()?;
            Some((read.seen.addr, reason))
        });
        match failed {
            None => Ok(()),
            Some((addr, reason)) => Err(self.abort_at(addr, reason)),
        }
    }

    /// Whether one read still holds at `at`; `locking` says that this transaction holds its write
    /// locks. If the node that was read is gone by now, answers where to look for its keys.
    #[inline]
    pub(crate) fn check(
        &self,
        read: &Read,
        at: Timestamp,
        locking: bool,
    ) -> Result<Option<Addr>, AbortReason> {
        let Some(object) = self.machine.regions().object(read.seen.addr) else {
            return Err(AbortReason::ReadConflict);
        };
        let header = object.header();
        if header == read.seen.header {
            return Ok(None);
        }
        self.check_moved(read, header, at, locking)
    }

    fn check_moved(
        &self,
        read: &Read,
        header: Header,
        at: Timestamp,
        locking: bool,
    ) -> Result<Option<Addr>, AbortReason> {
        if header.is_locked() && !(locking && self.locked_by_me(read)) {
            return Err(AbortReason::ReadLocked);
        }
        if header.unlocked() == read.seen.header {
            return Ok(None);
        }
        let Some((kind, from, len)) = read.keys else {
            return Err(AbortReason::ReadConflict);
        };
        let note = self.reads.note(from, len);
        let mut addr = read.seen.addr;
        let mut gone = None;
        for _ in 0..MAX_PIECES {
            let Some(object) = self.machine.regions().object(addr) else {
                return Err(AbortReason::ReadConflict);
            };
            let header = object.header();
            if header.is_locked() && !(locking && self.holds(addr)) {
                return Err(AbortReason::ReadLocked);
            }
            // What a node holds now says nothing of `at` if it was changed after that: a key may
            // have come before and gone behind it.
            if header.timestamp() > at {
                return Err(AbortReason::ReadConflict);
            }
            let verdict = if header.is_allocated() {
                kind.revalidate(note, &View::Live(object))
            } else {
                kind.gone(note)
            };
            if !object.unchanged(header) {
                return Err(AbortReason::ReadLocked);
            }
            match verdict {
                Revalidate::Valid => return Ok(gone),
                Revalidate::Invalid => return Err(AbortReason::ReadConflict),
                Revalidate::ContinueAt(next) => {
                    if !header.is_allocated() {
                        gone = Some(next);
                    }
                    addr = next;
                }
            }
        }
        Err(AbortReason::ReadConflict)
    }

    fn locked_by_me(&self, read: &Read) -> bool {
        self.holds(read.seen.addr)
    }

    /// Whether this transaction's commit holds the lock of `addr`.
    fn holds(&self, addr: Addr) -> bool {
        self.writes
            .find(addr)
            .is_some_and(|at| self.writes.writes[at].takes_lock())
    }
}
