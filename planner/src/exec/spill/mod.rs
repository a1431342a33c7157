//! Temporary files of operators whose rows exceed `work_mem`.
//!
//! ```text
//! rows ─▶ streams (runs of a sort, partitions of a hash table) ─▶ blocks ─▶ file
//!                    codec                                         file.rs
//! ```
//! An operator collects rows in memory until its share is used up or the memory limit is reached.
//! Then it writes rows to streams, and reads them back one stream at a time.
//!
//! Invariants
//! - SPILL-1: a stream returns its rows in the order in which they were added.
//! - SPILL-2: a stream is read once, and its blocks are then used again.

mod codec;
mod file;
mod partitions;
mod stream;
#[cfg(test)]
mod tests;

pub use file::{BlockFile, TemporaryBytes, TemporaryFiles};
pub use partitions::{PARTITIONS, Partitioner, Partitions};
pub use stream::{SpillFile, Stream, StreamReader};
