//! The trees of a B-tree index: one, or one for each partition.

use fencepost_btree::BTree;
use fencepost_sql::catalog::IndexDef;
use fencepost_storage::Addr;

/// Returns the tree that a B-tree index has for a partition.
#[inline]
pub fn tree(index: &IndexDef, partition: u32) -> BTree {
    BTree::open(Addr::from_raw(index.roots.of(partition)))
}

/// Returns all trees of a B-tree index.
pub fn trees(index: &IndexDef) -> impl Iterator<Item = BTree> {
    let roots = index.roots.all().iter();
    roots.map(|root| BTree::open(Addr::from_raw(*root)))
}
