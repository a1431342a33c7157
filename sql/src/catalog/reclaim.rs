//! The list of dropped trees and hash tables whose memory has not been freed yet.
//!
//! ```text
//! tree     rank 8 | address 64  ->  [ kind 8 | buckets 24 | stride 32, root ]
//! rank     level of the node; ROOT_RANK for the root of a dropped tree or hash table
//! kind     nodes of a tree | nodes and rows of a tree | a hash table | a shard of a hash table
//! ```
//! The transaction that drops a table, or empties it, adds an entry for each of its indexes. Later
//! transactions replace an entry by entries of the nodes below, until no object is left. So the
//! duration of DROP TABLE does not depend on the number of rows.
//!
//! # Invariants
//! - RECLAIM-1: an object of a dropped tree is reachable from exactly one entry, or it is free. The
//!   transaction that frees an object also removes the entry that led to the object.
//! - RECLAIM-2: entries are taken by ascending rank, so nodes of a low level come first. The list
//!   then has at most about one node's children for each level of a tree.
//!
//! # Failure
//! An abort leaves the entries and the objects as they were. The list is in the catalog, so entries
//! survive a restart and the failure of machines. Two machines that take the same entry conflict,
//! and one of them aborts.

use std::ops::Bound;

use fencepost_btree::{BTree, Direction, Insert, ScanBatch};
use fencepost_hashtable::BucketRun;
use fencepost_storage::Addr;
use fencepost_txn::{AbortReason, Stop, Transaction};

use crate::error::SqlError;
use crate::stop::StatementStop;

/// The rank of a root, which is above every level.
const ROOT_RANK: u8 = u8::MAX;
const KEY_BYTES: usize = 9;
/// The number of bytes of a stride.
const STRIDE_BITS: u32 = 32;
/// The largest number of buckets of a run.
const BUCKETS_MASK: u64 = (1 << 24) - 1;
const KIND_SHIFT: u32 = 56;

/// The kind of a dropped structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageKind {
    /// The nodes of a tree; objects to which its entries point are not freed.
    Nodes,
    /// The nodes of a tree, and the rows to which its entries point.
    NodesAndRows,
    /// A whole hash table.
    HashTable,
    /// A shard of a hash table whose root has been freed.
    HashShard(BucketRun),
}

impl GarbageKind {
    fn to_word(self) -> u64 {
        let (number, run) = match self {
            GarbageKind::Nodes => (1, None),
            GarbageKind::NodesAndRows => (2, None),
            GarbageKind::HashTable => (3, None),
            GarbageKind::HashShard(run) => (4, Some(run)),
        };
        let sizes = run.map_or(0, |run| {
            u64::from(run.buckets) << STRIDE_BITS | u64::from(run.stride_bytes)
        });
        number << KIND_SHIFT | sizes
    }

    fn from_word(word: u64, first: Addr) -> Option<GarbageKind> {
        Some(match word >> KIND_SHIFT {
            1 => GarbageKind::Nodes,
            2 => GarbageKind::NodesAndRows,
            3 => GarbageKind::HashTable,
            4 => GarbageKind::HashShard(BucketRun {
                first,
                buckets: (word >> STRIDE_BITS & BUCKETS_MASK) as u32,
                stride_bytes: word as u32,
            }),
            _ => return None,
        })
    }
}

/// An entry of the list: a dropped object from which other dropped objects are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// The kind of the structure.
    pub kind: GarbageKind,
    /// The root of the structure, which identifies its objects.
    pub root: Addr,
    /// The object itself.
    pub at: Addr,
    rank: u8,
}

impl Garbage {
    /// Returns whether the entry is of a whole structure, as the transaction that dropped it added
    /// the entry. Readers of older snapshots may still use the structure.
    pub fn is_whole(&self) -> bool {
        self.rank == ROOT_RANK
    }

    /// Returns the entry of a whole tree or hash table.
    pub fn whole(kind: GarbageKind, root: Addr) -> Garbage {
        Garbage {
            kind,
            root,
            at: root,
            rank: ROOT_RANK,
        }
    }

