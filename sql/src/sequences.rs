//! Values of sequences, as evaluation draws them: from ranges that this machine has taken.
//!
//! ```text
//! cell ──take──► pool of the machine ──draw──► log of the statement ──► nextval
//! ```
//! Evaluation cannot wait. Where the pool is empty `nextval` fails with an internal error
//! ([`wanted_range`]); the session takes a range and runs the statement again. The second run gets
//! the values of the first run from the statement's log, in the same order, and goes on with the
//! pool.
//!
//! SEQ-1: a pool gives values in the order in which its ranges were taken, and no value returns to
//! a pool once a later value was given. So a statement that begins after another one has ended
//! draws a later value, on one machine.

mod pool;
mod range;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

pub use self::pool::{CellLock, Ranges};
use self::pool::{Pool, Unused};
use self::range::Log;
use crate::catalog::{Reached, Taken};
use crate::error::{SqlError, SqlState};

/// `nextval` has no value, or waits for a `setval` of the same statement. No client sees it.
const WANTS_RANGE: SqlState = SqlState::new(b"FPSEQ");
/// Values that are taken at once, at least.
const RANGE: u64 = 32;

/// The sequences of a session.
#[derive(Debug, Default)]
pub struct Sequences {
    ranges: Arc<Ranges>,
    own: Mutex<Own>,
    /// The statement has drawn values or called `setval`.
    is_used: AtomicBool,
    /// The transaction may only read. The session alone writes it, between statements.
    read_only: AtomicBool,
}

#[derive(Debug, Default)]
struct Own {
    /// Pools of sequences that the transaction has made or altered.
    private: HashMap<u32, Pool>,
    /// Counts the takes of these.
    private_takes: u64,
    /// The sequences that the transaction has altered, with the values that the machine's pools had
    /// of them.
    altered: Vec<(u32, Unused)>,
    /// `currval`
    current: HashMap<u32, i64>,
    /// The sequence of `lastval`.
    last: Option<u32>,
    /// The values that the statement has drawn.
    drawn: HashMap<u32, Log>,
    sets: Sets,
}

/// The calls of `setval` that the session has still to carry out.
#[derive(Debug, Default)]
struct Sets {
    wanted: Vec<SetValue>,
    /// Where those of the statement begin.
    first: usize,
    /// How many calls of the statement have been carried out.
    done: usize,
    /// How many of these the run that goes on has still to pass.
    passed: usize,
}

/// The values that a statement has drawn, by sequence.
#[derive(Clone, Debug, Default)]
pub struct DrawnValues(HashMap<u32, Log>);

impl DrawnValues {
    /// The bytes of memory that they take, about.
    pub fn bytes(&self) -> usize {
        self.0.values().map(Log::bytes).sum()
    }
}

/// A place in a transaction, as far as its sequences go.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceMark {
    altered: usize,
    takes: u64,
}

/// `setval`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetValue {
    /// The oid of the sequence.
    pub id: u32,
    /// The value.
    pub value: i64,
    /// The next value is another.
    pub was_given: bool,
}

impl Sequences {
    /// Those of a session of a machine.
    pub fn of(ranges: &Arc<Ranges>) -> Sequences {
        Sequences {
            ranges: Arc::clone(ranges),
            own: Mutex::default(),
            is_used: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
        }
    }

    /// `nextval`
    pub(crate) fn next(&self, id: u32) -> Result<i64, SqlError> {
        self.is_used.store(true, Ordering::Relaxed);
        let own = &mut *self.own.lock();
        let log = own.drawn.entry(id).or_default();
        let value = match log.again() {
            Some(value) => Some(value),
            None if own.sets.wants(id) => None,
            None => match own.private.get_mut(&id) {
                Some(pool) => pool.draw(log),
                None => self.ranges.with(id, |pool| pool.draw(log)),
            },
        };
        let value = value.ok_or_else(|| wants_range(id))?;
        own.current.insert(id, value);
        own.last = Some(id);
        Ok(value)
    }

    /// `currval`
    pub(crate) fn current(&self, id: u32) -> Option<i64> {
        self.own.lock().current.get(&id).copied()
    }

    /// `lastval`
    pub(crate) fn last(&self) -> Option<i64> {
        let own = self.own.lock();
        own.current.get(&own.last?).copied()
    }

    /// `setval`
    pub(crate) fn set(&self, set: SetValue) {
        self.is_used.store(true, Ordering::Relaxed);
        let own = &mut *self.own.lock();
        if set.was_given {
            own.current.insert(set.id, set.value);
        }
        own.sets.want(set);
    }

    /// Does the statement run in a transaction that may only read?
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Takes the calls of `setval` that are still to be carried out; they count as carried out from
    /// now on.
    pub fn take_sets(&self) -> Vec<SetValue> {
        match self.is_used.load(Ordering::Relaxed) {
            true => self.own.lock().sets.take(),
            false => Vec::new(),
        }
    }

