//! Counters without contention between threads, for the operations of the indexes of a process.
//!
//! Each thread has a slot while it lives, with counters of its own. The thread adds to them
//! without an atomic addition. An atomic addition would make the processor wait for the reads that
//! it has begun, so that lookups could not overlap. Threads beyond the number of slots share the
//! last one, and add atomically.

use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = u64::BITS as usize;
/// The slot that is shared by all threads without a slot of their own.
const SHARED: usize = SHARDS - 1;

/// Slots that are taken, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(1 << SHARED);

thread_local! {
    static MY_SLOT: ShardSlot = ShardSlot::take();
}

/// The right to a slot's counters, given back when the thread ends.
struct ShardSlot(usize);

impl ShardSlot {
    fn take() -> ShardSlot {
        let free = |taken: u64| taken.checked_add(1).map(|next| taken | next);
        // Acquire: the counts of the slot's previous thread are visible.
        match TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            Ok(before) => ShardSlot(before.trailing_ones() as usize),
            Err(_) => ShardSlot(SHARED),
        }
    }
}

impl Drop for ShardSlot {
    fn drop(&mut self) {
        if self.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// A set of `N` counters, made to be a `static`.
pub struct ShardedCounters<const N: usize>([Shard<N>; SHARDS]);

impl<const N: usize> ShardedCounters<N> {
    /// Returns counters that are all zero.
    pub const fn new() -> Self {
        ShardedCounters([const { Shard([const { AtomicU64::new(0) }; N]) }; SHARDS])
    }

    /// Adds one to the counter of `event`, which is below `N`; otherwise does nothing. Never waits.
    #[inline]
    pub fn count(&self, event: usize) {
        let slot = MY_SLOT.try_with(|slot| slot.0).unwrap_or(SHARED);
        let Some(counter) = self.0[slot].0.get(event) else {
            return;
        };
        if slot == SHARED {
            counter.fetch_add(1, Ordering::Relaxed);
        } else {
            let count = counter.load(Ordering::Relaxed);
            counter.store(count.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Returns the sum over all threads of the counter of `event`; 0 for no counter. Counts of
    /// running threads may be missing for a short time.
    pub fn total(&self, event: usize) -> u64 {
        let counters = self.0.iter().filter_map(|shard| shard.0.get(event));
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    }
}

impl<const N: usize> Default for ShardedCounters<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        static COUNTED: ShardedCounters<2> = ShardedCounters::new();
        // More threads than slots at once; the next rounds reuse the slots of ended threads.
        for _ in 0..3 {
            let all = std::sync::Barrier::new(SHARDS + 8);
            std::thread::scope(|scope| {
                for _ in 0..SHARDS + 8 {
                    scope.spawn(|| {
                        COUNTED.count(1);
                        all.wait();
                        (0..100).for_each(|n| COUNTED.count(usize::from(n % 4 == 0)));
                    });
                }
            });
        }
        let threads = 3 * (SHARDS as u64 + 8);
        assert_eq!(
            (COUNTED.total(0), COUNTED.total(1)),
            (75 * threads, 26 * threads)
        );
    }
}
