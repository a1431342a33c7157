//! Statement snapshots: reading the transaction's own writes as they were at an earlier point of
//! it.
//!
//! ```text
//! mark ──► changes of the write set push undos ──► read of an object at the mark:
//!   entry unchanged since ─► its current image     else ─► the image in its first undo since
//!   entry added since ─────► the committed version at R
//! ```
//! A mark is a savepoint that remembers, for each entry, the first undo since the mark. All objects
//! read that way together are the transaction's view at the mark, also if indexes have split since.
//! Writes work as always.
//!
//! *Failure.* A refresh since the mark re-applies patches to nodes that have moved, but it does not
//! change the undos. A read that would use such an undo is a conflict. Dropping the future of a
//! read ends the view at the mark ([`SnapshotScope`]).

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use crate::context::Context;
use crate::savepoint::{Savepoint, Undo, Undos};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::write_set::Write;

/// A point of a transaction whose state can be read until the mark is released or rolled back.
#[derive(Debug)]
pub struct Mark {
    savepoint: Savepoint,
    place: MarkIndex,
}

/// The index of a mark in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkIndex(usize);

/// The state of an open mark.
pub(crate) struct OpenMark {
    depth: usize,
    /// Number of write-set entries at the mark.
    entries: usize,
    refreshes: u32,
    /// For each of those entries, the index of its first undo since the mark.
    first: HashMap<usize, usize, FixedState>,
}

/// The state of a write-set entry at the mark.
pub(crate) enum EntryState<'a> {
    /// The same as now.
    Same,
    /// The entry did not exist.
    Absent,
    /// The entry, with its image or payload.
    Was(Write, &'a [u64]),
}

/// A transaction as its scans see it, while this value lives: at a mark, and by its isolation
/// level.
pub struct SnapshotScope<'a>(&'a mut Transaction);

impl Deref for SnapshotScope<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.0
    }
}

impl DerefMut for SnapshotScope<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.0
    }
}

impl Drop for SnapshotScope<'_> {
    fn drop(&mut self) {
        let context = self.0.context_mut();
        context.undos.reads_at = None;
        context.scans = false;
    }
}

/// A transaction as its writes see it, while this value lives. It reads the current state, whatever
/// mark a running scan reads at. At every isolation level, its reads are those that the commit
/// validates.
pub struct CurrentScope<'a> {
    tx: &'a mut Transaction,
    reads_at: Option<MarkIndex>,
    scans: bool,
}

impl Deref for CurrentScope<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.tx
    }
}

impl DerefMut for CurrentScope<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.tx
    }
}

impl Drop for CurrentScope<'_> {
    fn drop(&mut self) {
        let context = self.tx.context_mut();
        context.undos.reads_at = self.reads_at;
        context.scans = self.scans;
    }
}

impl Mark {
    /// Returns the index of the mark.
    pub fn place(&self) -> MarkIndex {
        self.place
    }
}

impl Transaction {
    /// Opens a savepoint whose state can be read later.
    pub fn mark(&mut self) -> Mark {
        let savepoint = self.savepoint();
        let context = self.context_mut();
        let marked = OpenMark {
            depth: savepoint.depth(),
            entries: context.writes.writes.len(),
            refreshes: context.refreshes,
            first: HashMap::default(),
        };
        context.undos.marks.push(marked);
        Mark {
            savepoint,
            place: MarkIndex(context.undos.marks.len() - 1),
        }
    }

    /// Closes a mark and all later marks; writes since then stay.
    pub fn release_mark(&mut self, mark: Mark) {
        self.release(mark.savepoint);
    }

    /// Returns the transaction for a scan. The scan reads the state at a mark, or the current state
    /// without a mark.
    #[inline]
    pub fn seen_at(&mut self, mark: Option<MarkIndex>) -> SnapshotScope<'_> {
        let context = self.context_mut();
        context.undos.reads_at = mark;
        context.scans = true;
        SnapshotScope(self)
    }

    /// Returns the transaction for writes that a scan must make, such as patches that are re-routed
    /// to other nodes.
    pub fn current_scope(&mut self) -> CurrentScope<'_> {
        let context = self.context_mut();
        CurrentScope {
            reads_at: context.undos.reads_at.take(),
            scans: std::mem::take(&mut context.scans),
            tx: self,
        }
    }

    /// Returns whether the transaction has changed the object since the mark.
    pub fn has_changed_since(&self, mark: MarkIndex, addr: Addr) -> bool {
        let context = self.context();
        let (Some(at), Some(marked)) = (context.writes.find(addr), context.undos.marks.get(mark.0))
        else {
            return false;
        };
        at >= marked.entries || marked.first.contains_key(&at)
    }
}

impl Undos {
    /// Records an undo of an entry before it is pushed.
    pub fn note_first(&mut self, undo: &Undo) {
        let Undo::Changed(entry, ..) = undo else {
            return;
        };
        let at = self.len();
        for mark in &mut self.marks {
            if *entry < mark.entries {
                mark.first.entry(*entry).or_insert(at);
            }
        }
    }

    /// Removes the record of an undo that was popped.
    pub fn forget_first(&mut self, undo: &Undo) {
        let Undo::Changed(entry, ..) = undo else {
            return;
        };
        let at = self.len();
        for mark in &mut self.marks {
            if mark.first.get(entry) == Some(&at) {
                mark.first.remove(entry);
            }
        }
    }

    /// Closes the marks of savepoints from `depth` on.
    pub fn close_marks(&mut self, depth: usize) {
        self.marks.retain(|mark| mark.depth < depth);
    }
}

impl Context {
    /// Returns the state of an entry at the mark at which the transaction reads.
    pub(crate) fn entry_seen(&self, at: usize) -> Result<EntryState<'_>, Stop> {
        let marks = &self.undos.marks;
        let looked = self.undos.reads_at.and_then(|mark| marks.get(mark.0));
        let Some(marked) = looked else {
            return Ok(EntryState::Same);
        };
        let before = match marked.first.get(&at).and_then(|at| self.undos.get(*at)) {
            _ if at >= marked.entries => EntryState::Absent,
            Some(Undo::Changed(_, write, words)) => EntryState::Was(*write, words),
            _ => return Ok(EntryState::Same),
        };
        match marked.entries > 0 && marked.refreshes != self.refreshes {
            true => Err(Stop::Retry(AbortReason::RefreshFailed)),
            false => Ok(before),
        }
    }
}
