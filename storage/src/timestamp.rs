//! Timestamps: the versions of objects and the points at which transactions read and write.

/// A point in the total order of commits; 54 bits are used. The clock of the transactions gives the
/// numbers their meaning; here only their order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The timestamp before every commit.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The timestamp after every commit.
    pub const MAX: Timestamp = Timestamp((1 << 54) - 1);

    /// Decodes the number stored in headers and log records.
    pub const fn from_raw(raw: u64) -> Self {
        Timestamp(raw)
    }

    /// Returns the number to store.
    pub const fn raw(self) -> u64 {
        self.0
    }
}
