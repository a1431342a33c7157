//! Functions on numbers.

use super::arith::check_float;
use super::division_by_zero;
use super::library::{pure, volatile};
use super::math_degrees::finite;
use super::{ScalarFunction, decimal, mismatch, out_of_range};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Float4, Float8, Int2, Int4, Int8, Numeric, Void};
use crate::types::numeric;
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("abs", &[Int2], Int2, abs),
    pure("abs", &[Int4], Int4, abs),
    pure("abs", &[Int8], Int8, abs),
    pure("abs", &[Float4], Float4, abs),
    pure("abs", &[Float8], Float8, abs),
    pure("abs", &[Numeric], Numeric, abs),
    pure("ceil", &[Numeric], Numeric, |a, _| toward(a, true)),
    pure("ceil", &[Float8], Float8, |a, _| float(a, f64::ceil)),
    pure("ceiling", &[Numeric], Numeric, |a, _| toward(a, true)),
    pure("ceiling", &[Float8], Float8, |a, _| float(a, f64::ceil)),
    pure("floor", &[Numeric], Numeric, |a, _| toward(a, false)),
    pure("floor", &[Float8], Float8, |a, _| float(a, f64::floor)),
    pure("round", &[Numeric], Numeric, |a, _| rounded(a, numeric::round)),
    pure("round", &[Numeric, Int4], Numeric, |a, _| rounded(a, numeric::round)),
    pure("round", &[Float8], Float8, |a, _| float(a, f64::round_ties_even)),
    pure("trunc", &[Numeric], Numeric, |a, _| rounded(a, numeric::trunc)),
    pure("trunc", &[Numeric, Int4], Numeric, |a, _| rounded(a, numeric::trunc)),
    pure("trunc", &[Float8], Float8, |a, _| float(a, f64::trunc)),
    pure("sign", &[Numeric], Numeric, sign),
    pure("sign", &[Float8], Float8, sign),
    pure("mod", &[Int2, Int2], Int2, modulo),
    pure("mod", &[Int4, Int4], Int4, modulo),
    pure("mod", &[Int8, Int8], Int8, modulo),
    pure("mod", &[Numeric, Numeric], Numeric, modulo),
    pure("div", &[Numeric, Numeric], Numeric, whole_quotient),
    pure("gcd", &[Int4, Int4], Int4, gcd),
    pure("gcd", &[Int8, Int8], Int8, gcd),
    pure("sqrt", &[Numeric], Numeric, sqrt),
    pure("sqrt", &[Float8], Float8, sqrt),
    pure("cbrt", &[Float8], Float8, |a, _| float(a, f64::cbrt)),
    pure("power", &[Float8, Float8], Float8, power),
    pure("power", &[Numeric, Numeric], Numeric, power),
    pure("pow", &[Float8, Float8], Float8, power),
    pure("pow", &[Numeric, Numeric], Numeric, power),
    pure("exp", &[Float8], Float8, |a, _| float(a, f64::exp)),
    pure("exp", &[Numeric], Numeric, |_, _| Err(SqlError::unsupported("exp of a numeric"))),
    pure("ln", &[Float8], Float8, |a, _| logarithm(a, f64::ln)),
    pure("ln", &[Numeric], Numeric, |_, _| Err(SqlError::unsupported("ln of a numeric"))),
    pure("log", &[Float8], Float8, |a, _| logarithm(a, f64::log10)),
    pure("log", &[Numeric], Numeric, |_, _| Err(SqlError::unsupported("log of a numeric"))),
    pure("log", &[Numeric, Numeric], Numeric,
        |_, _| Err(SqlError::unsupported("log of a numeric"))),
    pure("log10", &[Float8], Float8, |a, _| logarithm(a, f64::log10)),
    pure("pi", &[], Float8, |_, _| Ok(Value::Float8(std::f64::consts::PI))),
    pure("sin", &[Float8], Float8, |a, _| finite(a, f64::sin)),
    pure("cos", &[Float8], Float8, |a, _| finite(a, f64::cos)),
    pure("tan", &[Float8], Float8, |a, _| finite(a, f64::tan)),
    pure("atan", &[Float8], Float8, |a, _| float(a, f64::atan)),
    pure("degrees", &[Float8], Float8, |a, _| float(a, f64::to_degrees)),
    pure("radians", &[Float8], Float8, |a, _| float(a, f64::to_radians)),
    pure("scale", &[Numeric], Int4, |a, _| match a {
        [Value::Numeric(v)] => Ok(Value::Int4(v.scale() as i32)),
        _ => Err(mismatch("scale")),
    }),
    volatile("random", &[], Float8, |_, cx| {
        // With 53 bits, the floats in [0, 1) are evenly spaced.
        Ok(Value::Float8((cx.random_bits() >> 11) as f64 / (1u64 << 53) as f64))
    }),
    volatile("setseed", &[Float8], Void, |a, cx| match a {
        [Value::Float8(seed)] if (-1.0..=1.0).contains(seed) => {
            cx.seed_random(seed.to_bits());
            Ok(Value::Null)
        }
        [Value::Float8(seed)] => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("setseed parameter {seed} is out of allowed range [-1,1]"),
        )),
        _ => Err(mismatch("setseed")),
    }),
];

