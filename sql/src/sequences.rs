//! Values of sequences, as evaluation gives them: from ranges that this machine has taken.
//!
//! Where a range is used up `nextval` fails with `wants_range`; the session takes another range and runs the
//! statement again, with the values that the first run had drawn, as far as nobody else has drawn meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::catalog::Taken;
use crate::error::{SqlError, SqlState};

/// That `nextval` has nothing to give. No client sees it.
const WANTS_RANGE: SqlState = SqlState::new(b"FPSEQ");
/// Values that are taken at once, at least.
const RANGE: u64 = 32;

/// The ranges of a machine, by the oids of their sequences.
#[derive(Debug, Default)]
pub struct Ranges(Mutex<HashMap<u32, Range>>);

/// The values that a machine still has to give.
#[derive(Clone, Debug)]
struct Range {
    next: i64,
    left: u64,
    increment: i64,
    /// What comes then.
    then: Vec<Taken>,
}

/// The sequences of a session.
#[derive(Debug, Default)]
pub struct Sequences {
    ranges: Arc<Ranges>,
    own: Mutex<Own>,
    /// The transaction may only read. The session alone writes it, between statements.
    read_only: AtomicBool,
}

#[derive(Debug, Default)]
struct Own {
    /// Of sequences that nobody else sees yet.
    private: HashMap<u32, Range>,
    /// `currval`
    current: HashMap<u32, i64>,
    /// The sequence of `lastval`.
    last: Option<u32>,
    /// What the statement has drawn: the first value, and how many.
    drawn: HashMap<u32, (i64, u64)>,
    /// What `setval` has asked for.
    sets: Vec<SetValue>,
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

impl Range {
    fn draw(&mut self) -> Option<i64> {
        if self.left == 0 {
            let taken = (!self.then.is_empty()).then(|| self.then.remove(0))?;
            (self.next, self.left) = (taken.first, taken.count);
        }
        let value = self.next;
        self.left -= 1;
        self.next = value.saturating_add(self.increment);
        Some(value)
    }

    fn add(&mut self, taken: Taken) {
        if self.left > 0 && self.then.is_empty() && self.next_after() == Some(taken.first) {
            self.left += taken.count;
        } else if self.left == 0 && self.then.is_empty() {
            (self.next, self.left) = (taken.first, taken.count);
        } else {
            self.then.push(taken);
        }
    }

    /// What would follow the last value of the first part.
    fn next_after(&self) -> Option<i64> {
        let steps = i64::try_from(self.left).ok()?;
        self.next.checked_add(steps.checked_mul(self.increment)?)
    }

    /// Takes values back, unless others were drawn since.
    fn give_back(&mut self, first: i64, count: u64) {
        let steps = i64::try_from(count).unwrap_or(i64::MAX);
        if first.checked_add(steps.saturating_mul(self.increment)) == Some(self.next) {
            self.next = first;
            self.left += count;
        }
    }
}

impl Ranges {
    /// The next value that the machine has of a sequence, and the last one after it that it has taken.
    pub fn unused(&self, id: u32) -> Option<(i64, i64)> {
        let ranges = self.0.lock();
        let range = ranges.get(&id).filter(|range| range.then.is_empty())?;
        let steps = i64::try_from(range.left.checked_sub(1)?).ok()?;
        let last = range
            .next
            .checked_add(steps.checked_mul(range.increment)?)?;
        Some((range.next, last))
    }
}

impl Sequences {
    /// Those of a session of a machine.
    pub fn of(ranges: &Arc<Ranges>) -> Sequences {
        Sequences {
            ranges: Arc::clone(ranges),
            own: Mutex::default(),
            read_only: AtomicBool::new(false),
        }
    }

    /// `nextval`
    pub(crate) fn next(&self, id: u32) -> Result<i64, SqlError> {
        let own = &mut *self.own.lock();
        let value = match own.private.get_mut(&id) {
            Some(range) => range.draw(),
            None => self.ranges.0.lock().get_mut(&id).and_then(Range::draw),
        };
        let value = value.ok_or_else(|| wants_range(id))?;
        let drawn = own.drawn.entry(id).or_insert((value, 0));
        drawn.1 += 1;
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
        let mut own = self.own.lock();
        if set.was_given {
            own.current.insert(set.id, set.value);
        }
        own.sets.push(set);
    }

    /// Does the statement run in a transaction that may only read?
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// What `setval` has asked for.
    pub fn take_sets(&self) -> Vec<SetValue> {
        std::mem::take(&mut self.own.lock().sets)
    }

    /// Values to take at once for a statement that has used up what there was.
    pub fn wanted(&self, id: u32) -> u64 {
        let own = self.own.lock();
        let drawn = own.drawn.get(&id).map_or(0, |(_, count)| *count);
        RANGE.max(drawn * 2)
    }

    /// Another statement begins, in a transaction that may only read or in another one.
    pub fn begin_in(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
        self.begin();
    }

    /// Another statement begins.
    pub fn begin(&self) {
        let mut own = self.own.lock();
        if !own.drawn.is_empty() || !own.sets.is_empty() {
            own.drawn.clear();
            own.sets.clear();
        }
    }

    /// The statement is run again: what it has drawn counts as not drawn, where it can.
    pub fn give_back(&self) {
        let own = &mut *self.own.lock();
        own.sets.clear();
        for (id, (first, count)) in own.drawn.drain() {
            match own.private.get_mut(&id) {
                Some(range) => range.give_back(first, count),
                None => {
                    if let Some(range) = self.ranges.0.lock().get_mut(&id) {
                        range.give_back(first, count);
                    }
                }
            }
        }
    }

    /// Adds values of a sequence; `private` ones of one that nobody else sees yet.
    pub fn add(&self, id: u32, increment: i64, taken: Taken, private: bool) {
        let empty = Range {
            next: taken.first,
            left: 0,
            increment,
            then: Vec::new(),
        };
        match private {
            true => {
                let own = &mut *self.own.lock();
                own.private.entry(id).or_insert(empty).add(taken);
            }
            false => {
                let mut ranges = self.ranges.0.lock();
                ranges.entry(id).or_insert(empty).add(taken);
            }
        }
    }

    /// Forgets the values of a sequence that this machine still has.
    pub fn forget(&self, id: u32) {
        self.own.lock().private.remove(&id);
        self.ranges.0.lock().remove(&id);
    }

    /// Sequences that the transaction has made are there for all, or have never been.
    pub fn settle(&self, committed: bool) {
        let own = &mut *self.own.lock();
        if own.private.is_empty() {
            return;
        }
        let private = std::mem::take(&mut own.private);
        if committed {
            self.ranges.0.lock().extend(private);
        }
    }

    /// DISCARD SEQUENCES
    pub fn discard(&self) {
        let own = &mut *self.own.lock();
        own.current.clear();
        own.last = None;
    }
}

fn wants_range(id: u32) -> SqlError {
    SqlError::new(WANTS_RANGE, id.to_string())
}

/// The sequence whose values are used up, if that is what the error says.
pub fn wanted_range(error: &SqlError) -> Option<u32> {
    match error.sqlstate() == WANTS_RANGE {
        true => error.message().parse().ok(),
        false => None,
    }
}
