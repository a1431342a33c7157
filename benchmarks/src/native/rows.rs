//! Rows in objects of their own, found through an index.
//!
//! ```text
//! HashRows   8-byte key ──► fat pointer ──► row       one row by its key
//! TreeRows   ordered key ─► fat pointer ──► row       also ranges of rows
//! ```
//!
//! A row is never freed, so a pointer stays valid. The index entry of an existing key is not
//! validated, because the row itself is.

use std::ops::Bound;

use fencepost_btree::{BTree, Cursor, Direction, ScanBatch};
use fencepost_hashtable::{HashCursor, HashOptions, HashTable, IndexError, Insert};
use fencepost_txn::{Addr, Coordinator, FatPtr, Mode, ObjectLocation, Stop, Transaction};

use super::{create_with, insist, run_future};
use crate::error::BenchError;

/// The number of entries in a batch of a scan.
const BATCH: usize = 256;

/// Rows with keys of eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashRows(HashTable);

/// Rows with ordered keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeRows(BTree);

/// Converts an error of a tree to that of a hash table.
fn of_tree(error: fencepost_btree::IndexError) -> IndexError {
    match error {
        fencepost_btree::IndexError::Stop(stop) => IndexError::Stop(stop),
        fencepost_btree::IndexError::KeyTooLong { length, limit } => {
            IndexError::KeyTooLong { length, limit }
        }
    }
}

/// Creates the object of a new row.
async fn new_row(tx: &mut Transaction, row: &[u64]) -> Result<FatPtr, Stop> {
    let ptr = tx.alloc(row.len(), ObjectLocation::Own).await?;
    tx.write_new(ptr, row)?;
    Ok(ptr)
}

/// Returns the address in an index entry.
fn at(value: [u64; 2]) -> Addr {
    FatPtr::from_words(value).addr
}

/// Returns some words of a row, without copying the others.
pub(crate) async fn words<const N: usize>(
    tx: &mut Transaction,
    row: Addr,
    which: [usize; N],
) -> Result<[i64; N], IndexError> {
    let found = tx
        .view(row, None, |view| which.map(|word| view.word(word) as i64))
        .await?;
    let (found, seen) = found.ok_or(Stop::Damaged)?;
    tx.guard(seen);
    Ok(found)
}

/// Copies a row, which must exist.
pub(crate) async fn copy(
    tx: &mut Transaction,
    row: Addr,
    out: &mut Vec<u64>,
) -> Result<(), IndexError> {
    if tx.read(row, out).await? {
        Ok(())
    } else {
        Err(Stop::Damaged.into())
    }
}

impl HashRows {
    /// Creates an empty table with capacity for `rows` rows; it grows if needed.
    pub fn create(coordinator: &mut Coordinator, rows: u64) -> Result<HashRows, BenchError> {
        let options = HashOptions {
            key_bytes: 8,
            value_words: 2,
            capacity: usize::try_from(rows).unwrap_or(usize::MAX),
            ..HashOptions::default()
        };
        create_with(coordinator, &options).map(HashRows)
    }

    /// Adds a row, whose key must be new.
    pub async fn insert(
        &self,
        tx: &mut Transaction,
        key: u64,
        row: &[u64],
    ) -> Result<FatPtr, IndexError> {
        let ptr = new_row(tx, row).await?;
        match self
            .0
            .insert(tx, &key.to_le_bytes(), &ptr.to_words())
            .await?
        {
            Insert::Done => Ok(ptr),
            Insert::Exists(_) => Err(Stop::Damaged.into()),
        }
    }

    /// Returns the address of a row, if it exists.
    pub async fn find(&self, tx: &mut Transaction, key: u64) -> Result<Option<Addr>, IndexError> {
        Ok(self.0.get(tx, &key.to_le_bytes()).await?.map(at))
    }

    /// Returns the address of a row, which must exist.
    pub async fn must_find(&self, tx: &mut Transaction, key: u64) -> Result<Addr, IndexError> {
        Ok(self.find(tx, key).await?.ok_or(Stop::Damaged)?)
    }