fn abs(args: &[Value], _: &EvalContext) -> Outcome {
    match args {
        [Value::Int2(v)] => v
            .checked_abs()
            .map(Value::Int2)
            .ok_or_else(|| out_of_range("smallint")),
        [Value::Int4(v)] => v
            .checked_abs()
            .map(Value::Int4)
            .ok_or_else(|| out_of_range("integer")),
        [Value::Int8(v)] => v
            .checked_abs()
            .map(Value::Int8)
            .ok_or_else(|| out_of_range("bigint")),
        [Value::Float4(v)] => Ok(Value::Float4(v.abs())),
        [Value::Float8(v)] => Ok(Value::Float8(v.abs())),
        [Value::Numeric(v)] => Ok(Value::Numeric(v.abs())),
        _ => Err(mismatch("abs")),
    }
}

fn float(args: &[Value], f: fn(f64) -> f64) -> Outcome {
    let [Value::Float8(v)] = args else {
        return Err(mismatch("a float function"));
    };
    let result = f(*v);
    check_float(result.is_infinite() && v.is_finite(), false)?;
    Ok(Value::Float8(result))
}

fn logarithm(args: &[Value], f: fn(f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(v)] if *v == 0.0 => Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_LOG,
            "cannot take logarithm of zero",
        )),
        [Value::Float8(v)] if *v < 0.0 => Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_LOG,
            "cannot take logarithm of a negative number",
        )),
        _ => float(args, f),
    }
}

/// Evaluates ceil (`up`) or floor of a numeric.
fn toward(args: &[Value], up: bool) -> Outcome {
    let [Value::Numeric(v)] = args else {
        return Err(mismatch("ceil"));
    };
    let whole = numeric::trunc(v, 0)?;
    let one = rust_decimal::Decimal::ONE;
    let moved = if up && whole < *v {
        decimal::add(&whole, &one)?
    } else if !up && whole > *v {
        decimal::sub(&whole, &one)?
    } else {
        whole
    };
    Ok(Value::Numeric(moved))
}

type Rescale = fn(&rust_decimal::Decimal, i32) -> Result<rust_decimal::Decimal, SqlError>;

fn rounded(args: &[Value], f: Rescale) -> Outcome {
    match args {
        [Value::Numeric(v)] => f(v, 0).map(Value::Numeric),
        [Value::Numeric(v), Value::Int4(scale)] => f(v, *scale).map(Value::Numeric),
        _ => Err(mismatch("round")),
    }
}

fn sign(args: &[Value], _: &EvalContext) -> Outcome {
    match args {
        [Value::Numeric(v)] => Ok(Value::Numeric(v.mantissa().signum().into())),
        [Value::Float8(v)] if *v == 0.0 || v.is_nan() => Ok(Value::Float8(0.0)),
        [Value::Float8(v)] => Ok(Value::Float8(v.signum())),
        _ => Err(mismatch("sign")),
    }
}

fn modulo(args: &[Value], _: &EvalContext) -> Outcome {
    match args {
        [_, b] if b.as_int() == Some(0) => Err(division_by_zero()),
        [Value::Int2(a), Value::Int2(b)] => Ok(Value::Int2(a.wrapping_rem(*b))),
        [Value::Int4(a), Value::Int4(b)] => Ok(Value::Int4(a.wrapping_rem(*b))),
        [Value::Int8(a), Value::Int8(b)] => Ok(Value::Int8(a.wrapping_rem(*b))),
        [Value::Numeric(a), Value::Numeric(b)] => decimal::modulo(a, b).map(Value::Numeric),
        _ => Err(mismatch("mod")),
    }
}

fn whole_quotient(args: &[Value], _: &EvalContext) -> Outcome {
    let [Value::Numeric(a), Value::Numeric(b)] = args else {
        return Err(mismatch("div"));
    };
    let rest = decimal::modulo(a, b)?;
    let whole = decimal::div(&decimal::sub(a, &rest)?, b)?;
    numeric::round(&whole, 0).map(Value::Numeric)
}

fn gcd(args: &[Value], _: &EvalContext) -> Outcome {
    let (Some(a), Some(b)) = (args[0].as_int(), args[1].as_int()) else {
        return Err(mismatch("gcd"));
    };
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    match args[0] {
        Value::Int4(_) => i32::try_from(a)
            .map(Value::Int4)
            .map_err(|_| out_of_range("integer")),
        _ => i64::try_from(a)
            .map(Value::Int8)
            .map_err(|_| out_of_range("bigint")),
    }
}

fn sqrt(args: &[Value], _: &EvalContext) -> Outcome {
    let negative = || {
        SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER,
            "cannot take square root of a negative number",
        )
    };
    match args {
        [Value::Float8(v)] if *v < 0.0 => Err(negative()),
        [Value::Float8(v)] => Ok(Value::Float8(v.sqrt())),
        [Value::Numeric(v)] if v.is_sign_negative() && !v.is_zero() => Err(negative()),
        [Value::Numeric(v)] => decimal::sqrt(v).map(Value::Numeric),
        _ => Err(mismatch("sqrt")),
    }
}

fn power(args: &[Value], _: &EvalContext) -> Outcome {
    match args {
        [Value::Float8(base), Value::Float8(exponent)] => {
            let refused = |m| SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, m);
            if *base == 0.0 && *exponent < 0.0 {
                return Err(refused("zero raised to a negative power is undefined"));
            }
            if *base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
                return Err(refused(
                    "a negative number raised to a non-integer power yields a complex result",
                ));
            }
            let result = base.powf(*exponent);
            let finite = base.is_finite() && exponent.is_finite();
            check_float(
                finite && result.is_infinite(),
                finite && result == 0.0 && *base != 0.0,
            )?;
            Ok(Value::Float8(result))
        }
        [Value::Numeric(base), Value::Numeric(exponent)] => {
            decimal::power(base, exponent).map(Value::Numeric)
        }
        _ => Err(mismatch("power")),
    }
}
