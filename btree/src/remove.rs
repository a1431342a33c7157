//! Removal of many keys in ascending order: the keys of one leaf are removed by one patch.
//!
//! ```text
//! keys     a c d | k m | p q r s ...
//!          leaf 1  leaf 2  leaf 3        a descent, a look and a patch for each leaf
//! ```
//! Every unusual leaf is left to [`BTree::remove`], which removes its keys one by one: one that the
//! transaction has created, that lacks one of the keys, or that has been split since the descent.

use std::cmp::Ordering;

use fencepost_txn::{Stop, Transaction};

use crate::kind::LEAF;
use crate::node::Node;
use crate::op::{REMOVALS_MAX, Removals};
use crate::shrink;
use crate::tree::BTree;
use crate::walk::Target;

impl BTree {
    /// Removes `count` keys as [`Self::remove`] does; `key` returns the key at a position. The keys
    /// ascend. Ends at the first key that is absent, and returns its position.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub async fn remove_ascending<'k>(
        &self,
        tx: &mut Transaction,
        count: usize,
        key: impl Fn(usize) -> &'k [u8] + Send + Sync,
    ) -> Result<Option<usize>, Stop> {
        let mut op = Vec::new();
        let mut at = 0;
        while at < count {
            let of_leaf = self.remove_of_leaf(tx, (at, count), &key, &mut op).await?;
            at += of_leaf;
            if of_leaf == 0 {
                if !self.remove(tx, key(at)).await? {
                    return Ok(Some(at));
                }
                at += 1;
            }
        }
        Ok(None)
    }

    /// Removes the first of the keys from `at` on that are in one leaf. Returns their number; 0 if
    /// the first key must be removed alone.
    async fn remove_of_leaf<'k>(
        &self,
        tx: &mut Transaction,
        (at, count): (usize, usize),
        key: &(impl Fn(usize) -> &'k [u8] + Send + Sync),
        op: &mut Vec<u64>,
    ) -> Result<usize, Stop> {
        let root = self.root();
        let end = count.min(at + REMOVALS_MAX);
        let inside = |node: &Node<'_, '_>| {
            let beyond = |i: &usize| node.cmp_high(key(*i)) != Ordering::Less;
            let of_leaf = (at..end).find(beyond).unwrap_or(end) - at;
            (of_leaf, node.right(), node.words)
        };
        // A visit also moves patches that belong in this leaf to it.
        let ((of_leaf, right, words), seen) = self.visit(tx, Target::At(key(at)), inside).await?;
        let leaf = seen.addr();
        if !right.is_null() && at + of_leaf < count {
            // Mostly the next keys are there.
            tx.prefetch(right, words * size_of::<u64>());
        }
        if leaf.is_null() || shrink::wanted(tx, root, leaf).await? {
            return Ok(0);
        }
        if of_leaf < 2 {
            return Ok(0);
        }
        Removals::encode(root, (at..at + of_leaf).map(key), op);
        match tx.patch(leaf, &LEAF, op).await {
            // The memory of a leaf of another machine may have been reused.
            Err(Stop::Damaged) if tx.machine().is_far(leaf) => Ok(0),
            patched => Ok(patched?.map_or(0, |()| of_leaf)),
        }
    }
}
