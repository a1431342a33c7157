//! Bulk changes of indexes: the entries of many rows are collected while the rows are written, then
//! sorted, and built into an index that is still empty, or removed.
//!
//! Changing a tree row by row pays for the descent and the change each time. Sorted entries fill
//! its leaves one after the other, or are removed from each leaf together. The collected entries
//! count against the memory limit.
//!
//! For a partitioned index, the partition number precedes each key, so that sorting groups the
//! entries by partition.

use std::ops::Range;

use fencepost_btree::{BTree, Bulk};
use fencepost_sql::catalog::{IndexDef, IndexKind};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;
use fencepost_txn::{Blocks, Transaction};

use super::key_blocks::{KeyBlocks, KeyPlace};
use super::key_order::{KeySort, OrderedKey};
use super::rows::entry;
use crate::exec::Cx;
use crate::index;
use crate::plan::TablePlan;
use crate::trees::tree;

/// The step in bytes in which memory is charged.
const CHARGE_BYTES: usize = 1 << 20;
/// The number of entries from which those of one leaf are removed together.
const REMOVED_TOGETHER_FROM: usize = 16;
/// The number of entries that are removed without a pause.
const REMOVED_AT_ONCE: usize = 1024;

/// A collected entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The position of the entry in the order of insertion.
    pub nth: u32,
    /// The fat pointer of the row.
    pub place: FatPtr,
}

/// The collected entries of one index.
#[derive(Debug, Default)]
pub struct EntryBuffer {
    bytes: KeyBlocks,
    keys: Blocks<KeyPlace>,
    /// The rows; empty if the entries are to be removed.
    rows: Blocks<FatPtr>,
    /// The entries in the order of their keys, once they are sorted.
    order: Vec<OrderedKey>,
    held: usize,
    /// Length of the partition number before each key, in bytes; 0 without partitions.
    prefix: usize,
}

/// Length of a partition number in bytes.
const PARTITION_BYTES: usize = 4;

impl EntryBuffer {
    /// Creates an empty collection for `index`.
    pub fn of(index: &IndexDef) -> EntryBuffer {
        let partitioned = index.roots.are_partitioned();
        EntryBuffer {
            prefix: if partitioned { PARTITION_BYTES } else { 0 },
            ..EntryBuffer::default()
        }
    }

    /// Adds an entry that is to be built.
    pub fn push(
        &mut self,
        tx: &mut Transaction,
        partition: u32,
        key: &[u8],
        place: FatPtr,
    ) -> Result<(), StatementStop> {
        self.rows.push(place);
        self.push_key(tx, partition, key)
    }

