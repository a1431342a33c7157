//! Lookups without a transaction (NSDI'14 §3.6): one consistent answer about one key, as of some
//! moment during the call.
//!
//! Every object is read whole by its version. That a bucket and the next one belong together is told
//! by their joint versions; that a block is still the one that was linked, by the incarnation in the
//! fat pointer, and that the chain is still the same, by the home's chain version.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::Machine;

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
    pub fn get_lockfree(&self, machine: &Machine, key: &[u8], out: &mut [u64]) -> bool {
        let Some(key) = Key::new(key) else {
            return false;
        };
        count(Event::Lookup);
        for round in 0.. {
            let Some(spot) = self.place(machine, key.hash) else {
                if machine.view_current(self.root, |view| Root::open(view).is_some()) != Some(true)
                {
                    return false;
                }
                continue;
            };
            match self.attempt(machine, spot, &key, out) {
                Some(found) => return found,
                None => count(Event::JointRetry),
            }
            if round > PATIENCE {
                std::thread::yield_now();
            }
        }
        false
    }

    /// Home, index and next bucket of a hash.
    #[inline]
    fn place(&self, machine: &Machine, hash: u64) -> Option<(Addr, usize, Addr)> {
        let root = machine.view_current(self.root, Root::open)??;
        let first =
            machine.view_current(root.directory, |view| shard_of(view, self.root, hash))??;
        let index = root.home(hash);
        let home = root.bucket(first, index);
        machine
            .regions()
            .prefetch(home, root.stride.min(PREFETCH_BYTES));
        Some((home, index, root.bucket(first, index + 1)))
    }

    #[inline]
    fn glance(
        &self,
        machine: &Machine,
        home: Addr,
        index: usize,
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Glance {
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
        machine.view_current(home, look).unwrap_or(Glance::Stale)
    }

    /// One attempt; nothing if what was read does not belong together.
    fn attempt(
        &self,
        machine: &Machine,
        (home, index, next): (Addr, usize, Addr),
        key: &Key<'_>,
        out: &mut [u64],
    ) -> Option<bool> {
        let (versions, mut chain) = match self.glance(machine, home, index, key, out) {
            Glance::Found => return Some(true),
            Glance::Stale => return None,
            Glance::Nowhere => return Some(false),
            Glance::Absent(versions, chain) => (versions, chain),
        };
        let neighbour = machine.view_current(next, |view| {
            let bucket = Bucket::open(view, self.root)?;
            let slot = bucket.find(key);
            if let Some(slot) = slot {
                bucket.value(slot, out);
            }
            Some((slot.is_some(), bucket.versions().backward))
        })??;
        if neighbour.1 != versions.forward {
            return None;
        }
        if neighbour.0 {
            return Some(true);
        }
        for _ in 0..MAX_CHAIN {
            if chain.is_null() {
                break;
            }
            count(Event::BlockRead);
            let look = |view: &View<'_>| {
                let block = Bucket::open(view, self.root)?;
                let slot = block.find(key);
                if let Some(slot) = slot {
                    block.value(slot, out);
                }
                Some((slot.is_some(), block.chain()))
            };
            match linked(machine, chain, look)?? {
                (true, _) => return Some(true),
                (false, next) => chain = next,
            }
        }
        // Nobody moved the key between bucket, neighbour and chain while we looked.
        match self.glance(machine, home, index, key, out) {
            Glance::Nowhere => Some(false),
            Glance::Absent(now, _)
                if (now.forward, now.chain) == (versions.forward, versions.chain) =>
            {
                Some(false)
            }
            _ => None,
        }
    }
}

/// Shows `f` the newest version of the block that a fat pointer leads to; nothing if that block is
/// gone by now. `f` may see torn words and run again.
fn linked<T>(machine: &Machine, ptr: FatPtr, mut f: impl FnMut(&View<'_>) -> T) -> Option<T> {
    let (object, class) = machine.regions().slot_at(ptr.addr)?;
    for round in 0.. {
        let header = object.header();
        if header.is_locked() {
            if round > PATIENCE {
                std::thread::yield_now();
            }
            continue;
        }
        let incarnation = u32::from(object.link().incarnation());
        let value = f(&View::Live(object));
        if object.unchanged(header) {
            // No transaction keeps the memory from being given to objects of another size.
            let same = machine
                .regions()
                .slot_at(ptr.addr)
                .is_some_and(|(_, now)| now == class);
            let there = same && header.is_allocated() && incarnation == ptr.incarnation;
            return there.then_some(value);
        }
    }
    None
}
