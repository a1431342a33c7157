//! TABLESAMPLE: each row is selected independently with the same probability.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::hash_value;
use super::library::volatile;
use super::{ScalarFunction, mismatch};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Any, Bool, Float4, Float8};
use crate::value::Value;

/// The SQLSTATE `invalid_tablesample_argument`.
const INVALID_ARGUMENT: SqlState = SqlState::new(b"2202H");
/// The SQLSTATE `invalid_tablesample_repeat`.
const INVALID_REPEAT: SqlState = SqlState::new(b"2202G");

/// Decides at random whether a row is selected, given a percentage.
pub static SAMPLED: ScalarFunction = ScalarFunction {
    strict: false,
    ..volatile("tablesample", &[Float4], Bool, |args, cx| {
        Ok(Value::Bool(keeps(args.first(), cx.random_bits())?))
    })
};

/// Decides whether a row is selected, given a percentage, a seed and the row's values or key
/// (REPEATABLE). The result for a row is the same on every machine, until these values change.
pub static SAMPLED_AGAIN: ScalarFunction = ScalarFunction {
    strict: false,
    variadic: true,
    volatility: Volatility::Immutable,
    ..volatile("tablesample", &[Float4, Float8, Any], Bool, again)
};

fn again(args: &[Value], _: &EvalContext) -> Result<Value, SqlError> {
    let [percent, seed, row @ ..] = args else {
        return Err(mismatch("tablesample"));
    };
    let seed = match seed {
        Value::Float8(seed) => seed,
        Value::Null => {
            let message = "TABLESAMPLE REPEATABLE parameter cannot be null";
            return Err(SqlError::new(INVALID_REPEAT, message));
        }
        _ => return Err(mismatch("tablesample")),
    };
    let mut hasher = DefaultHasher::new();
    (seed + 0.0).to_bits().hash(&mut hasher);
    for value in row {
        hash_value(value, &mut hasher);
    }
    Ok(Value::Bool(keeps(Some(percent), hasher.finish())?))
}

/// Returns whether a random number selects the row.
///
/// # Errors
/// 2202H for an invalid percentage.
fn keeps(percent: Option<&Value>, throw: u64) -> Result<bool, SqlError> {
    /// 2^64, which is above every random number.
    const ALL: f64 = 18_446_744_073_709_551_616.0;
    match percent {
        Some(Value::Float4(percent)) if (0.0..=100.0).contains(percent) => {
            Ok((throw as f64) < ALL * f64::from(*percent) / 100.0 || *percent == 100.0)
        }
        Some(Value::Null) => {
            let message = "TABLESAMPLE parameter cannot be null";
            Err(SqlError::new(INVALID_ARGUMENT, message))
        }
        _ => {
            let message = "sample percentage must be between 0 and 100";
            Err(SqlError::new(INVALID_ARGUMENT, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn as_many_rows_stay_as_were_asked_for() {
        let cx = EvalContext::new(Arc::default(), 0, 1);
        for percent in [0.0f32, 10.0, 50.0, 100.0] {
            let kept = |seed: f64| -> Vec<bool> {
                let of = |row: i32| {
                    let args = [
                        Value::Float4(percent),
                        Value::Float8(seed),
                        Value::Int4(row),
                    ];
                    (SAMPLED_AGAIN.eval)(&args, &cx).expect("an answer") == Value::Bool(true)
                };
                (0..10_000).map(of).collect()
            };
            let (one, other) = (kept(1.0), kept(2.0));
            assert_eq!(one, kept(1.0));
            assert_eq!(one == other, percent == 0.0 || percent == 100.0);
            let count = one.iter().filter(|kept| **kept).count() as f32;
            // The tolerance is at most nine standard deviations.
            assert!(
                (count / 100.0 - percent).abs() < 4.5,
                "{count} of {percent}"
            );
        }
    }
}
