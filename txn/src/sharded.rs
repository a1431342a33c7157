//! Counters that threads do not fight over: for what the indexes of a process did.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MY_SHARD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` counters, made to be a `static`.
pub struct Sharded<const N: usize>([Shard<N>; SHARDS]);

impl<const N: usize> Sharded<N> {
    /// All at zero.
    pub const fn new() -> Self {
        Sharded([const { Shard([const { AtomicU64::new(0) }; N]) }; SHARDS])
    }

    /// Counts one of `event`, which is below `N`; each thread has a shard, so this is an uncontended
    /// addition.
    #[inline]
    pub fn count(&self, event: usize) {
        let shard = MY_SHARD.try_with(|shard| *shard).unwrap_or(0);
        if let Some(counter) = self.0[shard].0.get(event) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many of `event` there were.
    pub fn total(&self, event: usize) -> u64 {
        let counters = self.0.iter().filter_map(|shard| shard.0.get(event));
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    }
}

impl<const N: usize> Default for Sharded<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_counted_adds_up() {
        static COUNTED: Sharded<2> = Sharded::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|n| COUNTED.count(usize::from(n % 4 == 0))));
            }
        });
        assert_eq!((COUNTED.total(0), COUNTED.total(1)), (1500, 500));
    }
}
