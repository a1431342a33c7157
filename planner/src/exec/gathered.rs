//! Memory that operators gather: sorts, groups, the build side of a join.
//!
//! It counts against the memory limit, a megabyte at a time, until the statement ends: a statement that
//! asks for more than there is gets 53200 and nothing else suffers.

use fencepost_sql::value::Value;
use fencepost_txn::Stop;

use super::batch::Batch;
use super::cx::Cx;

/// What is gathered before it is counted again.
const STEP_BYTES: usize = 1 << 20;
/// Bytes of a hash table's entry beside its key.
const ENTRY_BYTES: usize = 64;

/// What one operator has gathered.
#[derive(Debug, Default)]
pub struct Gathered {
    bytes: usize,
    counted: usize,
}

impl Gathered {
    /// The rows of `batch` from `from` on were added.
    pub fn add_rows(&mut self, cx: &mut Cx<'_>, batch: &Batch, from: usize) -> Result<(), Stop> {
        let rows = batch.len().saturating_sub(from);
        let fixed = rows * batch.width() * size_of::<Value>();
        let values = (from..batch.len()).flat_map(|row| batch.row(row));
        let apart: usize = values.map(Value::bytes_apart).sum();
        self.add(cx, fixed + apart)
    }

    /// A row was added.
    pub fn add_row(&mut self, cx: &mut Cx<'_>, row: &[Value]) -> Result<(), Stop> {
        let apart: usize = row.iter().map(Value::bytes_apart).sum();
        self.add(cx, size_of_val(row) + apart)
    }

    /// What was gathered is gone, and room for as much stays counted.
    pub fn restart(&mut self) {
        self.bytes = 0;
    }

    /// An entry under a key of `key` bytes was added to a hash table.
    pub fn add_entry(&mut self, cx: &mut Cx<'_>, key: usize) -> Result<(), Stop> {
        self.add(cx, key + ENTRY_BYTES)
    }

    /// So many bytes were added.
    pub fn add_bytes(&mut self, cx: &mut Cx<'_>, bytes: usize) -> Result<(), Stop> {
        self.add(cx, bytes)
    }

    fn add(&mut self, cx: &mut Cx<'_>, bytes: usize) -> Result<(), Stop> {
        self.bytes += bytes;
        if self.bytes >= self.counted + STEP_BYTES {
            cx.tx.hold_memory(self.bytes - self.counted)?;
            cx.held += self.bytes - self.counted;
            self.counted = self.bytes;
        }
        Ok(())
    }
}
