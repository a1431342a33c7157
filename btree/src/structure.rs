//! Counting splits and merges. By the count a transaction knows when to check whether its pending
//! patches are still in the right nodes.
//!
//! # Invariant
//! * STRUCTURE-1: a split or merge is counted before it takes effect. So a transaction that sees a
//!   node after a split or merge, and then reads the count, sees it counted.
//!
//! One count covers all trees of all machines: an unnecessary check costs a transaction little
//! time.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Stop, Transaction, Work};

use crate::kind::LEAF;
use crate::node::Node;
use crate::op;

/// Returns the number of splits and merges, including those that are about to take effect. It is
/// never 0, which is the initial value of a transaction. Returns `None` where the number is not
/// known at once; then a transaction checks each time.
#[inline]
pub(crate) fn changes(tx: &Transaction) -> Option<u64> {
    tx.machine().reshaped().map(|changes| changes + 1)
}

/// Counts a split or merge that is about to be committed.
pub(crate) fn announce(tx: &Transaction) {
    tx.machine().reshape();
}

/// Updates the settled count after splits of the transaction itself. It has made all `own` splits
/// since `before`, and has re-routed the patches of the node. If all patches were in the right
/// nodes then, they still are.
pub(crate) fn made_by(tx: &mut Transaction, before: Option<u64>, own: u64) {
    let Some(before) = before else { return };
    if tx.settled() == before && changes(tx) == Some(before + own) {
        tx.set_settled(before + own);
    }
}

/// Returns whether an old version of a leaf lacks changes of the transaction, at levels below
/// SERIALIZABLE. The snapshot has their keys in the leaf, but a split has moved them to another
/// leaf, which has the patches.
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
