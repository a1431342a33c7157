//! The destinations of results.

use fencepost_sql::error::SqlError;
use fencepost_sql::value::Value;
use fencepost_txn::Work;

/// The future of a flush.
pub type FlushFuture<'a> = Work<'a, Result<(), SqlError>>;

/// A destination for the rows of a result. Its errors end the statement, and the client gets them.
pub trait RowSink: Send {
    /// Accepts the next row.
    ///
    /// # Errors
    /// The implementation's own, such as 54000 for a row that is too large.
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError>;

    /// Accepts bytes of a COPY TO STDOUT.
    ///
    /// # Errors
    /// The implementation's own.
    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError>;

    /// Discards the rows of the current statement. Returns false if the client may have seen some
    /// of them.
    fn rewind(&mut self) -> bool;

    /// Returns whether the buffered output is large enough to be flushed.
    fn should_flush(&self) -> bool {
        false
    }

    /// Sends the buffered output. The statement waits for the future, so a slow client slows it.
    ///
    /// # Errors
    /// The implementation's own.
    fn flush(&mut self) -> FlushFuture<'_> {
        Box::pin(async { Ok(()) })
    }
}

/// A sink that keeps rows in memory.
#[derive(Debug, Default)]
pub struct MemorySink {
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// The bytes of COPY TO.
    pub data: Vec<u8>,
}

impl RowSink for MemorySink {
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.rows.push(row.to_vec());
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        self.data.extend_from_slice(data);
        Ok(())
    }

    fn rewind(&mut self) -> bool {
        self.rows.clear();
        self.data.clear();
        true
    }
}
