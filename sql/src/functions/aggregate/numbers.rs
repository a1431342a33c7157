//! Updates of accumulators with numbers that are not values yet.

use super::{Accumulator, State, mismatch, out_of_range};
use crate::error::SqlError;
use crate::value::Value;

impl Accumulator {
    /// Counts this number of rows, for `count`.
    ///
    /// # Errors
    /// 22003 if there are too many.
    pub fn add_rows(&mut self, rows: usize) -> Result<(), SqlError> {
        let State::Count(count) = &mut self.state else {
            return Err(mismatch("count"));
        };
        let rows = i64::try_from(rows).ok();
        *count = rows
            .and_then(|rows| count.checked_add(rows))
            .ok_or_else(|| out_of_range("bigint"))?;
        Ok(())
    }

    /// Adds an integer that is not NULL, for `sum` and `avg`.
    ///
    /// # Errors
    /// Those of the aggregate.
    #[inline]
    pub fn add_integer(&mut self, value: i64) -> Result<(), SqlError> {
        match &mut self.state {
            State::SumInt { total, seen } => {
                *total = total
                    .checked_add(value)
                    .ok_or_else(|| out_of_range("bigint"))?;
                *seen = true;
                Ok(())
            }
            _ => self.add_number(i128::from(value), 0),
        }
    }

    /// Adds a numeric that is not NULL, by its digits and its number of decimal places, for `sum`
    /// and `avg`.
    ///
    /// # Errors
    /// Those of the aggregate.
    #[inline]
    pub fn add_number(&mut self, digits: i128, scale: u32) -> Result<(), SqlError> {
        match &mut self.state {
            State::SumNumeric { sum, seen } => {
                *seen = true;
                sum.add_parts(digits, scale)
            }
            State::AvgNumeric { sum, count } => {
                *count += 1;
                sum.add_parts(digits, scale)
            }
            _ => Err(mismatch("a sum")),
        }
    }

    /// Adds the only argument of an aggregate without ORDER BY and DISTINCT.
    ///
    /// # Errors
    /// Those of the aggregate.
    #[inline]
    pub fn add_value(&mut self, value: &Value) -> Result<(), SqlError> {
        self.add(std::slice::from_ref(value))
    }
}
