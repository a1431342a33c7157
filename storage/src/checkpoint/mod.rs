//! Checkpoints: all objects in one file, taken while writers run, from which a restart begins.
//!
//! *What.* [`write()`] copies the newest committed version of every object, publishes the copy and
//! truncates the log; [`read_manifest`] and [`load`] bring it back.
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
//! # Why a copy that is no snapshot is right
//! The copy is *fuzzy*: two objects in it may be of different times, and a transaction may be in it
//! by half. Replay from `begin` makes it whole, because a write is applied only where it is newer:
//! - CKPT-1. A write logged before `begin` was installed before the scan began, or its object was
//!   locked and the scan waited for it. So the copy holds it, or a newer version.
//! - CKPT-2. A write logged after `begin` is replayed. If the copy holds it already, or a newer
//!   version, the timestamps say so and it is passed over; else the copy holds exactly the version
//!   it was made on.
//! - CKPT-3. Tombstones are kept (a header, no payload): without them CKPT-2 could not tell an object
//!   that was freed after its change was logged from one that was never there. Slots that were
//!   never used need no place.
//! - CKPT-4. A version in the copy may not be durable in the log yet, and its transaction may have
//!   written other objects that are not in the copy. So the checkpoint counts only once the log is
//!   durable up to its end.
//!
//! The caller gives `begin` and promises the first half of CKPT-1: every transaction with a record
//! below `begin` has installed its new objects (which nobody locks) when [`write()`] is called.
//!
//! *Concurrency.* Reads objects as any reader does; takes no lock that a commit could wait for. One
//! checkpoint at a time.
//!
//! *Failure.* Until the manifest is renamed the checkpoint before counts; leftovers are removed by
//! the next one. Damage found while loading names file and offset, and nothing starts.

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
