//! Encoded rows side by side, as one thread of a scan gives them to another.

/// Encoded rows that have passed the tests of a scan.
#[derive(Debug, Default)]
pub struct RowBlock {
    words: Vec<u64>,
    /// The end of each row in `words`.
    ends: Vec<usize>,
    /// The number of index entries that were read for them.
    pub entries: usize,
}

impl RowBlock {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, row: &[u64]) {
        self.words.extend_from_slice(row);
        self.ends.push(self.words.len());
    }

    /// Adds this number of rows without words.
    pub fn push_unread(&mut self, rows: usize) {
        self.ends.resize(self.ends.len() + rows, self.words.len());
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the words of row `i`.
    ///
    /// # Panics
    /// If there is no row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> &[u64] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.words[from..self.ends[i]]
    }

    /// Returns the bytes of its rows.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice()) + size_of_val(self.ends.as_slice())
    }

    /// Removes all rows. Keeps the memory, unless it is large.
    pub fn clear(&mut self) {
        /// The words of about two thousand rows.
        const KEPT_WORDS: usize = 1 << 16;
        if self.words.capacity() > KEPT_WORDS {
            self.words = Vec::new();
        }
        self.words.clear();
        self.ends.clear();
        self.entries = 0;
    }
}
