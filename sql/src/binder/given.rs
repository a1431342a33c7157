//! Columns whose values are not the client's to give: generated ones, and those of an IDENTITY.

use super::Binder;
use crate::catalog::{ColumnDef, Identity};
use crate::error::{SqlError, SqlState};

/// 428C9
const GENERATED_ALWAYS: SqlState = SqlState::new(b"428C9");

/// What an INSERT says about the values of identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overriding {
    /// Nothing.
    No,
    /// OVERRIDING SYSTEM VALUE: those that are given count.
    System,
    /// OVERRIDING USER VALUE: those of the sequence count.
    User,
}

impl Binder<'_> {
    /// What the statement says, in words that the parser of the rest does not see.
    pub(super) fn overriding(&self) -> Overriding {
        crate::parser::overriding(self.text).map_or(Overriding::No, |system| match system {
            true => Overriding::System,
            false => Overriding::User,
        })
    }
}

/// Is the value of `column` that an INSERT gives to count? An error where none may be given.
pub(super) fn takes_given(column: &ColumnDef, overriding: Overriding) -> Result<bool, SqlError> {
    let refused = |detail: String| {
        let message = format!(
            "cannot insert a non-DEFAULT value into column \"{}\"",
            column.name
        );
        SqlError::new(GENERATED_ALWAYS, message).detail(detail)
    };
    if column.more.generated.is_some() {
        return Err(refused(is_generated(column)));
    }
    match (column.more.identity, overriding) {
        (Some(_), Overriding::User) => Ok(false),
        (Some(Identity::Always), Overriding::No) => {
            Err(refused(is_always(column)).hint("Use OVERRIDING SYSTEM VALUE to override."))
        }
        _ => Ok(true),
    }
}

/// An error where an UPDATE may set `column` to nothing but its default.
pub(super) fn check_settable(column: &ColumnDef) -> Result<(), SqlError> {
    let detail = match (&column.more.generated, column.more.identity) {
        (Some(_), _) => is_generated(column),
        (None, Some(Identity::Always)) => is_always(column),
        _ => return Ok(()),
    };
    let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
    Err(SqlError::new(GENERATED_ALWAYS, message).detail(detail))
}

fn is_generated(column: &ColumnDef) -> String {
    format!("Column \"{}\" is a generated column.", column.name)
}

fn is_always(column: &ColumnDef) -> String {
    format!(
        "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
        column.name
    )
}
