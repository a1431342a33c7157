//! Savepoints: taking back what a transaction wrote since a point, without ending it.
//!
//! While a savepoint is open every change of the write set leaves an undo: the entry was new, or it
//! was like this. What was read stays in the read set, because a result may have depended on it.

use crate::transaction::Transaction;
use crate::write_set::{What, Write};

/// A point to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savepoint {
    depth: usize,
    undos: usize,
}

pub(crate) enum Undo {
    /// The newest entry was added.
    Added,
    /// The entry was like this, with this image or, for a new object, this payload.
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

#[derive(Default)]
pub(crate) struct Undos {
    open: usize,
    log: Vec<Undo>,
    bytes: usize,
}

impl Undos {
    pub fn clear(&mut self) {
        self.open = 0;
        self.bytes = 0;
        self.log.clear();
    }

    pub fn is_active(&self) -> bool {
        self.open > 0
    }

    pub fn push(&mut self, undo: Undo) {
        if self.is_active() {
            self.bytes += undo.bytes();
            self.log.push(undo);
        }
    }

    fn pop(&mut self) -> Option<Undo> {
        let undo = self.log.pop()?;
        self.bytes -= undo.bytes();
        Some(undo)
    }

    /// Bytes that the undos take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Transaction {
    /// Opens a savepoint.
    pub fn savepoint(&mut self) -> Savepoint {
        let undos = &mut self.context_mut().undos;
        undos.open += 1;
        Savepoint {
            depth: undos.open,
            undos: undos.log.len(),
        }
    }

    /// Takes back every write since `savepoint`, which stays open; later ones are closed. Patches from
    /// before it are brought to the snapshot of now, if that has moved, before the next access.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) {
        while self.context_mut().undos.log.len() > savepoint.undos {
            match self.context_mut().undos.pop() {
                Some(Undo::Added) => self.undo_added(),
                Some(Undo::Changed(at, write, words)) => self.undo_changed(at, write, &words),
                None => break,
            }
        }
        self.context_mut().undos.open = savepoint.depth;
    }

    /// Closes `savepoint` and later ones; what was written since stays.
    pub fn release(&mut self, savepoint: Savepoint) {
        let undos = &mut self.context_mut().undos;
        undos.open = savepoint.depth - 1;
        if undos.open == 0 {
            undos.clear();
        }
    }

    fn undo_added(&mut self) {
        let context = self.context_mut();
        if let Some(Write {
            what: What::New { .. } | What::Unborn,
            addr,
            ..
        }) = context.writes.pop()
        {
            context.new_touched = true;
            context.machine.give_back(context.lane, addr);
        }
    }

    fn undo_changed(&mut self, at: usize, write: Write, words: &[u64]) {
        let context = self.context_mut();
        context.writes.writes[at] = write;
        if let What::Patched(_) = write.what {
            // Since the savepoint a refresh may have moved the snapshot away from this image.
            let object = context.machine.regions().object(write.addr);
            context.behind |= object.is_none_or(|object| object.header() != write.base);
        }
        if let What::New { .. } = write.what {
            context.new_touched = true;
            if let Some(object) = context.machine.regions().object(write.addr) {
                object.put(0, words);
            }
        } else {
            context.writes.image_mut(write.image).copy_from_slice(words);
        }
    }
}
