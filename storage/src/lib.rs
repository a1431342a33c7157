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
pub use backing::{Backing, PeerMemory, Piece, Private};
pub use object::{ObjectRef, View};
pub use object_copy::ObjectCopy;
pub use timestamp::Timestamp;
