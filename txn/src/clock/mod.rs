//! The clock that orders commits.
//!
//! On one machine the clock is a counter: a transaction reads at its value, and a commit increments
//! it. In a cluster it is the time of the configuration manager (CM), in ticks. Each machine knows
//! an interval [L, U] that contains it:
//!
//! ```text
//! the CM, and machines that share its host's clock     L = U = now
//! other machines                                       bounds.rs, from exchanges with the CM
//! ```
//! R is U, and W is the tick after U. Both are *in force* once L has passed them
//! ([`crate::in_force`]). A transaction reads nothing before R is in force, and a commit validates
//! nothing before W is. A commit takes W after its locks. So a reader at or above W begins to read
//! after the CM's time has passed W: it meets either the lock or the new version. And W is above
//! the R of every transaction that has read an overwritten version.
//!
//! # Another CM
//! The time is the new CM's own clock from when its configuration is committed. The CM adds an
//! offset, so that the time is above all earlier times ([`Clock::become_manager`]). If the new CM
//! shared the clock with the previous CM, the time continues unchanged. Between applying a
//! configuration with another time and its commit, a machine's clock is *stopped*
//! ([`Clock::change`]): L stands still, so that nothing comes into force. U is already of
//! the new time, because NEW-CONFIG and the answer to the probe before it are an exchange. So even
//! if the new CM fails at once, every machine knows an upper bound of the time.
//!
//! * CLOCK-3: when machines use a new time, no machine uses an earlier one; and the new time is
//!   above all earlier ones.
//!
//! Statements about the past (no transaction reads below a timestamp any more) use L. The reason is
//! that a transaction that begins on any machine may read at any timestamp from the CM's time on.

mod bounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use fencepost_fabric::MonotonicClock;
use fencepost_storage::Timestamp;
use parking_lot::Mutex;

use bounds::{Bounds, Interval, drift};

/// Nanoseconds of a tick: 54 bits of ticks last for 36 years.
pub(crate) const TICK_NS: u64 = 64;

/// An upper bound for how long machines may use the old time after they have reported their time.
/// Machines that answer a probe use it until they apply the new configuration, others until their
/// leases end. Both take less than a second. With a minute the new time is some milliseconds later,
/// which costs nothing.
const LATE_NS: u64 = 60_000_000_000;

/// Source of read and write timestamps.
#[repr(align(128))]
pub struct Clock {
    /// The newest timestamp given out; with a time, the ticks that are added to the own clock.
    value: AtomicU64,
    time: Option<Time>,
}

struct Time {
    own: Arc<dyn MonotonicClock>,
    /// Whether the own clock is also the CM's.
    common: AtomicBool,
    /// Bounds of the CM's time, used where it is not.
    bounds: Bounds,
    /// While the clock is stopped: the ticks to add to the own clock, if it is the next CM's.
    next: Mutex<Option<u64>>,
}

/// The known state of the time of the next CM.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextCmTime {
    /// The own clock plus these ticks.
    Own { ahead: u64 },
    /// The CM told its time between `asked`, by the own clock, and now.
    Exchange { asked: u64, answer: TimeAnswer },
    /// Nothing is known.
    Unknown,
}

/// The time that a CM tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeAnswer {
    /// The CM's clock, in nanoseconds.
    pub ns: u64,
    /// Ticks that are added to the clock.
    pub ahead: u64,
}

impl TimeAnswer {
    fn time_ns(self) -> u64 {
        let ahead = self.ahead.saturating_mul(TICK_NS);
        self.ns.saturating_add(ahead)
    }
}

/// The precision with which a machine knows the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Nanoseconds between the bounds of the CM's time; `None` where they are not known yet.
    pub uncertainty_ns: Option<u64>,
    /// Number of exchanges with the CM; 0 where none are needed.
    pub exchanges: u64,
    /// Number of exchanges that contradicted earlier ones: a clock was wrong by more than the
    /// bound.
    pub breaks: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock::counting()
    }
}

/// Returns the tick that contains a time.
fn tick(ns: u64) -> Timestamp {
    Timestamp::from_raw(ns / TICK_NS).min(Timestamp::MAX)
}

