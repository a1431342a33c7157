//! Scans, forwards and backwards, in batches.
//!
//! A cursor stores a position in the key space, never one in a node: between batches leaves may be
//! split, merged or freed. Every batch descends from the root again, and reads each leaf at the
//! transaction's snapshot. The fences show where the next leaf begins, so no key between two leaves
//! is missed. Only the range that was passed joins the read set: a scan with a limit does not
//! conflict with inserts beyond its last row.

use std::ops::Bound;

use fencepost_storage::Addr;
use fencepost_txn::{Mode, ReadEntry, Stop, Transaction};

use crate::entries::ScanBatch;
use crate::kind::LEAF;
use crate::node::Node;
use crate::note::{self, LeafProperties, RangeEnd};
use crate::shrink;
use crate::tree::BTree;
use crate::walk::Target;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A scan in progress: the rest of its range, from `from` (inclusive) to `to` (exclusive).
#[derive(Clone, Debug)]
pub struct Cursor {
    pub(crate) tree: Addr,
    pub(crate) direction: Direction,
    pub(crate) from: Vec<u8>,
    /// `None`: no upper bound.
    pub(crate) to: Option<Vec<u8>>,
    pub(crate) done: bool,
    /// Scratch: the fence of the leaf where the scan continues.
    fence: Vec<u8>,
}

/// The result of reading one leaf.
struct Piece {
    facts: LeafProperties,
    /// Whether the range continues beyond this leaf, at the fence that was stored.
    more_leaves: bool,
    /// Whether the batch became full before the end of the leaf.
    cut_short: bool,
    sparse: bool,
}

/// Returns the key just after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after
}

impl BTree {
    /// Returns a cursor over the keys between two bounds, which are compared as bytes. Reads
    /// nothing yet. If the bounds exclude every key, the scan is at its end at once.
    pub fn scan(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, direction: Direction) -> Cursor {
        let from = match lower {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Vec::new(),
        };
        let to = match upper {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        let done = to.as_ref().is_some_and(|to| *to <= from);
        Cursor {
            tree: self.root(),
            direction,
            from,
            to,
            done,
            fence: Vec::new(),
        }
    }
}

impl Cursor {
    /// Returns whether the scan is at its end.
    pub fn is_at_end(&self) -> bool {
        self.done
    }

    /// Fills `out` with the next entries, at most `max` and at least one if any are left. Returns
    /// `false`, with `out` empty, at the end. In a read-write transaction the range that was passed
    /// joins the read set, and an empty leaf on the way is merged in a transaction of its own.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] also if no tree is at the root.
    pub async fn next_batch(
        &mut self,
        tx: &mut Transaction,
        out: &mut ScanBatch,
        max: usize,
    ) -> Result<bool, Stop> {
        out.clear();
        let max = max.max(1);
        while !self.done && out.len() < max {
            let guarding = tx.mode() == Mode::ReadWrite;
            let guarded = guarding && tx.guards_reads();
            let (piece, seen) = self.look(tx, out, max, guarded).await?;
            if guarded {
                self.guard(tx, seen, piece.facts, out, piece.cut_short);
            }
            // Only forwards: the right neighbour, which a merge frees, has not been read yet.
            let tidy =
                guarding && piece.sparse && self.direction == Direction::Forward && !seen.is_own();
            let key = if tidy { self.from.clone() } else { Vec::new() };
            self.advance(out, &piece);
            if tidy && shrink::wanted(tx, self.tree, seen.addr()).await? {
                shrink::merge(tx, self.tree, &key).await?;
            }
        }
        Ok(!out.is_empty())
    }

