//! The values of sequences. Evaluation draws them from ranges that this machine has taken.
//!
//! ```text
//! cell ──take──► pool of the machine ──draw──► log of the statement ──► nextval
//! ```
//! Evaluation cannot wait. If the pool is empty, `nextval` fails with an internal error
//! ([`wanted_range`]). The session then takes a range and runs the statement again. The second run
//! gets the values of the first run from the statement's log, in the same order. After them it
//! draws from the pool.
//!
//! SEQ-1: a pool gives values in the order in which its ranges were taken. No value returns to a
//! pool after a later value was given. On one machine, a statement that begins after another
//! statement has ended therefore draws a later value.

mod pool;
mod range;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

pub use self::pool::{CellLock, Ranges};
use self::pool::{Pool, UnusedValues};
use self::range::Log;
use crate::catalog::{SequenceState, ValueRange};
use crate::error::{SqlError, SqlState};

/// The internal error of `nextval` if the pool is empty, or if a `setval` of the same statement is
/// pending. Clients never see it.
const WANTS_RANGE: SqlState = SqlState::new(b"FPSEQ");
/// The minimum number of values in a range.
const RANGE: u64 = 32;

/// The sequence state of a session.
#[derive(Debug, Default)]
pub struct Sequences {
    ranges: Arc<Ranges>,
    own: Mutex<SessionSequences>,
    /// Whether the statement has drawn values or called `setval`.
    is_used: AtomicBool,
    /// Whether the transaction is read-only. Only the session writes it, between statements.
    read_only: AtomicBool,
    /// The number of values of one sequence that the statement is expected to draw.
    expected: AtomicU64,
}

#[derive(Debug, Default)]
struct SessionSequences {
    /// The pools of sequences that the transaction has created or altered.
    private: HashMap<u32, Pool>,
    /// The number of ranges that were taken for private pools.
    private_takes: u64,
    /// The sequences that the transaction has altered, and the unused values that the machine's
    /// pools had.
    altered: Vec<(u32, UnusedValues)>,
    /// `currval`
    current: HashMap<u32, i64>,
    /// The sequence that `lastval` refers to.
    last: Option<u32>,
    /// The values that the statement has drawn.
    drawn: HashMap<u32, Log>,
    sets: Sets,
}

/// The calls of `setval` that the session still has to apply.
#[derive(Debug, Default)]
struct Sets {
    wanted: Vec<SetValue>,
    /// The index in `wanted` of the statement's first call.
    first: usize,
    /// The number of calls of the statement that have been applied.
    done: usize,
    /// The number of applied calls that the current run still has to skip.
    passed: usize,
}

/// The values that a statement has drawn, by sequence.
#[derive(Clone, Debug, Default)]
pub struct DrawnValues(HashMap<u32, Log>);

impl DrawnValues {
    /// Returns the approximate memory of the values, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.values().map(Log::bytes).sum()
    }
}

/// A position in a transaction, for the rollback of its sequence operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceMark {
    altered: usize,
    takes: u64,
}

/// A call of `setval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetValue {
    /// The oid of the sequence.
    pub id: u32,
    /// The new value.
    pub value: i64,
    /// Whether the value counts as drawn (`is_called`): the next value is then a later one.
    pub was_given: bool,
}

impl Sequences {
    /// Creates the sequence state of a session on the machine that owns `ranges`.
    pub fn of(ranges: &Arc<Ranges>) -> Sequences {
        Sequences {
            ranges: Arc::clone(ranges),
            own: Mutex::default(),
            is_used: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
            expected: AtomicU64::new(0),
        }
    }

    /// Returns the next value (`nextval`).
    pub(crate) fn next(&self, id: u32) -> Result<i64, SqlError> {
        self.is_used.store(true, Ordering::Relaxed);
        let own = &mut *self.own.lock();
        let log = own.drawn.entry(id).or_default();
        let expected = self.expected.load(Ordering::Relaxed);
        let draw = |pool: &mut Pool, log: &mut Log| {
            let is_enough = !log.is_new() || pool.has(expected);
            is_enough.then(|| pool.draw(log)).flatten()
        };
        let value = match log.again() {
            Some(value) => Some(value),
            None if own.sets.wants(id) => None,
            None => match own.private.get_mut(&id) {
                Some(pool) => draw(pool, log),
                None => self.ranges.with(id, |pool| draw(pool, log)),
            },
        };
        let value = value.ok_or_else(|| wants_range(id))?;
        own.current.insert(id, value);
        own.last = Some(id);
        Ok(value)
    }

    /// Returns the current value (`currval`).
    pub(crate) fn current(&self, id: u32) -> Option<i64> {
        self.own.lock().current.get(&id).copied()
    }

    /// Returns the last value (`lastval`).
    pub(crate) fn last(&self) -> Option<i64> {
        let own = self.own.lock();
        own.current.get(&own.last?).copied()
    }

