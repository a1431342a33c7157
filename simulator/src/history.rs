//! What clients saw: the transactions of a run, with what each read and wrote.
//!
//! Every value names the transaction that wrote it, so a read says which version it met. What is not there
//! names nobody: [`Saw::Absent`].

use fencepost_txn::Timestamp;

/// Something that transactions read and write: a kind and a number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(pub &'static str, pub u64);

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// What a read met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Saw {
    /// Nothing.
    Absent,
    /// The value of a transaction; 0 for what was there before all of them.
    By(u64),
}

/// What a transaction did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The object.
    pub object: Object,
    /// Whether it is there afterwards.
    pub stays: bool,
    /// Whether it must have been there before, where the write depends on that.
    pub needs: Option<bool>,
}

/// The end of a transaction that nobody was told of.
pub const NEVER: u64 = u64::MAX;

/// The beginning of a transaction that may have read what was long gone: it had no effect, and the machine that it was
/// run on was none of the cluster's any more, for all that it knew.
pub const SOMETIME: u64 = 0;

/// A transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Its number, which is not 0.
    pub id: u64,
    /// The moment before it began, or [`SOMETIME`].
    pub began: u64,
    /// The moment after its client was told that it has ended; [`NEVER`] where it was not.
    pub ended: u64,
    /// The versions that it read, but for its own.
    pub reads: Vec<(Object, Saw)>,
    /// What it wrote; nothing where it was aborted.
    pub writes: Vec<Write>,
    /// The timestamp of its writes; where there are none, that of its snapshot.
    pub at: Timestamp,
}
