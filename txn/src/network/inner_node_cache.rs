//! The remote-read cache: copies of objects of peers whose memory is not mapped. It serves readers
//! that can detect a stale copy from its children: readers of inner nodes and directories.
//!
//! # Invariants
//! * COPIES-1: a copy was a committed version; its age is unknown.
//! * COPIES-2: the copies take at most [`LIMIT_WORDS`] words together; beyond that any copy may be
//!   dropped.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use fencepost_storage::{Addr, ObjectCopy, View};
use foldhash::fast::FixedState;
use parking_lot::RwLock;

use super::{AccessOutcome, Network};
use crate::backoff::moment;
use crate::stop::Stop;
use crate::work::Work;

/// Maximum words of all copies: 64 MiB.
const LIMIT_WORDS: usize = 8 << 20;
/// Number of parts with locks of their own.
const SHARDS: usize = 16;
/// Words that an entry takes besides its payload.
const ENTRY_WORDS: usize = 16;

/// The cached copies of a machine.
pub(super) struct Copies([RwLock<Shard>; SHARDS]);

#[derive(Default)]
struct Shard {
    copies: HashMap<Addr, Arc<ObjectCopy>, FixedState>,
    words: usize,
}

fn words(copy: &ObjectCopy) -> usize {
    copy.payload().len() + ENTRY_WORDS
}

impl Default for Copies {
    fn default() -> Self {
        Copies(std::array::from_fn(|_| RwLock::default()))
    }
}

impl Copies {
    fn shard(&self, addr: Addr) -> &RwLock<Shard> {
        let hash = FixedState::default().hash_one(addr);
        &self.0[(hash >> 32) as usize % SHARDS]
    }

    fn get(&self, addr: Addr) -> Option<Arc<ObjectCopy>> {
        self.shard(addr).read().copies.get(&addr).map(Arc::clone)
    }

    fn put(&self, addr: Addr, copy: Arc<ObjectCopy>) {
        let mut shard = self.shard(addr).write();
        let shard = &mut *shard;
        let limit = LIMIT_WORDS / SHARDS;
        shard.words += words(&copy);
        if let Some(replaced) = shard.copies.insert(addr, copy) {
            shard.words -= words(&replaced);
        }
        if shard.words > limit {
            let left = &mut shard.words;
            shard.copies.retain(|at, copy| {
                let goes = *left > limit / 2 && *at != addr;
                *left -= if goes { words(copy) } else { 0 };
                !goes
            });
        }
    }

    fn remove(&self, addr: Addr) {
        let mut shard = self.shard(addr).write();
        if let Some(removed) = shard.copies.remove(&addr) {
            shard.words -= words(&removed);
        }
    }
}

/// A function that reads an object and returns whether a copy of it should be kept.
pub(crate) type ReadAndCache<'a> = &'a mut (dyn FnMut(&View<'_>) -> bool + Send);

impl Network {
    /// Shows `f` a committed version of an object, if one is allocated; the newest one if `fresh`.
    /// Keeps a copy if `f` returns `true`.
    ///
    /// # Errors
    /// [`Stop::Retry`] if the peer cannot be reached.
    pub(crate) fn view_copy<'a>(
        &'a self,
        addr: Addr,
        fresh: bool,
        f: ReadAndCache<'a>,
    ) -> Work<'a, Result<AccessOutcome<()>, Stop>> {
        Box::pin(async move {
            if self.comes_near(addr).await? {
                return Ok(AccessOutcome::Near);
            }
            let cached = if fresh { None } else { self.copies.get(addr) };
            if let Some(copy) = cached {
                f(&copy.view());
                return Ok(AccessOutcome::Far(()));
            }
            for round in 0.. {
                let there = self.fetch(addr).await?;
                let Some(copy) = there.filter(|copy| copy.header().is_allocated()) else {
                    self.copies.remove(addr);
                    break;
                };
                if !copy.header().is_locked() {
                    match f(&copy.view()) {
                        true => self.copies.put(addr, Arc::new(copy)),
                        false => self.copies.remove(addr),
                    }
                    break;
                }
                moment(round).await;
            }
            Ok(AccessOutcome::Far(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_storage::RegionId;

    #[test]
    fn copies_are_found_again_and_stay_within_bounds() {
        let copy = || {
            let words = vec![1 << 62; 16 << 10].into_boxed_slice();
            Arc::new(ObjectCopy::of(words, 0).expect("whole"))
        };
        let copies = Copies::default();
        let at = |number: u32| Addr::new(RegionId(1), number * 64);
        for number in 0..2000 {
            copies.put(at(number), copy());
            assert!(copies.get(at(number)).is_some());
        }
        let mut words = 0;
        for shard in &copies.0 {
            let shard = shard.read();
            let there: usize = shard.copies.values().map(|copy| super::words(copy)).sum();
            assert_eq!(shard.words, there);
            words += there;
        }
        assert!(words <= LIMIT_WORDS && words > LIMIT_WORDS / 4);
        copies.remove(at(1999));
        assert!(copies.get(at(1999)).is_none());
    }
}
