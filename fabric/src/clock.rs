//! Time behind two small traits: the monotonic clock for durations and deadlines, the wall clock
//! for dates.
//!
//! *Concurrency.* All clocks may be shared by any number of threads.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that never goes back; its zero is arbitrary.
pub trait MonotonicClock: Send + Sync {
    /// Returns nanoseconds since the clock's zero.
    fn now_ns(&self) -> u64;
}

/// A clock of the date and time of day; it may jump forwards and backwards.
pub trait WallClock: Send + Sync {
    /// Returns microseconds since 1970-01-01 00:00 UTC.
    fn unix_us(&self) -> i64;
}

/// The operating system's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    zero: Instant,
}

impl SystemClock {
    /// Returns a clock whose monotonic zero is now.
    pub fn new() -> Self {
        Self {
            zero: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl MonotonicClock for SystemClock {
    fn now_ns(&self) -> u64 {
        // 2^64 ns are 584 years of uptime.
        self.zero.elapsed().as_nanos() as u64
    }
}

impl WallClock for SystemClock {
    fn unix_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }
}

/// The clock that all processes of a host share: nanoseconds since the host was started. A time
/// daemon does not adjust its rate, because such adjustments may exceed the error of any
/// oscillator.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

#[cfg(target_os = "linux")]
const OF_HOST: rustix::time::ClockId = rustix::time::ClockId::MonotonicRaw;
#[cfg(not(target_os = "linux"))]
const OF_HOST: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

impl MonotonicClock for HostClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        let now = rustix::time::clock_gettime(OF_HOST);
        // It counts from the start of the host, so neither part is negative.
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    ns: AtomicU64,
    unix_us: AtomicI64,
}

impl ManualClock {
    /// Returns a clock at zero, in 1970.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.ns.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        self.unix_us
            .fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }

    /// Sets the wall clock; the monotonic clock is unchanged.
    pub fn set_unix_us(&self, unix_us: i64) {
        self.unix_us.store(unix_us, Ordering::Relaxed);
    }
}

impl MonotonicClock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }
}

impl WallClock for ManualClock {
    fn unix_us(&self) -> i64 {
        self.unix_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_clock_is_monotonic() {
        let clocks: [Box<dyn MonotonicClock>; 2] =
            [Box::new(SystemClock::new()), Box::new(HostClock)];
        for clock in clocks {
            let first = clock.now_ns();
            assert!(clock.now_ns() >= first);
        }
    }

    #[test]
    fn manual_clock_moves_only_on_request() {
        let clock = ManualClock::new();
        assert_eq!(clock.now_ns(), 0);
        clock.set_unix_us(5);
        clock.advance(Duration::from_micros(2));
        assert_eq!((clock.now_ns(), clock.unix_us()), (2_000, 7));
    }
}
