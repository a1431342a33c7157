//! Errors that several functions return.

use crate::error::{SqlError, SqlState};

/// Returns error XX000: a value does not have the type that the binder promised.
#[cold]
pub(crate) fn mismatch(what: &str) -> SqlError {
    SqlError::internal(format!("unexpected value type in {what}"))
}

/// Returns error 22003 for a type: `integer out of range`.
#[cold]
pub(super) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{type_name} out of range"),
    )
}

/// Returns error 22012.
#[cold]
pub(super) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}
