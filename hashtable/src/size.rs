//! The memory of a table, by its directory. The few overflow blocks are not counted.

use std::collections::HashSet;

use fencepost_storage::View;
use fencepost_txn::{Machine, Stop, Work};

use crate::layout::{DIRECTORY_HEADER, DIRECTORY_MAGIC, Root};
use crate::table::HashTable;

impl HashTable {
    /// Returns the bytes of all its shards and of the directory; 0 where only the creating
    /// transaction sees the table.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached; [`Stop::NotMember`] where this machine is
    /// no member any more.
    pub fn bytes<'a>(&'a self, machine: &'a Machine) -> Work<'a, Result<u64, Stop>> {
        Box::pin(async move {
            let look = |view: &View<'_>| (Root::open(view), false);
            let Some(root) = machine.view_copy(self.root, false, look).await?.flatten() else {
                return Ok(0);
            };
            let look = |view: &View<'_>| {
                let whole = view.word(0) >> 48 == DIRECTORY_MAGIC;
                // Several directory entries may lead to one shard.
                let entries = (DIRECTORY_HEADER..view.len()).map(|at| view.word(at));
                let shards: HashSet<u64> = entries.filter(|entry| *entry != 0).collect();
                let taken = (shards.len() as u64, view.len() as u64 * 8);
                (whole.then_some(taken), false)
            };
            let seen = machine.view_copy(root.directory, false, look).await?;
            Ok(seen.flatten().map_or(0, |(shards, directory)| {
                shards * (root.buckets as u64 + 1) * root.stride as u64 + directory
            }))
        })
    }
}
