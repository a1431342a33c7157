//! Lookups without a transaction (NSDI'14 §3.6): one consistent answer about one key, as of some
//! moment during the call.
//!
//! Every object is read whole by its version. That a bucket and the next one belong together is told
//! by their joint versions; that a block is still the one that was linked, by the incarnation in the
//! fat pointer, and that the chain is still the same, by the home's chain version.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{LockFree, Machine, Stop};

use crate::counters::{Event, count};
use crate::layout::{Bucket, Key, Root, Versions, shard_of};
use crate::table::{HashTable, MAX_CHAIN, PREFETCH_BYTES};

/// What a look at a bucket says.
enum Glance {
    Found,
    Absent(Versions, FatPtr),
    /// Not in the home and not elsewhere.
    Nowhere,
    Stale,
}

/// Rounds after which a lookup lets other threads run.
const PATIENCE: usize = 64;

impl HashTable {
    /// Copies the newest committed value of a key to `out`; false if there is none, or no table.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached.
    pub async fn get_lockfree(
        &self,
        machine: &Machine,
        key: &[u8],
        out: &mut [u64],
    ) -> Result<bool, Stop> {
        let Some(key) = Key::new(key) else {
            return Ok(false);
        };
        count(Event::Lookup);
        for round in 0.. {
            // What copies have led to is looked for anew where it is not there.
            let Some(spot) = self.place(machine, key.hash, round > 0).await? else {
                let is_there = |view: &View<'_>| Root::open(view).is_some();
                if machine.view_current(self.root, is_there).await? != Some(true) {
                    return Ok(false);
                }
                continue;
            };
            match self.attempt(machine, spot, &key, out).await? {
                Some(found) => return Ok(found),
                None => count(Event::JointRetry),
            }
            if round > PATIENCE {
                std::thread::yield_now();
            }
        }
        Ok(false)
    }

    /// Home, index and next bucket of a hash. Unless they are to be `fresh`, copies of another machine's
    /// root and directory serve: the bucket tells itself whether it is the right one.
    #[inline]
    async fn place(
        &self,
        machine: &Machine,
        hash: u64,
        fresh: bool,
    ) -> Result<Option<(Addr, usize, Addr)>, Stop> {
        let look = |view: &View<'_>| (Root::open(view), true);
        let Some(Some(root)) = machine.view_copy(self.root, fresh, look).await? else {
            return Ok(None);
        };
        let shard = |view: &View<'_>| (shard_of(view, self.root, hash), true);
        let directory = machine.view_copy(root.directory, fresh, shard);
        let Some(Some(first)) = directory.await? else {
            return Ok(None);
        };
        let index = root.home(hash);
        let home = root.bucket(first, index);
        machine
            .regions()
            .prefetch(home, root.stride.min(PREFETCH_BYTES));
        Ok(Some((home, index, root.bucket(first, index + 1))))
    }

    #[inline]
    async fn glance(
        &self,
        machine: &Machine,
        home: Addr,
        index: usize,
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Result<Glance, Stop> {
        let look = |view: &View<'_>| match Bucket::open(view, self.root)
            .filter(|b| b.is_home(key.hash, index))
        {
            None => Glance::Stale,
            Some(bucket) => match bucket.find(key) {
                Some(slot) => {
                    bucket.value(slot, out);
                    Glance::Found
                }
                None if bucket.may_be_away(key) => {
                    Glance::Absent(bucket.versions(), bucket.chain())
                }
                None => Glance::Nowhere,
            },
        };
        let seen = machine.view_current(home, look).await?;
        Ok(seen.unwrap_or(Glance::Stale))
    }

    /// One attempt; nothing if what was read does not belong together.
    async fn attempt(
        &self,
        machine: &Machine,
        (home, index, next): (Addr, usize, Addr),
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Result<Option<bool>, Stop> {
        let (versions, mut chain) = match self.glance(machine, home, index, key, out).await? {
            Glance::Found => return Ok(Some(true)),
            Glance::Stale => return Ok(None),
            Glance::Nowhere => return Ok(Some(false)),
            Glance::Absent(versions, chain) => (versions, chain),
        };
        let neighbour = |view: &View<'_>| {
            let bucket = Bucket::open(view, self.root)?;
            let slot = bucket.find(key);
            if let Some(slot) = slot {
                bucket.value(slot, out);
            }
            Some((slot.is_some(), bucket.versions().backward))
        };
        match machine.view_current(next, neighbour).await?.flatten() {
            Some((found, backward)) if backward == versions.forward => {
                if found {
                    return Ok(Some(true));
                }
            }
            _ => return Ok(None),
        }
        let mut words = Vec::new();
        for _ in 0..MAX_CHAIN {
            if chain.is_null() {
                break;
            }
            count(Event::BlockRead);
            if machine.read_lockfree(chain, &mut words).await? == LockFree::Gone {
                return Ok(None);
            }
            let view = View::Own(&words);
            let Some(block) = Bucket::open(&view, self.root) else {
                return Ok(None);
            };
            if let Some(slot) = block.find(key) {
                block.value(slot, out);
                return Ok(Some(true));
            }
            chain = block.chain();
        }
        // Nobody moved the key between bucket, neighbour and chain while we looked.
        Ok(match self.glance(machine, home, index, key, out).await? {
            Glance::Nowhere => Some(false),
            Glance::Absent(now, _)
                if (now.forward, now.chain) == (versions.forward, versions.chain) =>
            {
                Some(false)
            }
            _ => None,
        })
    }
}
