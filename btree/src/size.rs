//! How large a tree is: about how many entries it has, by a look at one path through it, and what it takes, by a look at
//! all of its nodes.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{Machine, Stop, Work};

use crate::node::Node;
use crate::tree::BTree;

/// The header of an object.
const HEADER_BYTES: u64 = 16;

impl BTree {
    /// About how many entries the tree has: as if every node were as full as those in the middle of what is above
    /// them. It is exact where the root is the only node, and 0 where nobody but its transaction sees the tree.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached.
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
                    // The copy may be of an object that had the root's slot before.
                    seen = machine.view_copy(at, true, look).await?.flatten();
                }
                // A node that is not there any more, or not below the one before, tells nothing.
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

/// What a tree takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Its nodes.
    pub nodes: u64,
    /// Their bytes.
    pub node_bytes: u64,
    /// Entries in all leaves.
    pub entries: u64,
    /// The bytes of the objects that the entries point to.
    pub object_bytes: u64,
}

/// What a look at a node says of it, and the nodes below.
type Seen = Option<(Taken, Vec<Addr>)>;

impl BTree {
    /// What the tree takes, as its nodes are one after the other: what changes meanwhile may be counted or not. The
    /// values of its entries are taken for fat pointers. Nothing where nobody but its transaction sees the tree.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached.
    pub fn taken<'a>(&'a self, machine: &'a Machine) -> Work<'a, Result<Taken, Stop>> {
        Box::pin(async move {
            let mut sum = Taken::default();
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

fn seen(node: Option<&Node<'_, '_>>, view: &View<'_>) -> Seen {
    let node = node?;
    let mut taken = Taken {
        nodes: 1,
        node_bytes: object_bytes(view.len() as u64 * 8),
        ..Taken::default()
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

/// An object with its header.
fn object_bytes(payload: u64) -> u64 {
    payload + HEADER_BYTES
}

fn middle(node: &Node<'_, '_>) -> Addr {
    match node.level > 0 && node.count > 0 {
        true => node.child(node.count / 2).addr,
        false => Addr::NULL,
    }
}
