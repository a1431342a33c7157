//! The measurements of a thread: its own counts, and two counters that the progress line reads
//! while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest latency that is distinguished, in nanoseconds.
const LONGEST_NS: u64 = 100_000_000_000;
/// The number of significant digits of latencies.
const DIGITS: u8 = 3;

/// The counters of a running thread that other threads read, on their own cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct ThreadCounters {
    committed: AtomicU64,
    aborted: AtomicU64,
}

impl ThreadCounters {
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Adds one. Only its own thread writes, so no atomic addition is needed.
    fn bump(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// The counts of one thread, or of all threads together, in the measured time.
#[derive(Debug)]
pub(super) struct Meter {
    pub committed: u64,
    /// The commits by kind of request.
    pub by_kind: Vec<u64>,
    pub failed: BTreeMap<&'static str, u64>,
    pub aborted: BTreeMap<&'static str, u64>,
    pub latency_ns: Histogram<u64>,
}

impl Meter {
    /// Creates counts for `kinds` kinds of requests.
    pub fn new(kinds: usize) -> Meter {
        let latency_ns = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("the bounds of latencies are in range");
        Meter {
            committed: 0,
            by_kind: vec![0; kinds],
            failed: BTreeMap::new(),
            aborted: BTreeMap::new(),
            latency_ns,
        }
    }

    pub fn clear(&mut self) {
        self.committed = 0;
        self.by_kind.fill(0);
        self.failed.clear();
        self.aborted.clear();
        self.latency_ns.clear();
    }

    #[inline]
    pub fn commit(&mut self, kind: usize, live: &ThreadCounters) {
        self.committed += 1;
        if let Some(count) = self.by_kind.get_mut(kind) {
            *count += 1;
        }
        ThreadCounters::bump(&live.committed);
    }

    #[inline]
    pub fn fail(&mut self, reason: &'static str) {
        *self.failed.entry(reason).or_default() += 1;
    }

    pub fn abort(&mut self, reason: &'static str, live: &ThreadCounters) {
        *self.aborted.entry(reason).or_default() += 1;
        ThreadCounters::bump(&live.aborted);
    }

    #[inline]
    pub fn took(&mut self, time: Duration) {
        self.latency_ns
            .saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST_NS));
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Meter) {
        self.committed += other.committed;
        for (count, more) in self.by_kind.iter_mut().zip(&other.by_kind) {
            *count += more;
        }
        for (reason, count) in &other.failed {
            *self.failed.entry(reason).or_default() += count;
        }
        for (reason, count) in &other.aborted {
            *self.aborted.entry(reason).or_default() += count;
        }
        self.latency_ns
            .add(&other.latency_ns)
            .expect("all histograms have the same bounds");
    }
}
