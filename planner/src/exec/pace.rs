//! Time slices: when a statement yields to the other tasks of its thread.
//!
//! ```text
//! step, step, … ──stride──► read the clock ──slice is over──► yield to other tasks, begin a slice
//! ```
//!
//! An executor has one thread, so a loop that does not yield stops every session of that thread. A
//! loop counts each row as one step. The clock is read after `stride` steps, and the stride follows
//! the cost of the steps.

use std::time::{Duration, Instant};

/// How long a statement runs before it yields.
const SLICE: Duration = Duration::from_millis(1);
/// The stride grows while the interval between clock readings is shorter than this.
const LOOK_MIN: Duration = Duration::from_micros(50);
/// The stride shrinks if the interval between clock readings is longer than this.
const LOOK_MAX: Duration = Duration::from_micros(250);
/// The largest stride: cheap steps may be followed by expensive ones.
const STRIDE_MAX: u32 = 128;
/// The largest stride at the beginning of a statement.
const STRIDE_FIRST: u32 = 4;

/// The progress of a session's task within its time slice.
#[derive(Debug, Default)]
pub struct TimeSlice {
    /// The number of steps until the clock is read.
    left: u32,
    stride: u32,
    /// The start of the slice and the last reading of the clock; `None` before the first reading.
    times: Option<(Instant, Instant)>,
}

impl TimeSlice {
    /// Begins a statement. Its slice begins with the first reading of the clock.
    #[inline]
    pub fn restart(&mut self) {
        self.times = None;
        self.stride = self.stride.clamp(1, STRIDE_FIRST);
        self.left = self.stride;
    }

    /// Counts a step. Returns true when the clock must be read.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Takes a reading of the clock. Returns true when the slice is over.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let Some((begun, last)) = self.times else {
            self.times = Some((now, now));
            self.left = self.stride;
            return false;
        };
        let passed = now.duration_since(last);
        self.stride = match passed {
            passed if passed < LOOK_MIN => (self.stride * 2).clamp(1, STRIDE_MAX),
            passed if passed > LOOK_MAX => (self.stride / 8).max(1),
            _ => self.stride.max(1),
        };
        self.left = self.stride;
        self.times = Some((begun, now));
        now.duration_since(begun) >= SLICE
    }

    /// Begins a slice at `now`, after the other tasks have run.
    pub fn begin_slice(&mut self, now: Instant) {
        self.times = Some((now, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes steps of `cost` each until the slice is over. Returns the number of steps.
    fn steps_in_slice(pace: &mut TimeSlice, now: &mut Instant, cost: Duration) -> u32 {
        for steps in 1..1_000_000 {
            *now += cost;
            if pace.step() && pace.is_over(*now) {
                pace.begin_slice(*now);
                return steps;
            }
        }
        0
    }

    #[test]
    fn slice_ends_in_time_at_every_cost_of_step() {
        let mut pace = TimeSlice::default();
        let mut now = Instant::now();
        pace.restart();
        for cost_ns in [10, 100, 1_000, 20_000, 100_000, 1_000_000] {
            let cost = Duration::from_nanos(cost_ns);
            // The stride of the previous cost may be too large once.
            steps_in_slice(&mut pace, &mut now, cost);
            steps_in_slice(&mut pace, &mut now, cost);
            let steps = steps_in_slice(&mut pace, &mut now, cost);
            let slice = cost * steps;
            assert!(slice >= SLICE, "{slice:?}");
            assert!(slice < SLICE * 2, "{slice:?} of steps of {cost:?}");
        }
    }

    #[test]
    fn short_statement_reads_no_clock() {
        let mut pace = TimeSlice {
            stride: STRIDE_MAX,
            ..TimeSlice::default()
        };
        pace.restart();
        assert!((1..STRIDE_FIRST).all(|_| !pace.step()));
        assert!(pace.step());
    }
}
