//! Sequences: their definitions, and the objects that store their current values.
//!
//! ```text
//! cell   [CELL | oid, last value, 1 once nextval has returned it | taker << 32]
//! taker  1 + the number of the machine that took the last value, or 0
//! ```
//! A machine takes a range of values from the cell in a transaction of its own. So no session waits
//! for the commit of another one. Values that a machine has not returned when it stops are lost.
//! Each machine returns the values of its own ranges. They ascend on each machine, but not across
//! machines, as with PostgreSQL's CACHE. `setval` and ALTER SEQUENCE on one machine do not affect
//! the ranges of other machines.

use fencepost_storage::Addr;
use fencepost_txn::{ObjectLocation, Stop, Transaction};

use crate::error::{SqlError, SqlState};
use crate::sequences::Ranges;
use crate::stop::StatementStop;
use crate::types::TypeKind;

const CELL: u64 = 0x4651_4345_0000_0000;
const LIMIT_EXCEEDED: SqlState = SqlState::new(b"2200H");

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// The oid of the sequence.
    pub id: u32,
    /// The schema of the sequence.
    pub schema: String,
    /// The name of the sequence.
    pub name: String,
    /// The type: smallint, integer or bigint.
    pub kind: TypeKind,
    /// The first value.
    pub start: i64,
    /// The difference between values; not 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// The smallest number of values that are taken at once.
    pub cache: i64,
    /// CYCLE: the values restart after the last one.
    pub cycle: bool,
    /// The oid of the table that owns the sequence.
    pub owner: Option<u32>,
    /// The raw address of the cell.
    pub cell: u64,
}

/// The rule that determines the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The difference between values; not 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Whether the first value follows the last one.
    pub cycle: bool,
}

/// The current state of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// The last value, or the next one if it was not returned yet.
    pub value: i64,
    /// Whether `value` was returned by nextval.
    pub was_given: bool,
}

/// A range of values that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRange {
    /// The first value.
    pub first: i64,
    /// The number of values.
    pub count: u64,
    /// The rule for the further values.
    pub steps: Steps,
    /// The state of the sequence before.
    pub before: SequenceState,
}

impl Steps {
    /// Returns the value that follows `value`; `None` at the end.
    pub fn after(&self, value: i64) -> Option<i64> {
        let next = value.checked_add(self.increment);
        let next = next.filter(|next| (self.min..=self.max).contains(next));
        next.or_else(|| self.cycle.then(|| self.first()))
    }

    /// Returns the value with which a cycle begins.
    fn first(&self) -> i64 {
        match self.increment > 0 {
            true => self.min,
            false => self.max,
        }
    }

    /// Returns the number of values from `value` to the end, or to the end of a cycle.
    fn left(&self, value: i64) -> u64 {
        let end = match self.increment > 0 {
            true => self.max,
            false => self.min,
        };
        let steps = end.abs_diff(value) / self.increment.unsigned_abs();
        steps.saturating_add(1)
    }

    /// Returns the value that is `steps` steps after `value`.
    fn far(&self, value: i64, steps: u64) -> i64 {
        let left = self.left(value);
        let (from, steps) = match steps < left {
            true => (value, steps),
            false => (self.first(), (steps - left) % self.left(self.first())),
        };
        let far = i128::from(from) + i128::from(self.increment) * i128::from(steps);
        i64::try_from(far).unwrap_or(from)
    }
}

impl SequenceDef {
    /// Creates the cell of a new sequence.
    pub async fn create_cell(&mut self, tx: &mut Transaction) -> Result<(), StatementStop> {
        let cell = tx.alloc(3, ObjectLocation::Own).await?.addr;
        self.cell = cell.raw();
        let start = SequenceState {
            value: self.start,
            was_given: false,
        };
        self.write(tx, start, None).await
    }

    /// Creates a copy of the cell, which becomes the sequence's cell. Values that this machine has
    /// taken from the sequence but not returned are not taken from the copy.
    pub async fn copy_cell(
        &mut self,
        tx: &mut Transaction,
        ranges: &Ranges,
    ) -> Result<(), StatementStop> {
        let Some((cell, taker)) = self.read(tx).await? else {
            return Err(SqlError::internal("the sequence is gone").into());
        };
        let own = taker == Some(tx.machine().number());
        let reached = own.then(|| ranges.reached(self.id)).flatten();
        let reached = reached.unwrap_or(cell);
        self.cell = tx.alloc(3, ObjectLocation::Own).await?.addr.raw();
        self.write(tx, reached, None).await
    }

    /// Frees the cell.
    pub async fn free_cell(&self, tx: &mut Transaction) -> Result<(), StatementStop> {
        Ok(tx.free(Addr::from_raw(self.cell)).await?)
    }

