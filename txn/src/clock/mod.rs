//! The clock that orders commits.
//!
//! On one machine the clock is a counter: a transaction reads at its value and a commit moves it on.
//! Among machines it is the time of the configuration manager (CM), in ticks. A machine knows it to be in an
//! interval [L, U]:
//!
//! ```text
//! the CM, and whoever has its host's clock in common    L = U = now
//! others                                                bounds.rs, from exchanges with the CM
//! ```
//! R is U, and W the tick after U. Both are *in force* once L has passed them ([`crate::in_force`]): a
//! transaction reads nothing before R is in force, and a commit validates nothing before W is. A commit takes W
//! after its locks. So whoever reads at or above W has begun to read when the CM's time had passed W: it meets
//! either the lock or the new version; and W is above R of whoever has read what is overwritten.
//!
//! What is said of the past (that nobody reads below it any more) is said of L, because a transaction that
//! begins anywhere may yet read at anything from the CM's time on.

mod bounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_fabric::MonotonicClock;
use fencepost_storage::Timestamp;

use bounds::Bounds;

/// Nanoseconds of a tick: 54 bits of them last for 36 years.
pub(crate) const TICK_NS: u64 = 64;

/// Source of read and write timestamps.
#[repr(align(128))]
pub struct Clock {
    /// The newest timestamp given out; in ticks, what is added to the time.
    value: AtomicU64,
    time: Option<Time>,
}

struct Time {
    own: Arc<dyn MonotonicClock>,
    /// Whether the own clock is the CM's, too.
    common: AtomicBool,
    /// Where it is not.
    bounds: Bounds,
}

/// The CM's time as it tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its clock.
    pub ns: u64,
    /// Ticks that are added to it.
    pub ahead: u64,
}

/// How well a machine knows the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Nanoseconds between the bounds of the CM's time; `None` where they are not known yet.
    pub uncertainty_ns: Option<u64>,
    /// Exchanges with the CM; none where there is no need of them.
    pub exchanges: u64,
    /// Those that contradicted the ones before: a clock was out of its bound.
    pub breaks: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock::counting()
    }
}

/// The tick in which a time is.
fn tick(ns: u64) -> Timestamp {
    Timestamp::from_raw(ns / TICK_NS).min(Timestamp::MAX)
}

impl Clock {
    /// The clock of a machine that is alone.
    pub fn counting() -> Self {
        Clock {
            value: AtomicU64::new(0),
            time: None,
        }
    }

    /// The clock of a machine among others, whose own one is `own`: that of the CM, where it is `manager`
    /// itself; otherwise it is to learn the time.
    pub fn of_time(own: Arc<dyn MonotonicClock>, manager: bool) -> Self {
        Clock {
            value: AtomicU64::new(0),
            time: Some(Time {
                own,
                common: AtomicBool::new(manager),
                bounds: Bounds::unknown(),
            }),
        }
    }

    /// L and U: the time is not before the one and not after the other.
    #[inline]
    pub fn interval(&self) -> (Timestamp, Timestamp) {
        let Some(time) = &self.time else {
            let value = Timestamp::from_raw(self.value.load(Ordering::SeqCst));
            return (value, value);
        };
        if time.common.load(Ordering::Acquire) {
            let value = self.value.load(Ordering::SeqCst);
            let now = Timestamp::from_raw(value + time.own.now_ns() / TICK_NS);
            return (now, now);
        }
        let interval = time.bounds.interval(|| time.own.now_ns());
        (tick(interval.low), tick(interval.high))
    }

