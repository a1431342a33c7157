//! Lookups without a transaction (NSDI'14 §3.6): one consistent answer about one key, as of some
//! time during the call.
//!
//! Every object is read whole, checked by its version. The joint versions show whether a bucket and
//! the next one belong together. The incarnation in the fat pointer shows whether a block is still
//! the one that was linked. The home's chain version shows whether the chain is unchanged.
//!
//! ```text
//! get_at_once      root ─► directory ─► home ─► neighbour      one look each, awaits nothing
//!   │ an object is far, locked or torn; the key is in a chain; or its absence is not certain
//! get_in_time      the same from the beginning ─► chain ─► home again
//! ```
//! On one machine nearly every lookup ends in `get_at_once`, which costs a few cache lines and
//! little else.

use fencepost_storage::{FatPtr, View};
use fencepost_txn::{LockFree, Machine, Stop};

use crate::counters::{Event, count};
use crate::layout::{Bucket, Key, Root, Versions, shard_of};
use crate::table::{HashTable, HomeLocation, MAX_CHAIN};

/// The result of reading a bucket.
enum BucketRead {
    Found,
    Absent(Versions, FatPtr),
    /// The key is not in the home and not elsewhere.
    Nowhere,
    Stale,
}

/// Rounds after which a lookup yields to other threads.
const ROUNDS_BEFORE_YIELD: usize = 64;

impl HashTable {
    /// Copies the newest committed value of a key to `out`, as many words as both have (NSDI'14
    /// §3.6). Returns `false` if there is no such key, or no table. Any thread may call it; it
    /// waits for locks and for other machines. `out` may be overwritten also if the result is
    /// `false`.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a machine cannot be reached; [`Stop::NotMember`] where this machine is
    /// no member any more.
    #[inline]
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
        match self.get_at_once(machine, &key, out) {
            Some(found) => Ok(found),
            None => self.get_in_time(machine, &key, out).await,
        }
    }

    /// Looks a key up if all objects are in this machine's memory and none of them is being
    /// changed.
    fn get_at_once(&self, machine: &Machine, key: &Key<'_>, out: &mut [u64]) -> Option<bool> {
        let root = machine.glimpse(self.root, Root::open)???;
        let shard = |view: &View<'_>| shard_of(view, self.root, key.hash);
        let first = machine.glimpse(root.directory, shard)???;
        let spot = HomeLocation::of(root, first, key.hash);
        spot.prefetch(machine);
        match machine.glimpse(spot.home, |view| self.glance(view, &spot, key, out))?? {
            BucketRead::Found => Some(true),
            BucketRead::Nowhere => Some(false),
            BucketRead::Stale => None,
            BucketRead::Absent(versions, _) => {
                let look = |view: &View<'_>| self.glance_beside(view, key, out);
                let (found, backward) = machine.glimpse(spot.next(), look)???;
                (found && backward == versions.forward).then_some(true)
            }
        }
    }

    /// Looks a key up, and waits where necessary.
    async fn get_in_time(
        &self,
        machine: &Machine,
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Result<bool, Stop> {
        for round in 0.. {
            // If stale copies lead to a wrong place, the next round uses fresh ones.
            let Some(spot) = self.place(machine, key.hash, round > 0).await? else {
                let is_there = |view: &View<'_>| Root::open(view).is_some();
                if machine.view_current(self.root, is_there).await? != Some(true) {
                    return Ok(false);
                }
                continue;
            };
            match self.attempt(machine, spot, key, out).await? {
                Some(found) => return Ok(found),
                None => count(Event::JointRetry),
            }
            if round > ROUNDS_BEFORE_YIELD {
                std::thread::yield_now();
            }
        }
        Ok(false)
    }

    /// Returns where to look for the key of a hash. Unless `fresh`, copies of another machine's
    /// root and directory are used: the bucket shows whether it is the right one.
    async fn place(
        &self,
        machine: &Machine,
        hash: u64,
        fresh: bool,
    ) -> Result<Option<HomeLocation>, Stop> {
        let look = |view: &View<'_>| {
            let root = Root::open(view);
            (root, root.is_some())
        };
        let Some(Some(root)) = machine.view_copy(self.root, fresh, look).await? else {
            return Ok(None);
        };
        let shard = |view: &View<'_>| {
            let first = shard_of(view, self.root, hash);
            (first, first.is_some())
        };
        let directory = machine.view_copy(root.directory, fresh, shard);
        let Some(Some(first)) = directory.await? else {
            return Ok(None);
        };
        let spot = HomeLocation::of(root, first, hash);
        spot.prefetch(machine);
        Ok(Some(spot))
    }

    /// Searches the home of a key.
    #[inline]
    fn glance(
        &self,
        view: &View<'_>,
        spot: &HomeLocation,
        key: &Key<'_>,
        out: &mut [u64],
    ) -> BucketRead {
        let is_home =
            |home: &Bucket<'_, '_>| home.is_home(key.hash, spot.index) && home.fits(&spot.root);
        let Some(home) = Bucket::open(view, self.root).filter(is_home) else {
            return BucketRead::Stale;
        };
        match home.find(key) {
            Some(slot) => {
                home.value(slot, out);
                BucketRead::Found
            }
            None if home.may_be_away(key) => BucketRead::Absent(home.versions(), home.chain()),
            None => BucketRead::Nowhere,
        }
    }

    /// Returns whether the bucket after its home has a key, and the joint version; `None` if the
    /// object is not a bucket.
    fn glance_beside(
        &self,
        view: &View<'_>,
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Option<(bool, u16)> {
        let bucket = Bucket::open(view, self.root)?;
        let slot = bucket.find(key);
        if let Some(slot) = slot {
            bucket.value(slot, out);
        }
        Some((slot.is_some(), bucket.versions().backward))
    }

    /// Makes one attempt; returns `None` if the objects that were read do not belong together.
    async fn attempt(
        &self,
        machine: &Machine,
        spot: HomeLocation,
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Result<Option<bool>, Stop> {
        let look = |view: &View<'_>| self.glance(view, &spot, key, out);
        let seen = machine.view_current(spot.home, look).await?;
        let (versions, mut chain) = match seen.unwrap_or(BucketRead::Stale) {
            BucketRead::Found => return Ok(Some(true)),
            BucketRead::Stale => return Ok(None),
            BucketRead::Nowhere => return Ok(Some(false)),
            BucketRead::Absent(versions, chain) => (versions, chain),
        };
        let look = |view: &View<'_>| self.glance_beside(view, key, out);
        match machine.view_current(spot.next(), look).await?.flatten() {
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
            if machine.read_lockfree(chain, &mut words).await? == LockFree::Freed {
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
        // Unchanged versions show that the key was not moved between bucket, neighbour and chain
        // meanwhile.
        let look = |view: &View<'_>| self.glance(view, &spot, key, out);
        let again = machine.view_current(spot.home, look).await?;
        Ok(match again.unwrap_or(BucketRead::Stale) {
            BucketRead::Nowhere => Some(false),
            BucketRead::Absent(now, _)
                if (now.forward, now.chain) == (versions.forward, versions.chain) =>
            {
                Some(false)
            }
            _ => None,
        })
    }
}
