//! Batches of rows: flat vectors that are reused.
//!
//! ```text
//! blocks   rows 0 to 1023 │ rows 1024 to 2047 │ …
//! ```
//! A large batch grows by blocks, so its rows are not copied when it grows. A pushed row keeps the
//! stale values of an earlier row at its position. The caller that pushes it must fill the slots
//! that will be read.

use fencepost_sql::value::Value;

/// Rows of the same width, side by side.
#[derive(Debug, Default)]
pub struct Batch {
    width: usize,
    blocks: Vec<Vec<Value>>,
    rows: usize,
    /// Bytes of the long rows in it.
    weight: usize,
}

/// The number of rows of a block.
const BLOCK_ROWS: usize = 1024;
/// The number of bytes of long rows that may be added to a batch at once.
const WEIGHT_MAX: usize = 8 << 20;

impl Batch {
    /// Creates an empty batch of rows with `width` values.
    pub fn new(width: usize) -> Batch {
        Batch {
            width,
            blocks: Vec::new(),
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
            self.blocks = Vec::new();
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
    #[inline]
    pub fn row(&self, i: usize) -> &[Value] {
        let at = i % BLOCK_ROWS * self.width;
        &self.blocks[i / BLOCK_ROWS][at..at + self.width]
    }

    /// Returns row `i` for changes.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [Value] {
        let at = i % BLOCK_ROWS * self.width;
        &mut self.blocks[i / BLOCK_ROWS][at..at + self.width]
    }

    /// Appends a row with stale values.
    #[inline]
    pub fn push(&mut self) -> &mut [Value] {
        let row = self.rows;
        self.rows += 1;
        let end = (row % BLOCK_ROWS + 1) * self.width;
        if self.blocks.len() <= row / BLOCK_ROWS {
            self.blocks.push(Vec::new());
        }
        let block = &mut self.blocks[row / BLOCK_ROWS];
        if block.len() < end {
            block.resize(end, Value::Null);
        }
        &mut block[end - self.width..end]
    }

    /// Swaps two rows.
    pub fn swap(&mut self, a: usize, b: usize) {
        let (first, last) = (a.min(b), a.max(b));
        let (in_first, in_last) = (first / BLOCK_ROWS, last / BLOCK_ROWS);
        if first == last {
            return;
        }
        if in_first == in_last {
            let (from, to) = (first % BLOCK_ROWS, last % BLOCK_ROWS);
            let (left, right) = self.blocks[in_first].split_at_mut(to * self.width);
            left[from * self.width..][..self.width].swap_with_slice(&mut right[..self.width]);
        } else {
            let (left, right) = self.blocks.split_at_mut(in_last);
            let row = &mut left[in_first][first % BLOCK_ROWS * self.width..][..self.width];
            row.swap_with_slice(&mut right[0][last % BLOCK_ROWS * self.width..][..self.width]);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: usize, width: usize) -> Batch {
        let mut batch = Batch::new(width);
        for i in 0..rows {
            batch.push().fill(Value::Int8(i as i64));
        }
        batch
    }

    fn numbers(batch: &Batch) -> Vec<i64> {
        let number = |i| batch.row(i).last().and_then(Value::as_int);
        (0..batch.len()).filter_map(number).collect()
    }

    #[test]
    fn rows_of_all_blocks_are_swapped_and_removed() {
        for width in [1, 3] {
            let rows = 2 * BLOCK_ROWS + 5;
            let mut some = batch(rows, width);
            let mut model: Vec<i64> = (0..rows as i64).collect();
            assert_eq!(numbers(&some), model);
            for (a, b) in [(0, 7), (BLOCK_ROWS, BLOCK_ROWS - 1), (9, rows - 1), (4, 4)] {
                some.swap(a, b);
                some.swap(b, a);
                some.swap(a, b);
                model.swap(a, b);
            }
            assert_eq!(numbers(&some), model);
            some.remove(1000, 100);
            model.drain(1000..1100);
            assert_eq!(numbers(&some), model);
            some.truncate(BLOCK_ROWS + 1);
            some.push().fill(Value::Int8(-1));
            model.truncate(BLOCK_ROWS + 1);
            model.push(-1);
            assert_eq!(numbers(&some), model);
            some.clear();
            some.push().fill(Value::Int8(8));
            assert_eq!(numbers(&some), [8]);
        }
        let mut none = batch(3000, 0);
        none.remove(10, 20);
        assert_eq!((none.len(), none.row(2979).len()), (2980, 0));
    }
}
