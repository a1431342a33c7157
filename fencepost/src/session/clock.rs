//! The start and end times of a session's statements.
//!
//! Each statement reads the monotonic clock twice. The time of day is computed from the last
//! reading of the wall clock, which is less than [`KEEPS`] old.

use std::time::{Duration, Instant};

use super::now;

/// The age of a wall-clock reading at which the wall clock is read again.
const KEEPS: Duration = Duration::from_secs(1);

/// The clock of a session.
#[derive(Debug)]
pub(super) struct StatementClock {
    /// A reading of both clocks: the instant, and its time of day in microseconds from 2000-01-01
    /// UTC.
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

/// Reads both clocks. The time of day is read first, so the computed time is never ahead of it.
fn read() -> (Instant, i64) {
    let wall = now();
    (Instant::now(), wall)
}

impl StatementClock {
    /// Starts a statement.
    pub fn begin(&mut self) -> Instant {
        self.began = Instant::now();
        if self.began.duration_since(self.known.0) > KEEPS {
            self.known = read();
            self.began = self.known.0;
        }
        self.began
    }

    /// Ends the statement. Returns its duration.
    pub fn end(&mut self) -> Duration {
        self.ended = Instant::now();
        self.ended.duration_since(self.began)
    }

    /// Returns the duration of the last statement.
    pub fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.began)
    }

    /// Returns the time of day at an instant after the start of the statement.
    pub fn wall(&self, at: Instant) -> i64 {
        let since = at.duration_since(self.known.0).as_micros();
        self.known.1 + i64::try_from(since).unwrap_or(0)
    }

    /// Returns the time of day at the end of the last statement.
    pub fn ended(&self) -> i64 {
        self.wall(self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_time_is_close_to_clock() {
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