    /// Everything committed so far is at or below it. It may go back, as the time gets to be known better.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.interval().1
    }

    /// Whatever begins from now on reads at or above it, and writes above it. It never goes back.
    #[inline]
    pub fn low(&self) -> Timestamp {
        self.interval().0
    }

    /// Whether a timestamp is in force as soon as it is taken.
    #[inline]
    pub fn is_exact(&self) -> bool {
        let inexact = |time: &Time| !time.common.load(Ordering::Acquire);
        !self.time.as_ref().is_some_and(inexact)
    }

    /// Whether anything is known of the time.
    pub fn is_known(&self) -> bool {
        let known = |time: &Time| time.common.load(Ordering::Acquire) || time.bounds.is_known();
        self.time.as_ref().is_none_or(known)
    }

    /// A write timestamp of the counter, above all others so far; `None` where the clock is none.
    #[inline]
    pub fn count(&self) -> Option<Timestamp> {
        let counts = self.time.is_none();
        counts.then(|| Timestamp::from_raw(self.value.fetch_add(1, Ordering::SeqCst) + 1))
    }

    /// Moves the clock to at least `recovered`. Where it is to learn the time, that is the CM's business.
    pub fn raise(&self, recovered: Timestamp) {
        match &self.time {
            None => self.value.fetch_max(recovered.raw(), Ordering::SeqCst),
            Some(time) => {
                let ahead = recovered.raw().saturating_sub(time.own.now_ns() / TICK_NS);
                self.value.fetch_max(ahead, Ordering::SeqCst)
            }
        };
    }

    /// The own clock; 0 for a counter.
    pub(crate) fn own_ns(&self) -> u64 {
        self.time.as_ref().map_or(0, |time| time.own.now_ns())
    }

    /// What the CM tells of the time.
    pub(crate) fn tell(&self) -> Told {
        Told {
            ns: self.own_ns(),
            ahead: self.value.load(Ordering::SeqCst),
        }
    }

    /// The own clock is the CM's: what that adds to it is `ahead`.
    pub(crate) fn share(&self, ahead: u64) {
        if let Some(time) = &self.time {
            self.value.store(ahead, Ordering::SeqCst);
            time.common.store(true, Ordering::Release);
        }
    }

    /// The CM has `told` the time between `asked`, by the own clock, and now.
    pub(crate) fn learn(&self, asked: u64, told: Told) {
        if let Some(time) = &self.time {
            let ahead = told.ahead.saturating_mul(TICK_NS);
            let told = told.ns.saturating_add(ahead);
            time.bounds.learn(asked, told, time.own.now_ns());
        }
    }

    /// Whether an exchange would tell much more of the time than what is known.
    pub(crate) fn is_wide(&self) -> bool {
        let wide = |time: &Time| time.bounds.is_wide(time.own.now_ns());
        !self.is_exact() && self.time.as_ref().is_some_and(wide)
    }

    /// How well it is known.
    pub fn state(&self) -> ClockState {
        let time = self.time.as_ref().filter(|_| !self.is_exact());
        let width = |time: &Time| time.bounds.interval(|| time.own.now_ns()).width();
        let uncertainty_ns = match time {
            None => Some(0),
            Some(time) => time.bounds.is_known().then(|| width(time)),
        };
        ClockState {
            uncertainty_ns,
            exchanges: time.map_or(0, |time| time.bounds.exchanges()),
            breaks: time.map_or(0, |time| time.bounds.breaks()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_fabric::ManualClock;
    use std::time::Duration;

    fn manual() -> (Arc<ManualClock>, Arc<dyn MonotonicClock>) {
        let clock = Arc::new(ManualClock::new());
        (Arc::clone(&clock), clock)
    }

    #[test]
    fn a_counter_and_a_common_clock_are_exact() {
        let (_, time) = manual();
        for clock in [Clock::counting(), Clock::of_time(time, true)] {
            clock.raise(Timestamp::from_raw(1 << 40));
            let (low, high) = clock.interval();
            assert!(clock.is_exact() && clock.is_known() && low == high);
            assert_eq!(low.raw(), 1 << 40);
            assert_eq!(clock.state().uncertainty_ns, Some(0));
        }
    }

    #[test]
    fn a_machine_of_the_manager_s_host_has_its_time() {
        let (host, time) = manual();
        let manager = Clock::of_time(Arc::clone(&time), true);
        manager.raise(Timestamp::from_raw(77));
        let clock = Clock::of_time(time, false);
        assert!(!clock.is_known() && !clock.is_exact());
        assert_eq!(clock.interval(), (Timestamp::ZERO, Timestamp::MAX));
        clock.share(manager.tell().ahead);
        assert!(clock.is_known() && clock.is_exact());
        host.advance(Duration::from_micros(5));
        assert_eq!(clock.interval(), manager.interval());
    }

    #[test]
    fn a_machine_of_another_host_knows_the_time_to_be_in_an_interval() {
        let ((there, theirs), (here, mine)) = (manual(), manual());
        there.advance(Duration::from_secs(1000));
        let manager = Clock::of_time(theirs, true);
        manager.raise(Timestamp::from_raw(1 << 40));
        let clock = Clock::of_time(mine, false);
        let pass = |us: u64| {
            for host in [&there, &here] {
                host.advance(Duration::from_micros(us));
            }
        };
        let asked = clock.own_ns();
        pass(40);
        let told = manager.tell();
        pass(60);
        clock.learn(asked, told);
        let (low, high) = clock.interval();
        assert!(low <= manager.now() && manager.now() <= high);
        let state = clock.state();
        assert_eq!((state.uncertainty_ns, state.exchanges), (Some(100_020), 1));
        assert!(!clock.is_wide());
        pass(2_000_000);
        assert!(clock.is_wide());
        let (low, high) = clock.interval();
        assert!(low <= manager.now() && manager.now() <= high);
    }
}