    /// Adds the key of an entry that is to be removed.
    pub fn push_key(
        &mut self,
        tx: &mut Transaction,
        partition: u32,
        key: &[u8],
    ) -> Result<(), StatementStop> {
        let place = self
            .bytes
            .push(&partition.to_be_bytes()[..self.prefix], key);
        self.keys.push(place);
        let bytes = self.memory();
        if bytes >= self.held + CHARGE_BYTES {
            tx.hold_memory(bytes - self.held)?;
            self.held = bytes;
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.bytes.bytes() + self.keys.bytes() + self.rows.bytes()
    }

    /// Returns the bytes that are held for the entries.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the entries must be used before more are collected.
    pub fn is_full(&self) -> bool {
        const MOST_BYTES: usize = 256 << 20;
        self.held > MOST_BYTES
    }

    fn entry(&self, of: OrderedKey) -> Entry {
        Entry {
            nth: of.nth,
            place: self.rows.get(of.nth as usize),
        }
    }

    fn key(&self, of: OrderedKey) -> &[u8] {
        &self.bytes.get(self.keys.get(of.nth as usize))[self.prefix..]
    }

    fn partition(&self, of: OrderedKey) -> u32 {
        let mut number = [0; PARTITION_BYTES];
        let key = self.bytes.get(self.keys.get(of.nth as usize));
        number[..self.prefix].copy_from_slice(&key[..self.prefix]);
        u32::from_be_bytes(number)
    }

    /// Sorts the entries by their keys. If two have the same key, returns the later of them.
    ///
    /// # Errors
    /// As [`Cx::pause`].
    pub async fn sort(&mut self, cx: &mut Cx<'_>) -> Result<Option<Entry>, StatementStop> {
        let (bytes, keys) = (&self.bytes, &self.keys);
        let key = |nth: u32| bytes.get(keys.get(nth as usize));
        let mut sort = KeySort::new(keys.len());
        while sort.step(key) {
            cx.pause().await?;
        }
        self.order = sort.into_order();
        let mut duplicate_key: Option<OrderedKey> = None;
        for pair in self.order.windows(2) {
            if cx.is_due() {
                cx.pause().await?;
            }
            if pair[0].is_same(pair[1], &key)
                && duplicate_key.is_none_or(|found| pair[1].nth < found.nth)
            {
                duplicate_key = Some(pair[1]);
            }
        }
        Ok(duplicate_key.map(|of| self.entry(of)))
    }

    /// Returns the first of the sorted entries from `from` on that are of one partition, as a
    /// range.
    fn of_partition(&self, from: usize) -> Option<(u32, Range<usize>)> {
        let first = *self.order.get(from)?;
        if self.prefix == 0 {
            return Some((0, from..self.order.len()));
        }
        let partition = self.partition(first);
        let same = |of: &&OrderedKey| self.partition(**of) == partition;
        let count = self.order[from..].iter().take_while(same).count();
        Some((partition, from..from + count))
    }

    /// Builds the sorted entries into empty trees and removes them. If a tree is not empty, returns
    /// false and keeps the entries that are not built yet.
    pub async fn build(
        &mut self,
        cx: &mut Cx<'_>,
        index: &IndexDef,
    ) -> Result<bool, StatementStop> {
        if index.kind != IndexKind::BTree {
            return Ok(false);
        }
        let mut done = 0;
        while let Some((partition, entries)) = self.of_partition(done) {
            let end = entries.end;
            if !self.build_tree(cx, tree(index, partition), entries).await? {
                self.order.drain(..done);
                return Ok(false);
            }
            done = end;
        }
        self.forget(cx.tx);
        Ok(true)
    }

    /// Builds some of the entries into a tree. Returns false and does nothing if the tree is not
    /// empty.
    async fn build_tree(
        &self,
        cx: &mut Cx<'_>,
        tree: BTree,
        entries: Range<usize>,
    ) -> Result<bool, StatementStop> {
        let Some(mut bulk) = Bulk::into(cx.tx, tree).await? else {
            return Ok(false);
        };
        for of in &self.order[entries] {
            cx.breathe().await?;
            let row = self.rows.get(of.nth as usize);
            bulk.push(cx.tx, self.key(*of), row.to_words()).await?;
        }
        bulk.finish(cx.tx).await?;
        Ok(true)
    }

    /// Inserts the sorted entries one by one and removes them from the collection. Returns the
    /// first entry whose key the index already has.
    pub async fn insert(
        &mut self,
        cx: &mut Cx<'_>,
        index: &IndexDef,
    ) -> Result<Option<Entry>, StatementStop> {
        for of in &self.order {
            cx.breathe().await?;
            let place = self.rows.get(of.nth as usize).to_words();
            let at = (index, self.partition(*of));
            match index::insert(cx.tx, at, self.key(*of), place).await? {
                fencepost_btree::Insert::Done => {}
                fencepost_btree::Insert::Exists(_) => return Ok(Some(self.entry(*of))),
            }
        }
        self.forget(cx.tx);
        Ok(None)
    }

    /// Removes the entries, which must exist, from the B-tree `index`.
    ///
    /// # Errors
    /// XX000 if the index lacks one.
    pub async fn remove(&mut self, cx: &mut Cx<'_>, index: &IndexDef) -> Result<(), StatementStop> {
        self.sort(cx).await?;
        if self.len() < REMOVED_TOGETHER_FROM {
            for of in &self.order {
                let at = (index, self.partition(*of));
                index::remove(cx.tx, at, self.key(*of)).await?;
            }
            self.forget(cx.tx);
            return Ok(());
        }
        let mut done = 0;
        while let Some((partition, entries)) = self.of_partition(done) {
            for part in self.order[entries.clone()].chunks(REMOVED_AT_ONCE) {
                let key = |at: usize| self.key(part[at]);
                let tree = tree(index, partition);
                let absent = tree.remove_ascending(cx.tx, part.len(), key).await?;
                if absent.is_some() {
                    return Err(index::missing(index));
                }
                cx.pause().await?;
            }
            done = entries.end;
        }
        self.forget(cx.tx);
        Ok(())
    }

    fn forget(&mut self, tx: &mut Transaction) {
        tx.release_memory(self.held);
        *self = EntryBuffer {
            prefix: self.prefix,
            ..EntryBuffer::default()
        };
    }
}

/// The index entries of the rows that a DELETE has deleted, for each index of a table. They are
/// removed at the end of the statement. Until then no expression of a user may read the table
/// (ROW-1).
#[derive(Debug)]
pub struct EntryRemovals {
    each: Vec<EntryBuffer>,
    /// The key of the next entry.
    key: Vec<u8>,
}

impl EntryRemovals {
    /// Returns an empty collection. Returns `None` for a table with partitions, or with an index
    /// that is no B-tree or evaluates expressions.
    pub fn of(table: &TablePlan) -> Option<EntryRemovals> {
        let is_plain = |index: &IndexDef| {
            let more = &index.more;
            index.kind == IndexKind::BTree && !index.is_partial() && more.expressions.is_empty()
        };
        let indexes = &table.def.indexes;
        let is_possible = table.leaves.is_none() && indexes.iter().all(is_plain);
        is_possible.then(|| EntryRemovals {
            each: indexes.iter().map(EntryBuffer::of).collect(),
            key: Vec::new(),
        })
    }

    /// Returns the bytes that are held for the entries.
    pub fn held(&self) -> usize {
        self.each.iter().map(EntryBuffer::held).sum()
    }

    /// Adds the entries of a row of `table`. They are not removed before [`Self::finish`].
    pub async fn add_row(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        row: &[Value],
        place: FatPtr,
    ) -> Result<(), StatementStop> {
        let row = &row[..table.layout.width()];
        let partition = table.def.partition_of(row, &mut self.key);
        for (position, entries) in self.each.iter_mut().enumerate() {
            entry(cx, (table, position), row, place.addr, &mut self.key).await?;
            entries.push_key(cx.tx, partition, &self.key)?;
        }
        Ok(())
    }

    /// Adds the entry of a row in the index at `position`. Removes the collected entries of the
    /// index if they are many.
    pub async fn add(
        &mut self,
        cx: &mut Cx<'_>,
        position: usize,
        (index, partition): (&IndexDef, u32),
        key: &[u8],
    ) -> Result<(), StatementStop> {
        let entries = &mut self.each[position];
        entries.push_key(cx.tx, partition, key)?;
        if entries.is_full() {
            Box::pin(entries.remove(cx, index)).await?;
        }
        Ok(())
    }

    /// Removes the entries from the indexes of `table`.
    pub async fn finish(self, cx: &mut Cx<'_>, table: &TablePlan) -> Result<(), StatementStop> {
        for (position, mut entries) in self.each.into_iter().enumerate() {
            entries.remove(cx, table.index_def(position)).await?;
        }
        Ok(())
    }
}
