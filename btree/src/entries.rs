//! Keys with their values, in two flat arrays.

/// A batch of entries in key order (or in reverse), as scans return and splits move them. Reuse one
/// batch to scan without allocating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    values: Vec<[u64; 2]>,
    /// Whether a scan leaves out the keys that it does not need to continue.
    values_only: bool,
}

impl ScanBatch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty batch for a scan whose keys are not used. A key of the batch is empty,
    /// unless the scan needs it to continue.
    pub fn of_values() -> Self {
        ScanBatch {
            values_only: true,
            ..Self::default()
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Returns the key of entry `i`.
    ///
    /// # Panics
    /// If there is no entry `i`.
    pub fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// Returns the value of entry `i`.
    ///
    /// # Panics
    /// If there is no entry `i`.
    pub fn value(&self, i: usize) -> [u64; 2] {
        self.values[i]
    }

    /// Returns all values in order.
    pub fn values(&self) -> &[[u64; 2]] {
        &self.values
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], [u64; 2])> {
        (0..self.len()).map(|i| (self.key(i), self.value(i)))
    }

    /// Appends an entry.
    pub fn push(&mut self, key: &[u8], value: [u64; 2]) {
        self.push_with(value, |bytes| bytes.extend_from_slice(key));
    }

    /// Appends an entry whose key bytes are appended by `fill`.
    pub(crate) fn push_with(&mut self, value: [u64; 2], fill: impl FnOnce(&mut Vec<u8>)) {
        fill(&mut self.bytes);
        self.ends.push(self.bytes.len());
        self.values.push(value);
    }

    /// Returns whether a scan may leave out keys that it does not need.
    pub(crate) fn is_of_values(&self) -> bool {
        self.values_only
    }

    /// Appends an entry without its key.
    pub(crate) fn push_value(&mut self, value: [u64; 2]) {
        self.push_with(value, |_| ());
    }

    /// Removes all entries but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.values.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}
