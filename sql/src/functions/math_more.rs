//! More functions on numbers.

use super::library::pure;
use super::math_degrees::{HUGE, finite};
use super::{ScalarFunction, mismatch, out_of_range};
use crate::error::SqlError;
use crate::types::TypeKind::{Float8, Int4, Int8, Numeric};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("lcm", &[Int4, Int4], Int4, lcm),
    pure("lcm", &[Int8, Int8], Int8, lcm),
    pure("factorial", &[Int8], Numeric, factorial),
    pure("scale", &[Numeric], Int4, |a, _| match a {
        [Value::Numeric(v)] => Ok(Value::Int4(v.scale() as i32)),
        _ => Err(mismatch("scale")),
    }),
    pure("min_scale", &[Numeric], Int4, |a, _| match a {
        [Value::Numeric(v)] => Ok(Value::Int4(v.normalize().scale() as i32)),
        _ => Err(mismatch("min_scale")),
    }),
    pure("trim_scale", &[Numeric], Numeric, |a, _| match a {
        [Value::Numeric(v)] => Ok(Value::Numeric(v.normalize())),
        _ => Err(mismatch("trim_scale")),
    }),
    pure("width_bucket", &[Float8, Float8, Float8, Int4], Int4, width_bucket),
    pure("atan2", &[Float8, Float8], Float8, |a, _| floats(a, f64::atan2)),
    pure("sinh", &[Float8], Float8, |a, _| float(a, f64::sinh)),
    pure("cosh", &[Float8], Float8, |a, _| float(a, f64::cosh)),
    pure("tanh", &[Float8], Float8, |a, _| float(a, f64::tanh)),
    pure("asinh", &[Float8], Float8, |a, _| float(a, asinh)),
    pure("asin", &[Float8], Float8, |a, _| within(a, f64::asin)),
    pure("acos", &[Float8], Float8, |a, _| within(a, f64::acos)),
    pure("cot", &[Float8], Float8, |a, _| finite(a, |v| 1.0 / v.tan())),
];

/// Returns asinh. Of a huge number it is the logarithm of the doubled number.
fn asinh(v: f64) -> f64 {
    if v.abs() > HUGE {
        (v.abs().ln() + std::f64::consts::LN_2).copysign(v)
    } else {
        v.asinh()
    }
}

fn of_width(like: &Value, v: i64) -> Outcome {
    Ok(match like {
        Value::Int2(_) => Value::Int2(v as i16),
        Value::Int4(_) => Value::Int4(v as i32),
        _ => Value::Int8(v),
    })
}

fn lcm(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    let [a, b] = args else {
        return Err(mismatch("lcm"));
    };
    let (Some(x), Some(y)) = (a.as_int(), b.as_int()) else {
        return Err(mismatch("lcm"));
    };
    let (mut m, mut n) = (i128::from(x).abs(), i128::from(y).abs());
    if m == 0 || n == 0 {
        return of_width(a, 0);
    }
    let product = m * n;
    while n != 0 {
        (m, n) = (n, m % n);
    }
    let lcm = product / m;
    let (limit, name) = match a {
        Value::Int4(_) => (i128::from(i32::MAX), "integer"),
        _ => (i128::from(i64::MAX), "bigint"),
    };
    match i64::try_from(lcm) {
        Ok(lcm) if i128::from(lcm) <= limit => of_width(a, lcm),
        _ => Err(out_of_range(name)),
    }
}

fn factorial(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    let [Value::Int8(n)] = args else {
        return Err(mismatch("factorial"));
    };
    if *n < 0 {
        return Err(SqlError::new(
            crate::error::SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "factorial of a negative number is undefined",
        ));
    }
    let mut product = rust_decimal::Decimal::ONE;
    for factor in 2..=*n {
        product = super::decimal::mul(&product, &rust_decimal::Decimal::from(factor))?;
    }
    Ok(Value::Numeric(product))
}

fn width_bucket(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    let [
        Value::Float8(v),
        Value::Float8(low),
        Value::Float8(high),
        Value::Int4(count),
    ] = args
    else {
        return Err(mismatch("width_bucket"));
    };
    let refused = |message: &str| {
        Err(SqlError::new(
            crate::error::SqlState::new(b"2201G"),
            message,
        ))
    };
    if *count <= 0 {
        return refused("count must be greater than zero");
    }
    if v.is_nan() || low.is_nan() || high.is_nan() {
        return refused("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return refused("lower and upper bounds must be finite");
    }
    if low == high {
        return refused("lower bound cannot equal upper bound");
    }
    let (below, above) = match low < high {
        true => (v < low, v >= high),
        false => (v > low, v <= high),
    };
    Ok(Value::Int4(match (below, above) {
        (true, _) => 0,
        (_, true) => count
            .checked_add(1)
            .ok_or_else(|| out_of_range("integer"))?,
        // The quotient can round to 1.
        _ => ((f64::from(*count) * ((v - low) / (high - low))) as i32).min(count - 1) + 1,
    }))
}

fn float(args: &[Value], f: impl Fn(f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(v)] => Ok(Value::Float8(f(*v))),
        _ => Err(mismatch("a function on floats")),
    }
}

fn floats(args: &[Value], f: impl Fn(f64, f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(a), Value::Float8(b)] => Ok(Value::Float8(f(*a, *b))),
        _ => Err(mismatch("a function on floats")),
    }
}

/// Applies a function that is defined from -1 to 1.
fn within(args: &[Value], f: impl Fn(f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(v)] if v.abs() > 1.0 => Err(SqlError::new(
            crate::error::SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "input is out of range",
        )),
        _ => float(args, f),
    }
}
