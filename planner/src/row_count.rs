//! The number of rows of a table, from the shape of its primary index.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use fencepost_btree::BTree;
use fencepost_sql::catalog::{IndexKind, TableDef};
use fencepost_txn::Machine;

use crate::trees;

/// Estimates the number of rows of a table without waiting for another machine: the trees whose
/// memory is mapped here stand for the others. Returns `None` if there are none, or if the primary
/// index is a hash index.
pub fn rows_of_mapped_trees(table: &TableDef, machine: &Machine) -> Option<f64> {
    let (mut trees, mut counted, mut rows) = (0_usize, 0_usize, 0.0);
    let leaves = table.leaves().iter().map(|leaf| &**leaf);
    for def in leaves.chain((!table.is_parent()).then_some(table)) {
        let first = def.indexes.first()?;
        if first.kind != IndexKind::BTree {
            return None;
        }
        for tree in trees::trees(first) {
            trees += 1;
            if let Some(entries) = entries(tree, machine) {
                counted += 1;
                rows += entries;
            }
        }
    }
    (counted > 0).then(|| rows * trees as f64 / counted as f64)
}

/// Estimates the entries of a tree, if no other machine has to be asked.
fn entries(tree: BTree, machine: &Machine) -> Option<f64> {
    if machine.is_far(tree.root()) {
        return None;
    }
    let mut cx = Context::from_waker(Waker::noop());
    match pin!(tree.about(machine)).poll(&mut cx) {
        Poll::Ready(entries) => entries.ok(),
        Poll::Pending => None,
    }
}
