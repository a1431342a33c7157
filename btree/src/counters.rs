//! Counters of the operations of all trees of this process.

use fencepost_txn::sharded::ShardedCounters;

/// A counted event.
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
static COUNTED: ShardedCounters<EVENTS> = ShardedCounters::new();

/// Counts one event.
#[inline]
pub(crate) fn count(event: Event) {
    COUNTED.count(event as usize);
}

/// Counters of all trees of this process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Leaves read in transactions: the one-sided reads of lookups and scans if inner nodes are
    /// cached.
    pub leaf_reads: u64,
    /// Number of node splits.
    pub splits: u64,
    /// Number of nodes that were merged into their left sibling.
    pub merges: u64,
    /// Descents that met a node that did not cover the key, and continued from a sibling or
    /// ancestor.
    pub path_repairs: u64,
    /// Leaves whose pending patches were re-routed because the leaf had been split or merged.
    pub reroutes: u64,
}

/// Returns the counters. Any thread may call it; counts of other threads may be a little older.
pub fn counters() -> Counters {
    let sum = |event: Event| COUNTED.total(event as usize);
    Counters {
        leaf_reads: sum(Event::LeafRead),
        splits: sum(Event::Split),
        merges: sum(Event::Merge),
        path_repairs: sum(Event::PathRepair),
        reroutes: sum(Event::Reroute),
    }
}
