//! The errors of ALTER TABLE for inherited columns, for columns of the partition key, and for
//! columns on which others depend.

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

/// Returns the error 2BP01 for the drop of a column on which `object` depends.
pub(super) fn depended_on(table: &TableDef, column: &str, object: &str) -> SqlError {
    let table = &table.name;
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop column {column} of table {table} because other objects depend on it"),
    )
    .detail(format!(
        "{object} depends on column {column} of table {table}"
    ))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
