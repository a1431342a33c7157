//! When statements begin and end, as the session tells it.
//!
//! A statement reads one clock, twice: what the time of day is then is worked out from when it was read last, which is
//! less than [`KEEPS`] ago.

use std::time::{Duration, Instant};

use super::now;

/// How long the time of day is worked out rather than read.
const KEEPS: Duration = Duration::from_secs(1);

/// The clock of a session.
#[derive(Debug)]
pub(super) struct StatementClock {
    /// A moment, and what the time of day was then: microseconds from 2000-01-01 UTC.
    known: (Instant, i64),
    began: Instant,
    ended: Instant,
}

impl Default for StatementClock {
    fn default() -> StatementClock {
        let known = read();
        StatementClock {
            known,
            began: known.0,
            ended: known.0,
        }
    }
}

/// The time of day is read first, so that what is worked out is never ahead of it.
fn read() -> (Instant, i64) {
    let wall = now();
    (Instant::now(), wall)
}

impl StatementClock {
    /// A statement begins.
    pub fn begin(&mut self) -> Instant {
        self.began = Instant::now();
        if self.began.duration_since(self.known.0) > KEEPS {
            self.known = read();
            self.began = self.known.0;
        }
        self.began
    }

    /// The statement has ended; how long it took.
    pub fn end(&mut self) -> Duration {
        self.ended = Instant::now();
        self.ended.duration_since(self.began)
    }

    /// How long the last statement took.
    pub fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.began)
    }

    /// The time of day at a moment since the statement began.
    pub fn wall(&self, at: Instant) -> i64 {
        let since = at.duration_since(self.known.0).as_micros();
        self.known.1 + i64::try_from(since).unwrap_or(0)
    }

    /// The time of day when the last statement ended.
    pub fn ended(&self) -> i64 {
        self.wall(self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worked_out_is_close_to_what_is_read() {
        let mut clock = StatementClock::default();
        clock.known = (clock.known.0 - KEEPS * 2, 0);
        let began = clock.begin();
        assert!(now() - clock.wall(began) < 60_000_000, "it was read anew");
        let known = clock.known;
        clock.begin();
        let took = clock.end();
        assert_eq!(clock.known, known);
        assert!(took < KEEPS && clock.ended() <= now());
    }
}
