//! Counters of the operations of all hash tables of this process.

use fencepost_txn::sharded::ShardedCounters;

/// A counted event.
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
static COUNTED: ShardedCounters<EVENTS> = ShardedCounters::new();

/// Counts one event.
#[inline]
pub(crate) fn count(event: Event) {
    COUNTED.count(event as usize);
}

/// Counters of all hash tables of this process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lookups, in transactions and lock-free.
    pub lookups: u64,
    /// One-sided reads of these lookups, if the table were remote. A lookup costs one read for a
    /// bucket and its neighbour, and one for every overflow block that is read.
    pub one_sided_reads: u64,
    /// Pairs that were moved to the next bucket to free a slot.
    pub displacements: u64,
    /// Overflow blocks added.
    pub blocks_added: u64,
    /// Overflow blocks freed.
    pub blocks_freed: u64,
    /// Shards split in two.
    pub shards_grown: u64,
    /// Lock-free lookups that were repeated because two neighbours did not belong together.
    pub joint_retries: u64,
}

/// Returns the counters. Any thread may call it; counts of other threads may be a little older.
pub fn counters() -> Counters {
    let sum = |event: Event| COUNTED.total(event as usize);
    let lookups = sum(Event::Lookup);
    let blocks = sum(Event::BlockRead);
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
