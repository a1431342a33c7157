//! Bounds of the CM's time on a machine with a different clock: an interval that contains it.
//!
//! # Picture
//! ```text
//!                         ╱ high: at most 1 + DRIFT as fast as the own clock
//!                     ╱ ▒ ╱ low: at least 1 - DRIFT as fast
//!                ╱ ▒ ▒ ╱
//!       │  ╱ ▒ ▒ │ ╱       one exchange gives: at `now` the time is between `answer` and
//!       ▒ ▒ ▒ ▒  ▒         `answer` plus the duration; the bounds intersect all exchanges
//! ```
//! # Invariants
//! * CLOCK-1: the CM's time is in the interval, if no host's clock is wrong by more than its share
//!   of [`DRIFT`]. The lower end never goes back.
//!
//! *Another CM.* The time of another CM is another line. Every machine must have the new line
//! before any machine uses it. Until then ([`Bounds::begin_anew`], [`Bounds::go_on`]) the lower end
//! stands still, and the higher end is that of the new line already.
//!
//! *Concurrency.* A line is some words behind a version number. A reader takes no lock, and reads
//! again if the line changes meanwhile. Writers change the line one after the other.
//!
//! *Failure.* If an exchange contradicts all earlier ones, some clock is wrong by more than the
//! bound, or has stood still with its host. It cannot be known which clock is wrong. So the
//! exchange is counted, the line continues as one that covers both, and the lower end stands still
//! until the line has reached it. Transactions that were ordered while the clock was wrong may have
//! been ordered differently from real time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

/// The drift is 1 / `DRIFT`: the clocks of two hosts drift apart by less than 200 ppm. Free-running
/// oscillators of computers are within 100 ppm of true time.
const DRIFT: u64 = 5_000;
/// Nanoseconds by which drift must have widened the interval before a new exchange is worthwhile,
/// however narrow the interval was.
const LITTLE: u64 = 20_000;

/// An interval of the CM's time, in nanoseconds.
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

    /// Returns the interval that a single exchange gives. It was requested at `asked` and answered
    /// with `answer` by `now`. Returns `None` where that is impossible.
    pub fn of_exchange(asked: u64, answer: u64, now: u64) -> Option<Interval> {
        let took = now.checked_sub(asked)?;
        let high = answer.saturating_add(took).saturating_add(drift(took));
        Some(Interval { low: answer, high })
    }
}

/// Returns by how much two clocks may have drifted apart in `elapsed`, rounded up.
pub(super) fn drift(elapsed: u64) -> u64 {
    elapsed.div_ceil(DRIFT)
}

/// The interval at a time of the own clock; from that time on it widens.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAnchor {
    at: u64,
    interval: Interval,
    /// A lower bound of the interval's lower end.
    floor: u64,
    /// Whether the lower end stands still at `floor`.
    stopped: bool,
}

impl TimeAnchor {
    /// The line that allows every time.
    const UNKNOWN: TimeAnchor = TimeAnchor {
        at: u64::MAX,
        interval: Interval::ANY,
        floor: 0,
        stopped: false,
    };

    /// Returns the lower end at `now`.
    pub fn low_at(&self, now: u64) -> u64 {
        self.interval(now).low
    }

    fn is_known(&self) -> bool {
        self.at != TimeAnchor::UNKNOWN.at
    }

    /// Returns the interval at `now` by the exchanges alone.
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

    /// Returns the line after an exchange that gave the interval `answer` at `now`, and whether the
    /// exchange agrees with the earlier ones.
    fn learn(&self, now: u64, answer: Interval) -> (TimeAnchor, bool) {
        let said = self.said(now);
        let (low, high) = (said.low.max(answer.low), said.high.min(answer.high));
        let agree = low <= high;
        let line = match agree {
            true => TimeAnchor {
                at: now,
                interval: Interval { low, high },
                ..*self
            },
            false => TimeAnchor {
                at: now,
                interval: Interval {
                    low: said.low.min(answer.low),
                    high: said.high.max(answer.high),
                },
                floor: self.interval(now).low,
                ..*self
            },
        };
        (line, agree)
    }
}

