//! generate_series over numbers.

use rust_decimal::Decimal;

use super::decimal;
use crate::error::{SqlError, SqlState};
use crate::value::Value;

/// The values of a generate_series, made as they are asked for.
#[derive(Clone, Debug)]
pub struct Series {
    next: Value,
    stop: Value,
    step: Value,
}

impl Series {
    /// A series from its arguments: start, stop and maybe step, of one type. NULL gives no rows.
    pub fn new(args: &[Value]) -> Result<Series, SqlError> {
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
        if !empty && (step.as_int() == Some(0) || step == Value::Numeric(Decimal::ZERO)) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "step size cannot equal zero",
            ));
        }
        Ok(Series {
            next: if empty { Value::Null } else { start.clone() },
            stop: stop.clone(),
            step,
        })
    }

    /// The next value.
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
            (Value::Null, _, _) => return Ok(None),
            _ => return Err(super::mismatch("generate_series")),
        };
        self.next = following;
        Ok(Some(value))
    }
}
