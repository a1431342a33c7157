//! Looking back: what a transaction saw before a point of its own.
//!
//! ```text
//! mark ──► changes of the write set leave undos ──► a look back at an object:
//!   entry unchanged since ─► as it is          first undo since ─► as that has it
//!   entry added since ─────► what others committed, at R
//! ```
//! A mark is a savepoint that remembers which undo of an entry is the first since. All objects together, looked at that
//! way, are the transaction's view at the mark, whatever indexes have split since. Writes go on as always.
//!
//! *Failure.* A refresh since the mark brings patches to nodes that have moved, but not the undos: what would be told
//! by those is a conflict then. A look whose future is dropped looks forward again ([`Past`]).

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use crate::savepoint::{Savepoint, Undo, Undos};
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Transaction};
use crate::write_set::Write;

/// A point that a transaction can look back to, until it is released or rolled back.
#[derive(Debug)]
pub struct Mark {
    savepoint: Savepoint,
    place: MarkPlace,
}

/// Which mark of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkPlace(usize);

/// What is known of an open mark.
pub(crate) struct Marked {
    depth: usize,
    /// Entries that were there.
    entries: usize,
    refreshes: u32,
    /// The first undo of each of them since.
    first: HashMap<usize, usize, FixedState>,
}

/// What an entry was at the mark.
pub(crate) enum Before<'a> {
    /// What it is now.
    Same,
    /// It was not there.
    Absent,
    /// This, with this image or payload.
    Was(Write, &'a [u64]),
}

/// A transaction as its scans see it, as long as this value lives: at a mark, and by its isolation level.
pub struct Past<'a>(&'a mut Transaction);

impl Deref for Past<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.0
    }
}

impl DerefMut for Past<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.0
    }
}

impl Drop for Past<'_> {
    fn drop(&mut self) {
        let context = self.0.context_mut();
        context.undos.look_at = None;
        context.scans = false;
    }
}

/// A transaction as its writes see it, as long as this value lives: now, whatever a scan under way looks back to, and at every
/// level as the commit validates it.
pub struct Present<'a> {
    tx: &'a mut Transaction,
    look_at: Option<MarkPlace>,
    scans: bool,
}

impl Deref for Present<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.tx
    }
}

impl DerefMut for Present<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.tx
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let context = self.tx.context_mut();
        context.undos.look_at = self.look_at;
        context.scans = self.scans;
    }
}

impl Mark {
    /// Which one it is.
    pub fn place(&self) -> MarkPlace {
        self.place
    }
}

impl Transaction {
    /// Opens a savepoint that can be looked back to.
    pub fn mark(&mut self) -> Mark {
        let savepoint = self.savepoint();
        let context = self.context_mut();
        let marked = Marked {
            depth: savepoint.depth(),
            entries: context.writes.writes.len(),
            refreshes: context.refreshes,
            first: HashMap::default(),
        };
        context.undos.marks.push(marked);
        Mark {
            savepoint,
            place: MarkPlace(context.undos.marks.len() - 1),
        }
    }

    /// Closes a mark, and later ones; what was written since stays.
    pub fn release_mark(&mut self, mark: Mark) {
        self.release(mark.savepoint);
    }

    /// The transaction for a scan, which reads what the transaction saw at a mark, or what it sees now.
    #[inline]
    pub fn seen_at(&mut self, mark: Option<MarkPlace>) -> Past<'_> {
        let context = self.context_mut();
        context.undos.look_at = mark;
        context.scans = true;
        Past(self)
    }

    /// The transaction for writes that a scan has to do on its way, such as patches that are made anew where they belong.
    pub fn present(&mut self) -> Present<'_> {
        let context = self.context_mut();
        Present {
            look_at: context.undos.look_at.take(),
            scans: std::mem::take(&mut context.scans),
            tx: self,
        }
    }

    /// Has the transaction changed the object since the mark?
    pub fn has_changed_since(&self, mark: MarkPlace, addr: Addr) -> bool {
        let context = self.context();
        let (Some(at), Some(marked)) = (context.writes.find(addr), context.undos.marks.get(mark.0))
        else {
            return false;
        };
        at >= marked.entries || marked.first.contains_key(&at)
    }
}

impl Undos {
    /// An undo of an entry is about to be pushed.
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

    /// An undo was popped.
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

    /// Savepoints from `depth` on are closed.
    pub fn close_marks(&mut self, depth: usize) {
        self.marks.retain(|mark| mark.depth < depth);
    }
}

impl Context {
    /// What an entry was where the transaction looks at.
    pub(crate) fn entry_seen(&self, at: usize) -> Result<Before<'_>, Stop> {
        let marks = &self.undos.marks;
        let looked = self.undos.look_at.and_then(|mark| marks.get(mark.0));
        let Some(marked) = looked else {
            return Ok(Before::Same);
        };
        let before = match marked.first.get(&at).and_then(|at| self.undos.get(*at)) {
            _ if at >= marked.entries => Before::Absent,
            Some(Undo::Changed(_, write, words)) => Before::Was(*write, words),
            _ => return Ok(Before::Same),
        };
        match marked.entries > 0 && marked.refreshes != self.refreshes {
            true => Err(Stop::Retry(AbortReason::RefreshFailed)),
            false => Ok(before),
        }
    }
}
