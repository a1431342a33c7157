//! What an object is in a tree, for reports about it.

use fencepost_storage::{Addr, View};

use crate::node::Node;

/// The root of the tree whose leaf `view` shows, and the value of the leaf's first entry; `None` if
/// it shows no leaf.
pub fn leaf(view: &View<'_>) -> Option<(Addr, Option<[u64; 2]>)> {
    let node = Node::open(view).filter(|node| node.level == 0)?;
    let first = (node.count > 0).then(|| node.value(0));
    Some((node.tree(), first))
}
