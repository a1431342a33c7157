//! The values that a machine has taken from its sequences and not yet given.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use foldhash::HashMap;
use parking_lot::Mutex;

use super::range::{Log, PoolState, Range};
use crate::catalog::{SequenceState, ValueRange};

/// The pools of a machine, by the oid of the sequence.
#[derive(Debug, Default)]
pub struct Ranges(Mutex<HashMap<u32, Pool>>);

/// The values of one sequence.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The ranges, in the order in which they were taken.
    ranges: VecDeque<Range>,
    /// The last value that the machine has given.
    reached: Option<SequenceState>,
    take: PoolState,
    /// Whether a session of the machine holds a [`CellLock`].
    is_locked: bool,
    waiting: Vec<Waker>,
}

/// The values that a pool had when its sequence was altered.
#[derive(Debug)]
pub(super) struct UnusedValues {
    ranges: VecDeque<Range>,
    reached: Option<SequenceState>,
    take: PoolState,
}

/// The right to take values of a sequence for the machine, or to set it. One session holds it at a
/// time.
#[derive(Debug)]
pub struct CellLock {
    ranges: Arc<Ranges>,
    id: u32,
}

impl Drop for CellLock {
    fn drop(&mut self) {
        let mut all = self.ranges.0.lock();
        if let Some(pool) = all.get_mut(&self.id) {
            pool.is_locked = false;
            pool.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

impl Pool {
    /// Returns a value that no run of the statement of `log` has drawn: one that it has claimed, or
    /// the next value of the pool.
    pub fn draw(&mut self, log: &mut Log) -> Option<i64> {
        if log.take.epoch != self.take.epoch {
            log.unclaim();
        }
        if let Some(value) = log.draw() {
            if log.take == self.take {
                self.reach(value);
            }
            return Some(value);
        }
        loop {
            let range = self.ranges.front_mut()?;
            let steps = range.steps;
            match range.draw() {
                Some(value) => {
                    self.reach(value);
                    log.add(value, steps);
                    return Some(value);
                }
                None => self.ranges.pop_front(),
            };
        }
    }

    fn reach(&mut self, value: i64) {
        self.reached = Some(SequenceState {
            value,
            was_given: true,
        });
    }

    /// Adds values that were taken.
    pub fn add(&mut self, taken: &ValueRange) {
        self.note(taken);
        self.ranges.push_back(Range::of(taken));
    }

    /// Adds taken values to those that the statement of `log` has claimed.
    pub fn add_claimed(&mut self, taken: &ValueRange, log: &mut Log) {
        self.note(taken);
        log.claim(Range::of(taken));
        log.take = self.take;
    }

    fn note(&mut self, taken: &ValueRange) {
        self.take.number += 1;
        if self.ranges.is_empty() {
            self.reached = Some(taken.before);
        }
    }

    /// Lets the statement of `log` claim all values.
    pub fn claim(&mut self, log: &mut Log) {
        self.ranges.drain(..).for_each(|range| log.claim(range));
        log.take = self.take;
    }

    /// Returns values that a statement has claimed but not drawn, unless later ones were taken
    /// since (SEQ-1).
    pub fn give_back(&mut self, left: Vec<Range>, take: PoolState) {
        if self.take == take && self.ranges.is_empty() {
            self.ranges.extend(left);
        }
    }

    /// Returns whether the pool has at least `count` values.
    pub fn has(&self, count: u64) -> bool {
        let values = self.ranges.iter().map(Range::len);
        count == 0 || values.fold(0, u64::saturating_add) >= count
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.iter().all(|range| range.is_empty())
    }

    pub fn reached(&self) -> Option<SequenceState> {
        self.reached
    }

    /// Drops all values.
    pub fn forget(&mut self) {
        self.ranges.clear();
        self.reached = None;
        self.take.epoch += 1;
    }
}

impl Ranges {
    /// Calls `with` on the pool of a sequence; returns `None` if the machine has none.
    pub(super) fn with<T>(&self, id: u32, with: impl FnOnce(&mut Pool) -> Option<T>) -> Option<T> {
        self.0.lock().get_mut(&id).and_then(with)
    }

    /// Calls `with` on the pool of a sequence, which is created if the machine has none.
    pub(super) fn with_new<T>(&self, id: u32, with: impl FnOnce(&mut Pool) -> T) -> T {
        with(self.0.lock().entry(id).or_default())
    }

    /// Waits for the right to take values of a sequence.
    pub async fn lock(self: &Arc<Ranges>, id: u32) -> CellLock {
        poll_fn(|task| {
            let mut all = self.0.lock();
            let pool = all.entry(id).or_default();
            if pool.is_locked {
                if !pool
                    .waiting
                    .iter()
                    .any(|waker| waker.will_wake(task.waker()))
                {
                    pool.waiting.push(task.waker().clone());
                }
                return Poll::Pending;
            }
            pool.is_locked = true;
            Poll::Ready(())
        })
        .await;
        CellLock {
            ranges: Arc::clone(self),
            id,
        }
    }

    /// Returns the last value of a sequence that this machine has given, if it has a pool.
    pub fn reached(&self, id: u32) -> Option<SequenceState> {
        self.with(id, |pool| pool.reached())
    }

    pub(super) fn forget(&self, id: u32) {
        let mut all = self.0.lock();
        if let Some(pool) = all.get_mut(&id) {
            pool.forget();
        }
    }

    /// Removes the values of a sequence from its pool; statements' claims on them become invalid.
    pub(super) fn take(&self, id: u32) -> UnusedValues {
        self.with_new(id, |pool| {
            pool.take.epoch += 1;
            UnusedValues {
                ranges: std::mem::take(&mut pool.ranges),
                reached: pool.reached.take(),
                take: pool.take,
            }
        })
    }

    /// Restores removed values, unless later values were taken since (SEQ-1).
    pub(super) fn put_back(&self, id: u32, unused: UnusedValues) {
        self.with_new(id, |pool| {
            if pool.take == unused.take {
                (pool.ranges, pool.reached) = (unused.ranges, unused.reached);
            }
        });
    }

    /// Makes the pool of a committed transaction the machine's pool, unless values were taken since
    /// it altered the sequence (SEQ-1).
    pub(super) fn replace(&self, id: u32, own: Pool, before: Option<&UnusedValues>) {
        let take = before.map_or_else(PoolState::default, |unused| unused.take);
        self.with_new(id, |pool| {
            if pool.take == take {
                pool.take.epoch += 1;
                (pool.ranges, pool.reached) = (own.ranges, own.reached);
            }
        });
    }
}

impl UnusedValues {
    pub(super) fn reached(&self) -> Option<SequenceState> {
        self.reached
    }
}
