//! The errors of ALTER TABLE for inherited columns and for columns of the partition key.

use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};

/// Checks that the column is not inherited from a partition's parent; 42P16 if it is.
pub(super) fn check_own(table: &TableDef, what: &str, column: &str) -> Result<(), SqlError> {
    match table.partition_of_table() {
        None => Ok(()),
        Some(_) => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("cannot {what} inherited column \"{column}\""),
        )),
    }
}

/// Returns the error 42P16 for an action on a column of the partition key.
pub(super) fn in_partition_key(table: &TableDef, what: &str, column: &str) -> SqlError {
    let message = format!(
        "cannot {what} column \"{column}\" because it is part of the partition key of \
         relation \"{}\"",
        table.name
    );
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}