    /// Returns the rule for the next value.
    pub fn steps(&self) -> Steps {
        Steps {
            increment: self.increment,
            min: self.min,
            max: self.max,
            cycle: self.cycle,
        }
    }

    /// Returns whether both sequences have the same values and the same CACHE.
    pub fn has_values_of(&self, other: &SequenceDef) -> bool {
        self.steps() == other.steps() && self.cache == other.cache && self.start == other.start
    }

    /// Checks a value for `setval`; 22003 if it is out of bounds.
    pub fn check_value(&self, value: i64) -> Result<(), SqlError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!(
                "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                self.name, self.min, self.max
            ),
        ))
    }

    /// Sets the state; returns false if `tx` does not see the sequence.
    pub async fn set(
        &self,
        tx: &mut Transaction,
        reached: SequenceState,
    ) -> Result<bool, StatementStop> {
        self.check_value(reached.value)?;
        if self.read(tx).await?.is_none() {
            return Ok(false);
        }
        self.write(tx, reached, None).await?;
        Ok(true)
    }

    /// Takes up to `count` values; `None` if `tx` does not see the sequence.
    ///
    /// # Errors
    /// 2200H if no value is left.
    pub async fn take(
        &self,
        tx: &mut Transaction,
        count: u64,
    ) -> Result<Option<ValueRange>, StatementStop> {
        let Some((before, _)) = self.read(tx).await? else {
            return Ok(None);
        };
        let steps = self.steps();
        let within = |value: &i64| (self.min..=self.max).contains(value);
        let first = match before.was_given {
            false => Some(before.value).filter(within),
            true => steps.after(before.value),
        };
        let first = first.ok_or_else(|| self.exhausted())?;
        let mut count = count.max(self.cache.unsigned_abs()).max(1);
        if !self.cycle {
            count = count.min(steps.left(first));
        }
        let last = SequenceState {
            value: steps.far(first, count - 1),
            was_given: true,
        };
        self.write(tx, last, Some(tx.machine().number())).await?;
        Ok(Some(ValueRange {
            first,
            count,
            steps,
            before,
        }))
    }

    /// Returns the last value that a machine has taken, and the number of that machine; `None` if
    /// `tx` does not see the sequence.
    pub async fn read(
        &self,
        tx: &mut Transaction,
    ) -> Result<Option<(SequenceState, Option<u32>)>, StatementStop> {
        let mut words = Vec::new();
        match tx.read(Addr::from_raw(self.cell), &mut words).await {
            Ok(true) => {}
            // The sequence does not exist yet, or was dropped.
            Ok(false) | Err(Stop::Damaged) => return Ok(None),
            Err(stop) => return Err(stop.into()),
        }
        match words[..] {
            [cell, last, given, ..] if cell == CELL | u64::from(self.id) => {
                let reached = SequenceState {
                    value: last as i64,
                    was_given: given & 1 != 0,
                };
                Ok(Some((reached, ((given >> 32) as u32).checked_sub(1))))
            }
            _ => Ok(None),
        }
    }

    /// Writes the cell, with the machine that has taken the values up to `reached`.
    async fn write(
        &self,
        tx: &mut Transaction,
        reached: SequenceState,
        taker: Option<u32>,
    ) -> Result<(), StatementStop> {
        let taker = taker.map_or(0, |machine| u64::from(machine) + 1);
        let given = u64::from(reached.was_given) | taker << 32;
        let words = [CELL | u64::from(self.id), reached.value as u64, given];
        Ok(tx.write(Addr::from_raw(self.cell), &words).await?)
    }

    /// Returns the error 2200H for a sequence without further values.
    pub fn exhausted(&self) -> SqlError {
        let (end, limit) = match self.increment > 0 {
            true => ("maximum", self.max),
            false => ("minimum", self.min),
        };
        SqlError::new(
            LIMIT_EXCEEDED,
            format!(
                "nextval: reached {end} value of sequence \"{}\" ({limit})",
                self.name
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycling_sequence_wraps_around() {
        let up = Steps {
            increment: 3,
            min: -2,
            max: 6,
            cycle: true,
        };
        let down = Steps {
            increment: -3,
            ..up
        };
        for (steps, from) in [(up, 0), (down, 5), (up, 6), (down, -2)] {
            let mut value = from;
            for count in 0..20 {
                assert_eq!(steps.far(from, count), value);
                value = steps.after(value).expect("a cycle has no end");
            }
        }
        let all = Steps {
            increment: i64::MAX,
            min: i64::MIN,
            max: i64::MAX,
            cycle: false,
        };
        assert_eq!(all.left(i64::MIN), 3);
        assert_eq!(all.far(i64::MIN, 2), i64::MAX - 1);
        assert_eq!(all.after(i64::MAX - 1), None);
    }
}
