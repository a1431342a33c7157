//! Savepoints: rolling back the writes of a transaction since a point, without ending it.
//!
//! While a savepoint is open, the first change of an entry of the write set since the newest
//! savepoint pushes an undo: the entry was new, or its earlier state. Reads stay in the read set,
//! because a result may have depended on them. A change that is rolled back had a condition (its
//! key was absent, the version was this). The condition joins the read set, because the client may
//! know that the change succeeded.

use crate::context::Context;
use crate::isolation::Isolation;
use crate::node::NodeKind;
use crate::read_set::ReadEntry;
use crate::statement_snapshot::{MarkIndex, OpenMark};
use crate::transaction::Transaction;
use crate::write_set::{Payload, Write, WriteKind};

/// A point to which a transaction can roll back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savepoint {
    depth: usize,
    undos: usize,
    adrift: u32,
    held: usize,
    refreshes: u32,
    intents: usize,
    reads: usize,
}

impl Savepoint {
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }
}

pub(crate) enum Undo {
    /// The newest entry was added.
    Added,
    /// The earlier state of an entry, with its image or, for a new object, its payload.
    Changed(usize, Write, Vec<u64>),
}

impl Undo {
    fn bytes(&self) -> usize {
        let words = if let Undo::Changed(_, _, words) = self {
            words.len()
        } else {
            0
        };
        size_of::<Undo>() + words * 8
    }
}

/// The undos of a transaction, oldest first. Positions of undos ascend within a transaction; those
/// that were rolled back are used again.
#[derive(Default)]
pub(crate) struct Undos {
    open: usize,
    log: Vec<Undo>,
    /// The position of the first undo in `log`.
    base: usize,
    /// The position at the newest savepoint that was open since then, or a later one.
    newest: usize,
    bytes: usize,
    /// The open marks, and the mark at which the transaction reads.
    pub marks: Vec<OpenMark>,
    pub reads_at: Option<MarkIndex>,
}

impl Undos {
    /// Forgets all undos, at the end of a transaction.
    pub fn clear(&mut self) {
        self.close();
        self.base = 0;
        self.newest = 0;
    }

    /// Forgets all undos, when no savepoint is open any more.
    fn close(&mut self) {
        self.open = 0;
        self.bytes = 0;
        self.base = self.position();
        self.log.clear();
        self.marks.clear();
        self.reads_at = None;
    }

    pub fn len(&self) -> usize {
        self.log.len()
    }

    pub fn get(&self, at: usize) -> Option<&Undo> {
        self.log.get(at)
    }

    pub fn is_active(&self) -> bool {
        self.open > 0
    }

    fn position(&self) -> usize {
        self.base + self.log.len()
    }

    /// Returns whether a change of an entry needs an undo: a savepoint is open, and no undo has
    /// saved the entry since the newest one.
    #[inline]
    pub fn needs(&self, write: &Write) -> bool {
        self.is_active() && write.saved as usize <= self.newest
    }

    /// Adds an undo if a savepoint is open. Returns the position just after it, or 0.
    #[inline]
    pub fn push(&mut self, undo: Undo) -> u32 {
        if !self.is_active() {
            return 0;
        }
        self.note_first(&undo);
        self.bytes += undo.bytes();
        self.log.push(undo);
        u32::try_from(self.position()).unwrap_or(0)
    }

    fn pop(&mut self) -> Option<Undo> {
        let undo = self.log.pop()?;
        self.bytes -= undo.bytes();
        self.forget_first(&undo);
        Some(undo)
    }

    /// Returns the bytes of memory that the undos take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Transaction {
    /// Opens a savepoint inside the open ones. While one is open, every change keeps what undoes
    /// it, which counts against the memory limit.
    pub fn savepoint(&mut self) -> Savepoint {
        let context = self.context_mut();
        let undos = &mut context.undos;
        undos.open += 1;
        undos.newest = undos.position();
        Savepoint {
            depth: undos.open,
            undos: undos.log.len(),
            adrift: context.adrift,
            held: context.held,
            refreshes: context.refreshes,
            intents: context.intents.len(),
            reads: context.reads.len(),
        }
    }

