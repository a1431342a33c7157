//! generate_series.

use fencepost_sql::bound::Expr;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::value::Value;
use rust_decimal::Decimal;

use super::cx::Cx;

/// A series under way. It ends where the next value would pass the stop, or overflow.
pub enum Series {
    /// No more values.
    Done,
    /// integer
    Int4 { next: i64, stop: i64, step: i64 },
    /// bigint
    Int8 { next: i128, stop: i128, step: i128 },
    /// numeric
    Numeric {
        next: Decimal,
        stop: Decimal,
        step: Decimal,
    },
}

impl Series {
    /// The series that `args` ask for.
    pub fn start(args: &[Expr], cx: &Cx<'_>) -> Result<Series, SqlError> {
        let mut values = Vec::with_capacity(3);
        for arg in args {
            values.push(cx.value(arg, &[])?);
        }
        let step = values.get(2);
        let series = match (&values[0], &values[1], step) {
            (Value::Int4(a), Value::Int4(b), step) => Series::Int4 {
                next: i64::from(*a),
                stop: i64::from(*b),
                step: step.map_or(Some(1), Value::as_int).unwrap_or(0),
            },
            (Value::Int8(a), Value::Int8(b), step) => Series::Int8 {
                next: i128::from(*a),
                stop: i128::from(*b),
                step: i128::from(step.map_or(Some(1), Value::as_int).unwrap_or(0)),
            },
            (Value::Numeric(a), Value::Numeric(b), step) => Series::Numeric {
                next: *a,
                stop: *b,
                step: match step {
                    None => Decimal::ONE,
                    Some(Value::Numeric(step)) => *step,
                    Some(_) => Decimal::ZERO,
                },
            },
            _ => return Ok(Series::Done),
        };
        if step.is_some_and(Value::is_null) {
            return Ok(Series::Done);
        }
        let stuck = match &series {
            Series::Done => false,
            Series::Int4 { step, .. } => *step == 0,
            Series::Int8 { step, .. } => *step == 0,
            Series::Numeric { step, .. } => step.is_zero(),
        };
        match stuck {
            true => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "step size cannot equal zero",
            )),
            false => Ok(series),
        }
    }

    /// The next value.
    pub fn next(&mut self) -> Option<Value> {
        let value = match self {
            Series::Done => None,
            Series::Int4 { next, stop, step } => {
                let inside = if *step > 0 { *next <= *stop } else { *next >= *stop };
                let value = i32::try_from(*next).ok().filter(|_| inside);
                *next += *step;
                value.map(Value::Int4)
            }
            Series::Int8 { next, stop, step } => {
                let inside = if *step > 0 { *next <= *stop } else { *next >= *stop };
                let value = i64::try_from(*next).ok().filter(|_| inside);
                *next += *step;
                value.map(Value::Int8)
            }
            Series::Numeric { next, stop, step } => {
                let rising = step.is_sign_positive();
                let inside = if rising { *next <= *stop } else { *next >= *stop };
                let value = *next;
                match next.checked_add(*step) {
                    Some(sum) => *next = sum,
                    None => *self = Series::Done,
                }
                inside.then_some(Value::Numeric(value))
            }
        };
        if value.is_none() {
            *self = Series::Done;
        }
        value
    }
}
