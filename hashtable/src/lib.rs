//! Unordered index: chained associative hopscotch hashing (NSDI'14 §3.6) in transactions.
//!
//! # Picture
//! ```text
//! root ──► directory ──► shard: | bucket | bucket | bucket | ... |   consecutive: one read for two
//! (never    (2^depth               │
//!  moves)    shards)               └──► block ──► block              overflow chain of the home
//! ```
//! * `layout`, `image`: the objects, read in place and changed in private images. `hash` never
//!   changes.
//! * `kind`, `op`: the interface to the commit protocol; a change of one bucket is a patch.
//! * `table`, `write`, `place`: lookups and changes in transactions; freeing slots.
//! * `grow`: splitting a shard; `lockfree`: lookups without a transaction; `scan`, `check`;
//!   `dismantle`: dropping a table.
//!
//! # Invariants
//! * HASH-1: a key is in its home, the bucket after it, or the home's overflow chain, and only
//!   once.
//! * HASH-2: a transaction that puts, removes or moves a key outside its home also changes the
//!   home's joint or chain version. So the home alone shows whether an absent key is still absent.
//! * HASH-3: `forward` of a bucket equals `backward` of the next one in every snapshot.
//! * HASH-4: every bucket shows which hashes belong to it, so a lookup through an outdated
//!   directory notices the error.
//!
//! # Reading order
//! `layout`, `hash`, `image`; then `table` and `lockfree` (lookups), `write` and `place` (changes),
//! `kind` and `op` (what the commit applies), `grow`; `scan` and `check` last.
//!
//! # Use
//! A table is changed in a transaction, by the task that owns the transaction. A call waits for
//! messages only if an object is on another machine, or is locked by another commit.
//! [`HashTable::get_lockfree`] needs no transaction. The crate keeps no state but counters, so any
//! number of handles of a table may exist.
//!
//! Failure: a key that does not fit a slot is [`IndexError::KeyTooLong`]; every other error is a
//! [`fencepost_txn::Stop`].

mod check;
mod counters;
mod dismantle;
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
pub use dismantle::BucketRun;
pub use error::IndexError;
pub use fencepost_txn::Problem;
pub use scan::{HashBatch, HashCursor};
pub use table::{HashOptions, HashTable};
pub use write::Insert;