    /// Requests a `setval`, which the session applies.
    pub(crate) fn set(&self, set: SetValue) {
        self.is_used.store(true, Ordering::Relaxed);
        let own = &mut *self.own.lock();
        if set.was_given {
            own.current.insert(set.id, set.value);
        }
        own.sets.want(set);
    }

    /// Returns whether the transaction of the statement is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Takes the pending calls of `setval`. From now on they count as applied.
    pub fn take_sets(&self) -> Vec<SetValue> {
        match self.is_used.load(Ordering::Relaxed) {
            true => self.own.lock().sets.take(),
            false => Vec::new(),
        }
    }

    /// Begins another statement, in a transaction that is read-only or not. If the statement draws
    /// `expected` values of a sequence, it does not run again after each range.
    pub fn begin_in(&self, read_only: bool, expected: usize) {
        self.read_only.store(read_only, Ordering::Relaxed);
        self.expected.store(expected as u64, Ordering::Relaxed);
        self.end();
    }

    /// Ends the statement, which is not run again. Values that it has claimed but not drawn return
    /// to their pools.
    pub fn end(&self) {
        if !self.is_used.swap(false, Ordering::Relaxed) {
            return;
        }
        let own = &mut *self.own.lock();
        own.sets = Sets::default();
        for (id, mut log) in own.drawn.drain() {
            let left = log.unclaim();
            if left.is_empty() {
                continue;
            }
            match own.private.get_mut(&id) {
                Some(pool) => pool.give_back(left, log.take),
                None => self
                    .ranges
                    .with_new(id, |pool| pool.give_back(left, log.take)),
            }
        }
    }

    /// Returns the values that the statement has drawn; `None` if it has called `setval`.
    pub fn drawn(&self) -> Option<DrawnValues> {
        if !self.is_used.load(Ordering::Relaxed) {
            return Some(DrawnValues::default());
        }
        let own = &*self.own.lock();
        let sets = &own.sets;
        if sets.done > 0 || !sets.wanted.is_empty() {
            return None;
        }
        let again = |(id, log): (&u32, &Log)| {
            let mut log = log.clone();
            // The claimed values return to the pool with the statement's own log.
            log.unclaim();
            log.rewind();
            (*id, log)
        };
        Some(DrawnValues(own.drawn.iter().map(again).collect()))
    }

    /// Runs a statement again, after others: it gets the values in `drawn`.
    pub fn begin_again(&self, drawn: &DrawnValues) {
        self.end();
        if !drawn.0.is_empty() {
            self.own.lock().drawn.clone_from(&drawn.0);
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Begins a part of the statement that can be run again without the parts before it.
    pub fn begin_part(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            let own = &mut *self.own.lock();
            own.drawn.values_mut().for_each(Log::pass);
            own.sets.begin_part();
        }
    }

    /// Begins another run of the statement or of its current part: the run gets the same values
    /// again.
    pub fn rewind(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            let own = &mut *self.own.lock();
            own.drawn.values_mut().for_each(Log::rewind);
            own.sets.rewind();
        }
    }

    /// Waits for the right to take values of a sequence for the machine.
    pub async fn lock(&self, id: u32) -> CellLock {
        self.ranges.lock(id).await
    }

    /// Returns the number of values to take for a statement that waits for them; `None` if the pool
    /// has values by now. The caller holds the [`CellLock`]. A statement that draws many values
    /// claims the values that it takes.
    pub fn wanted(&self, id: u32) -> Option<u64> {
        self.is_used.store(true, Ordering::Relaxed);
        let own = &mut *self.own.lock();
        let log = own.drawn.entry(id).or_default();
        let claims = self.claims(log);
        let expected = self.expected.load(Ordering::Relaxed);
        let count = RANGE.max(log.drawn()).max(expected);
        let mut wanted = |pool: &mut Pool| {
            if claims {
                pool.claim(log);
            }
            (claims || pool.is_empty()).then_some(count)
        };
        match own.private.get_mut(&id) {
            Some(pool) => wanted(pool),
            None => self.ranges.with_new(id, wanted),
        }
    }

    /// Returns whether the statement of `log` claims the values that it takes.
    fn claims(&self, log: &Log) -> bool {
        log.drawn().max(self.expected.load(Ordering::Relaxed)) >= RANGE
    }

    /// Adds values of a sequence that were taken according to [`Self::wanted`].
    pub fn add(&self, id: u32, taken: &ValueRange) {
        let own = &mut *self.own.lock();
        self.add_to(own, id, taken);
    }

    /// Adds values like [`Self::add`], but for the open transaction only: other transactions do not
    /// see its version of the sequence.
    pub fn add_private(&self, id: u32, taken: &ValueRange) {
        let own = &mut *self.own.lock();
        own.private.entry(id).or_default();
        own.private_takes += 1;
        self.add_to(own, id, taken);
    }

    fn add_to(&self, own: &mut SessionSequences, id: u32, taken: &ValueRange) {
        let log = own.drawn.entry(id).or_default();
        let claims = self.claims(log);
        let mut add = |pool: &mut Pool| match claims {
            true => pool.add_claimed(taken, log),
            false => pool.add(taken),
        };
        match own.private.get_mut(&id) {
            Some(pool) => add(pool),
            None => self.ranges.with_new(id, add),
        }
    }

