//! Counting splits and merges, so that a transaction knows when to look whether its pending changes
//! still hang where their keys are.
//!
//! # Invariant
//! * STRUCTURE-1: a split or merge is counted before it takes effect. Whoever sees a node that it left
//!   and then reads the count finds it there.
//!
//! The count is one for all trees of all machines: a transaction that looks in vain loses a little time.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Stop, Transaction, Work};

use crate::kind::LEAF;
use crate::node::Node;
use crate::op;

/// Splits and merges so far, and those that are about to take effect; never 0, which is what a
/// transaction begins with. `None` where it is not known at once: then a transaction looks each time.
#[inline]
pub(crate) fn changes(tx: &Transaction) -> Option<u64> {
    tx.machine().reshaped().map(|changes| changes + 1)
}

/// A split or merge is about to be committed.
pub(crate) fn announce(tx: &Transaction) {
    tx.machine().reshape();
}

/// The transaction itself has made all splits since there were `before`, `own` of them, and has made the
/// patches of the node anew: if all were settled then, they still are.
pub(crate) fn made_by(tx: &mut Transaction, before: Option<u64>, own: u64) {
    let Some(before) = before else { return };
    if tx.settled() == before && changes(tx) == Some(before + own) {
        tx.set_settled(before + own);
    }
}

/// Returns whether an old version of a leaf lacks changes of the transaction, below the level
/// SERIALIZABLE: the snapshot has their keys in the leaf, and a split has moved them to another
/// one, which has the patches.
pub(crate) fn lacks_own(
    tx: &mut Transaction,
    root: Addr,
    leaf: Addr,
) -> Work<'_, Result<bool, Stop>> {
    Box::pin(async move {
        let fences = |view: &View<'_>| {
            let node = Node::open_in(view, root).filter(|node| node.level == 0)?;
            let (mut low, mut high) = (Vec::new(), Vec::new());
            node.append_low(&mut low);
            let bounded = node.append_high(&mut high);
            Some((low, high, bounded))
        };
        let found = tx.view(leaf, Some(&LEAF), fences).await?;
        let Some((Some((low, high, bounded)), _)) = found else {
            return Ok(false);
        };
        Ok(tx.has_patch_elsewhere(leaf, &LEAF, |words| {
            op::decode(words).is_some_and(|op| {
                let key = op.key.as_slice();
                op.tree == root && low.as_slice() <= key && (!bounded || key < high.as_slice())
            })
        }))
    })
}
