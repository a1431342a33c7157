//! The rows of a statement of a routine, kept.
//!
//! They are taken all at once: what the routine changes while it goes through them is not among them, as a cursor of
//! PostgreSQL does not see it. They count against the memory limit.

use fencepost_sql::error::SqlError;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::Stop;

use crate::exec::{Cx, Gathered};
use crate::sink::RowSink;

/// Rows and their columns.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Names and types of the columns.
    pub columns: Vec<(String, Type)>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// Of a cursor: the table that they are rows of.
    pub of: Option<u32>,
    /// And their places there.
    pub places: Vec<Value>,
    /// They can be read backward, too.
    pub goes_back: bool,
}

/// Takes rows.
#[derive(Debug, Default)]
pub struct RowsSink {
    pub rows: Vec<Vec<Value>>,
    gathered: Gathered,
    counted: usize,
}

impl RowsSink {
    /// Counts what has come since it was asked last.
    pub fn count(&mut self, cx: &mut Cx<'_>) -> Result<(), Stop> {
        for row in &self.rows[self.counted..] {
            self.gathered.add_row(cx, row)?;
        }
        self.counted = self.rows.len();
        Ok(())
    }
}

impl RowSink for RowsSink {
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.rows.push(row.to_vec());
        Ok(())
    }

    fn copy_data(&mut self, _: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::internal("COPY within a function"))
    }

    fn rewind(&mut self) -> bool {
        false
    }
}
