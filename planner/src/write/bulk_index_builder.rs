//! Bulk creation of index entries: they are collected while rows are inserted, then sorted, and
//! built into an index that is still empty.
//!
//! Inserting into a tree row by row pays for the descent and the change each time. Sorted entries
//! fill its leaves one after the other. The collected entries count against the memory limit.
//!
//! For a partitioned index, the partition number precedes each key, so that sorting groups the
//! entries by partition.

use std::ops::Range;

use fencepost_btree::{BTree, Bulk};
use fencepost_sql::catalog::{IndexDef, IndexKind};
use fencepost_sql::stop::StatementStop;
use fencepost_storage::FatPtr;
use fencepost_txn::Transaction;

use crate::exec::{Cx, sort_indexes};
use crate::index::{self, tree};

/// The step in bytes in which memory is charged.
const CHARGE_BYTES: usize = 1 << 20;

/// A collected entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    start: usize,
    len: u32,
    /// The position of the entry in the order of insertion.
    pub nth: u32,
    /// The fat pointer of the row.
    pub place: FatPtr,
}

/// The collected entries of one index.
#[derive(Debug, Default)]
pub struct EntryBuffer {
    keys: Vec<u8>,
    entries: Vec<Entry>,
    held: usize,
    /// Length of the partition number before each key, in bytes; 0 without partitions.
    prefix: usize,
}

/// Returns the first bytes of a key as a number: keys with different numbers are in their order.
fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let bytes = key.len().min(head.len());
    head[..bytes].copy_from_slice(&key[..bytes]);
    u64::from_be_bytes(head)
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

    /// Adds an entry.
    pub fn push(
        &mut self,
        tx: &mut Transaction,
        partition: u32,
        key: &[u8],
        place: FatPtr,
    ) -> Result<(), StatementStop> {
        let bytes = self.keys.capacity() + self.entries.capacity() * size_of::<Entry>();
        if bytes >= self.held + CHARGE_BYTES {
            tx.hold_memory(bytes - self.held)?;
            self.held = bytes;
        }
        self.entries.push(Entry {
            start: self.keys.len(),
            len: (self.prefix + key.len()) as u32,
            nth: self.entries.len() as u32,
            place,
        });
        self.keys
            .extend_from_slice(&partition.to_be_bytes()[..self.prefix]);
        self.keys.extend_from_slice(key);
        Ok(())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the entries must be built before more are collected.
    pub fn is_full(&self) -> bool {
        const MOST_BYTES: usize = 256 << 20;
        self.keys.len() + self.entries.len() * size_of::<Entry>() > MOST_BYTES
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        let end = entry.start + entry.len as usize;
        &self.keys[entry.start + self.prefix..end]
    }

    fn partition(&self, entry: &Entry) -> u32 {
        let mut number = [0; PARTITION_BYTES];
        number[..self.prefix].copy_from_slice(&self.keys[entry.start..entry.start + self.prefix]);
        u32::from_be_bytes(number)
    }

    /// Sorts the entries by their keys. If two have the same key, returns the later of them.
    ///
    /// # Errors
    /// As [`Cx::pause`].
    pub async fn sort(&mut self, cx: &mut Cx<'_>) -> Result<Option<Entry>, StatementStop> {
        let (keys, entries) = (&self.keys, &self.entries);
        let key = |at: u32| {
            let entry = &entries[at as usize];
            &keys[entry.start..entry.start + entry.len as usize]
        };
        // Most comparisons end at the first bytes, which are side by side.
        let heads: Vec<u64> = (0..entries.len() as u32).map(|at| head(key(at))).collect();
        let mut order: Vec<u32> = (0..entries.len() as u32).collect();
        sort_indexes(&mut order, cx, |a, b| {
            let heads = heads[a as usize].cmp(&heads[b as usize]);
            heads.then_with(|| key(a).cmp(key(b)))
        })
        .await?;
        let mut sorted = Vec::with_capacity(order.len());
        let mut duplicate_key: Option<Entry> = None;
        for (place, at) in order.iter().enumerate() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let entry = entries[*at as usize];
            let before = place.checked_sub(1).map(|before| order[before]);
            if before.is_some_and(|before| key(before) == key(*at))
                && duplicate_key.is_none_or(|found| entry.nth < found.nth)
            {
                duplicate_key = Some(entry);
            }
            sorted.push(entry);
        }
        self.entries = sorted;
        Ok(duplicate_key)
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
        while let Some(first) = self.entries.get(done) {
            let partition = self.partition(first);
            let of_it = |entry: &&Entry| self.partition(entry) == partition;
            let count = self.entries[done..].iter().take_while(of_it).count();
            if !self
                .build_tree(cx, tree(index, partition), done..done + count)
                .await?
            {
                self.entries.drain(..done);
                return Ok(false);
            }
            done += count;
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
        for entry in &self.entries[entries] {
            cx.breathe().await?;
            bulk.push(cx.tx, self.key(entry), entry.place.to_words())
                .await?;
        }
        bulk.finish(cx.tx).await?;
        Ok(true)
    }

    /// Inserts the entries one by one and removes them. Returns the first entry whose key the index
    /// already has.
    pub async fn insert(
        &mut self,
        cx: &mut Cx<'_>,
        index: &IndexDef,
    ) -> Result<Option<Entry>, StatementStop> {
        for entry in &self.entries {
            cx.breathe().await?;
            let place = entry.place.to_words();
            let at = (index, self.partition(entry));
            match index::insert(cx.tx, at, self.key(entry), place).await? {
                fencepost_btree::Insert::Done => {}
                fencepost_btree::Insert::Exists(_) => return Ok(Some(*entry)),
            }
        }
        self.forget(cx.tx);
        Ok(None)
    }

    fn forget(&mut self, tx: &mut Transaction) {
        tx.release_memory(self.held);
        *self = EntryBuffer {
            prefix: self.prefix,
            ..EntryBuffer::default()
        };
    }
}
