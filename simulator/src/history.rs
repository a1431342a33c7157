//! The history of a run: its transactions, with the reads and writes of each as its client saw
//! them.
//!
//! Every value has the number of the transaction that wrote it, so a read identifies the version
//! that it saw. A missing object has no writer: [`ReadVersion::Absent`].

use fencepost_txn::Timestamp;

/// An object that transactions read and write: its kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(pub &'static str, pub u64);

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// The version that a read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadVersion {
    /// The object did not exist.
    Absent,
    /// The version of a transaction; 0 for the initial version.
    By(u64),
}

/// A write of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The object.
    pub object: Object,
    /// Whether the object exists afterwards.
    pub stays: bool,
    /// Whether the object must have existed before, if the write depends on that.
    pub needs: Option<bool>,
}

/// The end of a transaction whose outcome its client did not learn.
pub const NEVER: u64 = u64::MAX;

/// The beginning of a transaction that may have read outdated versions: it had no effect, and its
/// machine might have been evicted by then.
pub const SOMETIME: u64 = 0;

/// A transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObservedTransaction {
    /// The transaction's number, which is not 0.
    pub id: u64,
    /// The logical time before it began, or [`SOMETIME`].
    pub began: u64,
    /// The logical time after its client learned the outcome; [`NEVER`] if it did not.
    pub ended: u64,
    /// The versions that it read, except its own.
    pub reads: Vec<(Object, ReadVersion)>,
    /// The writes; empty if the transaction was aborted.
    pub writes: Vec<Write>,
    /// The timestamp of its writes; without writes, that of its snapshot.
    pub at: Timestamp,
}
