//! Index entries that are made all at once: gathered while the rows go in, sorted, and built into an
//! index that has none yet.
//!
//! A load that touches a tree for every row pays for the walk and the change each time; sorted entries
//! fill its leaves one after the other. What is gathered counts against the memory limit.
//!
//! Of a partitioned index the number of the partition stands before each key, so that the entries of one
//! partition are sorted beside each other.

use std::ops::Range;

use fencepost_btree::{BTree, Bulk};
use fencepost_sql::catalog::{IndexDef, IndexKind};
use fencepost_sql::stop::Halt;
use fencepost_storage::FatPtr;
use fencepost_txn::Transaction;

use crate::exec::{Cx, sort_indexes};
use crate::index::{self, tree};

/// Bytes by which the memory of what is gathered is counted.
const CHARGE_BYTES: usize = 1 << 20;

/// One entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    start: usize,
    len: u32,
    /// How many came before it.
    pub nth: u32,
    /// The row.
    pub place: FatPtr,
}

/// Entries for one index.
#[derive(Debug, Default)]
pub struct Gather {
    keys: Vec<u8>,
    entries: Vec<Entry>,
    held: usize,
    /// Bytes before a key: of its partition's number, or none.
    prefix: usize,
}

/// Bytes of the number of a partition.
const PARTITION_BYTES: usize = 4;

impl Gather {
    /// None yet, of `index`.
    pub fn of(index: &IndexDef) -> Gather {
        let partitioned = index.roots.are_partitioned();
        Gather {
            prefix: if partitioned { PARTITION_BYTES } else { 0 },
            ..Gather::default()
        }
    }

    /// Adds an entry.
    pub fn push(
        &mut self,
        tx: &mut Transaction,
        partition: u32,
        key: &[u8],
        place: FatPtr,
    ) -> Result<(), Halt> {
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no more should be gathered before these are built.
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

    /// Puts the entries in the order of their keys; the later one of two with the same key, if there
    /// are such.
    ///
    /// # Errors
    /// As [`Cx::pause`].
    pub async fn sort(&mut self, cx: &mut Cx<'_>) -> Result<Option<Entry>, Halt> {
        let (keys, entries) = (&self.keys, &self.entries);
        let key = |at: u32| {
            let entry = &entries[at as usize];
            &keys[entry.start..entry.start + entry.len as usize]
        };
        let mut order: Vec<u32> = (0..entries.len() as u32).collect();
        sort_indexes(&mut order, cx, |a, b| key(a).cmp(key(b))).await?;
        let mut sorted = Vec::with_capacity(order.len());
        let mut twin: Option<Entry> = None;
        for (place, at) in order.iter().enumerate() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let entry = entries[*at as usize];
            let before = place.checked_sub(1).map(|before| order[before]);
            if before.is_some_and(|before| key(before) == key(*at))
                && twin.is_none_or(|twin| entry.nth < twin.nth)
            {
                twin = Some(entry);
            }
            sorted.push(entry);
        }
        self.entries = sorted;
        Ok(twin)
    }

    /// Builds the sorted entries into trees that are empty and leaves none; false, and those that are not
    /// in yet are there still, where one is not.
    pub async fn build(&mut self, cx: &mut Cx<'_>, index: &IndexDef) -> Result<bool, Halt> {
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

    /// Builds some of the entries into a tree; false, and nothing is done, where it is not empty.
    async fn build_tree(
        &self,
        cx: &mut Cx<'_>,
        tree: BTree,
        entries: Range<usize>,
    ) -> Result<bool, Halt> {
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

    /// Inserts the entries one by one and leaves none; the first that the index has already.
    pub async fn insert(
        &mut self,
        cx: &mut Cx<'_>,
        index: &IndexDef,
    ) -> Result<Option<Entry>, Halt> {
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
        *self = Gather {
            prefix: self.prefix,
            ..Gather::default()
        };
    }
}