    /// Rolls back every write since `savepoint`, which stays open; later ones are closed. If the
    /// snapshot has moved, earlier patches are moved to the present snapshot before the next
    /// access. Memory held since ([`Self::hold_memory`]) is released, because its statement has
    /// failed. Intents taken since are released.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) {
        let refreshed = self.context().refreshes != savepoint.refreshes;
        while self.context_mut().undos.log.len() > savepoint.undos {
            match self.context_mut().undos.pop() {
                Some(Undo::Added) => self.undo_added(),
                Some(Undo::Changed(at, write, words)) => {
                    self.undo_changed(at, write, &words, refreshed)
                }
                None => break,
            }
        }
        let context = self.context_mut();
        context.undos.open = savepoint.depth;
        context.undos.newest = context.undos.position();
        context.undos.close_marks(savepoint.depth + 1);
        let held = context.held.saturating_sub(savepoint.held);
        context.machine.account().release(held as u64);
        context.held -= held;
        if context.adrift != savepoint.adrift {
            // Patches that were taken since are restored; the node images may not show others yet.
            context.adrift = savepoint.adrift;
            context.behind = true;
        }
        context.release_intents_after(savepoint.intents);
        if context.isolation == Isolation::ReadCommitted {
            // Constraints no longer depend on the changes that are rolled back.
            context.reads.truncate(savepoint.reads);
        }
    }

    /// Closes `savepoint` and later ones; the writes since then stay.
    pub fn release(&mut self, savepoint: Savepoint) {
        let undos = &mut self.context_mut().undos;
        undos.open = savepoint.depth - 1;
        undos.close_marks(savepoint.depth);
        if undos.open == 0 {
            undos.close();
        }
    }

    fn undo_added(&mut self) {
        let context = self.context_mut();
        if let Some(newest) = context.writes.writes.len().checked_sub(1) {
            context.keep_conditions(newest, None);
        }
        if let Some(write) = context.writes.pop()
            && let WriteKind::New { .. } | WriteKind::Unborn(_) = write.what
        {
            context.prewritten_touched = true;
            match context.has_slot_of(&write) {
                true => context.machine.give_back(context.lane, write.addr),
                false => context.give_reserved_back(&write),
            }
        }
    }

    fn undo_changed(&mut self, at: usize, write: Write, words: &[u64], refreshed: bool) {
        let context = self.context_mut();
        context.keep_conditions(at, Some(&write));
        context.writes.writes[at] = write;
        if let WriteKind::Patched(_) = write.what {
            // A refresh since the savepoint may have moved the snapshot away from this image.
            let machine = &context.machine;
            context.behind |= match machine.far(write.addr) {
                // A remote read would be needed to see whether the node has moved.
                Some(_) => refreshed,
                None => machine
                    .regions()
                    .object(write.addr)
                    .is_none_or(|object| object.header() != write.base),
            };
        }
        context.prewritten_touched = true;
        match (write.what, write.payload()) {
            (WriteKind::New { .. }, Payload::Slot(addr)) => {
                if let Ok(object) = context.slot_of_new(addr) {
                    object.put(0, words);
                }
            }
            _ => context.writes.image_mut(write.image).copy_from_slice(words),
        }
    }
}

impl Context {
    /// Adds to the read set the conditions of changes of entry `at` that are rolled back. The entry
    /// is about to become `before`, or to be removed.
    fn keep_conditions(&mut self, at: usize, before: Option<&Write>) {
        let write = self.writes.writes[at];
        let seen = ReadEntry {
            addr: write.addr,
            header: write.base,
            own: true,
        };
        match write.what {
            WriteKind::Image { .. } | WriteKind::Freed => {
                if !before.is_some_and(|before| before.is_exact()) {
                    self.reads.push(seen, false);
                }
            }
            WriteKind::Patched(kind) => self.keep_patch_conditions(seen, &write, kind, before),
            WriteKind::New { .. } | WriteKind::Unborn(_) | WriteKind::Idle => {}
        }
    }

    /// Adds the conditions of an entry's patches that `before` does not have.
    fn keep_patch_conditions(
        &mut self,
        seen: ReadEntry,
        write: &Write,
        kind: &'static dyn NodeKind,
        before: Option<&Write>,
    ) {
        let earlier_patches = before.map_or(0, |before| self.writes.patches_of(before).len());
        let mut earlier_ops = 0;
        let mut ops = Vec::new();
        for (i, range) in self.writes.patches_of(write).into_iter().enumerate() {
            kind.for_each_key(self.writes.op(range), &mut |op| ops.push(op.to_vec()));
            if i + 1 == earlier_patches {
                earlier_ops = ops.len();
            }
        }
        for (i, op) in ops.iter().enumerate().skip(earlier_ops) {
            // A key that the transaction has changed before is as that change left it.
            if ops[..i].iter().any(|earlier| kind.same_key(earlier, op)) {
                continue;
            }
            match kind.condition(op, self.writes.image(write)) {
                Some(note) => self.reads.push_keys(seen, false, (kind, &note)),
                None => self.reads.push(seen, false),
            }
        }
    }
}
