//! `+ - * / %` and unary minus on numbers and dates, with PostgreSQL's errors.

use super::{decimal, division_by_zero, mismatch, out_of_range};
use crate::bound::{ArithClass, ArithOp};
use crate::error::{SqlError, SqlState};
use crate::types::calendar::{DATE_MAX, DATE_MIN};
use crate::value::Value;

/// Applies an operator to two values of the class.
#[inline]
pub(super) fn apply(
    op: ArithOp,
    class: ArithClass,
    left: &Value,
    right: &Value,
) -> Result<Value, SqlError> {
    match (class, left, right) {
        (ArithClass::Int4, Value::Int4(a), Value::Int4(b)) => int4(op, *a, *b),
        (ArithClass::Int8, Value::Int8(a), Value::Int8(b)) => int8(op, *a, *b),
        (_, Value::Null, _) | (_, _, Value::Null) => Ok(Value::Null),
        (ArithClass::Int2, Value::Int2(a), Value::Int2(b)) => int2(op, *a, *b),
        (ArithClass::Numeric, Value::Numeric(a), Value::Numeric(b)) => match op {
            ArithOp::Add => decimal::add(a, b),
            ArithOp::Sub => decimal::sub(a, b),
            ArithOp::Mul => decimal::mul(a, b),
            ArithOp::Div => decimal::div(a, b),
            ArithOp::Mod => decimal::modulo(a, b),
        }
        .map(Value::Numeric),
        (ArithClass::Float8, Value::Float8(a), Value::Float8(b)) => {
            float8(op, *a, *b).map(Value::Float8)
        }
        (ArithClass::Float4, Value::Float4(a), Value::Float4(b)) => {
            float4(op, *a, *b).map(Value::Float4)
        }
        (ArithClass::DateDays, Value::Date(a), Value::Int4(b)) => date_days(op, *a, *b),
        (ArithClass::DateDiff, Value::Date(a), Value::Date(b)) => date_diff(*a, *b),
        _ => Err(mismatch("arithmetic")),
    }
}

fn int4(op: ArithOp, a: i32, b: i32) -> Result<Value, SqlError> {
    let result = match op {
        ArithOp::Add => a.checked_add(b),
        ArithOp::Sub => a.checked_sub(b),
        ArithOp::Mul => a.checked_mul(b),
        ArithOp::Div | ArithOp::Mod if b == 0 => return Err(division_by_zero()),
        ArithOp::Div => a.checked_div(b),
        ArithOp::Mod => Some(a.wrapping_rem(b)),
    };
    result
        .map(Value::Int4)
        .ok_or_else(|| out_of_range("integer"))
}

fn int8(op: ArithOp, a: i64, b: i64) -> Result<Value, SqlError> {
    let result = match op {
        ArithOp::Add => a.checked_add(b),
        ArithOp::Sub => a.checked_sub(b),
        ArithOp::Mul => a.checked_mul(b),
        ArithOp::Div | ArithOp::Mod if b == 0 => return Err(division_by_zero()),
        ArithOp::Div => a.checked_div(b),
        ArithOp::Mod => Some(a.wrapping_rem(b)),
    };
    result
        .map(Value::Int8)
        .ok_or_else(|| out_of_range("bigint"))
}

fn int2(op: ArithOp, a: i16, b: i16) -> Result<Value, SqlError> {
    let result = match op {
        ArithOp::Add => a.checked_add(b),
        ArithOp::Sub => a.checked_sub(b),
        ArithOp::Mul => a.checked_mul(b),
        ArithOp::Div | ArithOp::Mod if b == 0 => return Err(division_by_zero()),
        ArithOp::Div => a.checked_div(b),
        ArithOp::Mod => Some(a.wrapping_rem(b)),
    };
    result
        .map(Value::Int2)
        .ok_or_else(|| out_of_range("smallint"))
}

fn float8(op: ArithOp, a: f64, b: f64) -> Result<f64, SqlError> {
    let result = match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div | ArithOp::Mod if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        ArithOp::Div => a / b,
        ArithOp::Mod => return Err(mismatch("%")),
    };
    let may_vanish =
        matches!(op, ArithOp::Mul if b != 0.0) || matches!(op, ArithOp::Div if !b.is_infinite());
    check_float(
        result.is_infinite() && a.is_finite() && b.is_finite(),
        result == 0.0 && a != 0.0 && may_vanish,
    )?;
    Ok(result)
}

fn float4(op: ArithOp, a: f32, b: f32) -> Result<f32, SqlError> {
    let result = match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div | ArithOp::Mod if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        ArithOp::Div => a / b,
        ArithOp::Mod => return Err(mismatch("%")),
    };
    let may_vanish =
        matches!(op, ArithOp::Mul if b != 0.0) || matches!(op, ArithOp::Div if !b.is_infinite());
    check_float(
        result.is_infinite() && a.is_finite() && b.is_finite(),
        result == 0.0 && a != 0.0 && may_vanish,
    )?;
    Ok(result)
}

/// Checks the result of a float operation.
///
/// # Errors
/// 22003 if a finite operand overflowed to infinity or underflowed to zero.
pub(super) fn check_float(overflow: bool, underflow: bool) -> Result<(), SqlError> {
    let what = match (overflow, underflow) {
        (true, _) => "overflow",
        (_, true) => "underflow",
        _ => return Ok(()),
    };
    Err(SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value out of range: {what}"),
    ))
}

fn date_days(op: ArithOp, date: i32, days: i32) -> Result<Value, SqlError> {
    if date == i32::MIN || date == i32::MAX {
        return Ok(Value::Date(date));
    }
    let moved = match op {
        ArithOp::Add => date.checked_add(days),
        ArithOp::Sub => date.checked_sub(days),
        _ => return Err(mismatch("date arithmetic")),
    };
    moved
        .filter(|d| (DATE_MIN..=DATE_MAX).contains(d))
        .map(Value::Date)
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range"))
}

fn date_diff(a: i32, b: i32) -> Result<Value, SqlError> {
    if [a, b].iter().any(|d| *d == i32::MIN || *d == i32::MAX) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite dates",
        ));
    }
    a.checked_sub(b)
        .map(Value::Int4)
        .ok_or_else(|| out_of_range("integer"))
}

/// Negates a value (unary minus).
pub(super) fn negate(class: ArithClass, value: &Value) -> Result<Value, SqlError> {
    match (class, value) {
        (_, Value::Null) => Ok(Value::Null),
        (_, Value::Int2(v)) => v
            .checked_neg()
            .map(Value::Int2)
            .ok_or_else(|| out_of_range("smallint")),
        (_, Value::Int4(v)) => v
            .checked_neg()
            .map(Value::Int4)
            .ok_or_else(|| out_of_range("integer")),
        (_, Value::Int8(v)) => v
            .checked_neg()
            .map(Value::Int8)
            .ok_or_else(|| out_of_range("bigint")),
        (_, Value::Float4(v)) => Ok(Value::Float4(-v)),
        (_, Value::Float8(v)) => Ok(Value::Float8(-v)),
        (_, Value::Numeric(v)) => Ok(Value::Numeric(-*v)),
        _ => Err(mismatch("unary minus")),
    }
}
