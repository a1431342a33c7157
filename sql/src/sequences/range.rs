//! Ranges of values, and the values that one statement has drawn.

use crate::catalog::{Steps, ValueRange};

/// A range of values that are not yet drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    next: i64,
    left: u64,
    pub steps: Steps,
}

impl Range {
    pub fn of(taken: &ValueRange) -> Range {
        Range {
            next: taken.first,
            left: taken.count,
            steps: taken.steps,
        }
    }

    pub fn len(&self) -> u64 {
        self.left
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub fn draw(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let value = self.next;
        self.next = self.steps.after(value).unwrap_or(value);
        Some(value)
    }
}

/// The values of a sequence that a statement has drawn or claimed.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    runs: Vec<Run>,
    /// The run, and the index in it, of the next value.
    at: (usize, u64),
    /// The number of values before that.
    given: u64,
    /// The number of values that any run of the statement has drawn. The values after them are
    /// claimed.
    drawn: u64,
    /// The number of values that the completed parts of the statement have drawn.
    passed: u64,
    /// The state of the pool from which the claimed values come.
    pub take: PoolState,
}

/// The state of a pool at the time when values were taken from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolState {
    /// The number of ranges that were taken for the pool.
    pub number: u64,
    /// The number of times that the pool dropped its values. Claims of earlier epochs are invalid.
    pub epoch: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    first: i64,
    /// The next value of the run when the log is read again.
    next: i64,
    count: u64,
    /// The value after the last one.
    after: Option<i64>,
    steps: Steps,
}

impl Log {
    /// Returns whether the statement has neither drawn nor claimed a value.
    pub fn is_new(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the next value that an earlier run of the statement has drawn.
    pub fn again(&mut self) -> Option<i64> {
        (self.given < self.drawn).then(|| self.step()).flatten()
    }

    /// Returns the next value that the statement has claimed and not drawn.
    pub fn draw(&mut self) -> Option<i64> {
        let value = self.step()?;
        self.drawn = self.drawn.max(self.given);
        Some(value)
    }

    fn step(&mut self) -> Option<i64> {
        let run = self.runs.get_mut(self.at.0)?;
        if self.at.1 == 0 {
            run.next = run.first;
        }
        let value = run.next;
        run.next = run.steps.after(value).unwrap_or(value);
        self.at.1 += 1;
        if self.at.1 == run.count {
            self.at = (self.at.0 + 1, 0);
        }
        self.given += 1;
        Some(value)
    }

    /// Adds a value that the pool has given.
    pub fn add(&mut self, value: i64, steps: Steps) {
        match self.runs.last_mut() {
            Some(run) if run.after == Some(value) && run.steps == steps => {
                run.count += 1;
                run.after = steps.after(value);
            }
            _ => self.runs.push(Run {
                first: value,
                next: value,
                count: 1,
                after: steps.after(value),
                steps,
            }),
        }
        self.at = (self.runs.len(), 0);
        self.given += 1;
        self.drawn = self.given;
    }

    /// Adds values that the statement has claimed.
    pub fn claim(&mut self, range: Range) {
        if range.left > 0 {
            self.runs.push(Run {
                first: range.next,
                next: range.next,
                count: range.left,
                after: None,
                steps: range.steps,
            });
        }
    }

    /// Returns the memory of the log, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Log>() + size_of_val(self.runs.as_slice())
    }

    /// Restarts the log: the next run of the statement gets the same values.
    pub fn rewind(&mut self) {
        (self.at, self.given) = ((0, 0), 0);
    }

    /// Forgets the drawn values, because a part of the statement has ended and is not run again.
    pub fn pass(&mut self) {
        let left = self.unclaim();
        self.passed += self.drawn;
        self.runs.clear();
        (self.at, self.given, self.drawn) = ((0, 0), 0, 0);
        left.into_iter().for_each(|range| self.claim(range));
    }

    /// Returns the number of values that the statement has drawn.
    pub fn drawn(&self) -> u64 {
        self.passed + self.drawn
    }

    /// Removes and returns the values that no run of the statement has drawn.
    pub fn unclaim(&mut self) -> Vec<Range> {
        let mut left = Vec::new();
        let mut before = 0;
        let drawn = self.drawn;
        self.runs.retain_mut(|run| {
            let own = drawn.saturating_sub(before).min(run.count);
            before += run.count;
            if own < run.count {
                let mut range = Range {
                    next: run.first,
                    left: run.count,
                    steps: run.steps,
                };
                for _ in 0..own {
                    range.draw();
                }
                left.push(range);
                run.count = own;
            }
            run.count > 0
        });
        if self.given == drawn {
            self.at = (self.runs.len(), 0);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Steps = Steps {
        increment: 1,
        min: 1,
        max: 20,
        cycle: true,
    };

    fn all(log: &mut Log) -> Vec<i64> {
        std::iter::from_fn(|| log.again()).collect()
    }

    #[test]
    fn log_gives_the_same_values_again() {
        let mut log = Log::default();
        for value in [1, 2, 5, 6, 20, 1] {
            assert_eq!(log.again(), None);
            log.add(value, STEPS);
        }
        assert_eq!(log.runs.len(), 3);
        for _ in 0..2 {
            log.rewind();
            assert_eq!(all(&mut log), [1, 2, 5, 6, 20, 1]);
        }
        log.pass();
        log.rewind();
        assert_eq!((log.again(), log.drawn()), (None, 6));
    }

    #[test]
    fn claimed_values_that_were_not_drawn_are_taken_out() {
        let mut log = Log::default();
        log.add(3, STEPS);
        log.rewind();
        let taken = ValueRange {
            first: 19,
            count: 4,
            steps: STEPS,
            before: crate::catalog::SequenceState {
                value: 18,
                was_given: true,
            },
        };
        log.claim(Range::of(&taken));
        assert_eq!(all(&mut log), [3]);
        assert_eq!((log.draw(), log.again()), (Some(19), None));
        let mut left = log.unclaim();
        assert_eq!(left.len(), 1);
        assert_eq!([left[0].draw(), left[0].draw()], [Some(20), Some(1)]);
        assert_eq!((log.draw(), log.drawn()), (None, 2));
        log.add(7, STEPS);
        log.rewind();
        assert_eq!(all(&mut log), [3, 19, 7]);
    }

    #[test]
    fn claimed_values_outlast_a_part_of_the_statement() {
        let mut log = Log::default();
        log.claim(Range {
            next: 1,
            left: 5,
            steps: STEPS,
        });
        assert_eq!((log.draw(), log.draw()), (Some(1), Some(2)));
        log.pass();
        assert_eq!((log.again(), log.draw()), (None, Some(3)));
        log.rewind();
        assert_eq!(
            (log.again(), log.draw(), log.drawn()),
            (Some(3), Some(4), 4)
        );
    }
}
