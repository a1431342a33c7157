//! Counts of a server's clients and their statements.
//!
//! ```text
//!   connection ── adds ──> the counts of its worker     Server::metrics ── sums all workers
//! ```
//! A worker is one thread, so its counts have one writer: counting is an addition to memory that no
//! other thread writes. The engine supplies the duration of a statement, because it reads the clock
//! anyway.
//!
//! Invariant MEETING-1: only the thread of a worker writes its counts, except [`Counts::errors`],
//! which are behind a lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fencepost::{Metric, MetricKind, SqlState, StatementKind};
use parking_lot::Mutex;

/// The upper bounds of the duration buckets, in microseconds. A last bucket has longer durations.
const BOUNDS_US: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
const BUCKETS: usize = BOUNDS_US.len() + 1;
const KINDS: usize = StatementKind::ALL.len();
/// The largest number of distinct SQLSTATEs.
const STATES_MAX: usize = 256;

/// The counts of one kind of statement.
#[derive(Debug, Default)]
struct KindHistogram {
    /// The number of successful statements, by duration.
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// The counts of a worker, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    kinds: [KindHistogram; KINDS],
    /// The number of errors reported to clients, by SQLSTATE.
    errors: Mutex<BTreeMap<[u8; 5], u64>>,
}

#[inline]
fn add(cell: &AtomicU64, more: u64) {
    // MEETING-1.
    cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Counts {
    /// Counts a successful statement.
    #[inline]
    pub(crate) fn statement(&self, kind: StatementKind, took: Duration) {
        let ns = took.as_nanos() as u64;
        let us = ns.div_ceil(1000);
        let bucket = BOUNDS_US.iter().position(|bound| us <= *bound);
        let of = &self.kinds[kind as usize];
        add(&of.buckets[bucket.unwrap_or(BUCKETS - 1)], 1);
        add(&of.sum_ns, ns);
    }

    /// Counts an error that is reported to a client.
    #[cold]
    pub(crate) fn error(&self, state: SqlState) {
        let mut code = [0; 5];
        code.copy_from_slice(state.as_str().as_bytes());
        let mut errors = self.errors.lock();
        if errors.len() < STATES_MAX || errors.contains_key(&code) {
            *errors.entry(code).or_default() += 1;
        }
    }
}

/// A histogram of durations, as of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The names and values of the labels: `kind`, the kind of statement.
    pub labels: Vec<(&'static str, String)>,
    /// The upper bounds of the buckets in seconds, from 10 µs to 10 s, and the number of values up
    /// to each bound. Longer durations are in `count` alone.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all values, in seconds.
    pub sum: f64,
    /// The number of values.
    pub count: u64,
}

/// Returns the statement durations of these workers: a histogram for each kind with statements.
pub(crate) fn durations(workers: &[Arc<Counts>]) -> Vec<Histogram> {
    let of_kind = |kind: &StatementKind| {
        let all = workers.iter().map(|counts| &counts.kinds[*kind as usize]);
        let mut sums = [0_u64; BUCKETS];
        let mut sum_ns = 0_u64;
        for one in all {
            for (sum, bucket) in sums.iter_mut().zip(&one.buckets) {
                *sum += bucket.load(Relaxed);
            }
            sum_ns = sum_ns.wrapping_add(one.sum_ns.load(Relaxed));
        }
        let mut below = 0;
        let buckets = BOUNDS_US.iter().zip(sums);
        let buckets = buckets.map(|(bound, count)| {
            below += count;
            (*bound as f64 / 1e6, below)
        });
        let buckets = buckets.collect();
        Histogram {
            labels: vec![("kind", kind.name().to_owned())],
            buckets,
            sum: sum_ns as f64 / 1e9,
            count: sums.iter().sum(),
        }
    };
    let all = StatementKind::ALL.iter().map(of_kind);
    all.filter(|histogram| histogram.count > 0).collect()
}

/// Returns the errors reported to clients of these workers.
pub(crate) fn errors(workers: &[Arc<Counts>]) -> Metric {
    let mut sums: BTreeMap<[u8; 5], u64> = BTreeMap::new();
    for counts in workers {
        for (state, count) in &*counts.errors.lock() {
            *sums.entry(*state).or_default() += count;
        }
    }
    let metric = Metric::new(
        MetricKind::Counter,
        "fencepost_errors_total",
        "Errors that clients were told of, by SQLSTATE.",
    );
    sums.iter().fold(metric, |metric, (state, count)| {
        let state = String::from_utf8_lossy(state);
        metric.with(&[("sqlstate", &state)], *count as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_all_workers_fill_histogram_buckets() {
        let workers = [Arc::new(Counts::default()), Arc::default()];
        let count = |worker: usize, us| {
            workers[worker].statement(StatementKind::Select, Duration::from_micros(us));
        };
        count(0, 10);
        count(1, 11);
        count(1, 400);
        count(0, 60_000_000);
        let all = durations(&workers);
        assert_eq!(all.len(), 1);
        let select = &all[0];
        assert_eq!(select.labels, [("kind", "select".to_owned())]);
        assert_eq!(select.count, 4);
        assert_eq!(&select.buckets[..2], [(1e-5, 1), (2.5e-5, 2)]);
        assert_eq!(select.buckets[5], (5e-4, 3));
        assert_eq!(select.buckets.last(), Some(&(10.0, 3)));
        assert!((select.sum - 60.000_421).abs() < 1e-9, "{}", select.sum);
    }

    #[test]
    fn errors_are_counted_by_sqlstate() {
        let workers = [Arc::new(Counts::default()), Arc::default()];
        workers[0].error(SqlState::SERIALIZATION_FAILURE);
        workers[1].error(SqlState::SERIALIZATION_FAILURE);
        workers[1].error(SqlState::UNIQUE_VIOLATION);
        let values: Vec<f64> = errors(&workers).samples.iter().map(|s| s.value).collect();
        assert_eq!(values, [1.0, 2.0]);
    }
}
