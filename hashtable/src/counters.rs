//! What the hash tables of this process did, counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Event {
    Lookup,
    BlockRead,
    Displacement,
    BlockAdded,
    BlockFreed,
    ShardGrown,
    JointRetry,
}

const EVENTS: usize = 7;
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

/// What all hash tables of this process did since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lookups, in transactions and lock-free.
    pub lookups: u64,
    /// One-sided reads that they would cost: one for a bucket and its neighbour, and one for every
    /// overflow block that had to be looked at.
    pub one_sided_reads: u64,
    /// Pairs moved to the next bucket to make room.
    pub displacements: u64,
    /// Overflow blocks added.
    pub blocks_added: u64,
    /// Overflow blocks freed.
    pub blocks_freed: u64,
    /// Shards split in two.
    pub shards_grown: u64,
    /// Lock-free lookups begun anew because two neighbours did not belong together.
    pub joint_retries: u64,
}

/// Reads the counters.
pub fn counters() -> Counters {
    let sum = |event: Event| {
        SHARDED
            .iter()
            .map(|shard| shard.0[event as usize].load(Ordering::Relaxed))
            .sum()
    };
    let lookups: u64 = sum(Event::Lookup);
    let blocks: u64 = sum(Event::BlockRead);
    Counters {
        lookups,
        one_sided_reads: lookups + blocks,
        displacements: sum(Event::Displacement),
        blocks_added: sum(Event::BlockAdded),
        blocks_freed: sum(Event::BlockFreed),
        shards_grown: sum(Event::ShardGrown),
        joint_retries: sum(Event::JointRetry),
    }
}
