//! What the trees of this process did, counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Event {
    LeafRead,
    Split,
    Merge,
    PathRepair,
    Reroute,
}

const EVENTS: usize = 5;
const SHARDS: usize = 16;

#[repr(align(128))]
struct Shard([AtomicU64; EVENTS]);

static SHARDED: [Shard; SHARDS] = [const { Shard([const { AtomicU64::new(0) }; EVENTS]) }; SHARDS];
static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MY_SHARD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// Counts one event; each thread has a shard, so this is an uncontended addition.
#[inline]
pub(crate) fn count(event: Event) {
    let shard = MY_SHARD.try_with(|shard| *shard).unwrap_or(0);
    SHARDED[shard].0[event as usize].fetch_add(1, Ordering::Relaxed);
}

/// What all trees of this process did since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Leaves read in transactions: the one-sided reads that lookups and scans would cost where
    /// inner nodes are cached.
    pub leaf_reads: u64,
    /// Nodes split.
    pub splits: u64,
    /// Nodes merged into their left sibling.
    pub merges: u64,
    /// Descents that met a node that did not cover the key, and went on from a sibling or ancestor.
    pub path_repairs: u64,
    /// Leaves whose pending changes were made anew because the leaf had been split or merged.
    pub reroutes: u64,
}

/// Reads the counters.
pub fn counters() -> Counters {
    let sum = |event: Event| {
        SHARDED
            .iter()
            .map(|shard| shard.0[event as usize].load(Ordering::Relaxed))
            .sum()
    };
    Counters {
        leaf_reads: sum(Event::LeafRead),
        splits: sum(Event::Split),
        merges: sum(Event::Merge),
        path_repairs: sum(Event::PathRepair),
        reroutes: sum(Event::Reroute),
    }
}
