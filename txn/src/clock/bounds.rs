//! What a machine knows of the CM's time where its own clock is another: an interval around it.
//!
//! # Picture
//! ```text
//!                         ╱ high: at most 1 + DRIFT as fast as the own clock
//!                     ╱ ▒ ╱ low: at least 1 - DRIFT as fast
//!                ╱ ▒ ▒ ╱
//!       │  ╱ ▒ ▒ │ ╱       an exchange says: at `now` it is between `told` and `told` plus what the
//!       ▒ ▒ ▒ ▒  ▒         exchange took; what is known is what all exchanges say together
//! ```
//! # Invariants
//! * CLOCK-1: the CM's time is in the interval, if no clock of a host goes wrong by more than its part of
//!   [`DRIFT`]; and the lower end never goes back.
//!
//! *Another CM.* Its time is another line, and everybody is to have that before anybody goes by it: until then
//! ([`Bounds::begin_anew`], [`Bounds::go_on`]) the lower end stands still, where it was, and the higher one is the new
//! line's already.
//!
//! *Concurrency.* A line is some words behind a version: who reads takes no lock, and reads again while the
//! line changes. Lines change one after the other.
//!
//! *Failure.* An exchange that says something else than all those before means that some clock has gone wrong
//! by more than the bound, or stood still with its host. Which of them is wrong nobody can tell: it is counted,
//! the line goes on as one that covers both, and the lower end stands still until that has caught up with it.
//! What was ordered while the clock was wrong may have been ordered otherwise than it happened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

/// One in so many: the clocks of two hosts drift apart by less than 200 ppm. Free-running oscillators of
/// computers are within 100 ppm of the truth.
const DRIFT: u64 = 5_000;
/// Nanoseconds by which drift may have widened the interval before a new exchange is worth its while however
/// narrow it was.
const LITTLE: u64 = 20_000;

/// An interval of the CM's time; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub low: u64,
    pub high: u64,
}

impl Interval {
    const ANY: Interval = Interval {
        low: 0,
        high: u64::MAX,
    };

    pub fn width(self) -> u64 {
        self.high - self.low
    }

    /// What an exchange says by itself that was asked for at `asked` and has answered `told` by `now`; `None` where
    /// that cannot be.
    pub fn of_exchange(asked: u64, told: u64, now: u64) -> Option<Interval> {
        let took = now.checked_sub(asked)?;
        let high = told.saturating_add(took).saturating_add(drift(took));
        Some(Interval { low: told, high })
    }
}

/// By how much two clocks may have drifted apart, rounded up.
pub(super) fn drift(elapsed: u64) -> u64 {
    elapsed.div_ceil(DRIFT)
}

/// The interval at a time of the own clock, from which it widens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    at: u64,
    interval: Interval,
    /// The lower end is not below it, whatever the interval says.
    floor: u64,
    /// Nor above it.
    stopped: bool,
}

impl Line {
    /// Nothing is known, whenever it is.
    const UNKNOWN: Line = Line {
        at: u64::MAX,
        interval: Interval::ANY,
        floor: 0,
        stopped: false,
    };

    /// Where the lower end is.
    pub fn low_at(&self, now: u64) -> u64 {
        self.interval(now).low
    }

    fn is_known(&self) -> bool {
        self.at != Line::UNKNOWN.at
    }

    /// What the exchanges say of `now`.
    fn said(&self, now: u64) -> Interval {
        let elapsed = now.saturating_sub(self.at);
        let (slow, fast) = (elapsed - drift(elapsed), elapsed + drift(elapsed));
        Interval {
            low: self.interval.low.saturating_add(slow),
            high: self.interval.high.saturating_add(fast),
        }
    }

    fn interval(&self, now: u64) -> Interval {
        let said = self.said(now);
        let low = match self.stopped {
            true => self.floor,
            false => said.low.max(self.floor),
        };
        let high = said.high.max(low);
        Interval { low, high }
    }

    /// What is known once an exchange says `told` of `now`; and whether both hold.
    fn learn(&self, now: u64, told: Interval) -> (Line, bool) {
        let said = self.said(now);
        let (low, high) = (said.low.max(told.low), said.high.min(told.high));
        let agree = low <= high;
        let line = match agree {
            true => Line {
                at: now,
                interval: Interval { low, high },
                ..*self
            },
            false => Line {
                at: now,
                interval: Interval {
                    low: said.low.min(told.low),
                    high: said.high.max(told.high),
                },
                floor: self.interval(now).low,
                ..*self
            },
        };
        (line, agree)
    }
}