    /// Returns the entry of a child of this node, whose level is `level`.
    pub fn child(&self, at: Addr, level: u8) -> Garbage {
        Garbage {
            at,
            rank: level.min(ROOT_RANK - 1),
            ..*self
        }
    }

    /// Returns the entry of a shard of the same hash table.
    pub fn shard(&self, run: BucketRun) -> Garbage {
        Garbage {
            kind: GarbageKind::HashShard(run),
            at: run.first,
            rank: 0,
            ..*self
        }
    }

    fn key(&self) -> [u8; KEY_BYTES] {
        let mut key = [self.rank; KEY_BYTES];
        key[1..].copy_from_slice(&self.at.raw().to_be_bytes());
        key
    }

    fn decode(key: &[u8], value: [u64; 2]) -> Option<Garbage> {
        let (rank, at) = key.split_first()?;
        let at = Addr::from_raw(u64::from_be_bytes(at.try_into().ok()?));
        Some(Garbage {
            kind: GarbageKind::from_word(value[0], at)?,
            root: Addr::from_raw(value[1]),
            at,
            rank: *rank,
        })
    }
}

/// The list of dropped structures of all databases.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimList {
    tree: BTree,
}

impl ReclaimList {
    pub(super) fn of(tree: BTree) -> ReclaimList {
        ReclaimList { tree }
    }

    /// Returns the tree that contains the entries.
    pub fn tree(&self) -> BTree {
        self.tree
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// The errors of [`BTree::insert`]; XX000 if the object is in the list already.
    pub async fn add(&self, tx: &mut Transaction, of: &Garbage) -> Result<(), StatementStop> {
        let value = [of.kind.to_word(), of.root.raw()];
        match self.tree.insert(tx, &of.key(), value).await? {
            Insert::Done => Ok(()),
            Insert::Exists(_) => Err(SqlError::internal("an object was dropped twice").into()),
        }
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// The errors of [`BTree::remove`]; [`Stop::Retry`] if another transaction has removed the
    /// entry.
    pub async fn remove(&self, tx: &mut Transaction, of: &Garbage) -> Result<(), Stop> {
        if self.tree.remove(tx, &of.key()).await? {
            Ok(())
        } else {
            Err(Stop::Retry(AbortReason::WriteConflict))
        }
    }

    /// Returns the first entries, at most `count`, as the transaction sees them.
    ///
    /// # Errors
    /// The errors of a scan; [`Stop::Damaged`] if an entry cannot be decoded.
    pub async fn first(&self, tx: &mut Transaction, count: usize) -> Result<Vec<Garbage>, Stop> {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = self.tree.scan(from, to, Direction::Forward);
        let mut batch = ScanBatch::new();
        cursor.next_batch(tx, &mut batch, count).await?;
        let entries = (0..batch.len()).map(|at| Garbage::decode(batch.key(at), batch.value(at)));
        entries.map(|entry| entry.ok_or(Stop::Damaged)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_decoded_as_encoded() {
        let root = Addr::from_raw(0x0000_0007_0000_1000);
        let run = BucketRun {
            first: Addr::from_raw(0x0000_0009_0000_2000),
            buckets: 1025,
            stride_bytes: 192,
        };
        let rows = Garbage::whole(GarbageKind::NodesAndRows, root);
        let table = Garbage::whole(GarbageKind::HashTable, root);
        let node = rows.child(Addr::from_raw(0x0000_0008_0000_3000), 3);
        for entry in [rows, table, node, table.shard(run)] {
            let value = [entry.kind.to_word(), entry.root.raw()];
            assert_eq!(Garbage::decode(&entry.key(), value), Some(entry));
        }
        assert!(node.key() < rows.key(), "nodes come before roots");
        assert_eq!(Garbage::decode(&rows.key(), [9 << KIND_SHIFT, 0]), None);
    }
}
