//! The items that are measured.

/// A query, or statements, measured on each server.
#[derive(Clone, Debug)]
pub struct ComparedItem {
    /// The name in reports.
    pub name: String,
    /// Statements that run before each execution, and are not timed.
    pub before: Vec<String>,
    /// The timed work.
    pub work: MeasuredWork,
}

/// The timed work of an item.
#[derive(Clone, Debug)]
pub enum MeasuredWork {
    /// A query, which is parsed, planned and run, with all its rows.
    Query {
        /// The text.
        sql: String,
        /// The positions of the columns in ORDER BY. Rows that are equal in these columns have no
        /// order.
        order_columns: Vec<usize>,
    },
    /// Statements, one after the other.
    Statements {
        /// The texts.
        statements: Vec<String>,
        /// A query that is not timed. All servers must answer it equally afterwards.
        check: String,
    },
}