impl Clock {
    /// Returns the clock of a machine that is alone.
    pub fn counting() -> Self {
        Clock {
            value: AtomicU64::new(0),
            time: None,
        }
    }

    /// Returns the clock of a machine in a cluster, with the machine's own clock `own`. If
    /// `manager`, the own clock is the CM's; otherwise the machine has to learn the time.
    pub fn of_time(own: Arc<dyn MonotonicClock>, manager: bool) -> Self {
        Clock {
            value: AtomicU64::new(0),
            time: Some(Time {
                own,
                common: AtomicBool::new(manager),
                bounds: Bounds::unknown(),
                next: Mutex::new(None),
            }),
        }
    }

    /// Returns L and U: the time is not before L and not after U.
    #[inline]
    pub fn interval(&self) -> (Timestamp, Timestamp) {
        let Some(time) = &self.time else {
            let value = Timestamp::from_raw(self.value.load(Ordering::SeqCst));
            return (value, value);
        };
        if time.common.load(Ordering::Acquire) {
            let value = self.value.load(Ordering::SeqCst);
            let now = Timestamp::from_raw(value + time.own.now_ns() / TICK_NS);
            fence(Ordering::Acquire);
            // Otherwise the clock has been stopped meanwhile, and L must not be above the point
            // where it stopped.
            if time.common.load(Ordering::Relaxed) {
                return (now, now);
            }
        }
        let interval = time.bounds.interval(|| time.own.now_ns());
        (tick(interval.low), tick(interval.high))
    }

