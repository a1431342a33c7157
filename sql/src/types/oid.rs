//! oid: an unsigned 32-bit integer. As in PostgreSQL, its text form can have a sign.

use super::{TypeKind, invalid_input};
use crate::error::{SqlError, SqlState};

/// Reads an oid: -1 is 4294967295.
pub fn parse(text: &str) -> Result<u32, SqlError> {
    let trimmed = text.trim_ascii();
    let number: i128 = trimmed.parse().map_err(|_| invalid_input("oid", text))?;
    if let Ok(oid) = u32::try_from(number) {
        return Ok(oid);
    }
    match i32::try_from(number) {
        Ok(negative) => Ok(negative as u32),
        Err(_) => Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type oid"),
        )),
    }
}

/// Returns error 0A000 for a parameter of an object type. Only casts know the catalog and can
/// resolve names.
#[cold]
pub fn no_names(kind: TypeKind) -> SqlError {
    SqlError::unsupported(format!("a parameter of type {kind}"))
}
