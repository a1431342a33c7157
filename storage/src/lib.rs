//! Storage: regions, object layout, allocator, old versions, durable log and checkpoints.
//!
//! # Picture
//! ```text
//! Regions ── Region ── block (1 MiB, one size class) ── slot ── object: header, link, payload
//!    │                                                             │ previous version
//!  Lanes (free slots by thread)                            OldVersions (memory only)
//!    │
//!  Account (memory budget)                         log + checkpoint (what a restart reads)
//! ```
//! An object is an array of 64-bit words with a version. This crate knows bytes, slots and
//! versions, but no transactions and no keys.
//!
//! # Reading order
//! 1. [`addr`], [`header`], [`layout`], [`object`]: an object in place, and how it is read and
//!    locked.
//! 2. [`classes`], [`region`], [`lanes`]: where objects are, and the allocator (NSDI'14 §3.3).
//! 3. [`old_versions`]: the versions for older snapshots. [`object_copy`]: objects of other
//!    machines.
//! 4. [`log`], then [`checkpoint`]: what a restart reads.
//!
//! Sizes are in 64-bit words where a name says `words`, and in bytes where it says `bytes`.
//!
//! It has no unsafe code: the memory under it is [`fencepost_fabric::Memory`].

pub mod account;
pub mod addr;
pub mod backing;
pub mod checkpoint;
pub mod classes;
pub mod header;
pub mod lanes;
pub mod layout;
pub mod log;
pub mod object;
pub mod object_copy;
pub mod old_versions;
pub mod region;
pub mod timestamp;

pub use account::{Account, OutOfMemory};
pub use addr::{Addr, FatPtr, RegionId};
pub use backing::{Backing, PeerMemory, Piece, PrivateBacking};
pub use object::{ObjectRef, View};
pub use object_copy::ObjectCopy;
pub use timestamp::Timestamp;
