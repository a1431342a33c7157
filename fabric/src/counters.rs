//! Counters of the operations that a machine has posted to others.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one-sided operations posted to other machines, and of words moved.
#[derive(Debug, Default)]
pub struct FabricCounters {
    reads: AtomicU64,
    writes: AtomicU64,
    swaps: AtomicU64,
    words: AtomicU64,
}

/// The values of the counters at about one time, since the fabric was opened. Each is exact, but an
/// operation in progress may be in one of them and not yet in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FabricCounts {
    /// One-sided reads.
    pub reads: u64,
    /// One-sided writes.
    pub writes: u64,
    /// Compare-and-swaps.
    pub swaps: u64,
    /// Words read and written.
    pub words: u64,
}

impl FabricCounters {
    /// Counts a read of `words` words.
    #[inline]
    pub fn read(&self, words: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.words.fetch_add(words as u64, Ordering::Relaxed);
    }

    /// Counts a write of `words` words.
    #[inline]
    pub fn write(&self, words: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.words.fetch_add(words as u64, Ordering::Relaxed);
    }

    /// Counts a compare-and-swap.
    #[inline]
    pub fn swap(&self) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a snapshot of the counters.
    pub fn now(&self) -> FabricCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FabricCounts {
            reads: load(&self.reads),
            writes: load(&self.writes),
            swaps: load(&self.swaps),
            words: load(&self.words),
        }
    }
}
