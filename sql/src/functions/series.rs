//! generate_series over numbers and timestamps.

use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use super::{decimal, interval};
use crate::error::{SqlError, SqlState};
use crate::value::{Interval, Value};

/// An iterator over the values of a generate_series.
#[derive(Clone, Debug)]
pub struct Series {
    next: Value,
    stop: Value,
    step: Value,
    /// The time zone in which days are added to a timestamptz.
    zone: TimeZone,
}

impl Series {
    /// Creates a series from its arguments: start, stop and an optional step, of one type. NULL
    /// gives no rows.
    pub fn new(args: &[Value], zone: &TimeZone) -> Result<Series, SqlError> {
        let (Some(start), Some(stop)) = (args.first(), args.get(1)) else {
            return Err(super::mismatch("generate_series"));
        };
        let step = match (args.get(2), start) {
            (Some(step), _) => step.clone(),
            (None, Value::Int4(_)) => Value::Int4(1),
            (None, Value::Int8(_)) => Value::Int8(1),
            (None, _) => Value::Numeric(Decimal::ONE),
        };
        let empty = [start, stop, &step].iter().any(|v| v.is_null());
        let none = match &step {
            Value::Numeric(step) => step.is_zero(),
            Value::Interval(step) => step.span() == 0,
            step => step.as_int() == Some(0),
        };
        if !empty && none {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "step size cannot equal zero",
            ));
        }
        Ok(Series {
            next: if empty { Value::Null } else { start.clone() },
            stop: stop.clone(),
            step,
            zone: zone.clone(),
        })
    }

    /// Returns the next value; `None` at the end.
    pub fn next_value(&mut self) -> Result<Option<Value>, SqlError> {
        let (value, following) = match (&self.next, &self.stop, &self.step) {
            (Value::Int4(next), Value::Int4(stop), Value::Int4(step)) => {
                if if *step > 0 { next > stop } else { next < stop } {
                    return Ok(None);
                }
                let following = next.checked_add(*step);
                (
                    Value::Int4(*next),
                    following.map_or(Value::Null, Value::Int4),
                )
            }
            (Value::Int8(next), Value::Int8(stop), Value::Int8(step)) => {
                if if *step > 0 { next > stop } else { next < stop } {
                    return Ok(None);
                }
                let following = next.checked_add(*step);
                (
                    Value::Int8(*next),
                    following.map_or(Value::Null, Value::Int8),
                )
            }
            (Value::Numeric(next), Value::Numeric(stop), Value::Numeric(step)) => {
                if if step.is_sign_positive() {
                    next > stop
                } else {
                    next < stop
                } {
                    return Ok(None);
                }
                let following = decimal::add(next, step)?;
                (Value::Numeric(*next), Value::Numeric(following))
            }
            (Value::Timestamp(next), Value::Timestamp(stop), Value::Interval(step)) => {
                if passed(*next, *stop, step) {
                    return Ok(None);
                }
                let following = interval::add_local(*next, step)?;
                (Value::Timestamp(*next), Value::Timestamp(following))
            }
            (Value::TimestampTz(next), Value::TimestampTz(stop), Value::Interval(step)) => {
                if passed(*next, *stop, step) {
                    return Ok(None);
                }
                let following = interval::add_zoned(*next, step, &self.zone)?;
                (Value::TimestampTz(*next), Value::TimestampTz(following))
            }
            (Value::Null, _, _) => return Ok(None),
            _ => return Err(super::mismatch("generate_series")),
        };
        self.next = following;
        Ok(Some(value))
    }
}

/// Returns whether a timestamp is beyond the end of a series.
fn passed(next: i64, stop: i64, step: &Interval) -> bool {
    if step.span() > 0 {
        next > stop
    } else {
        next < stop
    }
}
