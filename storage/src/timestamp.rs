//! Timestamps: the versions of objects and the points at which transactions read and write.

/// A point in the database's one order of commits; 54 bits are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Before every commit.
    pub const ZERO: Timestamp = Timestamp(0);
    /// After every commit.
    pub const MAX: Timestamp = Timestamp((1 << 54) - 1);

    /// From the number stored in headers and log records.
    pub const fn from_raw(raw: u64) -> Self {
        Timestamp(raw)
    }

    /// The number.
    pub const fn raw(self) -> u64 {
        self.0
    }
}
