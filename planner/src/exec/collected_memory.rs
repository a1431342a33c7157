//! The memory of operators that collect rows: sorts, groups, the build side of a hash join.
//!
//! It counts against the memory limit, in steps of a megabyte, until the statement ends. A
//! statement that exceeds the limit gets 53200; other statements are not affected. An operator that
//! can write rows to a temporary file has a limit of its own besides, and is not refused.

use fencepost_sql::value::Value;
use fencepost_txn::Stop;

use super::batch::Batch;
use super::cx::Cx;

/// The growth in bytes after which the memory limit is charged again.
const STEP_BYTES: usize = 1 << 20;
/// Bytes of a hash table's entry besides its key.
const ENTRY_BYTES: usize = 64;

/// The memory that one operator has collected.
#[derive(Debug, Default)]
pub struct CollectedMemory {
    bytes: usize,
    counted: usize,
    /// The bytes above which the operator writes rows to a temporary file; `None` if it cannot.
    own_limit: Option<usize>,
    /// Whether the memory limit was reached.
    is_refused: bool,
}

impl CollectedMemory {
    /// Creates the memory of an operator that writes rows to a temporary file above `own_limit`
    /// bytes, or at the memory limit.
    pub fn limited(own_limit: usize) -> CollectedMemory {
        CollectedMemory {
            own_limit: Some(own_limit),
            ..CollectedMemory::default()
        }
    }

    /// Returns whether the operator must write rows to a temporary file.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_refused || self.own_limit.is_some_and(|limit| self.bytes > limit)
    }

    /// Adds the rows of `batch` from `from` on.
    pub fn add_rows(&mut self, cx: &mut Cx<'_>, batch: &Batch, from: usize) -> Result<(), Stop> {
        let rows = batch.len().saturating_sub(from);
        let fixed = rows * batch.width() * size_of::<Value>();
        let values = (from..batch.len()).flat_map(|row| batch.row(row));
        let apart: usize = values.map(Value::bytes_apart).sum();
        self.add(cx, fixed + apart)
    }

    /// Adds a row.
    pub fn add_row(&mut self, cx: &mut Cx<'_>, row: &[Value]) -> Result<(), Stop> {
        let apart: usize = row.iter().map(Value::bytes_apart).sum();
        self.add(cx, size_of_val(row) + apart)
    }

    /// Starts from zero. The memory that is already charged stays charged.
    pub fn restart(&mut self) {
        self.bytes = 0;
        self.is_refused = false;
    }

    /// Adds an entry of a hash table with a key of `key` bytes.
    pub fn add_entry(&mut self, cx: &mut Cx<'_>, key: usize) -> Result<(), Stop> {
        self.add(cx, key + ENTRY_BYTES)
    }

    /// Adds this number of bytes, which cannot be written to a temporary file.
    pub fn add_bytes(&mut self, cx: &mut Cx<'_>, bytes: usize) -> Result<(), Stop> {
        self.bytes += bytes;
        self.charge(cx)
    }

    fn add(&mut self, cx: &mut Cx<'_>, bytes: usize) -> Result<(), Stop> {
        self.bytes += bytes;
        match self.charge(cx) {
            Err(Stop::OutOfMemory) if self.own_limit.is_some() => {
                self.is_refused = true;
                Ok(())
            }
            charged => charged,
        }
    }

    fn charge(&mut self, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if self.bytes >= self.counted + STEP_BYTES {
            cx.tx.hold_memory(self.bytes - self.counted)?;
            cx.held += self.bytes - self.counted;
            self.counted = self.bytes;
        }
        Ok(())
    }
}
