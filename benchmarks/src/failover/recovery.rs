//! The length of an outage, computed from commit counts for each millisecond.
//!
//! ```text
//!  before ▁▇▆▇▇▆▇▇│kill ▃▁        │suspicion      ▁▅▇▇▆▇▇   served: first bucket with 80 % of it,
//!     └ mean ┘    └─ longest gap: no commit ─┘   └ mean ┘           as the mean of ten from it
//! ```
//!
//! A bucket counts from its end, because its count is known only then.
//!
//! The same is computed for the time before the kill, when no machine has failed: the longest time
//! from any moment until service is seen. Differences below that cannot be attributed to a failure.

use super::buckets::BUCKET_NS;

/// Service is restored at this share of the throughput before the kill.
const SERVED: f64 = 0.8;
/// The number of buckets over which the mean must reach that share.
const STEADY: usize = 10;

/// The effect of a kill on the throughput; times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// The commits of all machines per millisecond, before the kill.
    pub before: f64,
    /// The time from the kill to the first suspicion; `None` without a suspicion.
    pub kill_to_suspicion: Option<f64>,
    /// The time from the first suspicion until service was restored; `None` if it was not restored,
    /// or without a suspicion.
    pub suspicion_to_served: Option<f64>,
    /// The time from the kill until service was restored.
    pub kill_to_served: Option<f64>,
    /// The longest time after the kill without any commit.
    pub longest_gap: f64,
    /// The longest time before the kill until service was seen, computed as after the suspicion.
    pub longest_dip: f64,
}

const fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns the index of the bucket of a time after the start of the first one.
fn bucket(ns: u64) -> usize {
    usize::try_from(ns / BUCKET_NS).unwrap_or(usize::MAX)
}

fn mean(counts: &[u64]) -> f64 {
    counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64
}

/// Returns whether a bucket reaches `enough`, and so does the mean of the buckets from it on.
fn is_served(counts: &[u64], at: usize, enough: f64) -> bool {
    let steady = &counts[at..(at + STEADY).min(counts.len())];
    counts[at] as f64 >= enough && steady.len() == STEADY && mean(steady) >= enough
}

/// Returns the largest number of buckets from any one on until one is served, including that one.
/// The buckets at the end are not known.
fn longest_dip(counts: &[u64], enough: f64) -> usize {
    let known = (counts.len() + 1).saturating_sub(STEADY);
    let served: Vec<bool> = (0..known).map(|at| is_served(counts, at, enough)).collect();
    let dips = served.split(|served| *served).map(|dip| dip.len() + 1);
    dips.max().unwrap_or(0)
}

impl Recovery {
    /// Computes the recovery. `counts` are commits in each bucket; those from `first` on, up to the
    /// kill, are before the kill. Times are relative to the start of the first bucket.
    pub fn of(counts: &[u64], first: usize, killed_ns: u64, suspected_ns: Option<u64>) -> Recovery {
        let killed = bucket(killed_ns).min(counts.len());
        let before = mean(&counts[first.min(killed)..killed]);
        let enough = before * SERVED;
        let served = suspected_ns.filter(|_| before > 0.0).and_then(|suspected| {
            let served = |at: &usize| is_served(counts, *at, enough);
            let at = (bucket(suspected)..counts.len()).find(served)?;
            Some((at as u64 + 1) * BUCKET_NS)
        });
        let healthy = &counts[first.min(killed)..killed];
        let longest_dip = longest_dip(healthy, enough);
        let since = |from: u64| move |to: u64| ms(to.saturating_sub(from));
        let after = counts.get(killed + 1..).unwrap_or_default();
        let longest = after.split(|count| *count > 0).map(<[u64]>::len).max();
        Recovery {
            before,
            kill_to_suspicion: suspected_ns.map(since(killed_ns)),
            suspicion_to_served: served.zip(suspected_ns).map(|(to, from)| since(from)(to)),
            kill_to_served: served.map(since(killed_ns)),
            longest_gap: ms(longest.unwrap_or(0) as u64 * BUCKET_NS),
            longest_dip: ms(longest_dip as u64 * BUCKET_NS),
        }
    }
}

