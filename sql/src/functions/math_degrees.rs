//! Trigonometric functions in degrees, with exact results where they exist: `sind(30)` is one half.

use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::Float8;
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("sind", &[Float8], Float8, |a, _| finite(a, sine)),
    pure("cosd", &[Float8], Float8, |a, _| finite(a, cosine)),
    pure("tand", &[Float8], Float8, |a, _| finite(a, tangent)),
    pure("cotd", &[Float8], Float8, |a, _| finite(a, cotangent)),
    pure("asind", &[Float8], Float8, |a, _| within(a, arc_sine)),
    pure("acosd", &[Float8], Float8, |a, _| within(a, |v| 90.0 - arc_sine(v))),
    pure("atand", &[Float8], Float8, |a, _| float(a, arc_tangent)),
    pure("atan2d", &[Float8, Float8], Float8, arc_tangent_of_two),
    pure("acosh", &[Float8], Float8, |a, _| match a {
        [Value::Float8(v)] if *v < 1.0 => Err(out_of_range()),
        _ => float(a, acosh),
    }),
    pure("atanh", &[Float8], Float8, |a, _| match a {
        [Value::Float8(v)] if v.abs() > 1.0 => Err(out_of_range()),
        _ => float(a, f64::atanh),
    }),
];

fn out_of_range() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "input is out of range",
    )
}

fn float(args: &[Value], f: impl Fn(f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(v)] => Ok(Value::Float8(f(*v))),
        _ => Err(mismatch("a function on angles")),
    }
}

/// The least number of which asinh and acosh are the logarithm of the doubled number.
pub(super) const HUGE: f64 = 268_435_456.0;

fn acosh(v: f64) -> f64 {
    if v > HUGE {
        v.ln() + std::f64::consts::LN_2
    } else {
        v.acosh()
    }
}

/// Applies a function that is not defined for infinite angles.
pub(super) fn finite(args: &[Value], f: impl Fn(f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(v)] if v.is_infinite() => Err(out_of_range()),
        _ => float(args, f),
    }
}

/// Applies a function that is defined from -1 to 1.
fn within(args: &[Value], f: impl Fn(f64) -> f64) -> Outcome {
    match args {
        [Value::Float8(v)] if v.abs() > 1.0 => Err(out_of_range()),
        _ => float(args, f),
    }
}

/// Returns the sine of an angle up to 30 degrees, scaled so that the sine of 30 is one half.
fn small_sine(degrees: f64) -> f64 {
    degrees.to_radians().sin() / 30f64.to_radians().sin() / 2.0
}

/// Returns the cosine of an angle up to 60 degrees, scaled so that the cosine of 60 is one half.
fn small_cosine(degrees: f64) -> f64 {
    1.0 - (1.0 - degrees.to_radians().cos()) / (1.0 - 60f64.to_radians().cos()) / 2.0
}

/// Returns the sine of an angle from 0 to 90 degrees.
fn quarter_sine(degrees: f64) -> f64 {
    match degrees <= 30.0 {
        true => small_sine(degrees),
        false => small_cosine(90.0 - degrees),
    }
}

/// Returns the cosine of an angle from 0 to 90 degrees.
fn quarter_cosine(degrees: f64) -> f64 {
    match degrees <= 60.0 {
        true => small_cosine(degrees),
        false => small_sine(90.0 - degrees),
    }
}

/// Returns the angle of the first quadrant with the same sine and cosine except for their signs,
/// and the signs.
fn folded(degrees: f64) -> (f64, f64, f64) {
    let mut angle = degrees % 360.0;
    let mut sine_sign = 1.0;
    let mut cosine_sign = 1.0;
    if angle < 0.0 {
        angle = -angle;
        sine_sign = -sine_sign;
    }
    if angle > 180.0 {
        angle = 360.0 - angle;
        sine_sign = -sine_sign;
    }
    if angle > 90.0 {
        angle = 180.0 - angle;
        cosine_sign = -cosine_sign;
    }
    (angle, sine_sign, cosine_sign)
}

fn sine(degrees: f64) -> f64 {
    let (angle, sign, _) = folded(degrees);
    sign * quarter_sine(angle)
}

fn cosine(degrees: f64) -> f64 {
    let (angle, _, sign) = folded(degrees);
    sign * quarter_cosine(angle)
}

/// Replaces a negative zero by zero.
fn plain(v: f64) -> f64 {
    if v == 0.0 { 0.0 } else { v }
}

fn tangent(degrees: f64) -> f64 {
    let (angle, sine_sign, cosine_sign) = folded(degrees);
    let at_45 = quarter_sine(45.0) / quarter_cosine(45.0);
    let tangent = quarter_sine(angle) / quarter_cosine(angle) / at_45;
    plain(sine_sign * cosine_sign * tangent)
}

fn cotangent(degrees: f64) -> f64 {
    let (angle, sine_sign, cosine_sign) = folded(degrees);
    let at_45 = quarter_cosine(45.0) / quarter_sine(45.0);
    let cotangent = quarter_cosine(angle) / quarter_sine(angle) / at_45;
    plain(sine_sign * cosine_sign * cotangent)
}

/// Returns the arc sine, scaled so that it is 30 for one half and 90 for one.
fn arc_sine(v: f64) -> f64 {
    let positive = |v: f64| match v <= 0.5 {
        true => v.asin() / 0.5f64.asin() * 30.0,
        false => 90.0 - v.acos() / 0.5f64.acos() * 60.0,
    };
    if v < 0.0 { -positive(-v) } else { positive(v) }
}

/// Returns the arc tangent, scaled so that it is 45 for one.
fn arc_tangent(v: f64) -> f64 {
    v.atan() / 1f64.atan() * 45.0
}

fn arc_tangent_of_two(args: &[Value], _: &EvalContext) -> Outcome {
    match args {
        [Value::Float8(y), Value::Float8(x)] => Ok(Value::Float8(y.atan2(*x) / 1f64.atan() * 45.0)),
        _ => Err(mismatch("atan2d")),
    }
}