    /// Returns whether the transaction has created or altered the sequence, and has taken values
    /// since.
    pub fn is_private(&self, id: u32) -> bool {
        self.own.lock().private.contains_key(&id)
    }

    /// Drops the values that the machine has not given and those that the statement has claimed,
    /// because `setval` was applied.
    pub fn forget(&self, id: u32) {
        let own = &mut *self.own.lock();
        if let Some(log) = own.drawn.get_mut(&id) {
            log.unclaim();
        }
        match own.private.get_mut(&id) {
            Some(pool) => pool.forget(),
            None => self.ranges.forget(id),
        }
    }

    /// Notes that the transaction alters a sequence: until it ends, its values come from its own
    /// version of the cell. Returns the last value that the machine has given. The caller holds the
    /// [`CellLock`].
    pub fn alter(&self, id: u32) -> Option<SequenceState> {
        let own = &mut *self.own.lock();
        own.drawn.get_mut(&id).map(Log::unclaim);
        if let Some(pool) = own.private.get_mut(&id) {
            let reached = pool.reached();
            pool.forget();
            return reached;
        }
        let unused = self.ranges.take(id);
        let reached = unused.reached();
        own.altered.push((id, unused));
        own.private.insert(id, Pool::default());
        reached
    }

    /// Returns the position of a sequence. `cell` and `taker` are its cell as the transaction sees
    /// it, and `machine` is the number of this machine.
    pub fn reached(
        &self,
        id: u32,
        (cell, taker): (SequenceState, Option<u32>),
        machine: u32,
    ) -> SequenceState {
        let own = self.own.lock();
        let reached = match own.private.get(&id) {
            Some(pool) => pool.reached(),
            None if taker == Some(machine) => self.ranges.reached(id),
            None => None,
        };
        reached.unwrap_or(cell)
    }

    /// Returns the current position in the transaction.
    pub fn mark(&self) -> SequenceMark {
        let own = self.own.lock();
        SequenceMark {
            altered: own.altered.len(),
            takes: own.private_takes,
        }
    }

    /// Rolls the transaction back to a position.
    pub fn back_to(&self, mark: SequenceMark) {
        let own = &mut *self.own.lock();
        while own.altered.len() > mark.altered
            && let Some((id, unused)) = own.altered.pop()
        {
            own.private.remove(&id);
            own.drawn.get_mut(&id).map(Log::unclaim);
            self.ranges.put_back(id, unused);
        }
        if own.private_takes != mark.takes {
            // The cells of the sequences are rolled back, too.
            let (altered, drawn) = (&own.altered, &mut own.drawn);
            own.private.retain(|id, pool| {
                drawn.get_mut(id).map(Log::unclaim);
                pool.forget();
                altered.iter().any(|(of, _)| of == id)
            });
            own.private_takes = mark.takes;
        }
    }

    /// Ends the transaction: its version of the sequences becomes public or is discarded.
    pub fn end_transaction(&self, committed: bool) {
        let own = &mut *self.own.lock();
        own.private_takes = 0;
        for (id, pool) in own.private.drain() {
            own.drawn.remove(&id);
            if committed {
                let before = own.altered.iter().find(|(of, _)| *of == id);
                self.ranges
                    .replace(id, pool, before.map(|(_, unused)| unused));
            }
        }
        while let Some((id, unused)) = own.altered.pop() {
            if !committed {
                self.ranges.put_back(id, unused);
            }
        }
    }

    /// Forgets `currval` and `lastval` of all sequences (DISCARD SEQUENCES).
    pub fn discard(&self) {
        let own = &mut *self.own.lock();
        own.current.clear();
        own.last = None;
    }
}

impl Sets {
    fn wants(&self, id: u32) -> bool {
        self.wanted.iter().any(|set| set.id == id)
    }

    fn want(&mut self, set: SetValue) {
        match self.passed < self.done {
            true => self.passed += 1,
            false => self.wanted.push(set),
        }
    }

    fn take(&mut self) -> Vec<SetValue> {
        self.done += self.wanted.len().saturating_sub(self.first);
        self.passed = self.done;
        self.first = 0;
        std::mem::take(&mut self.wanted)
    }

    fn rewind(&mut self) {
        self.wanted.truncate(self.first);
        self.passed = 0;
    }

    fn begin_part(&mut self) {
        self.first = self.wanted.len();
        (self.done, self.passed) = (0, 0);
    }
}

fn wants_range(id: u32) -> SqlError {
    SqlError::new(WANTS_RANGE, id.to_string())
}

/// Returns the sequence that a statement waits for, if the error is that internal error.
pub fn wanted_range(error: &SqlError) -> Option<u32> {
    match error.sqlstate() == WANTS_RANGE {
        true => error.message().parse().ok(),
        false => None,
    }
}