    /// Passes all rows to `f`, in one snapshot and in no order.
    pub fn each(
        &self,
        coordinator: &mut Coordinator,
        mut f: impl FnMut(&[u64]),
    ) -> Result<(), BenchError> {
        let mut tx = coordinator.begin(Mode::ReadOnly);
        let (mut cursor, mut batch): (HashCursor, _) = (self.0.scan(), Default::default());
        let mut row = Vec::new();
        let done: Result<(), IndexError> = run_future(async {
            while cursor.next_batch(&mut tx, &mut batch, BATCH).await? {
                for (_, value) in batch.iter() {
                    copy(&mut tx, at([value[0], value[1]]), &mut row).await?;
                    f(&row);
                }
            }
            Ok(())
        });
        finish(tx, done)
    }
}

impl TreeRows {
    /// Creates an empty tree.
    pub fn create(coordinator: &mut Coordinator) -> Result<TreeRows, BenchError> {
        let mut made = None;
        run_future(insist(coordinator, async |tx| {
            made = Some(BTree::create(tx).await?);
            Ok(())
        }))?;
        let tree = made.ok_or_else(|| BenchError::Load("no tree was made".to_string()))?;
        Ok(TreeRows(tree))
    }

    /// Adds a row, whose key must be new.
    pub async fn insert(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        row: &[u64],
    ) -> Result<(), IndexError> {
        let ptr = new_row(tx, row).await?;
        self.point(tx, key, ptr).await
    }

    /// Adds a key, which must be new, for a row that another index has too, or for no row.
    pub async fn point(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        to: FatPtr,
    ) -> Result<(), IndexError> {
        match self
            .0
            .insert(tx, key, to.to_words())
            .await
            .map_err(of_tree)?
        {
            fencepost_btree::Insert::Done => Ok(()),
            fencepost_btree::Insert::Exists(_) => Err(Stop::Damaged.into()),
        }
    }

    /// Removes a key, which must exist.
    pub async fn remove(&self, tx: &mut Transaction, key: &[u8]) -> Result<(), IndexError> {
        if self.0.remove(tx, key).await? {
            Ok(())
        } else {
            Err(Stop::Damaged.into())
        }
    }

    /// Collects the addresses of the rows with keys from `low` to below `high`, in the order of
    /// their keys.
    pub async fn range(
        &self,
        tx: &mut Transaction,
        (low, high): (&[u8], &[u8]),
        out: &mut Vec<Addr>,
    ) -> Result<(), IndexError> {
        let mut cursor = self.cursor(low, high, Direction::Forward);
        let mut batch = ScanBatch::new();
        out.clear();
        while cursor.next_batch(tx, &mut batch, BATCH).await? {
            out.extend(batch.values().iter().map(|value| at(*value)));
        }
        Ok(())
    }

    /// Returns the first or the last entry from `low` to below `high`: its key and the address of
    /// its row.
    pub async fn edge(
        &self,
        tx: &mut Transaction,
        (low, high): (&[u8], &[u8]),
        direction: Direction,
    ) -> Result<Option<(Vec<u8>, Addr)>, IndexError> {
        let mut batch = ScanBatch::new();
        let mut cursor = self.cursor(low, high, direction);
        let found = cursor.next_batch(tx, &mut batch, 1).await?;
        Ok(found.then(|| (batch.key(0).to_vec(), at(batch.value(0)))))
    }

    fn cursor(&self, low: &[u8], high: &[u8], direction: Direction) -> Cursor {
        let (low, high) = (Bound::Included(low), Bound::Excluded(high));
        self.0.scan(low, high, direction)
    }

    /// Passes all keys to `f`, in one snapshot and in order, with their rows if there are rows.
    pub fn each(
        &self,
        coordinator: &mut Coordinator,
        mut f: impl FnMut(&[u8], &[u64]),
    ) -> Result<(), BenchError> {
        let mut tx = coordinator.begin(Mode::ReadOnly);
        let mut cursor = self
            .0
            .scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let (mut batch, mut row) = (ScanBatch::new(), Vec::new());
        let done: Result<(), IndexError> = run_future(async {
            while cursor.next_batch(&mut tx, &mut batch, BATCH).await? {
                for (key, value) in batch.iter() {
                    if !at(value).is_null() {
                        copy(&mut tx, at(value), &mut row).await?;
                    }
                    f(key, &row);
                }
            }
            Ok(())
        });
        finish(tx, done)
    }
}

fn finish(tx: Transaction, done: Result<(), IndexError>) -> Result<(), BenchError> {
    tx.abort();
    match done {
        Ok(()) => Ok(()),
        Err(IndexError::Stop(stop)) => Err(stop.into()),
        Err(other) => Err(BenchError::Load(other.to_string())),
    }
}
