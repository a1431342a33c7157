//! The number of rows of a table, from the shape of its primary index.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use fencepost_sql::catalog::{IndexKind, TableDef};
use fencepost_txn::Machine;

use crate::index::trees;

/// Estimates the number of rows of a table without waiting for another machine. Returns `None` if
/// its primary index is a hash index or a part of it is on another machine.
pub fn rows_of_local_trees(table: &TableDef, machine: &Machine) -> Option<f64> {
    let first = table.indexes.first()?;
    if first.kind != IndexKind::BTree || table.is_parent() {
        return None;
    }
    let mut rows = 0.0;
    let mut cx = Context::from_waker(Waker::noop());
    for tree in trees(first) {
        match pin!(tree.about(machine)).poll(&mut cx) {
            Poll::Ready(Ok(entries)) => rows += entries,
            Poll::Ready(Err(_)) | Poll::Pending => return None,
        }
    }
    Some(rows)
}
