//! The indexes of a table by kind: what a B-tree and a hash table have in common.

use fencepost_btree::{BTree, IndexError, Insert};
use fencepost_hashtable::{self as hash, HashOptions, HashTable};
use fencepost_sql::catalog::{IndexDef, IndexKind, TableDef};
use fencepost_sql::key::KeyCodec;
use fencepost_sql::stop::Halt;
use fencepost_storage::Addr;
use fencepost_txn::{Stop, Transaction};

/// The tree of a B-tree index.
pub fn tree(index: &IndexDef) -> BTree {
    BTree::open(Addr::from_raw(index.root))
}

/// The table of a hash index.
pub fn hash_table(index: &IndexDef) -> HashTable {
    HashTable::open(Addr::from_raw(index.root))
}

/// The entry of `key`.
pub async fn find(
    tx: &mut Transaction,
    index: &IndexDef,
    key: &[u8],
) -> Result<Option<[u64; 2]>, Stop> {
    match index.kind {
        IndexKind::BTree => tree(index).get(tx, key).await,
        IndexKind::Hash => hash_table(index).get(tx, key).await,
    }
}

/// Adds an entry; gives the one that is there already instead.
pub async fn insert(
    tx: &mut Transaction,
    index: &IndexDef,
    key: &[u8],
    value: [u64; 2],
) -> Result<Insert, IndexError> {
    match index.kind {
        IndexKind::BTree => tree(index).insert(tx, key, value).await,
        IndexKind::Hash => match hash_table(index).insert(tx, key, &value).await {
            Ok(hash::Insert::Done) => Ok(Insert::Done),
            Ok(hash::Insert::Exists(found)) => Ok(Insert::Exists(found)),
            Err(hash::IndexError::Stop(stop)) => Err(IndexError::Stop(stop)),
            Err(hash::IndexError::KeyTooLong { length, limit }) => {
                Err(IndexError::KeyTooLong { length, limit })
            }
        },
    }
}

/// Removes an entry, which must be there.
pub async fn remove(tx: &mut Transaction, index: &IndexDef, key: &[u8]) -> Result<(), Halt> {
    let found = match index.kind {
        IndexKind::BTree => tree(index).remove(tx, key).await?,
        IndexKind::Hash => hash_table(index).remove(tx, key).await?,
    };
    match found {
        true => Ok(()),
        false => Err(missing(index)),
    }
}

/// Puts another value under a key, which must be there.
pub async fn replace(
    tx: &mut Transaction,
    index: &IndexDef,
    key: &[u8],
    value: [u64; 2],
) -> Result<(), Halt> {
    let found = match index.kind {
        IndexKind::BTree => tree(index).replace(tx, key, value).await?,
        IndexKind::Hash => hash_table(index).replace(tx, key, &value).await?,
    };
    match found {
        true => Ok(()),
        false => Err(missing(index)),
    }
}

/// A new, empty index of the shape of `index`, whose root is not looked at; its root.
pub fn create(tx: &mut Transaction, table: &TableDef, index: &IndexDef) -> Result<u64, Stop> {
    Ok(match index.kind {
        IndexKind::BTree => BTree::create(tx)?.root().raw(),
        IndexKind::Hash => {
            let options = HashOptions {
                key_bytes: KeyCodec::slot_bytes(table, index),
                ..HashOptions::default()
            };
            HashTable::create_with(tx, &options)?.root().raw()
        }
    })
}

/// Frees the index's nodes; the rows stay.
pub async fn drop_index(tx: &mut Transaction, index: &IndexDef) -> Result<(), Stop> {
    match index.kind {
        IndexKind::BTree => tree(index).drop_tree(tx).await,
        IndexKind::Hash => hash_table(index).drop_table(tx).await,
    }
}

fn missing(index: &IndexDef) -> Halt {
    fencepost_sql::error::SqlError::internal(format!(
        "index \"{}\" lacks the entry of a row",
        index.name
    ))
    .into()
}
