//! Batches of rows: one flat vector that is reused.
//!
//! A pushed row keeps the stale values of an earlier row at its position. The caller that pushes it
//! must fill the slots that will be read.

use fencepost_sql::value::Value;

/// Rows of the same width, side by side.
#[derive(Debug, Default)]
pub struct Batch {
    width: usize,
    values: Vec<Value>,
    rows: usize,
    /// Bytes of the long rows in it.
    weight: usize,
}

/// The number of bytes of long rows that may be added to a batch at once.
const WEIGHT_MAX: usize = 8 << 20;

impl Batch {
    /// Creates an empty batch of rows with `width` values.
    pub fn new(width: usize) -> Batch {
        Batch {
            width,
            values: Vec::new(),
            rows: 0,
            weight: 0,
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns the number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Removes the rows. Keeps their memory, unless they are long.
    pub fn clear(&mut self) {
        self.rows = 0;
        if self.weight > 0 {
            self.values = Vec::new();
            self.weight = 0;
        }
    }

    /// Adds the weight of a row of `bytes` bytes; short rows do not count.
    #[inline]
    pub fn weigh(&mut self, bytes: usize) {
        if bytes > WEIGHT_MAX / 16 {
            self.weight += bytes;
        }
    }

    /// Returns the weight at which a caller must stop adding rows and process them, even if they
    /// are few.
    #[inline]
    pub fn weight_limit(&self) -> usize {
        self.weight + WEIGHT_MAX
    }

    /// Returns the bytes of the long rows in it.
    #[inline]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns row `i`.
    pub fn row(&self, i: usize) -> &[Value] {
        &self.values[i * self.width..(i + 1) * self.width]
    }

    /// Returns row `i` for changes.
    pub fn row_mut(&mut self, i: usize) -> &mut [Value] {
        &mut self.values[i * self.width..(i + 1) * self.width]
    }

    /// Appends a row with stale values.
    pub fn push(&mut self) -> &mut [Value] {
        let start = self.rows * self.width;
        self.rows += 1;
        if self.values.len() < start + self.width {
            self.values.resize(start + self.width, Value::Null);
        }
        &mut self.values[start..start + self.width]
    }

    /// Swaps two rows.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            for i in 0..self.width {
                self.values.swap(a * self.width + i, b * self.width + i);
            }
        }
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
    }

    /// Removes `count` rows from `start` on.
    pub fn remove(&mut self, start: usize, count: usize) {
        for i in start..self.rows - count {
            self.swap(i, i + count);
        }
        self.rows -= count;
    }

    /// Removes the last row.
    pub fn pop(&mut self) {
        self.rows -= 1;
    }
}