/// The distribution of a value over many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The maximum.
    pub max: f64,
}

impl Distribution {
    /// Computes the distribution; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Distribution> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        // The smallest value that this share of the values does not exceed.
        let within = |share: f64| {
            let count = (share * values.len() as f64).ceil() as usize;
            values[count.saturating_sub(1).min(last)]
        };
        Some(Distribution {
            median: within(0.5),
            p90: within(0.9),
            max: values[last],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = BUCKET_NS;

    /// Returns the given numbers of buckets with these counts, one after the other.
    fn counts(runs: &[(usize, u64)]) -> Vec<u64> {
        let runs = runs.iter();
        runs.flat_map(|(buckets, count)| vec![*count; *buckets])
            .collect()
    }

    #[test]
    fn service_is_back_when_most_of_the_throughput_is() {
        // The first twenty buckets do not count as time before the kill.
        let counts = counts(&[
            (20, 7),
            (80, 100),
            (3, 60),
            (47, 0),
            (5, 79),
            (1, 80),
            (40, 90),
        ]);
        let recovery = Recovery::of(&counts, 20, 100 * MS, Some(145 * MS + MS / 2));
        assert_eq!(recovery.before, 100.0);
        assert_eq!(recovery.kill_to_suspicion, Some(45.5));
        // The bucket from 155 ms to 156 ms.
        assert_eq!(recovery.kill_to_served, Some(56.0));
        assert_eq!(recovery.suspicion_to_served, Some(10.5));
        assert_eq!(recovery.longest_gap, 47.0);
        assert_eq!(recovery.longest_dip, 1.0);
    }

    #[test]
    fn burst_does_not_count_as_recovery() {
        let counts = counts(&[(100, 100), (20, 0), (3, 250), (30, 0), (50, 100)]);
        let recovery = Recovery::of(&counts, 0, 100 * MS, Some(110 * MS));
        assert_eq!(recovery.suspicion_to_served, Some(44.0));
        assert_eq!(recovery.longest_gap, 30.0);
    }

    #[test]
    fn dip_without_failure_is_measured_alike() {
        let counts = counts(&[(50, 100), (20, 70), (2, 90), (8, 70), (100, 101), (60, 0)]);
        let recovery = Recovery::of(&counts, 0, 180 * MS, Some(200 * MS));
        // The mean after the two in the middle, and after the last two before, is too small.
        assert_eq!(recovery.longest_dip, 33.0);
    }

    #[test]
    fn missing_recovery_is_reported() {
        let counts = counts(&[(100, 100), (100, 79)]);
        let recovery = Recovery::of(&counts, 0, 100 * MS, Some(110 * MS));
        assert_eq!(recovery.suspicion_to_served, None);
        assert_eq!(recovery.kill_to_served, None);
        assert_eq!(recovery.longest_gap, 0.0);
        // Without a suspicion.
        let recovery = Recovery::of(&counts, 0, 100 * MS, None);
        assert_eq!(recovery.kill_to_suspicion, None);
        assert_eq!(recovery.kill_to_served, None);
    }

    #[test]
    fn no_counts_are_no_service_and_no_panic() {
        for killed in [0, 5 * MS, u64::MAX] {
            for counts in [vec![], vec![0; 3], vec![4]] {
                let recovery = Recovery::of(&counts, 9, killed, Some(killed));
                assert_eq!(recovery.suspicion_to_served, None);
            }
        }
    }

    #[test]
    fn of_ten_runs_one_is_above_the_ninth_decile() {
        let spread = Distribution::of((1..=10).rev().map(f64::from)).expect("ten");
        let wanted = Distribution {
            median: 5.0,
            p90: 9.0,
            max: 10.0,
        };
        assert_eq!(spread, wanted);
        let one = Distribution::of([3.0]).expect("one");
        assert_eq!((one.median, one.p90, one.max), (3.0, 3.0, 3.0));
        assert_eq!(Distribution::of([]), None);
    }
}
