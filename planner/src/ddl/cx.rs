//! The context of a DDL statement: the catalog, and the notices for the client.

use fencepost_sql::catalog::{Catalog, Snapshot};
use fencepost_sql::error::{SqlError, SqlState};

/// A NOTICE or WARNING for the client.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// The message, with its SQLSTATE.
    pub report: SqlError,
}

impl Notice {
    /// Creates a notice.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> Notice {
        Notice {
            severity: "NOTICE",
            report: SqlError::new(sqlstate, message),
        }
    }

    /// Creates a warning.
    pub fn warning(sqlstate: SqlState, message: impl Into<String>) -> Notice {
        Notice::of_warning(SqlError::new(sqlstate, message))
    }

    /// Creates a warning with this report.
    pub fn of_warning(report: SqlError) -> Notice {
        Notice {
            severity: "WARNING",
            report,
        }
    }
}

/// The catalog in the context of one DDL statement.
pub struct DdlCx<'a> {
    /// The catalog that stores definitions.
    pub catalog: &'a Catalog,
    /// The definitions that the statement was bound with.
    pub snapshot: &'a Snapshot,
    /// The notices for the client.
    pub notices: &'a mut Vec<Notice>,
    /// The number of rows that the statement has created, if its command tag reports them.
    pub rows: Option<u64>,
    /// Fresh random bytes for a password.
    pub salt: [u8; 16],
}
