//! Dropping a table: all of it in one transaction, or shard by shard in several.
//!
//! # Invariants
//! The caller frees the root before the shards, and each shard once, after the last transaction
//! that uses the table. A shard can grow only while the root exists, so the shards that
//! [`HashTable::free_root`] returns are all shards.
//!
//! # Failure
//! An abort leaves all objects of its transaction in place.

use fencepost_storage::{Addr, View};
use fencepost_txn::{AbortReason, Stop, Transaction, Work};

use crate::layout::{Bucket, Root};
use crate::table::HashTable;

/// The buckets of one shard, which are in consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRun {
    /// Address of the first bucket.
    pub first: Addr,
    /// Number of buckets.
    pub buckets: u32,
    /// Bytes from one bucket to the next.
    pub stride_bytes: u32,
}

impl BucketRun {
    fn of(root: &Root, first: Addr) -> BucketRun {
        BucketRun {
            first,
            buckets: root.buckets as u32 + 1,
            stride_bytes: root.stride as u32,
        }
    }

    /// Returns the addresses of the buckets.
    fn addresses(self) -> impl Iterator<Item = Addr> {
        let at = move |index| self.first.raw() + u64::from(index) * u64::from(self.stride_bytes);
        (0..self.buckets).map(move |index| Addr::from_raw(at(index)))
    }
}

impl HashTable {
    /// Frees every object of the table at the commit. No transaction that begins later may use it.
    /// The values are not freed if they are pointers.
    ///
    /// # Errors
    /// As [`Transaction::view`] and [`Transaction::free`].
    pub fn drop_table(self, tx: &mut Transaction) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            for run in self.free_root(tx).await? {
                self.free_run(tx, run).await?;
            }
            Ok(())
        })
    }

    /// Returns whether the table has one shard only, which is so until it grows.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] if no table is at the root.
    pub async fn is_one_shard(self, tx: &mut Transaction) -> Result<bool, Stop> {
        let seen = tx.view(self.root, None, Root::open).await?;
        let root = seen.and_then(|(root, _)| root).ok_or(Stop::Damaged)?;
        Ok(root.depth == 0)
    }

    /// Frees the root and the directory at the commit, and returns the shards, which stay.
    ///
    /// # Errors
    /// As [`Transaction::view`] and [`Transaction::free`].
    pub async fn free_root(self, tx: &mut Transaction) -> Result<Vec<BucketRun>, Stop> {
        // A transaction that grows the table from here on conflicts with this one.
        let mut words = Vec::new();
        let there = tx.read(self.root, &mut words).await?;
        let root = Root::open(&View::Own(&words)).filter(|_| there);
        let root = root.ok_or(Stop::Damaged)?;
        tx.read(root.directory, &mut words).await?;
        let runs = self.runs(tx).await?;
        tx.free(root.directory).await?;
        tx.free(self.root).await?;
        Ok(runs)
    }

    /// Returns the shards. They do not join the read set.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub async fn runs(self, tx: &mut Transaction) -> Result<Vec<BucketRun>, Stop> {
        let (root, shards) = self.shards(tx).await?;
        let runs = shards.iter().map(|shard| BucketRun::of(&root, shard.first));
        Ok(runs.collect())
    }

    /// Frees the buckets of a shard, and their overflow blocks, at the commit. Returns the number
    /// of freed objects.
    ///
    /// # Errors
    /// As [`Transaction::view`] and [`Transaction::free`].
    pub async fn free_run(self, tx: &mut Transaction, run: BucketRun) -> Result<usize, Stop> {
        let mut freed = 0;
        for bucket in run.addresses() {
            let mut at = bucket;
            while !at.is_null() {
                freed += 1;
                // Take the next block from the version that is freed.
                let next = tx.free_seen(at, |view| self.block_after(view)).await?;
                at = next.ok_or(Stop::Retry(AbortReason::ReadConflict))?;
            }
        }
        Ok(freed)
    }

    /// Returns the addresses of the buckets of a shard and of their overflow blocks.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] if an object is not a bucket of the table.
    pub async fn run_addresses(
        self,
        tx: &mut Transaction,
        run: BucketRun,
    ) -> Result<Vec<Addr>, Stop> {
        let mut all = Vec::new();
        for bucket in run.addresses() {
            let mut at = bucket;
            while !at.is_null() {
                all.push(at);
                let seen = tx.view(at, None, |view| self.block_after(view)).await?;
                at = seen.and_then(|(next, _)| next).ok_or(Stop::Damaged)?;
            }
        }
        Ok(all)
    }

    fn block_after(self, view: &View<'_>) -> Option<Addr> {
        Bucket::open(view, self.root).map(|block| block.chain().addr)
    }
}
