//! The clock that orders commits.
//!
//! On one machine the clock is a counter: a transaction reads at its value and a commit moves it on.
//! Among machines it is time in ticks: a transaction reads at now, and a commit writes at the tick after
//! now and goes on once that has come. Either way a commit takes its write timestamp after its locks, so
//! whoever begins at or after that timestamp meets either the lock or the new version, and whoever began
//! before reads below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::MonotonicClock;
use fencepost_storage::Timestamp;

use crate::moment::moment;

/// Nanoseconds of a tick: 54 bits of them last for 36 years.
pub(crate) const TICK_NS: u64 = 64;

/// Source of read and write timestamps.
#[repr(align(128))]
pub struct Clock {
    /// The newest timestamp given out; in ticks, what is added to the time.
    value: AtomicU64,
    time: Option<Arc<dyn MonotonicClock>>,
}

impl Default for Clock {
    fn default() -> Self {
        Clock::counting()
    }
}

impl Clock {
    /// The clock of a machine that is alone.
    pub fn counting() -> Self {
        Clock {
            value: AtomicU64::new(0),
            time: None,
        }
    }

    /// The clock of machines that have `time` in common.
    pub fn of_time(time: Arc<dyn MonotonicClock>) -> Self {
        Clock {
            value: AtomicU64::new(0),
            time: Some(time),
        }
    }

    /// Everything committed so far is at or below it.
    #[inline]
    pub fn now(&self) -> Timestamp {
        let value = self.value.load(Ordering::SeqCst);
        Timestamp::from_raw(match &self.time {
            None => value,
            Some(time) => value + time.now_ns() / TICK_NS,
        })
    }

    /// A write timestamp above all others so far, and above what is `overwritten`; in force by then.
    #[inline]
    pub async fn advance(&self, overwritten: impl FnOnce() -> Timestamp) -> Timestamp {
        if self.time.is_none() {
            // What is overwritten was given out by this counter.
            return Timestamp::from_raw(self.value.fetch_add(1, Ordering::SeqCst) + 1);
        }
        let w = self.now().max(overwritten()).raw() + 1;
        let mut round = 0;
        while self.now().raw() < w {
            moment(round).await;
            round += 1;
        }
        Timestamp::from_raw(w)
    }

    /// Moves the clock to at least `recovered`.
    pub fn raise(&self, recovered: Timestamp) {
        match &self.time {
            None => self.value.fetch_max(recovered.raw(), Ordering::SeqCst),
            Some(time) => {
                let ahead = recovered.raw().saturating_sub(time.now_ns() / TICK_NS);
                self.value.fetch_max(ahead, Ordering::SeqCst)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_fabric::HostClock;
    use pollster::block_on;

    #[test]
    fn a_write_timestamp_is_above_what_was_read_and_overwritten_and_has_come() {
        for clock in [Clock::counting(), Clock::of_time(Arc::new(HostClock))] {
            clock.raise(Timestamp::from_raw(1 << 40));
            let r = clock.now();
            assert!(r.raw() >= 1 << 40);
            let first = block_on(clock.advance(|| r));
            let second = block_on(clock.advance(|| first));
            assert!(r < first && first < second && second <= clock.now());
        }
    }
}