    /// Returns a timestamp that no commit so far exceeds. It may go back when the time becomes
    /// known more precisely.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.interval().1
    }

    /// Returns a timestamp that never goes back. Transactions that begin from now on read at or
    /// above it, and write above it.
    #[inline]
    pub fn low(&self) -> Timestamp {
        self.interval().0
    }

    /// Returns whether a timestamp is in force as soon as it is taken.
    #[inline]
    pub fn is_exact(&self) -> bool {
        let inexact = |time: &Time| !time.common.load(Ordering::Acquire);
        !self.time.as_ref().is_some_and(inexact)
    }

    /// Returns whether any bound of the time is known.
    pub fn is_known(&self) -> bool {
        let known = |time: &Time| time.common.load(Ordering::Acquire) || time.bounds.is_known();
        self.time.as_ref().is_none_or(known)
    }

    /// Returns a write timestamp of the counter, above all others so far; `None` where the clock is
    /// not a counter.
    #[inline]
    pub fn count(&self) -> Option<Timestamp> {
        let counts = self.time.is_none();
        counts.then(|| Timestamp::from_raw(self.value.fetch_add(1, Ordering::SeqCst) + 1))
    }

    /// Moves the clock to at least `recovered`. For a machine that has to learn the time, the CM
    /// does this.
    pub fn raise(&self, recovered: Timestamp) {
        match &self.time {
            None => self.value.fetch_max(recovered.raw(), Ordering::SeqCst),
            Some(time) => {
                let ahead = recovered.raw().saturating_sub(time.own.now_ns() / TICK_NS);
                self.value.fetch_max(ahead, Ordering::SeqCst)
            }
        };
    }

    /// Returns the own clock; 0 for a counter.
    pub(crate) fn own_ns(&self) -> u64 {
        self.time.as_ref().map_or(0, |time| time.own.now_ns())
    }

    /// Returns the time that the CM tells other machines, also while the clock is stopped.
    pub(crate) fn tell(&self) -> TimeAnswer {
        let next = self.time.as_ref().and_then(|time| *time.next.lock());
        TimeAnswer {
            ns: self.own_ns(),
            ahead: next.unwrap_or_else(|| self.value.load(Ordering::SeqCst)),
        }
    }

    /// Returns the highest time in nanoseconds that may have been taken for the CM's so far; `None`
    /// where none was.
    pub(crate) fn highest_ns(&self) -> Option<u64> {
        let time = self.time.as_ref()?;
        match time.common.load(Ordering::Acquire) {
            true => Some(self.tell().time_ns()),
            false if !time.bounds.is_known() => None,
            false => Some(time.bounds.interval(|| time.own.now_ns()).high),
        }
    }

    /// Prepares this machine to be the CM of a configuration that it is about to apply.
    /// `highest_ns` is the highest time that any machine used when it was asked, which was at
    /// `asked` by the own clock or later. Returns whether the time continues unchanged. Otherwise
    /// the clock is stopped until [`Self::go_on`].
    pub(crate) fn become_manager(&self, highest_ns: u64, asked: u64) -> bool {
        if self.is_exact() {
            return true;
        }
        let own = self.own_ns();
        let since = own.saturating_sub(asked);
        let late = drift(since.saturating_add(LATE_NS));
        let least = highest_ns.saturating_add(since).saturating_add(late);
        let ahead = least.saturating_sub(own).div_ceil(TICK_NS);
        self.change(NextCmTime::Own { ahead });
        false
    }

    /// Stops the clock. From [`Self::go_on`] on, the time is the next CM's.
    pub(crate) fn change(&self, next: NextCmTime) {
        let Some(time) = &self.time else {
            return;
        };
        let mut ahead = time.next.lock();
        let value = self.value.load(Ordering::SeqCst);
        let was_common = time.common.load(Ordering::Relaxed);
        time.bounds.begin_anew(|line| {
            time.common.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let now = time.own.now_ns();
            let floor = match was_common {
                true => TimeAnswer {
                    ns: now,
                    ahead: value,
                }
                .time_ns(),
                false => line.low_at(now),
            };
            let said = match next {
                NextCmTime::Own { ahead } => {
                    let at = TimeAnswer { ns: now, ahead }.time_ns();
                    Some(Interval { low: at, high: at })
                }
                NextCmTime::Exchange { asked, answer } => {
                    Interval::of_exchange(asked, answer.time_ns(), now)
                }
                NextCmTime::Unknown => None,
            };
            (now, said, floor)
        });
        *ahead = match next {
            NextCmTime::Own { ahead } => Some(ahead),
            NextCmTime::Exchange { .. } | NextCmTime::Unknown => None,
        };
    }

    /// Starts the clock again, when every machine uses the new time or none.
    pub(crate) fn go_on(&self) {
        let Some(time) = &self.time else {
            return;
        };
        let mut next = time.next.lock();
        if time.bounds.is_stopped() {
            time.bounds.go_on();
            if let Some(ahead) = next.take() {
                self.share(ahead);
            }
        }
    }

    /// Returns whether the clock is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.time
            .as_ref()
            .is_some_and(|time| time.bounds.is_stopped())
    }

    /// Uses the own clock as the CM's, with `ahead` ticks added.
    pub(crate) fn share(&self, ahead: u64) {
        if let Some(time) = &self.time {
            self.value.store(ahead, Ordering::SeqCst);
            time.common.store(true, Ordering::Release);
        }
    }

    /// Learns from an exchange: the CM has given `answer` between `asked`, by the own clock, and
    /// now.
    pub(crate) fn learn(&self, asked: u64, answer: TimeAnswer) {
        if let Some(time) = &self.time {
            let now = time.own.now_ns();
            time.bounds.learn(asked, answer.time_ns(), now);
        }
    }

    /// Returns the number of exchanges with the present CM.
    pub(crate) fn recent_exchanges(&self) -> u64 {
        self.time.as_ref().map_or(0, |time| time.bounds.recent())
    }

    /// Returns whether an exchange would give much narrower bounds.
    pub(crate) fn is_wide(&self) -> bool {
        let wide = |time: &Time| time.bounds.is_wide(time.own.now_ns());
        !self.is_exact() && self.time.as_ref().is_some_and(wide)
    }

    /// Returns how precisely the time is known.
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
    fn counter_and_common_clock_are_exact() {
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
    fn machine_on_host_of_cm_has_exact_time() {
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
    fn machine_on_other_host_knows_time_interval() {
        let ((remote, theirs), (local, mine)) = (manual(), manual());
        remote.advance(Duration::from_secs(1000));
        let manager = Clock::of_time(theirs, true);
        manager.raise(Timestamp::from_raw(1 << 40));
        let clock = Clock::of_time(mine, false);
        let pass = |us: u64| {
            for host in [&remote, &local] {
                host.advance(Duration::from_micros(us));
            }
        };
        let asked = clock.own_ns();
        pass(40);
        let answer = manager.tell();
        pass(60);
        clock.learn(asked, answer);
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

    /// Returns two hosts, the manager's and another, with their machines' clocks, after one
    /// exchange of the time.
    fn of_two_hosts(remote: u64, local: u64) -> ([Arc<ManualClock>; 2], [Clock; 2]) {
        let ((a, theirs), (b, mine)) = (manual(), manual());
        a.advance(Duration::from_secs(remote));
        b.advance(Duration::from_secs(local));
        let clocks = [Clock::of_time(theirs, true), Clock::of_time(mine, false)];
        let asked = clocks[1].own_ns();
        b.advance(Duration::from_micros(30));
        clocks[1].learn(asked, clocks[0].tell());
        ([a, b], clocks)
    }

    #[test]
    fn new_cm_time_exceeds_old_and_waits_for_all_members() {
        for (remote, local) in [(1000, 10), (10, 1000)] {
            let ([a, b], [old, new]) = of_two_hosts(remote, local);
            let asked = new.own_ns();
            let highest = new.highest_ns().expect("it knows the time");
            for host in [&a, &b] {
                host.advance(Duration::from_millis(50));
            }
            let before = new.interval();
            assert!(!new.become_manager(highest, asked) && new.is_stopped() && !new.is_exact());
            assert_eq!(new.low(), before.0);
            assert!(new.now() > before.1 && new.now() > old.now());
            b.advance(Duration::from_millis(50));
            assert_eq!(new.low(), before.0, "it stands still");
            assert!(new.highest_ns() > Some(highest));
            let answer = new.tell();
            let high = new.now();
            new.go_on();
            assert!(new.is_exact() && !new.is_stopped());
            assert!(before.1 < new.now() && new.now() <= high);
            assert_eq!(new.tell(), answer, "as was told before");
        }
    }

    #[test]
    fn new_cm_with_exact_time_continues_its_clock() {
        let (_, time) = manual();
        let clock = Clock::of_time(time, true);
        clock.raise(Timestamp::from_raw(1 << 40));
        let before = clock.interval();
        assert!(clock.become_manager(u64::MAX / 2, 0));
        clock.go_on();
        assert_eq!((clock.interval(), clock.is_stopped()), (before, false));
    }

    #[test]
    fn member_knows_time_of_next_cm_once_it_has_passed() {
        let ([a, b], [old, member]) = of_two_hosts(1000, 10);
        let (host, own) = manual();
        host.advance(Duration::from_secs(77));
        let new = Clock::of_time(own, false);
        let all = |us| {
            for host in [&a, &b, &host] {
                host.advance(Duration::from_micros(us));
            }
        };
        // The member answers the probe; then NEW-CONFIG arrives.
        let asked = member.own_ns();
        let highest = member.highest_ns().expect("it knows the time");
        all(40);
        assert!(!new.become_manager(highest, 0));
        let answer = new.tell();
        all(60);
        member.change(NextCmTime::Exchange { asked, answer });
        let (low, high) = member.interval();
        assert!(member.is_stopped() && low <= old.now() && old.now() < high);
        assert_eq!(member.recent_exchanges(), 0);
        // The time of another CM would be above that, too.
        assert!(member.highest_ns() >= new.highest_ns());
        all(1000);
        assert_eq!(member.low(), low);
        for clock in [&new, &member] {
            clock.go_on();
        }
        let (low, high) = member.interval();
        assert!(low <= new.now() && new.now() <= high && high.raw() - low.raw() < 4000);
        assert!(low > old.now());
    }

    #[test]
    fn former_cm_without_exchange_stops_its_clock() {
        let (host, time) = manual();
        let clock = Clock::of_time(time, true);
        clock.raise(Timestamp::from_raw(1 << 40));
        let before = clock.low();
        clock.change(NextCmTime::Unknown);
        host.advance(Duration::from_secs(1));
        assert!(clock.low() == before && !clock.is_known() && clock.highest_ns().is_none());
        clock.go_on();
        assert!(!clock.is_known() && !clock.is_stopped() && clock.low() == before);
    }
}
