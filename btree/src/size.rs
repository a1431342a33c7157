//! About how many entries a tree has, by a look at one path through it.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Machine, Stop};

use crate::node::Node;
use crate::tree::BTree;

impl BTree {
    /// About how many entries the tree has: as if every node were as full as those in the middle of what is above
    /// them. It is exact where the root is the only node, and 0 where nobody but its transaction sees the tree.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached.
    pub async fn about(&self, machine: &Machine) -> Result<f64, Stop> {
        let mut entries = 1.0;
        let mut at = self.root();
        let mut above = u8::MAX;
        loop {
            let look = |view: &View<'_>| {
                let node = Node::open_in(view, self.root());
                let seen = node.map(|node| (node.level, node.count, middle(&node)));
                (seen, node.is_some_and(|node| node.level > 0))
            };
            // A node that is not there any more, or not below the one before, tells nothing.
            match machine.view_copy(at, false, look).await?.flatten() {
                Some((level, count, child)) if level < above => {
                    entries *= count as f64;
                    if level == 0 || child.is_null() {
                        return Ok(entries);
                    }
                    (at, above) = (child, level);
                }
                _ => return Ok(if above == u8::MAX { 0.0 } else { entries }),
            }
        }
    }
}

fn middle(node: &Node<'_, '_>) -> Addr {
    match node.level > 0 && node.count > 0 {
        true => node.child(node.count / 2).addr,
        false => Addr::NULL,
    }
}
