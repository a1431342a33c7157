//! Bitwise operators on integers.

use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::error::SqlError;
use crate::types::TypeKind::{Int2, Int4, Int8};
use crate::value::Value;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("&", &[Int2, Int2], Int2, |a, _| both(a, |x, y| x & y)),
    pure("&", &[Int4, Int4], Int4, |a, _| both(a, |x, y| x & y)),
    pure("&", &[Int8, Int8], Int8, |a, _| both(a, |x, y| x & y)),
    pure("|", &[Int2, Int2], Int2, |a, _| both(a, |x, y| x | y)),
    pure("|", &[Int4, Int4], Int4, |a, _| both(a, |x, y| x | y)),
    pure("|", &[Int8, Int8], Int8, |a, _| both(a, |x, y| x | y)),
    pure("#", &[Int2, Int2], Int2, |a, _| both(a, |x, y| x ^ y)),
    pure("#", &[Int4, Int4], Int4, |a, _| both(a, |x, y| x ^ y)),
    pure("#", &[Int8, Int8], Int8, |a, _| both(a, |x, y| x ^ y)),
    pure("~", &[Int2], Int2, |a, _| inverted(a)),
    pure("~", &[Int4], Int4, |a, _| inverted(a)),
    pure("~", &[Int8], Int8, |a, _| inverted(a)),
    pure("<<", &[Int2, Int4], Int2, |a, _| shifted(a, true)),
    pure("<<", &[Int4, Int4], Int4, |a, _| shifted(a, true)),
    pure("<<", &[Int8, Int4], Int8, |a, _| shifted(a, true)),
    pure(">>", &[Int2, Int4], Int2, |a, _| shifted(a, false)),
    pure(">>", &[Int4, Int4], Int4, |a, _| shifted(a, false)),
    pure(">>", &[Int8, Int4], Int8, |a, _| shifted(a, false)),
];

/// Applies an operator to two integers. Both are sign-extended, so the result fits their type.
fn both(args: &[Value], f: fn(i64, i64) -> i64) -> Result<Value, SqlError> {
    match args {
        [Value::Int2(x), Value::Int2(y)] => Ok(Value::Int2(f((*x).into(), (*y).into()) as i16)),
        [Value::Int4(x), Value::Int4(y)] => Ok(Value::Int4(f((*x).into(), (*y).into()) as i32)),
        [Value::Int8(x), Value::Int8(y)] => Ok(Value::Int8(f(*x, *y))),
        _ => Err(mismatch("an operator on bits")),
    }
}

fn inverted(args: &[Value]) -> Result<Value, SqlError> {
    match args {
        [Value::Int2(x)] => Ok(Value::Int2(!x)),
        [Value::Int4(x)] => Ok(Value::Int4(!x)),
        [Value::Int8(x)] => Ok(Value::Int8(!x)),
        _ => Err(mismatch("an operator on bits")),
    }
}

/// Shifts an integer. As on the processor, only the lowest five bits of the count are used, six for
/// a bigint.
fn shifted(args: &[Value], left: bool) -> Result<Value, SqlError> {
    match args {
        [Value::Int2(x), Value::Int4(by)] => {
            let wide = i32::from(*x);
            let by = *by as u32;
            let moved = match left {
                true => wide.wrapping_shl(by),
                false => wide.wrapping_shr(by),
            };
            Ok(Value::Int2(moved as i16))
        }
        [Value::Int4(x), Value::Int4(by)] => Ok(Value::Int4(match left {
            true => x.wrapping_shl(*by as u32),
            false => x.wrapping_shr(*by as u32),
        })),
        [Value::Int8(x), Value::Int4(by)] => Ok(Value::Int8(match left {
            true => x.wrapping_shl(*by as u32),
            false => x.wrapping_shr(*by as u32),
        })),
        _ => Err(mismatch("an operator on bits")),
    }
}