    /// Reads the entries of the range in the next leaf.
    async fn look(
        &mut self,
        tx: &mut Transaction,
        out: &mut ScanBatch,
        max: usize,
        guarding: bool,
    ) -> Result<(Piece, ReadEntry), Stop> {
        let first = out.len();
        let Cursor {
            tree,
            direction,
            from,
            to,
            fence,
            ..
        } = self;
        let (from, to) = (from.as_slice(), to.as_deref());
        let target = match (*direction, to) {
            (Direction::Forward, _) => Target::At(from),
            (Direction::Backward, Some(to)) => Target::Below(to),
            (Direction::Backward, None) => Target::Last,
        };
        let backward = *direction == Direction::Backward;
        let read = |node: &Node<'_, '_>| {
            out.truncate(first);
            fence.clear();
            let begin = if node.cmp_low(from) == std::cmp::Ordering::Less {
                0
            } else {
                node.position(from)
            };
            let end = match to {
                Some(to) if node.cmp_high(to) == std::cmp::Ordering::Less => node.position(to),
                _ => node.count,
            };
            let end = end.max(begin);
            let taken = (end - begin).min(max - first);
            let (begin, end) = if backward {
                (end - taken, end)
            } else {
                (begin, begin + taken)
            };
            let cut_short = first + taken == max;
            for i in 0..taken {
                let at = if backward { end - 1 - i } else { begin + i };
                // The last key is where the scan continues if the batch is full.
                if out.is_of_values() && i + 1 < taken {
                    out.push_value(node.value(at));
                } else {
                    out.push_with(node.value(at), |bytes| node.append_key(at, bytes));
                }
            }
            // The fence where the next leaf of the range begins or, backwards, ends.
            let more_leaves = if backward {
                node.append_low(fence);
                fence.as_slice() > from
            } else {
                node.append_high(fence) && to.is_none_or(|to| fence.as_slice() < to)
            };
            let hash = if guarding {
                node.hash_entries(begin, end)
            } else {
                0
            };
            Piece {
                facts: LeafProperties::new(node, hash),
                more_leaves,
                cut_short,
                sparse: node.count == 0,
            }
        };
        BTree::open(*tree).visit(tx, target, read).await
    }

    /// Adds to the read set the range that was passed in a leaf.
    fn guard(
        &self,
        tx: &mut Transaction,
        seen: ReadEntry,
        facts: LeafProperties,
        out: &ScanBatch,
        cut_short: bool,
    ) {
        let last = if out.is_empty() {
            &[][..]
        } else {
            out.key(out.len() - 1)
        };
        let until;
        let (from, to) = match (self.direction, cut_short) {
            (Direction::Forward, true) => {
                until = after(last);
                (self.from.as_slice(), Some(until.as_slice()))
            }
            (Direction::Backward, true) => (last, self.to.as_deref()),
            (Direction::Forward, false) => {
                let bounded =
                    !self.fence.is_empty() && self.to.as_ref().is_none_or(|to| self.fence < *to);
                (
                    self.from.as_slice(),
                    if bounded {
                        Some(self.fence.as_slice())
                    } else {
                        self.to.as_deref()
                    },
                )
            }
            (Direction::Backward, false) => (
                self.from.as_slice().max(self.fence.as_slice()),
                self.to.as_deref(),
            ),
        };
        let snapshot = tx.read_timestamp();
        note::with_note(
            self.tree,
            snapshot,
            facts,
            from,
            RangeEnd::before(to),
            |note| tx.guard_keys(seen, &LEAF, note),
        );
    }

    /// Moves the position past that range.
    fn advance(&mut self, out: &ScanBatch, piece: &Piece) {
        match (self.direction, piece.cut_short) {
            (Direction::Forward, true) => {
                self.from = after(out.key(out.len() - 1));
                self.done = self.to.as_ref().is_some_and(|to| *to <= self.from);
            }
            (Direction::Backward, true) => {
                let to = self.to.get_or_insert_with(Vec::new);
                to.clear();
                to.extend_from_slice(out.key(out.len() - 1));
                self.done = *to <= self.from;
            }
            (_, false) if !piece.more_leaves => self.done = true,
            (Direction::Forward, false) => std::mem::swap(&mut self.from, &mut self.fence),
            (Direction::Backward, false) => {
                std::mem::swap(self.to.get_or_insert_with(Vec::new), &mut self.fence)
            }
        }
    }
}
