//! The text form of boolean.

use crate::error::SqlError;
use crate::settings::parse_bool;

pub(super) fn parse(text: &str) -> Result<bool, SqlError> {
    parse_bool(text.trim_ascii()).ok_or_else(|| super::invalid_input("boolean", text))
}
