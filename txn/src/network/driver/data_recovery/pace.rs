//! The pace of data recovery: slow where other backups exist, so that clients do not notice
//! (SOSP'15 §5.4).
//!
//! ```text
//! reads ─ at random within an interval ─► reads ─ at random within an interval ─► ...
//! ```

use fencepost_fabric::Random;

/// The number of concurrent reads, and their interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadRate {
    /// Reads in flight at a time.
    pub at_once: usize,
    /// Reads posted in one step. If they complete at once, the driver must do its other work
    /// between them.
    pub a_look: usize,
    /// The interval of checks for answers, in nanoseconds.
    pub look_ns: u64,
    /// The longest time between two batches of reads, in nanoseconds.
    interval_ns: u64,
}

impl ReadRate {
    /// With other backups besides the primary: about 64 MB a second.
    const GENTLE: ReadRate = ReadRate {
        at_once: 4,
        a_look: 4,
        look_ns: 100_000,
        interval_ns: 1_000_000,
    };
    /// With the primary as the only replica.
    const EAGER: ReadRate = ReadRate {
        at_once: 16,
        a_look: 4,
        look_ns: 25_000,
        interval_ns: 0,
    };

    /// Returns the pace for a region with so many replicas.
    pub fn of(replicas: usize) -> ReadRate {
        match replicas {
            0..=2 => ReadRate::EAGER,
            _ => ReadRate::GENTLE,
        }
    }

    /// Returns whether the primary is the only other replica.
    pub fn is_eager(self) -> bool {
        self == ReadRate::EAGER
    }

    /// Returns when the next reads may begin after some that began `now`.
    pub fn next(self, now: u64, random: &mut Random) -> u64 {
        now.saturating_add(random.below(self.interval_ns + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_begin_at_random_within_the_interval_and_at_once_where_haste_is() {
        let mut random = Random::new(5);
        let mut gaps: Vec<u64> = (0..200)
            .map(|_| ReadRate::of(3).next(7, &mut random) - 7)
            .collect();
        gaps.sort_unstable();
        gaps.dedup();
        assert!(gaps.len() > 100, "they are drawn");
        assert!(gaps.last().is_some_and(|gap| *gap <= 1_000_000));
        assert!(ReadRate::of(2).is_eager() && !ReadRate::of(3).is_eager());
        assert_eq!(ReadRate::of(2).next(7, &mut random), 7);
    }
}
