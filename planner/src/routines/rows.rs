//! The materialized rows of a routine's statement.
//!
//! All rows are read at once, so changes that the routine makes while it loops over them are not
//! visible, as with a PostgreSQL cursor. They count against the memory limit.

use fencepost_sql::error::SqlError;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::Stop;

use crate::exec::{CollectedMemory, Cx};
use crate::sink::RowSink;

/// Rows and their columns.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The names and types of the columns.
    pub columns: Vec<(String, Type)>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// For a cursor: the table that the rows belong to.
    pub of: Option<u32>,
    /// The addresses of the rows in that table.
    pub places: Vec<Value>,
    /// Whether the rows can be read backward.
    pub goes_back: bool,
}

/// A sink that collects rows.
#[derive(Debug, Default)]
pub struct RowsSink {
    pub rows: Vec<Vec<Value>>,
    gathered: CollectedMemory,
    counted: usize,
}

impl RowsSink {
    /// Charges the memory of the rows that were added since the last call.
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