/// The line that a machine has, and how it came to it.
pub(crate) struct Bounds {
    /// Odd while the line changes.
    version: AtomicU64,
    at: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    floor: AtomicU64,
    stopped: AtomicBool,
    changing: Mutex<()>,
    exchanges: AtomicU64,
    /// Exchanges of before the line began anew.
    before: AtomicU64,
    breaks: AtomicU64,
}

impl Bounds {
    pub fn unknown() -> Bounds {
        let Line {
            at,
            interval,
            floor,
            stopped,
        } = Line::UNKNOWN;
        Bounds {
            version: AtomicU64::new(0),
            at: AtomicU64::new(at),
            low: AtomicU64::new(interval.low),
            high: AtomicU64::new(interval.high),
            floor: AtomicU64::new(floor),
            stopped: AtomicBool::new(stopped),
            changing: Mutex::new(()),
            exchanges: AtomicU64::new(0),
            before: AtomicU64::new(0),
            breaks: AtomicU64::new(0),
        }
    }

    #[inline]
    fn line(&self) -> Line {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let line = Line {
                at: self.at.load(Ordering::Relaxed),
                interval: Interval {
                    low: self.low.load(Ordering::Relaxed),
                    high: self.high.load(Ordering::Relaxed),
                },
                floor: self.floor.load(Ordering::Relaxed),
                stopped: self.stopped.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return line;
            }
            std::hint::spin_loop();
        }
    }

    /// The interval at what `now` answers. It is asked once the line is known, so that it is not a time from
    /// before that.
    #[inline]
    pub fn interval(&self, now: impl FnOnce() -> u64) -> Interval {
        let line = self.line();
        line.interval(now())
    }

    /// An exchange that was asked for at `asked` has answered `told` by `now`, both of the own clock.
    pub fn learn(&self, asked: u64, told: u64, now: u64) {
        let _changing = self.changing.lock();
        let line = self.line();
        let backwards = line.is_known() && now < line.at;
        let Some(told) = Interval::of_exchange(asked, told, now).filter(|_| !backwards) else {
            return;
        };
        let (line, agree) = line.learn(now, told);
        self.change(|| line);
        self.exchanges.fetch_add(1, Ordering::Release);
        self.breaks.fetch_add(u64::from(!agree), Ordering::Relaxed);
    }

    /// The line is another one from now on, of which `said` is known at `now`, both of which `new` answers; it is told
    /// where the lower end has been at that time, and says where that stands still. Nobody reads a line meanwhile.
    pub fn begin_anew(&self, new: impl FnOnce(Line) -> (u64, Option<Interval>, u64)) {
        let _changing = self.changing.lock();
        let line = self.line();
        self.change(|| {
            let (now, said, floor) = new(line);
            let known = said.map(|interval| (now, interval));
            let (at, interval) = known.unwrap_or((Line::UNKNOWN.at, Line::UNKNOWN.interval));
            Line {
                at,
                interval,
                floor,
                stopped: true,
            }
        });
        self.before.store(self.exchanges(), Ordering::Release);
    }

    /// The lower end goes on, with the line.
    pub fn go_on(&self) {
        let _changing = self.changing.lock();
        let line = Line {
            stopped: false,
            ..self.line()
        };
        self.change(|| line);
    }

    /// Has another line; who reads waits while `new` makes it. One at a time.
    fn change(&self, new: impl FnOnce() -> Line) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let line = new();
        self.at.store(line.at, Ordering::Relaxed);
        self.low.store(line.interval.low, Ordering::Relaxed);
        self.high.store(line.interval.high, Ordering::Relaxed);
        self.floor.store(line.floor, Ordering::Relaxed);
        self.stopped.store(line.stopped, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        self.line().is_known()
    }

    /// Whether the lower end stands still.
    pub fn is_stopped(&self) -> bool {
        self.line().stopped
    }

    /// Whether an exchange at `now` would say much more than what is known.
    pub fn is_wide(&self, now: u64) -> bool {
        let line = self.line();
        let grown =
            line.interval(now).width() - line.interval.width().min(line.interval(now).width());
        grown > line.interval.width().saturating_add(LITTLE)
    }

    /// Exchanges so far.
    pub fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Acquire)
    }

    /// Those of them that were about this line.
    pub fn recent(&self) -> u64 {
        let before = self.before.load(Ordering::Acquire);
        self.exchanges().saturating_sub(before)
    }

    /// Those of them that said something else than all before.
    pub fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// The own clock when it is `time` at the CM.
    fn own(time: u64, ahead: u64, ppm: i64) -> u64 {
        let fast = i128::from(time) * i128::from(ppm) / 1_000_000;
        (i128::from(ahead) + i128::from(time) + fast) as u64
    }

    proptest! {
        /// Exchanges of any delay at any times, of clocks whose drift is within the bound.
        #[test]
        fn the_time_is_always_within_the_bounds_and_the_lower_one_never_goes_back(
            ahead in 0..1000 * SECOND,
            ppm in -199..=199i64,
            exchanges in proptest::collection::vec((1..3 * SECOND, 0..1_000_000u64, 0..1_000_000u64), 1..60),
        ) {
            let (bounds, mut time, mut least) = (Bounds::unknown(), 10 * SECOND, 0);
            for (pause, there, back) in exchanges {
                time += pause;
                let asked = own(time, ahead, ppm);
                let told = time + there;
                for now in [time, told] {
                    let Interval { low, high } = bounds.interval(|| own(now, ahead, ppm));
                    prop_assert!(low <= now && now <= high, "{low} {now} {high}");
                    prop_assert!(least <= low);
                    least = low;
                }
                time = told + back;
                bounds.learn(asked, told, own(time, ahead, ppm));
                let after = bounds.interval(|| own(time, ahead, ppm));
                prop_assert!(after.low <= time && time <= after.high);
                prop_assert!(least <= after.low);
                prop_assert!(after.width() <= (there + back) * 1001 / 1000 + 10);
                least = after.low;
            }
            prop_assert_eq!(bounds.breaks(), 0);
        }

        #[test]
        fn nothing_that_a_peer_says_makes_it_panic_or_go_back(
            said in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
        ) {
            let (bounds, mut least, mut clock) = (Bounds::unknown(), 0, 0u64);
            for (asked, told, now) in said {
                clock = clock.max(now);
                bounds.learn(asked, told, clock);
                let interval = bounds.interval(|| clock);
                prop_assert!(interval.low >= least && interval.high >= interval.low);
                let _ = bounds.is_wide(clock);
                least = interval.low;
            }
        }
    }

    #[test]
    fn exchanges_tell_more_together_than_each_of_them() {
        let bounds = Bounds::unknown();
        assert!(!bounds.is_known());
        assert_eq!(bounds.interval(|| 5), Interval::ANY);
        // All of the way there, and then all of the way back.
        bounds.learn(1000, 501_000, 2000);
        let first = bounds.interval(|| 2000);
        assert_eq!((first.low, first.high), (501_000, 502_001));
        bounds.learn(2000, 501_100, 3000);
        let both = bounds.interval(|| 3000);
        assert!(both.low >= 501_999 && both.high <= 502_102, "{both:?}");
    }

    #[test]
    fn it_widens_with_time_and_says_when_that_is_much() {
        let bounds = Bounds::unknown();
        bounds.learn(0, SECOND, 100_000);
        assert!(!bounds.is_wide(SECOND / 10));
        assert!(bounds.is_wide(SECOND));
        let after = bounds.interval(|| SECOND + 100_000);
        assert_eq!(after.width(), 100_000 + 20 + 2 * SECOND / DRIFT);
    }

    #[test]
    fn what_does_not_agree_is_counted_and_covered_and_nothing_goes_back() {
        let bounds = Bounds::unknown();
        bounds.learn(1000, 900_000, 2000);
        let before = bounds.interval(|| 3000);
        // It has been less than it was thought to be.
        bounds.learn(3000, 700_000, 4000);
        let after = bounds.interval(|| 4000);
        assert_eq!(bounds.breaks(), 1);
        assert!(after.low >= before.low && after.high >= before.high + 1000);
        // The lower end stands still while what is said is below it.
        let stands = bounds.interval(|| 150_000);
        assert_eq!(stands.low, after.low);
        assert!(bounds.interval(|| 300_000).low > after.low);
        // It has been more.
        bounds.learn(300_000, 9_000_000, 301_000);
        let wide = bounds.interval(|| 301_000);
        assert_eq!(bounds.breaks(), 2);
        assert!(wide.low < 1_300_000 && wide.high >= 9_000_000);
    }

    #[test]
    fn lines_are_read_whole_while_they_change() {
        let bounds = Bounds::unknown();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..20_000u64 {
                    bounds.learn(
                        round * 10_000,
                        50_000 + round * 10_000,
                        round * 10_000 + 500,
                    );
                }
            });
            let mut least = 0;
            while bounds.exchanges() < 19_999 {
                let Interval { low, high } = bounds.interval(|| 0);
                assert!(low >= least && high >= low);
                assert!(high == u64::MAX || high - low <= 501, "{low} {high}");
                least = low;
            }
        });
        assert_eq!(bounds.breaks(), 0);
    }
}
