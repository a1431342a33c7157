//! Scans over all keys, in no order: shard by shard, bucket by bucket.
//!
//! A read-write transaction adds every bucket and block that it passes to the read set. So no key
//! can come, go or move there unnoticed. If a shard is split before it is scanned, its new half has
//! a higher prefix and is scanned later.

use fencepost_storage::{Addr, View};
use fencepost_txn::{AbortReason, Mode, NodeKind, Stop, Transaction};

use crate::kind::TABLE;
use crate::layout::{Bucket, DIRECTORY_HEADER, DIRECTORY_MAGIC, Root};
use crate::table::{HashTable, MAX_CHAIN};

/// Keys and values in flat arrays. Reuse one batch to scan without allocating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    words: Vec<u64>,
    value_words: usize,
}

impl HashBatch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the key of entry `i`.
    ///
    /// # Panics
    /// If there is no entry `i`.
    pub fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// Returns the value of entry `i`.
    ///
    /// # Panics
    /// If there is no entry `i`.
    pub fn value(&self, i: usize) -> &[u64] {
        &self.words[i * self.value_words..(i + 1) * self.value_words]
    }

    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u64])> {
        (0..self.len()).map(|i| (self.key(i), self.value(i)))
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
        self.words.truncate(len * self.value_words);
    }

    fn push(&mut self, bucket: &Bucket<'_, '_>, slot: usize) {
        self.value_words = bucket.shape.value_words;
        bucket.append_key(slot, &mut self.bytes);
        self.ends.push(self.bytes.len());
        let from = self.words.len();
        self.words.resize(from + bucket.shape.value_words, 0);
        bucket.value(slot, &mut self.words[from..]);
    }
}

/// A scan in progress.
#[derive(Clone, Debug)]
pub struct HashCursor {
    table: HashTable,
    /// Index of the next directory entry.
    prefix: u64,
    index: usize,
    done: bool,
}

impl HashTable {
    /// Returns a cursor over all keys, in no order. Reads nothing yet.
    pub fn scan(&self) -> HashCursor {
        HashCursor {
            table: *self,
            prefix: 0,
            index: 0,
            done: false,
        }
    }
}

impl HashCursor {
    /// Fills `out` with whole buckets until it has at least `enough` entries. Returns `false`, with
    /// `out` empty, at the end. All batches belong to one transaction: in another one, keys may
    /// have moved, and be missed or returned twice.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] also if no table is at the root.
    pub async fn next_batch(
        &mut self,
        tx: &mut Transaction,
        out: &mut HashBatch,
        enough: usize,
    ) -> Result<bool, Stop> {
        out.clear();
        let kind = if tx.mode() == Mode::ReadOnly {
            None
        } else {
            Some(&TABLE as &'static dyn NodeKind)
        };
        while !self.done && out.len() < enough.max(1) {
            let root = tx
                .view(self.table.root, kind, Root::open)
                .await?
                .and_then(|(root, _)| root);
            let root = root.ok_or(Stop::Damaged)?;
            if self.prefix >> root.depth.min(63) != 0 {
                self.done = true;
                break;
            }
            let prefix = self.prefix as usize;
            let entry = |view: &View<'_>| {
                let whole = view.word(0) >> 48 == DIRECTORY_MAGIC;
                whole.then(|| Addr::from_raw(view.word(DIRECTORY_HEADER + prefix)))
            };
            let Some((Some(first), _)) = tx.view(root.directory, kind, entry).await? else {
                return Err(Stop::Retry(AbortReason::RefreshFailed));
            };
            let shard = self.table.shard(tx, first).await?;
            if shard.prefix == self.prefix {
                while self.index <= root.buckets && out.len() < enough.max(1) {
                    self.bucket(tx, root.bucket(first, self.index), out).await?;
                    self.index += 1;
                }
                if self.index <= root.buckets {
                    break;
                }
            }
            self.prefix += 1;
            self.index = 0;
        }
        Ok(!out.is_empty())
    }

    /// Appends a bucket and its overflow chain.
    async fn bucket(
        &self,
        tx: &mut Transaction,
        at: Addr,
        out: &mut HashBatch,
    ) -> Result<(), Stop> {
        let (table, mut at) = (self.table.root, at);
        for _ in 0..MAX_CHAIN {
            let before = out.len();
            let read = |view: &View<'_>| {
                out.truncate(before);
                let bucket = Bucket::open(view, table)?;
                for slot in (0..bucket.shape.slots).filter(|slot| !bucket.is_free(*slot)) {
                    out.push(&bucket, slot);
                }
                Some(bucket.chain())
            };
            let Some((Some(next), seen)) = tx.view(at, None, read).await? else {
                return Err(Stop::Retry(AbortReason::RefreshFailed));
            };
            tx.guard(seen);
            if next.is_null() {
                return Ok(());
            }
            at = next.addr;
        }
        Err(Stop::Damaged)
    }
}