/// The current line of a machine, and counters of its exchanges.
pub(crate) struct Bounds {
    /// Odd while the line is being changed.
    version: AtomicU64,
    at: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    floor: AtomicU64,
    stopped: AtomicBool,
    changing: Mutex<()>,
    exchanges: AtomicU64,
    /// Number of exchanges before the present line began.
    before: AtomicU64,
    breaks: AtomicU64,
}

impl Bounds {
    pub fn unknown() -> Bounds {
        let TimeAnchor {
            at,
            interval,
            floor,
            stopped,
        } = TimeAnchor::UNKNOWN;
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
    fn line(&self) -> TimeAnchor {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let line = TimeAnchor {
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

    /// Returns the interval at the time that `now` returns. `now` is called after the line was
    /// read, so that its time is not older than the line.
    #[inline]
    pub fn interval(&self, now: impl FnOnce() -> u64) -> Interval {
        let line = self.line();
        line.interval(now())
    }

    /// Adds an exchange that was requested at `asked` and answered with `answer` by `now`; both are
    /// times of the own clock.
    pub fn learn(&self, asked: u64, answer: u64, now: u64) {
        let _changing = self.changing.lock();
        let line = self.line();
        let backwards = line.is_known() && now < line.at;
        let Some(answer) = Interval::of_exchange(asked, answer, now).filter(|_| !backwards) else {
            return;
        };
        let (line, agree) = line.learn(now, answer);
        self.change(|| line);
        self.exchanges.fetch_add(1, Ordering::Release);
        self.breaks.fetch_add(u64::from(!agree), Ordering::Relaxed);
    }

    /// Replaces the line by that of another CM. `new` receives the old line. It returns a time of
    /// the own clock and the interval of the new line at that time. It also returns the floor at
    /// which the lower end stands still. Readers wait meanwhile.
    pub fn begin_anew(&self, new: impl FnOnce(TimeAnchor) -> (u64, Option<Interval>, u64)) {
        let _changing = self.changing.lock();
        let line = self.line();
        self.change(|| {
            let (now, said, floor) = new(line);
            let known = said.map(|interval| (now, interval));
            let (at, interval) =
                known.unwrap_or((TimeAnchor::UNKNOWN.at, TimeAnchor::UNKNOWN.interval));
            TimeAnchor {
                at,
                interval,
                floor,
                stopped: true,
            }
        });
        self.before.store(self.exchanges(), Ordering::Release);
    }

    /// Lets the lower end move again, with the line.
    pub fn go_on(&self) {
        let _changing = self.changing.lock();
        let line = TimeAnchor {
            stopped: false,
            ..self.line()
        };
        self.change(|| line);
    }

    /// Replaces the line; readers wait while `new` makes it. The caller holds `changing`.
    fn change(&self, new: impl FnOnce() -> TimeAnchor) {
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

    /// Returns whether any bound is known.
    pub fn is_known(&self) -> bool {
        self.line().is_known()
    }

    /// Returns whether the lower end stands still.
    pub fn is_stopped(&self) -> bool {
        self.line().stopped
    }

    /// Returns whether an exchange at `now` would give much narrower bounds.
    pub fn is_wide(&self, now: u64) -> bool {
        let line = self.line();
        let grown =
            line.interval(now).width() - line.interval.width().min(line.interval(now).width());
        grown > line.interval.width().saturating_add(LITTLE)
    }

    /// Returns the number of exchanges so far.
    pub fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Acquire)
    }

    /// Returns the number of exchanges for the present line.
    pub fn recent(&self) -> u64 {
        let before = self.before.load(Ordering::Acquire);
        self.exchanges().saturating_sub(before)
    }

    /// Returns the number of exchanges that contradicted all earlier ones.
    pub fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the own clock at the CM's `time`.
    fn own(time: u64, ahead: u64, ppm: i64) -> u64 {
        let fast = i128::from(time) * i128::from(ppm) / 1_000_000;
        (i128::from(ahead) + i128::from(time) + fast) as u64
    }

    proptest! {
        /// Exchanges of any delay at any times, between clocks whose drift is within the bound.
        #[test]
        fn time_stays_within_bounds_and_lower_bound_never_falls(
            ahead in 0..1000 * SECOND,
            ppm in -199..=199i64,
            exchanges in proptest::collection::vec(
                (1..3 * SECOND, 0..1_000_000u64, 0..1_000_000u64),
                1..60,
            ),
        ) {
            let (bounds, mut time, mut least) = (Bounds::unknown(), 10 * SECOND, 0);
            for (pause, there, back) in exchanges {
                time += pause;
                let asked = own(time, ahead, ppm);
                let answer = time + there;
                for now in [time, answer] {
                    let Interval { low, high } = bounds.interval(|| own(now, ahead, ppm));
                    prop_assert!(low <= now && now <= high, "{low} {now} {high}");
                    prop_assert!(least <= low);
                    least = low;
                }
                time = answer + back;
                bounds.learn(asked, answer, own(time, ahead, ppm));
                let after = bounds.interval(|| own(time, ahead, ppm));
                prop_assert!(after.low <= time && time <= after.high);
                prop_assert!(least <= after.low);
                prop_assert!(after.width() <= (there + back) * 1001 / 1000 + 10);
                least = after.low;
            }
            prop_assert_eq!(bounds.breaks(), 0);
        }

        #[test]
        fn any_peer_answer_causes_no_panic_and_no_step_back(
            said in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
        ) {
            let (bounds, mut least, mut clock) = (Bounds::unknown(), 0, 0u64);
            for (asked, answer, now) in said {
                clock = clock.max(now);
                bounds.learn(asked, answer, clock);
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
        // The whole delay is on the way there, then the whole delay is on the way back.
        bounds.learn(1000, 501_000, 2000);
        let first = bounds.interval(|| 2000);
        assert_eq!((first.low, first.high), (501_000, 502_001));
        bounds.learn(2000, 501_100, 3000);
        let both = bounds.interval(|| 3000);
        assert!(both.low >= 501_999 && both.high <= 502_102, "{both:?}");
    }

    #[test]
    fn interval_widens_with_time_until_reported_wide() {
        let bounds = Bounds::unknown();
        bounds.learn(0, SECOND, 100_000);
        assert!(!bounds.is_wide(SECOND / 10));
        assert!(bounds.is_wide(SECOND));
        let after = bounds.interval(|| SECOND + 100_000);
        assert_eq!(after.width(), 100_000 + 20 + 2 * SECOND / DRIFT);
    }

    #[test]
    fn contradictory_exchange_widens_bounds_and_is_counted() {
        let bounds = Bounds::unknown();
        bounds.learn(1000, 900_000, 2000);
        let before = bounds.interval(|| 3000);
        // The exchange says that the time is lower than the known bounds.
        bounds.learn(3000, 700_000, 4000);
        let after = bounds.interval(|| 4000);
        assert_eq!(bounds.breaks(), 1);
        assert!(after.low >= before.low && after.high >= before.high + 1000);
        // The lower end stands still while the line is below it.
        let stands = bounds.interval(|| 150_000);
        assert_eq!(stands.low, after.low);
        assert!(bounds.interval(|| 300_000).low > after.low);
        // The exchange says that the time is higher than the known bounds.
        bounds.learn(300_000, 9_000_000, 301_000);
        let wide = bounds.interval(|| 301_000);
        assert_eq!(bounds.breaks(), 2);
        assert!(wide.low < 1_300_000 && wide.high >= 9_000_000);
    }

    #[test]
    fn concurrent_reader_never_sees_torn_anchor() {
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
