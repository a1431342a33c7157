//! oid: an unsigned integer of 32 bits, which text may give with a sign, as PostgreSQL reads it.

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

/// Names of catalog objects are found by casts, which know the catalog.
#[cold]
pub fn no_names(kind: TypeKind) -> SqlError {
    SqlError::unsupported(format!("a parameter of type {kind}"))
}
