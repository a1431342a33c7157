//! Rows in bulk: one flat vector that is used again and again.
//!
//! A row that is pushed keeps the stale values of the row that stood in its place before: whoever
//! pushes it fills the slots that will be read.

use fencepost_sql::value::Value;

/// Rows of one width, side by side.
#[derive(Debug, Default)]
pub struct Batch {
    width: usize,
    values: Vec<Value>,
    rows: usize,
    /// Bytes of long rows in it.
    weight: usize,
}

/// What the long rows may weigh that are added to a batch in one go.
const WEIGHT_MAX: usize = 8 << 20;

impl Batch {
    /// An empty batch of rows with `width` values.
    pub fn new(width: usize) -> Batch {
        Batch {
            width,
            values: Vec::new(),
            rows: 0,
            weight: 0,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Forgets the rows and keeps their memory, unless they are long.
    pub fn clear(&mut self) {
        self.rows = 0;
        if self.weight > 0 {
            self.values = Vec::new();
            self.weight = 0;
        }
    }

    /// A row of `bytes` came in; short ones do not matter.
    #[inline]
    pub fn weigh(&mut self, bytes: usize) {
        if bytes > WEIGHT_MAX / 16 {
            self.weight += bytes;
        }
    }

    /// The weight at which the rows that a caller is about to add are to be worked on, however few
    /// they are.
    #[inline]
    pub fn weight_limit(&self) -> usize {
        self.weight + WEIGHT_MAX
    }

    /// Bytes of long rows in it.
    #[inline]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[Value] {
        &self.values[i * self.width..(i + 1) * self.width]
    }

    /// Row `i`, to change it.
    pub fn row_mut(&mut self, i: usize) -> &mut [Value] {
        &mut self.values[i * self.width..(i + 1) * self.width]
    }

    /// A further row, with stale values.
    pub fn push(&mut self) -> &mut [Value] {
        let start = self.rows * self.width;
        self.rows += 1;
        if self.values.len() < start + self.width {
            self.values.resize(start + self.width, Value::Null);
        }
        &mut self.values[start..start + self.width]
    }

    /// Exchanges two rows.
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

    /// Takes the last row back.
    pub fn pop(&mut self) {
        self.rows -= 1;
    }
}
