//! Columns to which a client may not assign a value: generated columns and identity columns.

use super::Binder;
use crate::catalog::{ColumnDef, Identity};
use crate::error::{SqlError, SqlState};

/// The SQLSTATE for a value assigned to a GENERATED ALWAYS column.
const GENERATED_ALWAYS: SqlState = SqlState::new(b"428C9");

/// The OVERRIDING clause of an INSERT, which concerns the values of identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overriding {
    /// No OVERRIDING clause.
    No,
    /// OVERRIDING SYSTEM VALUE: the values of the statement are used.
    System,
    /// OVERRIDING USER VALUE: the values of the sequence are used.
    User,
}

impl Binder<'_> {
    /// Returns the OVERRIDING clause. It is read from the text, because sqlparser does not parse
    /// it.
    pub(super) fn overriding(&self) -> Overriding {
        crate::parser::overriding(self.text).map_or(Overriding::No, |system| match system {
            true => Overriding::System,
            false => Overriding::User,
        })
    }
}

/// Returns whether INSERT uses the value that the statement gives for `column`; an error if none is
/// allowed.
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

/// Checks that an UPDATE may set `column`; an error if only DEFAULT is allowed.
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
