//! Variances and standard deviations of one variable, and statistics of two.
//!
//! Floats are accumulated by Youngs and Cramer's method, as in PostgreSQL, which keeps the rounding
//! error small. Other numbers are numerics, whose sums are exact.

use rust_decimal::Decimal;

use crate::bound::Statistic;
use crate::error::SqlError;
use crate::functions::decimal::{self, Sum};
use crate::functions::mismatch;
use crate::value::Value;

/// The accumulated input.
#[derive(Clone, Debug)]
pub(super) struct Stats {
    statistic: Statistic,
    input: Input,
}

#[derive(Clone, Debug)]
enum Input {
    /// Exact numbers: the count, the sum and the sum of the squares.
    Exact { count: i64, sum: Sum, squares: Sum },
    /// Floats: for each variable the sum and the sum of squared deviations from the mean. For two
    /// variables also the sum of the products of deviations.
    Floats {
        count: f64,
        x: f64,
        xx: f64,
        y: f64,
        yy: f64,
        xy: f64,
    },
}

impl Stats {
    pub(super) fn new(statistic: Statistic, floats: bool) -> Stats {
        let input = match floats {
            true => Input::Floats {
                count: 0.0,
                x: 0.0,
                xx: 0.0,
                y: 0.0,
                yy: 0.0,
                xy: 0.0,
            },
            false => Input::Exact {
                count: 0,
                sum: Sum::default(),
                squares: Sum::default(),
            },
        };
        Stats { statistic, input }
    }

    /// Adds one row's arguments, none of which is NULL.
    pub(super) fn add(&mut self, args: &[Value]) -> Result<(), SqlError> {
        match &mut self.input {
            Input::Exact {
                count,
                sum,
                squares,
            } => {
                let value = match args.first() {
                    Some(Value::Numeric(v)) => *v,
                    Some(v) => Decimal::from(v.as_int().ok_or_else(|| mismatch("a variance"))?),
                    None => return Err(mismatch("a variance")),
                };
                *count += 1;
                sum.add(&value)?;
                squares.add(&decimal::mul(&value, &value)?)
            }
            Input::Floats {
                count,
                x,
                xx,
                y,
                yy,
                xy,
            } => {
                let float = |value: Option<&Value>| match value {
                    Some(Value::Float8(v)) => Ok(*v),
                    _ => Err(mismatch("a variance")),
                };
                // As in PostgreSQL, the dependent variable is the first of two.
                let (new_x, new_y) = match args {
                    [one] => (float(Some(one))?, 0.0),
                    _ => (float(args.get(1))?, float(args.first())?),
                };
                *count += 1.0;
                *x += new_x;
                *y += new_y;
                if *count > 1.0 {
                    let from_x = new_x * *count - *x;
                    let from_y = new_y * *count - *y;
                    let scale = 1.0 / (*count * (*count - 1.0));
                    // For the same last digit as PostgreSQL, one variable divides and two variables
                    // multiply.
                    *xx += match args.len() {
                        1 => from_x * from_x / (*count * (*count - 1.0)),
                        _ => from_x * from_x * scale,
                    };
                    *yy += from_y * from_y * scale;
                    *xy += from_x * from_y * scale;
                }
                // The deviation of an infinite value from a mean is undefined.
                if !x.is_finite() {
                    (*xx, *xy) = (f64::NAN, f64::NAN);
                }
                if !y.is_finite() {
                    (*yy, *xy) = (f64::NAN, f64::NAN);
                }
                Ok(())
            }
        }
    }

    /// Returns the result; NULL if there are too few rows.
    pub(super) fn finish(self) -> Result<Value, SqlError> {
        match self.input {
            Input::Exact {
                count,
                sum,
                squares,
            } => exact(self.statistic, count, &sum, &squares),
            Input::Floats {
                count,
                x,
                xx,
                y,
                yy,
                xy,
            } => Ok(floats(self.statistic, count, (x, xx), (y, yy), xy)),
        }
    }
}

fn exact(statistic: Statistic, count: i64, sum: &Sum, squares: &Sum) -> Result<Value, SqlError> {
    let sample = matches!(statistic, Statistic::VarSamp | Statistic::StddevSamp);
    if count < 1 + i64::from(sample) {
        return Ok(Value::Null);
    }
    let n = Decimal::from(count);
    let sum = sum.total()?;
    let spread = decimal::sub(
        &decimal::mul(&n, &squares.total()?)?,
        &decimal::mul(&sum, &sum)?,
    )?;
    if spread.is_zero() || spread.is_sign_negative() {
        return Ok(Value::Numeric(Decimal::ZERO));
    }
    let other = match sample {
        true => Decimal::from(count - 1),
        false => n,
    };
    let variance = decimal::div(&spread, &decimal::mul(&n, &other)?)?;
    Ok(Value::Numeric(match statistic {
        Statistic::StddevPop | Statistic::StddevSamp => {
            decimal::sqrt_at(&variance, variance.scale())?
        }
        _ => variance,
    }))
}

fn floats(
    statistic: Statistic,
    count: f64,
    (x, xx): (f64, f64),
    (y, yy): (f64, f64),
    xy: f64,
) -> Value {
    use Statistic as S;
    let sample = matches!(statistic, S::VarSamp | S::StddevSamp | S::CovarSamp);
    if statistic == S::RegrCount {
        return Value::Int8(count as i64);
    }
    if count < if sample { 2.0 } else { 1.0 } {
        return Value::Null;
    }
    let found = match statistic {
        S::VarPop => xx / count,
        S::VarSamp => xx / (count - 1.0),
        S::StddevPop => (xx / count).sqrt(),
        S::StddevSamp => (xx / (count - 1.0)).sqrt(),
        S::CovarPop => xy / count,
        S::CovarSamp => xy / (count - 1.0),
        S::Corr if xx == 0.0 || yy == 0.0 => return Value::Null,
        S::Corr => xy / (xx * yy).sqrt(),
        S::RegrAvgX => x / count,
        S::RegrAvgY => y / count,
        S::RegrSxx => xx,
        S::RegrSyy => yy,
        S::RegrSxy => xy,
        S::RegrSlope | S::RegrIntercept | S::RegrR2 if xx == 0.0 => return Value::Null,
        S::RegrSlope => xy / xx,
        S::RegrIntercept => (y - x * xy / xx) / count,
        S::RegrR2 if yy == 0.0 => 1.0,
        S::RegrR2 => (xy * xy) / (xx * yy),
        S::RegrCount => count,
    };
    Value::Float8(found)
}
