//! A merge of the trees of all partitions: their entries in the order of their keys.
//!
//! ```text
//! partition 0   [ .. a .. c .. ]──┐
//! partition 1   [ .. b .. f .. ]──┼──► heap of trees by their next keys ──► a b c f
//! partition 2   [ .. g .. .. .. ]─┘
//! ```
//!
//! No two trees have equal keys: a key contains the partition column, or the address of its row.

use fencepost_btree::{Cursor, Direction, ScanBatch};
use fencepost_txn::{Stop, Transaction};

/// The minimal number of entries that are read ahead from a tree.
const AHEAD: usize = 4;

/// A merging scan of several trees.
pub struct Merge {
    parts: Vec<TreeCursor>,
    /// A heap of the positions of the parts that have more entries. The part with the next key is
    /// first.
    heap: Vec<usize>,
    begun: bool,
    backward: bool,
}

/// The state of one tree.
struct TreeCursor {
    cursor: Cursor,
    entries: ScanBatch,
    next: usize,
}

impl TreeCursor {
    fn key(&self) -> &[u8] {
        self.entries.key(self.next)
    }

    /// Returns whether the tree has a next entry. Reads more entries if none is buffered.
    async fn fill(&mut self, tx: &mut Transaction, ahead: usize) -> Result<bool, Stop> {
        if self.next < self.entries.len() {
            return Ok(true);
        }
        self.next = 0;
        self.cursor.next_batch(tx, &mut self.entries, ahead).await
    }
}

impl Merge {
    /// Merges cursors that all move in `direction`.
    pub fn new(cursors: impl Iterator<Item = Cursor>, direction: Direction) -> Merge {
        let part = |cursor| TreeCursor {
            cursor,
            entries: ScanBatch::new(),
            next: 0,
        };
        Merge {
            parts: cursors.map(part).collect(),
            heap: Vec::new(),
            begun: false,
            backward: direction == Direction::Backward,
        }
    }

    /// Returns entries as [`Cursor::next_batch`] does.
    pub async fn next_batch(
        &mut self,
        tx: &mut Transaction,
        out: &mut ScanBatch,
        max: usize,
    ) -> Result<bool, Stop> {
        out.clear();
        let max = max.max(1);
        let ahead = AHEAD.max(max / self.parts.len().max(1));
        if !self.begun {
            for at in 0..self.parts.len() {
                if self.parts[at].fill(tx, ahead).await? {
                    self.heap.push(at);
                }
            }
            for at in (0..self.heap.len() / 2).rev() {
                self.sink(at);
            }
            self.begun = true;
        }
        while out.len() < max {
            let Some(&first) = self.heap.first() else {
                break;
            };
            let part = &mut self.parts[first];
            out.push(part.key(), part.entries.value(part.next));
            part.next += 1;
            if !part.fill(tx, ahead).await? {
                self.heap.swap_remove(0);
            }
            self.sink(0);
        }
        Ok(!out.is_empty())
    }

    /// Returns whether the part at `a` of the heap comes before the part at `b`.
    fn before(&self, a: usize, b: usize) -> bool {
        let key = |at: usize| self.parts[self.heap[at]].key();
        (key(a) < key(b)) != self.backward
    }

    /// Moves the element at `at` of the heap down to its place.
    fn sink(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter();
            let mut first = at;
            for child in children.filter(|child| *child < self.heap.len()) {
                if self.before(child, first) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }
}
