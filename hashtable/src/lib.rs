//! Unordered index: chained associative hopscotch hashing (NSDI'14 §3.6) in transactions.
//!
//! # Picture
//! ```text
//! root ──► directory ──► shard: | bucket | bucket | bucket | ... |   side by side, one read for two
//! (never    (2^depth               │
//!  moves)    shards)               └──► block ──► block              overflow chain of the home
//! ```
//! * `layout`, `image`: the objects, read in place and changed in private images; `hash` never changes.
//! * `kind`, `op`: buckets as the commit protocol sees them; what touches one bucket is a patch.
//! * `table`, `write`, `place`: lookups and changes in transactions; making room.
//! * `grow`: splitting a shard; `lockfree`: lookups without a transaction; `scan`, `check`.
//!
//! # Invariants
//! * HASH-1: a key is in its home, the bucket after it, or the home's overflow chain, and only once.
//! * HASH-2: whoever puts, takes or moves a key outside its home also changes the home's joint or chain
//!   version. So the home alone tells whether a key that was absent still is.
//! * HASH-3: `forward` of a bucket equals `backward` of the next one in every snapshot.
//! * HASH-4: every bucket says which hashes are its own; who comes from an outdated directory notices.
//!
//! Failure: a key that does not fit a slot is [`IndexError::KeyTooLong`]; all else is a
//! [`fencepost_txn::Stop`].

mod check;
mod counters;
mod error;
mod grow;
mod hash;
mod image;
mod kind;
mod layout;
mod lockfree;
mod op;
mod place;
mod scan;
mod size;
mod table;
mod write;

pub use check::Report;
pub use counters::{Counters, counters};
pub use error::IndexError;
pub use fencepost_txn::Problem;
pub use scan::{HashBatch, HashCursor};
pub use table::{HashOptions, HashTable};
pub use write::Insert;