    /// Another statement begins, in a transaction that may only read or in another one.
    pub fn begin_in(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
        self.end();
    }

    /// The statement has ended: it is not run again. Values that it has claimed and not drawn go
    /// back to their pools.
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

    /// The values that the statement has drawn; `None` where it has called `setval`.
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
            // They go back to the pool with the statement's own log.
            log.unclaim();
            log.rewind();
            (*id, log)
        };
        Some(DrawnValues(own.drawn.iter().map(again).collect()))
    }

    /// A statement is run again, after others: it gets the values that it has drawn.
    pub fn begin_again(&self, drawn: &DrawnValues) {
        self.end();
        if !drawn.0.is_empty() {
            self.own.lock().drawn.clone_from(&drawn.0);
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// A part of the statement begins that is run again by itself; the parts before it are not.
    pub fn begin_part(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            let own = &mut *self.own.lock();
            own.drawn.values_mut().for_each(Log::pass);
            own.sets.begin_part();
        }
    }

    /// The statement, or the part of it that has begun, is run again: it gets the values that it
    /// has drawn.
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

    /// How many values to take for a statement that waits for them; `None` where the pool has some
    /// by now. The caller has the [`CellLock`]. A statement that has drawn many values claims those
    /// that it takes.
    pub fn wanted(&self, id: u32) -> Option<u64> {
        self.is_used.store(true, Ordering::Relaxed);
        let own = &mut *self.own.lock();
        let log = own.drawn.entry(id).or_default();
        let drawn = log.drawn();
        let mut wanted = |pool: &mut Pool| {
            let claims = drawn >= RANGE;
            if claims {
                pool.claim(log);
            }
            (claims || pool.is_empty()).then(|| RANGE.max(drawn))
        };
        match own.private.get_mut(&id) {
            Some(pool) => wanted(pool),
            None => self.ranges.with_new(id, wanted),
        }
    }

    /// Adds values of a sequence that were taken as [`Self::wanted`] told.
    pub fn add(&self, id: u32, taken: &Taken) {
        let own = &mut *self.own.lock();
        self.add_to(own, id, taken);
    }

    /// As [`Self::add`], in the transaction that is open: other transactions do not see the
    /// sequence as it is there.
    pub fn add_private(&self, id: u32, taken: &Taken) {
        let own = &mut *self.own.lock();
        own.private.entry(id).or_default();
        own.private_takes += 1;
        self.add_to(own, id, taken);
    }

    fn add_to(&self, own: &mut Own, id: u32, taken: &Taken) {
        let log = own.drawn.entry(id).or_default();
        let mut add = |pool: &mut Pool| match log.drawn() >= RANGE {
            true => pool.add_claimed(taken, log),
            false => pool.add(taken),
        };
        match own.private.get_mut(&id) {
            Some(pool) => add(pool),
            None => self.ranges.with_new(id, add),
        }
    }

    /// Has the transaction made the sequence, or altered it, and taken values since?
    pub fn is_private(&self, id: u32) -> bool {
        self.own.lock().private.contains_key(&id)
    }

    /// Drops the values of a sequence that the machine has not given, and those that the statement
    /// has claimed:
    /// `setval` was carried out.
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

    /// The transaction alters a sequence: until it ends its values come from the cell as the
    /// transaction has it. Returns the last value that the machine has given. The caller has the
    /// [`CellLock`].
    pub fn alter(&self, id: u32) -> Option<Reached> {
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

    /// How far a sequence is, whose cell the transaction sees like this on the machine of this
    /// number.
    pub fn reached(&self, id: u32, (cell, taker): (Reached, Option<u32>), machine: u32) -> Reached {
        let own = self.own.lock();
        let reached = match own.private.get(&id) {
            Some(pool) => pool.reached(),
            None if taker == Some(machine) => self.ranges.reached(id),
            None => None,
        };
        reached.unwrap_or(cell)
    }

    /// Where the transaction is.
    pub fn mark(&self) -> SequenceMark {
        let own = self.own.lock();
        SequenceMark {
            altered: own.altered.len(),
            takes: own.private_takes,
        }
    }

    /// The transaction goes back to where it was.
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
            // Their cells are as they were, too.
            let (altered, drawn) = (&own.altered, &mut own.drawn);
            own.private.retain(|id, pool| {
                drawn.get_mut(id).map(Log::unclaim);
                pool.forget();
                altered.iter().any(|(of, _)| of == id)
            });
            own.private_takes = mark.takes;
        }
    }

    /// The transaction has ended: its sequences are there for all, or never have been.
    pub fn settle(&self, committed: bool) {
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

    /// DISCARD SEQUENCES
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

/// The sequence that a statement waits for, if the error says that.
pub fn wanted_range(error: &SqlError) -> Option<u32> {
    match error.sqlstate() == WANTS_RANGE {
        true => error.message().parse().ok(),
        false => None,
    }
}
