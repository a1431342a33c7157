//! Dividing the range of a scan, so that several threads can read it.
//!
//! ```text
//!        inner ──────► inner ──────► inner        level 1
//!       / | \         / | \         / | \
//!      leaves        leaves        leaves
//! ├───── part ────┤├── part ──┤├─── rest ──►
//! ```
//! A part ends at a fence of level 1. It is a range of keys like any other: a later split or merge
//! makes it longer or shorter to read, and changes nothing else.

use fencepost_storage::View;
use fencepost_txn::Machine;

use crate::node::Node;
use crate::scan::{Cursor, Direction};
use crate::walk::{Target, descend_at_once};

/// The number of attempts to find a fence while commits change the nodes.
const ATTEMPTS: usize = 8;

impl Cursor {
    /// Divides the range: returns a cursor over its first part, in the cursor's direction, and
    /// continues behind that part. The last part is the whole rest. A rest that cannot be divided,
    /// because its nodes are on another machine or are being changed, is one part too. Returns
    /// `None` at the end. Does not wait, and needs no transaction.
    pub fn take_part(&mut self, machine: &Machine) -> Option<Cursor> {
        if self.done {
            return None;
        }
        let mut part = self.clone();
        match self.cut(machine) {
            Some(cut) if self.direction == Direction::Forward => {
                part.to = Some(cut.clone());
                self.from = cut;
            }
            Some(cut) => {
                part.from.clone_from(&cut);
                self.to = Some(cut);
            }
            None => self.done = true,
        }
        Some(part)
    }

    /// Returns whether the range has more than one part now.
    pub fn is_divisible(&self, machine: &Machine) -> bool {
        !self.done && self.cut(machine).is_some()
    }

    /// Returns the key inside the range where its first part ends.
    fn cut(&self, machine: &Machine) -> Option<Vec<u8>> {
        let cut = (0..ATTEMPTS).find_map(|_| self.fence_above_leaves(machine))??;
        let is_inside = cut > self.from && self.to.as_ref().is_none_or(|to| cut < *to);
        is_inside.then_some(cut)
    }

    /// Returns the fence, in the cursor's direction, of the node at level 1 where the range begins:
    /// `Some(None)` at the edge of the tree, `None` if one look does not find it.
    fn fence_above_leaves(&self, machine: &Machine) -> Option<Option<Vec<u8>>> {
        let target = match (self.direction, &self.to) {
            (Direction::Forward, _) => Target::At(&self.from),
            (Direction::Backward, Some(to)) => Target::Below(to),
            (Direction::Backward, None) => Target::Last,
        };
        let (tree, direction) = (self.tree, self.direction);
        let at = descend_at_once(machine, tree, 1, target)?;
        let look = |view: &View<'_>| {
            let node = Node::open_in(view, tree)?;
            let mut fence = Vec::new();
            let is_inner = match direction {
                Direction::Forward => node.append_high(&mut fence),
                Direction::Backward => {
                    node.append_low(&mut fence);
                    !fence.is_empty()
                }
            };
            Some(is_inner.then_some(fence))
        };
        machine.glimpse(at, look)??
    }
}
