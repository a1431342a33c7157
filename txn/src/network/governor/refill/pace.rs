//! How fast data recovery reads: slowly, where that is but about a further replica, so that clients do not notice
//! (SOSP'15 §5.4).
//!
//! ```text
//! reads ─ at random within an interval ─► reads ─ at random within an interval ─► ...
//! ```

use fencepost_fabric::Random;

/// How many reads there are at once, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Reads that are under way together.
    pub at_once: usize,
    /// Reads that begin at one look: where they are answered at once, whoever governs has others to look after between
    /// them, whom it would let wait.
    pub a_look: usize,
    /// When answers are looked for that are on their way.
    pub look_ns: u64,
    /// The longest time from the begin of some to that of the next.
    interval_ns: u64,
}

impl Pace {
    /// Where others than the primary have the data: some 64 MB a second.
    const GENTLE: Pace = Pace {
        at_once: 4,
        a_look: 4,
        look_ns: 100_000,
        interval_ns: 1_000_000,
    };
    /// Where the primary is the only one.
    const EAGER: Pace = Pace {
        at_once: 16,
        a_look: 4,
        look_ns: 25_000,
        interval_ns: 0,
    };

    /// For a region with so many replicas.
    pub fn of(replicas: usize) -> Pace {
        match replicas {
            0..=2 => Pace::EAGER,
            _ => Pace::GENTLE,
        }
    }

    /// Whether it is about the last replica.
    pub fn is_eager(self) -> bool {
        self == Pace::EAGER
    }

    /// When there may be further reads after some that began `now`.
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
            .map(|_| Pace::of(3).next(7, &mut random) - 7)
            .collect();
        gaps.sort_unstable();
        gaps.dedup();
        assert!(gaps.len() > 100, "they are drawn");
        assert!(gaps.last().is_some_and(|gap| *gap <= 1_000_000));
        assert!(Pace::of(2).is_eager() && !Pace::of(3).is_eager());
        assert_eq!(Pace::of(2).next(7, &mut random), 7);
    }
}
