//! The progress line that is printed to stderr each second.

use std::time::Duration;

use super::meter::ThreadCounters;

/// Prints the counts of the threads since the previous line.
pub(super) struct Progress {
    is_visible: bool,
    committed: u64,
    aborted: u64,
}

impl Progress {
    pub fn new(is_visible: bool) -> Progress {
        Progress {
            is_visible,
            committed: 0,
            aborted: 0,
        }
    }

    /// Prints one line: `phase`, the time in it, and rates over `since_last`.
    pub fn line(
        &mut self,
        phase: &str,
        at: Duration,
        since_last: Duration,
        threads: &[ThreadCounters],
    ) {
        let committed: u64 = threads.iter().map(ThreadCounters::committed).sum();
        let aborted: u64 = threads.iter().map(ThreadCounters::aborted).sum();
        let seconds = since_last.as_secs_f64().max(1e-9);
        let rate = (committed - self.committed) as f64 / seconds;
        let aborts = (aborted - self.aborted) as f64 / seconds;
        (self.committed, self.aborted) = (committed, aborted);
        if self.is_visible {
            let at = at.as_secs_f64();
            eprintln!("{phase:<8} {at:>6.1} s {rate:>14.0} committed/s {aborts:>10.0} aborted/s");
        }
    }
}
