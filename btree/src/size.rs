//! The size of a tree: an estimate of its entries from one path through it, and its memory from all
//! its nodes.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{Machine, Stop, Work};

use crate::node::Node;
use crate::tree::BTree;

/// Bytes of the header of an object.
const HEADER_BYTES: u64 = 16;

impl BTree {
    /// Estimates the number of entries. The estimate assumes that every node is as full as the
    /// middle one of its level. It is exact where the root is the only node, and 0 where only the
    /// creating transaction sees the tree. Needs no transaction.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached; [`Stop::NotMember`] where this machine is
    /// no member any more.
    pub fn about<'a>(&'a self, machine: &'a Machine) -> Work<'a, Result<f64, Stop>> {
        Box::pin(async move {
            let mut entries = 1.0;
            let mut at = self.root();
            let mut above = u8::MAX;
            loop {
                let look = |view: &View<'_>| {
                    let node = Node::open_in(view, self.root());
                    let seen = node.map(|node| (node.level, node.count, middle(&node)));
                    (seen, node.is_some_and(|node| node.level > 0))
                };
                let mut seen = machine.view_copy(at, false, look).await?.flatten();
                if seen.is_none() && at == self.root() && machine.is_far(at) {
                    // The copy may be of an earlier object in the root's slot.
                    seen = machine.view_copy(at, true, look).await?.flatten();
                }
                // A node that no longer exists, or is not below the previous one, gives no
                // information.
                match seen {
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
        })
    }
}

/// The memory of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Number of nodes.
    pub nodes: u64,
    /// Bytes of all nodes.
    pub node_bytes: u64,
    /// Number of entries in all leaves.
    pub entries: u64,
    /// Bytes of the objects that the entries point to.
    pub object_bytes: u64,
}

/// The memory of one node, and the addresses of the nodes below it.
type NodeSize = Option<(TreeSize, Vec<Addr>)>;

impl BTree {
    /// Returns the memory of the tree, by reading its nodes one after the other; concurrent changes
    /// may be counted or not. The values of its entries must be fat pointers. Returns zeros where
    /// only the creating transaction sees the tree. Needs no transaction.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached; [`Stop::NotMember`] where this machine is
    /// no member any more.
    pub fn taken<'a>(&'a self, machine: &'a Machine) -> Work<'a, Result<TreeSize, Stop>> {
        Box::pin(async move {
            let mut sum = TreeSize::default();
            let mut left = vec![self.root()];
            while let Some(at) = left.pop() {
                let look = |view: &View<'_>| {
                    let node = Node::open_in(view, self.root());
                    let keep = node.is_some_and(|node| node.level > 0);
                    (seen(node.as_ref(), view), keep)
                };
                if let Some((taken, below)) = machine.view_copy(at, false, look).await?.flatten() {
                    sum.nodes += taken.nodes;
                    sum.node_bytes += taken.node_bytes;
                    sum.entries += taken.entries;
                    sum.object_bytes += taken.object_bytes;
                    left.extend(below);
                }
            }
            Ok(sum)
        })
    }
}

fn seen(node: Option<&Node<'_, '_>>, view: &View<'_>) -> NodeSize {
    let node = node?;
    let mut taken = TreeSize {
        nodes: 1,
        node_bytes: object_bytes(view.len() as u64 * 8),
        ..TreeSize::default()
    };
    let count = node.count;
    if node.level > 0 {
        return Some((taken, (0..count).map(|i| node.child(i).addr).collect()));
    }
    taken.entries = count as u64;
    let sizes = (0..count).map(|i| u64::from(FatPtr::from_words(node.value(i)).size));
    taken.object_bytes = sizes.map(object_bytes).sum();
    Some((taken, Vec::new()))
}

/// Returns the bytes of an object with its header.
fn object_bytes(payload: u64) -> u64 {
    payload + HEADER_BYTES
}

fn middle(node: &Node<'_, '_>) -> Addr {
    match node.level > 0 && node.count > 0 {
        true => node.child(node.count / 2).addr,
        false => Addr::NULL,
    }
}
