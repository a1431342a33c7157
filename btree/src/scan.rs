//! Scans, forwards and backwards, in batches.
//!
//! A cursor keeps a position in the key space, never one in a node: between batches leaves may be
//! split, merged or freed. Every batch descends anew, and each leaf is read at the transaction's
//! snapshot; fences tell where the next one begins, so there is no gap between two leaves. What was
//! passed over is guarded, and no more than that: a scan with a limit does not conflict with inserts
//! beyond its last row.

use std::ops::Bound;

use fencepost_storage::Addr;
use fencepost_txn::{Mode, Seen, Stop, Transaction};

use crate::entries::ScanBatch;
use crate::kind::LEAF;
use crate::node::Node;
use crate::note::{self, End, Facts};
use crate::shrink;
use crate::tree::BTree;
use crate::walk::Target;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A scan in progress: what is left of its range, `from` (inclusive) to `to` (exclusive).
#[derive(Clone, Debug)]
pub struct Cursor {
    tree: Addr,
    direction: Direction,
    from: Vec<u8>,
    /// `None`: to the end.
    to: Option<Vec<u8>>,
    done: bool,
    /// Scratch: the fence of the leaf where the scan goes on.
    fence: Vec<u8>,
}

/// What a look at one leaf found.
struct Piece {
    facts: Facts,
    /// The range goes on beyond this leaf, at the fence that was noted.
    more_leaves: bool,
    /// The batch is full before the leaf was through.
    cut_short: bool,
    sparse: bool,
}

/// The key just after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after
}

impl BTree {
    /// A scan of the keys between two bounds.
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
    /// Fills `out` with the next entries, at most `max` and at least one if there are any left;
    /// false, with `out` empty, at the end.
    ///
    /// # Errors
    /// As [`Transaction::view`].
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
            let (piece, seen) = self.look(tx, out, max, guarding).await?;
            if guarding {
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

    /// Reads what the next leaf has of the range.
    async fn look(
        &mut self,
        tx: &mut Transaction,
        out: &mut ScanBatch,
        max: usize,
        guarding: bool,
    ) -> Result<(Piece, Seen), Stop> {
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
                out.push_with(node.value(at), |bytes| node.append_key(at, bytes));
            }
            // Where the next leaf of the range begins or, backwards, ends; nowhere if it is through.
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
                facts: Facts::new(node, hash),
                more_leaves,
                cut_short,
                sparse: node.count == 0,
            }
        };
        BTree::open(*tree).visit(tx, target, read).await
    }

    /// Puts what was passed over of a leaf into the read set.
    fn guard(
        &self,
        tx: &mut Transaction,
        seen: Seen,
        facts: Facts,
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
        note::with_note(self.tree, snapshot, facts, from, End::before(to), |note| {
            tx.guard_keys(seen, &LEAF, note)
        });
    }

    /// Moves the position beyond what was passed over.
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
