//! Isolation levels: which reads of a transaction its commit validates, and which versions its
//! reads answer from.
//!
//! | level | a scan reads | scan reads are validated | a row changed since the snapshot |
//! |---|---|---|---|
//! | serializable | the snapshot, which may move forward | at the commit | is a conflict |
//! | repeatable read | the snapshot | when the snapshot moves | is a conflict |
//! | read committed | its statement's snapshot | never | is read again, then written |
//!
//! # Invariants
//! * LEVEL-1: at every level only the reads of scans ([`Transaction::seen_at`]) are exempt. The
//!   commit validates the reads of a constraint, of the catalog, and of an index for itself.
//! * LEVEL-2: at read committed a row is written only if no version of it is newer than the
//!   snapshot. The caller locks the row, reads it again ([`Transaction::newest`]), decides again,
//!   moves the snapshot ([`Transaction::refresh`]), and writes.
//! * LEVEL-3: the snapshot may move while a statement runs, and at read committed its rows are not
//!   checked then. So a row is unchanged only if no version of it is newer than the oldest snapshot
//!   of the statement ([`Transaction::statement_timestamp`]).
//! * LEVEL-4: at read committed, a row that is unchanged since the statement found it is written
//!   over such a version only ([`Transaction::decide_by`]). The commit validates the version of a
//!   row that was read again ([`Transaction::guard`]). The lock of a row is lost with the machine
//!   that keeps it, and others may then write the row.
//!
//! *Failure.* If a row was written without regard to its lock since the snapshot moved, that is a
//! conflict at every level.

use std::ops::{Deref, DerefMut};

use crate::context::Context;
use crate::fault::{self, Fault};
use crate::transaction::Transaction;

/// The isolation level of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Strictly serializable.
    #[default]
    Serializable,
    /// One snapshot; of two writers of a row the second fails.
    RepeatableRead,
    /// A snapshot for each statement.
    ReadCommitted,
}

/// A transaction whose reads return the newest committed versions, while this value lives.
pub struct NewestReads<'a>(&'a mut Transaction);

impl Deref for NewestReads<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.0
    }
}

impl DerefMut for NewestReads<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.0
    }
}

impl Drop for NewestReads<'_> {
    fn drop(&mut self) {
        self.0.context_mut().reads_newest = false;
    }
}

impl Transaction {
    /// Sets the level of later reads and writes. Earlier reads stay in the read set, or out of it.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.context_mut().isolation = isolation;
    }

    /// Returns the isolation level.
    #[inline]
    pub fn isolation(&self) -> Isolation {
        self.context().isolation
    }

    /// Returns the transaction for reads of the newest committed versions and its own changes,
    /// regardless of its snapshot.
    pub fn newest(&mut self) -> NewestReads<'_> {
        self.context_mut().reads_newest = true;
        NewestReads(self)
    }
}

impl Context {
    /// Returns whether a scan is reading whose reads the commit does not validate.
    #[inline]
    pub(crate) fn is_plain_read(&self) -> bool {
        self.scans && self.isolation != Isolation::Serializable
    }

    /// Returns whether the current reads are neither validated nor checked when the snapshot moves.
    #[inline]
    pub(crate) fn is_unchecked_read(&self) -> bool {
        self.scans
            && match self.isolation {
                Isolation::ReadCommitted => true,
                Isolation::RepeatableRead => fault::injected(Fault::MoveSnapshotUnchecked),
                Isolation::Serializable => false,
            }
    }
}
