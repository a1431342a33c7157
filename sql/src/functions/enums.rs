//! `enum_range` with two bounds; the binder replaces its other forms by constants.

use super::{ScalarFunction, compare, mismatch};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind::{Any, AnyArray};
use crate::value::{Array, Value};

/// `enum_range(lower, upper)`. The array of all values precedes these arguments; a NULL bound is
/// unbounded.
pub static ENUM_RANGE: ScalarFunction = ScalarFunction {
    name: "enum_range",
    args: &[Any],
    variadic: true,
    result: AnyArray,
    strict: false,
    volatility: Volatility::Immutable,
    eval: range,
    wait: None,
};

fn range(args: &[Value], _: &EvalContext) -> Result<Value, SqlError> {
    let [Value::Array(all), lower, upper] = args else {
        return Err(mismatch("enum_range"));
    };
    let within = |value: &&Value| {
        (lower.is_null() || compare(value, lower).is_ge())
            && (upper.is_null() || compare(value, upper).is_le())
    };
    let values = all.values.iter().filter(within).cloned();
    Ok(Array::of(values.collect()).into())
}
