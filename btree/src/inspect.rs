//! Identification of an object as a node of a tree, for reports.

use fencepost_storage::{Addr, View};

use crate::node::Node;

/// Returns the root of the tree whose leaf `view` shows, and the value of the leaf's first entry.
/// Returns `None` if the object is not a leaf. An object that looks like a leaf need not be one.
pub fn leaf(view: &View<'_>) -> Option<(Addr, Option<[u64; 2]>)> {
    let node = Node::open(view).filter(|node| node.level == 0)?;
    let first = (node.count > 0).then(|| node.value(0));
    Some((node.tree(), first))
}
