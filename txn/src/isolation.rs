//! Isolation levels: which reads of a transaction its commit validates, and which versions its reads answer from.
//!
//! | level | a scan reads | a scan's reads are validated | a row that has changed since the snapshot |
//! |---|---|---|---|
//! | serializable | the snapshot, which may move forward | at the commit | is a conflict |
//! | repeatable read | the snapshot | when the snapshot moves | is a conflict |
//! | read committed | the snapshot of its statement | never | is read anew by its caller, then written |
//!
//! # Invariants
//! * LEVEL-1: at every level only the reads of scans ([`Transaction::seen_at`]) are exempt. What a constraint, the catalog or
//!   an index reads by itself is validated at the commit.
//! * LEVEL-2: at read committed a row is written only if no version of it is newer than the snapshot. The caller locks the
//!   row, reads it anew ([`Transaction::newest`]), decides again, moves the snapshot ([`Transaction::refresh`]), and writes.
//! * LEVEL-3: the snapshot may move while a statement runs, and at read committed its rows are not checked then. So a row is as
//!   it was found only if no version of it is newer than the oldest snapshot of the statement
//!   ([`Transaction::statement_timestamp`]).
//! * LEVEL-4: at read committed a row that is as the statement found it is written over such a version only
//!   ([`Transaction::decide_by`]); the version of a row that was read anew is validated at the commit ([`Transaction::guard`]).
//!   The lock of a row is lost with the machine that keeps it, and others may write the row from then on.
//!
//! *Failure.* A row that was written past its lock since the snapshot moved is a conflict at every level.

use std::ops::{Deref, DerefMut};

use crate::planted::{self, Planted};
use crate::transaction::{Context, Transaction};

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

/// A transaction whose reads answer from the newest committed versions, as long as this value lives.
pub struct Newest<'a>(&'a mut Transaction);

impl Deref for Newest<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.0
    }
}

impl DerefMut for Newest<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.0
    }
}

impl Drop for Newest<'_> {
    fn drop(&mut self) {
        self.0.context_mut().reads_newest = false;
    }
}

impl Transaction {
    /// Sets the level of reads and writes from now on. What was read before stays in the read set, or out of it.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.context_mut().isolation = isolation;
    }

    /// The level.
    #[inline]
    pub fn isolation(&self) -> Isolation {
        self.context().isolation
    }

    /// The transaction, reading newest committed versions and its own changes, whatever its snapshot is.
    pub fn newest(&mut self) -> Newest<'_> {
        self.context_mut().reads_newest = true;
        Newest(self)
    }
}

impl Context {
    /// Whether a scan reads now whose reads the commit does not validate.
    #[inline]
    pub(crate) fn is_plain_read(&self) -> bool {
        self.scans && self.isolation != Isolation::Serializable
    }

    /// Whether what is read now depends on nothing later: it is neither validated nor checked when the snapshot moves.
    #[inline]
    pub(crate) fn is_unchecked_read(&self) -> bool {
        self.scans
            && match self.isolation {
                Isolation::ReadCommitted => true,
                Isolation::RepeatableRead => planted::is(Planted::MoveSnapshotUnchecked),
                Isolation::Serializable => false,
            }
    }
}
