//! The operations that B-tree and hash indexes share, by kind of index.
//!
//! An operation on one entry takes the partition of its row. An index without partitions ignores
//! it.

use std::hash::BuildHasher;

use fencepost_btree::{BTree, IndexError, Insert};
use fencepost_hashtable::{self as hash, HashOptions, HashTable};
use fencepost_sql::catalog::{IndexDef, IndexKind, PARTITIONS_DEFAULT, Roots, TableDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::key::KeyCodec;
use fencepost_sql::stop::StatementStop;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{AbortReason, ObjectLocation, Stop, Strength, Transaction};
use foldhash::fast::FixedState;

use crate::exec::Cx;
use crate::place::PartitionPlacement;
use crate::trees::tree;

/// Returns the hash table that a hash index has for a partition.
#[inline]
fn hash_table(index: &IndexDef, partition: u32) -> HashTable {
    HashTable::open(Addr::from_raw(index.roots.of(partition)))
}

/// Returns the entry of `key`.
pub async fn find(
    tx: &mut Transaction,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
) -> Result<Option<[u64; 2]>, Stop> {
    match index.kind {
        IndexKind::BTree => tree(index, partition).get(tx, key).await,
        IndexKind::Hash => hash_table(index, partition).get(tx, key).await,
    }
}

/// Returns whether a row exists under `key`. The commit validates the answer: an existing row is
/// added to the read set.
pub async fn is_taken(
    tx: &mut Transaction,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
) -> Result<bool, Stop> {
    let mut without_row = None;
    loop {
        match find(tx, (index, partition), key).await? {
            None => return Ok(false),
            Some(entry) if guard_row(tx, entry).await? => return Ok(true),
            // Index and rows disagree twice in the same way: no result can be trusted.
            entry if entry == without_row => return Err(Stop::Retry(AbortReason::NodeConflict)),
            // The snapshot has moved since the index was read.
            entry => without_row = entry,
        }
    }
}

/// Returns whether a row that a foreign key references exists under `key`. Locks the row FOR KEY
/// SHARE, so that it stays and keeps its key. The commit validates the answer; other columns of the
/// row may change.
pub async fn is_referenced(
    cx: &mut Cx<'_>,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
) -> Result<bool, StatementStop> {
    if index.kind == IndexKind::Hash {
        return Ok(is_taken(cx.tx, (index, partition), key).await?);
    }
    let tree = tree(index, partition);
    let mut found = tree.get(cx.tx, key).await?;
    while let Some(entry) = found {
        cx.breathe().await?;
        let row = FatPtr::from_words(entry).addr;
        if cx.tx.has_image(row) {
            // The transaction's own row: its commit writes the row and the entry together with this
            // read.
            return Ok(true);
        }
        cx.queue(row, Strength::KeyShare).await?;
        let mark = cx.tx.reads_mark();
        let now = tree.get_present(cx.tx, key).await?;
        if now == found {
            return Ok(true);
        }
        // The row was deleted or has moved while this transaction waited for its lock.
        cx.tx.forget_reads(mark);
        found = now;
    }
    // Adds the absence of the key to the read set.
    Ok(tree.get(cx.tx, key).await?.is_some())
}

/// Returns the address that represents a key of a unique index in row locks. The address is odd, so
/// it is never the address of an object.
pub fn key_lock(index: &IndexDef, partition: u32, key: &[u8]) -> Addr {
    let root = Addr::from_raw(index.roots.of(partition));
    let hash = FixedState::default().hash_one((root.offset(), key));
    Addr::new(root.region(), hash as u32 | 1)
}

/// Returns whether an address in a row lock represents a key of a unique index and not an object.
pub fn is_key_lock(addr: Addr) -> bool {
    addr.offset() & 1 == 1
}

/// Adds the row of an entry to the read set. Returns false if the row is not in the snapshot.
async fn guard_row(tx: &mut Transaction, entry: [u64; 2]) -> Result<bool, Stop> {
    let seen = tx
        .view(FatPtr::from_words(entry).addr, None, |_| ())
        .await?;
    if let Some(((), seen)) = seen {
        tx.guard(seen);
    }
    Ok(seen.is_some())
}

/// Adds an entry. If an entry for the key exists, returns that entry and adds its row to the read
/// set.
pub async fn insert(
    tx: &mut Transaction,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
    value: [u64; 2],
) -> Result<Insert, StatementStop> {
    loop {
        match try_insert(tx, (index, partition), key, value).await? {
            // The snapshot moved after the index was read, and the row is gone: try again.
            Insert::Exists(_) if !is_taken(tx, (index, partition), key).await? => {}
            done => return Ok(done),
        }
    }
}

/// Adds an entry as [`insert`] does, but without checking the existing row; the caller checks it.
pub async fn try_insert(
    tx: &mut Transaction,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
    value: [u64; 2],
) -> Result<Insert, StatementStop> {
    match index.kind {
        IndexKind::BTree => match tree(index, partition).insert(tx, key, value).await {
            Ok(done) => Ok(done),
            Err(IndexError::Stop(stop)) => Err(stop.into()),
            Err(IndexError::KeyTooLong { length, limit }) => Err(too_long(index, length, limit)),
        },
        IndexKind::Hash => match hash_table(index, partition).insert(tx, key, &value).await {
            Ok(hash::Insert::Done) => Ok(Insert::Done),
            Ok(hash::Insert::Exists(found)) => Ok(Insert::Exists(found)),
            Err(hash::IndexError::Stop(stop)) => Err(stop.into()),
            Err(hash::IndexError::KeyTooLong { length, limit }) => {
                Err(too_long(index, length, limit))
            }
        },
    }
}

/// Removes an entry, which must exist.
pub async fn remove(
    tx: &mut Transaction,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
) -> Result<(), StatementStop> {
    let found = match index.kind {
        IndexKind::BTree => tree(index, partition).remove(tx, key).await?,
        IndexKind::Hash => hash_table(index, partition).remove(tx, key).await?,
    };
    match found {
        true => Ok(()),
        false => Err(missing(index)),
    }
}

/// Replaces the value of a key, which must exist.
pub async fn replace(
    tx: &mut Transaction,
    (index, partition): (&IndexDef, u32),
    key: &[u8],
    value: [u64; 2],
) -> Result<(), StatementStop> {
    let found = match index.kind {
        IndexKind::BTree => tree(index, partition).replace(tx, key, value).await?,
        IndexKind::Hash => {
            hash_table(index, partition)
                .replace(tx, key, &value)
                .await?
        }
    };
    match found {
        true => Ok(()),
        false => Err(missing(index)),
    }
}

/// Creates an empty index of the shape of `index`, ignoring its roots. Returns the new roots.
pub async fn create(
    tx: &mut Transaction,
    table: &TableDef,
    index: &IndexDef,
    places: &PartitionPlacement,
) -> Result<Roots, Stop> {
    if table.is_parent() {
        return Ok(Roots::Each([].into()));
    }
    if !table.is_partitioned_by(&index.columns) {
        return Ok(Roots::One(create_one(tx, table, index, None).await?));
    }
    let count = table.partitioning.map_or(0, |by| by.count);
    let mut roots = Vec::with_capacity(count as usize);
    for partition in 0..count {
        let near = places.of(partition);
        roots.push(create_one(tx, table, index, Some(near)).await?);
    }
    Ok(Roots::Each(roots.into()))
}

/// Creates an empty tree or hash table and returns its root. All nodes of a partition are allocated
/// near `partition`.
async fn create_one(
    tx: &mut Transaction,
    table: &TableDef,
    index: &IndexDef,
    partition: Option<ObjectLocation>,
) -> Result<u64, Stop> {
    Ok(match index.kind {
        IndexKind::BTree => match partition {
            Some(near) => BTree::create_at(tx, near).await?.root().raw(),
            None => BTree::create(tx).await?.root().raw(),
        },
        IndexKind::Hash => {
            let options = HashOptions {
                key_bytes: KeyCodec::slot_bytes(table, index),
                shard_buckets: shard_buckets(table, partition.is_some()),
                near: partition.unwrap_or(ObjectLocation::Own),
                ..HashOptions::default()
            };
            HashTable::create_with(tx, &options).await?.root().raw()
        }
    })
}

/// Returns the number of home buckets of a shard. It is smaller for a table with many partitions,
/// because each partition starts with one shard.
fn shard_buckets(table: &TableDef, partitioned: bool) -> usize {
    const FEWEST: usize = 16;
    let whole = HashOptions::default().shard_buckets;
    match table.partitioning {
        Some(by) if partitioned => {
            (whole * PARTITIONS_DEFAULT as usize / by.count as usize).clamp(FEWEST, whole)
        }
        _ => whole,
    }
}

/// Returns error 54000: the key does not fit a node, or a slot.
#[cold]
fn too_long(index: &IndexDef, length: usize, limit: usize) -> StatementStop {
    let (name, kind) = (&index.name, index.kind);
    let error = SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        match kind {
            IndexKind::BTree => {
                format!("index row size {length} exceeds maximum {limit} for index \"{name}\"")
            }
            IndexKind::Hash => {
                format!("index row size {length} exceeds maximum {limit} for hash index \"{name}\"")
            }
        },
    );
    match kind {
        IndexKind::BTree => error.into(),
        IndexKind::Hash => error.hint("A B-tree index takes longer keys.").into(),
    }
}

/// Returns the error for an index that lacks the entry of a row (ROW-1).
#[cold]
pub fn missing(index: &IndexDef) -> StatementStop {
    SqlError::internal(format!("index \"{}\" lacks the entry of a row", index.name)).into()
}
