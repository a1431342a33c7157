//! The read set: versions that a read-write transaction has seen and that must be unchanged when it
//! commits.

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp};

use crate::blocks::Blocks;
use crate::node::NodeKind;

/// The version of an object that a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadEntry {
    pub(crate) addr: Addr,
    /// The header of that version; for the transaction's own image, the header of its base.
    pub(crate) header: Header,
    /// Whether the read returned changes of the transaction itself.
    pub(crate) own: bool,
}

impl ReadEntry {
    /// Returns the commit timestamp of the version; for the transaction's own image, that of its
    /// base.
    pub fn timestamp(&self) -> Timestamp {
        self.header.timestamp()
    }

    /// Returns whether the read returned changes of the transaction itself.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Returns the address of the object.
    pub fn addr(&self) -> Addr {
        self.addr
    }
}

/// One entry of a read set.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub seen: ReadEntry,
    /// Whether the commit does not validate the read ([`crate::isolation`]).
    pub plain: bool,
    /// The node kind that validates a node that has moved, and the range of its note; `None` where
    /// any move is a conflict.
    pub keys: Option<(&'static dyn NodeKind, u32, u32)>,
}

/// An entry as it is stored.
#[derive(Clone, Copy)]
pub(crate) struct StoredRead {
    pub addr: Addr,
    pub header: Header,
    own: bool,
    pub plain: bool,
    /// The number of its note, counted from 1; 0 for none.
    note: u32,
}

/// The node kind and the words of a note.
#[derive(Clone, Copy)]
struct Note {
    kind: &'static dyn NodeKind,
    from: u32,
    len: u32,
}

/// A read set.
#[derive(Default)]
pub(crate) struct ReadSet {
    reads: Blocks<StoredRead>,
    notes: Vec<Note>,
    words: Vec<u64>,
}

impl ReadSet {
    pub fn clear(&mut self) {
        self.reads.clear();
        self.notes.clear();
        self.words.clear();
    }

    /// Shrinks the memory to `entries` entries, after an unusually large transaction.
    pub fn shrink(&mut self, entries: usize) {
        self.reads.shrink(entries);
        self.notes.shrink_to(entries);
        self.words.shrink_to(entries);
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.reads.len()
    }

    #[inline]
    pub fn push(&mut self, seen: ReadEntry, plain: bool) {
        self.push_stored(seen, plain, 0);
    }

    #[inline]
    fn push_stored(&mut self, seen: ReadEntry, plain: bool, note: u32) {
        let ReadEntry { addr, header, own } = seen;
        self.reads.push(StoredRead {
            addr,
            header,
            own,
            plain,
            note,
        });
    }

    pub fn push_keys(
        &mut self,
        seen: ReadEntry,
        plain: bool,
        (kind, note): (&'static dyn NodeKind, &[u64]),
    ) {
        let from = self.words.len() as u32;
        self.words.extend_from_slice(note);
        let len = note.len() as u32;
        self.notes.push(Note { kind, from, len });
        self.push_stored(seen, plain, self.notes.len() as u32);
    }

    /// Removes the entries from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.reads.truncate(len);
    }

    #[inline]
    fn read(&self, stored: StoredRead) -> Read {
        let note = (stored.note as usize).checked_sub(1);
        let note = note.and_then(|at| self.notes.get(at));
        Read {
            seen: ReadEntry {
                addr: stored.addr,
                header: stored.header,
                own: stored.own,
            },
            plain: stored.plain,
            keys: note.map(|note| (note.kind, note.from, note.len)),
        }
    }

    /// Returns the position of the first entry for which `f` holds.
    #[inline]
    pub fn position(&self, mut f: impl FnMut(&StoredRead) -> bool) -> Option<usize> {
        let mut before = 0;
        for block in self.reads.blocks() {
            if let Some(at) = block.iter().position(&mut f) {
                return Some(before + at);
            }
            before += block.len();
        }
        None
    }

    pub fn get(&self, at: usize) -> Read {
        self.read(self.reads.get(at))
    }

    /// Makes entry `at` be validated by its note from `addr` on: it gets a header that no object
    /// has.
    pub fn move_to(&mut self, at: usize, addr: Addr) {
        let stored = self.reads.get_mut(at);
        stored.addr = addr;
        stored.header = Header(u64::MAX);
    }

    pub fn note(&self, from: u32, len: u32) -> &[u64] {
        self.words
            .get(from as usize..(from + len) as usize)
            .unwrap_or(&[])
    }
}
