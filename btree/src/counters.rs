//! What the trees of this process did, counted.

use fencepost_txn::sharded::Sharded;

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
static COUNTED: Sharded<EVENTS> = Sharded::new();

/// Counts one event.
#[inline]
pub(crate) fn count(event: Event) {
    COUNTED.count(event as usize);
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
    let sum = |event: Event| COUNTED.total(event as usize);
    Counters {
        leaf_reads: sum(Event::LeafRead),
        splits: sum(Event::Split),
        merges: sum(Event::Merge),
        path_repairs: sum(Event::PathRepair),
        reroutes: sum(Event::Reroute),
    }
}
