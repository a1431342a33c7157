//! Checkpoints: all objects in one file, taken while writers run, from which a restart begins.
//!
//! [`write()`] copies the newest committed version of every object, publishes the copy and
//! truncates the log; [`read_manifest`] and [`load`] read the copy.
//!
//! *Picture.*
//!
//! ```text
//!   log   ──────┬──────── writers go on ────────┬─────────────►
//!               begin: replay begins here       end: durable before the checkpoint counts
//!   scan        ├── block by block, in parallel ┤
//!   publish                                     └ sync file ─ log flushed ≥ end ─ MANIFEST.tmp
//!                                                 ─ sync ─ rename ─ sync names ─ truncate log
//!
//!   N.ckpt  ┌────────┬─────────┬─────────┬───┬───────┐       a section is one block
//!           │ header │ section │ section │ … │ index │       every byte is under some checksum
//!           └────────┴─────────┴─────────┴───┴───────┘
//! ```
//!
//! # Why a copy that is not a snapshot is correct
//! The copy is *fuzzy*: two objects in it may be of different times, and only a part of a
//! transaction's writes may be in it. Replay from `begin` completes it, because a write is applied
//! only where it is newer:
//! - CKPT-1. A write logged before `begin` was installed before the scan began, or its object was
//!   locked and the scan waited for it. So the copy has it, or a newer version.
//! - CKPT-2. A write logged after `begin` is replayed. If the copy already has it, or a newer
//!   version, the timestamps show that and the write is skipped. Otherwise the copy has exactly the
//!   base version of the write.
//! - CKPT-3. Tombstones are kept (a header, no payload). Without them CKPT-2 could not distinguish
//!   an object that was freed after its change was logged from one that never existed. Slots that
//!   were never used need no entry.
//! - CKPT-4. A version in the copy may not be durable in the log yet. Its transaction may have
//!   written other objects that are not in the copy. So the checkpoint becomes valid only once the
//!   log is durable up to its end.
//!
//! The caller gives `begin` and promises the first half of CKPT-1: every transaction with a record
//! below `begin` has installed its new objects, which are not locked, before it calls [`write()`].
//!
//! *Concurrency.* Reads objects as any reader does; takes no lock that a commit could wait for. One
//! checkpoint at a time.
//!
//! *Failure.* Until the manifest is renamed the previous checkpoint stays valid; the next
//! checkpoint removes leftover files. If a load finds damage, the error names file and offset, and
//! the machine does not start.

mod error;
mod format;
mod loader;
mod manifest;
mod scan;
mod writer;

pub use error::CheckpointError;
pub use loader::load;
pub use manifest::{Manifest, read_manifest};
pub use writer::{Plan, write};
