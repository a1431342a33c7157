//! Sequences: their definitions, and the objects that hold how far they are.
//!
//! ```text
//! cell   [CELL | oid, last value, 1 once it was given]
//! ```
//! A machine takes values from the cell a range at a time, in transactions of their own, so that nobody waits for
//! anybody's commit; what is left of a range when its machine ends is never given. `setval` on one machine does not
//! reach the ranges that others have, as with PostgreSQL's CACHE.

use fencepost_storage::Addr;
use fencepost_txn::{Near, Stop, Transaction};

use crate::error::{SqlError, SqlState};
use crate::stop::Halt;
use crate::types::TypeKind;

const CELL: u64 = 0x4651_4345_0000_0000;
const LIMIT_EXCEEDED: SqlState = SqlState::new(b"2200H");

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// Its oid.
    pub id: u32,
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// smallint, integer or bigint.
    pub kind: TypeKind,
    /// The first value.
    pub start: i64,
    /// From value to value; not 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Values that are taken at once, at least.
    pub cache: i64,
    /// It begins anew at its end.
    pub cycle: bool,
    /// The table that it goes with.
    pub owner: Option<u32>,
    /// The raw address of its cell.
    pub cell: u64,
}

/// Values that were taken: so many, from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first value.
    pub first: i64,
    /// How many.
    pub count: u64,
}

impl SequenceDef {
    /// Makes the cell of a new sequence.
    pub async fn create_cell(&mut self, tx: &mut Transaction) -> Result<(), Halt> {
        let cell = tx.alloc(3, Near::Own).await?.addr;
        self.cell = cell.raw();
        self.write(tx, self.start, false).await
    }

    /// Makes a cell that is as far as the sequence's own, and is that from now on. Of what was taken last, what is
    /// `unused` (the next value, and the last one) is not taken of the copy.
    pub async fn copy_cell(
        &mut self,
        tx: &mut Transaction,
        unused: Option<(i64, i64)>,
    ) -> Result<(), Halt> {
        let Some((mut last, mut given)) = self.read(tx).await? else {
            return Err(SqlError::internal("the sequence is gone").into());
        };
        if let Some((next, end)) = unused
            && given
            && end == last
        {
            (last, given) = (next, false);
        }
        self.cell = tx.alloc(3, Near::Own).await?.addr.raw();
        self.write(tx, last, given).await
    }

    /// Frees the cell.
    pub async fn free_cell(&self, tx: &mut Transaction) -> Result<(), Halt> {
        Ok(tx.free(Addr::from_raw(self.cell)).await?)
    }

    /// Sets the last value; the next one is that itself unless it `was_given`.
    pub async fn set(
        &self,
        tx: &mut Transaction,
        value: i64,
        was_given: bool,
    ) -> Result<bool, Halt> {
        if value < self.min || value > self.max {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                    self.name, self.min, self.max
                ),
            )
            .into());
        }
        if self.read(tx).await?.is_none() {
            return Ok(false);
        }
        self.write(tx, value, was_given).await?;
        Ok(true)
    }

    /// Takes up to `count` values; `None` where `tx` does not see the sequence.
    pub async fn take(&self, tx: &mut Transaction, count: u64) -> Result<Option<Taken>, Halt> {
        let Some((last, was_given)) = self.read(tx).await? else {
            return Ok(None);
        };
        let next = match was_given {
            false => Some(last),
            true => last.checked_add(self.increment),
        };
        let within = |value: &i64| (self.min..=self.max).contains(value);
        let first = match next.filter(within) {
            Some(next) => next,
            None if self.cycle && self.increment > 0 => self.min,
            None if self.cycle => self.max,
            None => return Err(self.exhausted().into()),
        };
        let end = if self.increment > 0 {
            self.max
        } else {
            self.min
        };
        let room = end.abs_diff(first) / self.increment.unsigned_abs() + 1;
        let count = count.max(self.cache.unsigned_abs()).clamp(1, room);
        let steps = i64::try_from(count - 1).unwrap_or(0);
        let last = first.saturating_add(steps.saturating_mul(self.increment));
        self.write(tx, last, true).await?;
        Ok(Some(Taken { first, count }))
    }

    /// The last value that a machine has taken, and whether it was given; `None` where `tx` does not see the sequence.
    pub async fn read(&self, tx: &mut Transaction) -> Result<Option<(i64, bool)>, Halt> {
        let mut words = Vec::new();
        match tx.read(Addr::from_raw(self.cell), &mut words).await {
            Ok(true) => {}
            // Not yet, or no more.
            Ok(false) | Err(Stop::Damaged) => return Ok(None),
            Err(stop) => return Err(stop.into()),
        }
        match words[..] {
            [cell, last, given, ..] if cell == CELL | u64::from(self.id) => {
                Ok(Some((last as i64, given != 0)))
            }
            _ => Ok(None),
        }
    }

    async fn write(&self, tx: &mut Transaction, last: i64, given: bool) -> Result<(), Halt> {
        let words = [CELL | u64::from(self.id), last as u64, u64::from(given)];
        Ok(tx.write(Addr::from_raw(self.cell), &words).await?)
    }

    fn exhausted(&self) -> SqlError {
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
