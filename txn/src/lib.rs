//! Transactions over objects in regions.
//!
//! # Picture
//! ```text
//! Machine ── Coordinator ── begin ─► Transaction ─ view/read ─ write/patch/alloc/free ─► commit
//!    │                                   │ read set            │ write set            │
//!  Clock, Readers, Intents, Lanes     read.rs, refresh.rs    write.rs, savepoint.rs    lock,
//!    │                                                                                 validate,
//!  regions, log, checkpoints                                                           log_commit,
//!                                                                     commit_primary, truncate
//! ```
//! A transaction reads one snapshot and writes at one later point; see [`transaction`] for the
//! invariants and [`commit`] for the phases. This crate knows objects and versions, but no keys.
//!
//! # Reading order
//! 1. [`transaction`], [`read`], [`mod@write`], [`commit`]: a transaction on one machine.
//! 2. [`stop`], [`isolation`], [`intent`], [`node`]: its ends, levels, row locks and index nodes.
//! 3. [`network`]: the same phases on several machines (SOSP'15 §4).
//! 4. [`recovery`]: the outcome of commits that a failure has interrupted (SOSP'15 §5.3).
//! 5. [`machine`], [`replay`], [`record`]: the start, the end and the log.
//!
//! # Use
//! One task at a time uses a [`Coordinator`] and its [`Transaction`]; any thread uses a
//! [`Machine`]. Futures need no particular executor. While a machine of a cluster runs, its poller
//! processes the messages of peers; a task that waits for an answer polls, too. With
//! [`network::NetworkOptions::driven`] the caller must poll ([`Machine::drive`]).

mod arena;
mod backoff;
mod base_images;
mod blocks;
mod bytes;
mod changes;
mod checkpoint_wait;
mod checkpointer;
mod clock;
pub mod commit;
mod commit_primary;
mod context;
pub mod counters;
pub mod fault;
mod in_force;
pub mod inspect;
pub mod intent;
pub mod isolation;
mod lock;
pub mod lockfree;
mod log_commit;
pub mod machine;
pub mod network;
mod new_objects;
pub mod node;
pub mod options;
mod pending_patches;
pub mod read;
mod read_far;
mod read_set;
mod readers;
pub mod record;
pub mod recovery;
mod refresh;
mod remote_read_cache;
pub mod replay;
mod savepoint;
pub mod sharded;
mod shared_snapshot;
mod start;
pub mod statement_snapshot;
pub mod stop;
pub mod transaction;
mod truncate;
mod validate;
mod words;
mod work;
pub mod write;
mod write_set;

pub use backoff::{disable_yield, yield_now};
pub use blocks::Blocks;
pub use checkpoint_wait::CheckpointWait;
pub use checkpointer::CheckpointCounters;
pub use clock::ClockState;
pub use inspect::Problem;
pub use intent::Strength;
pub use isolation::{Isolation, NewestReads};
pub use lockfree::LockFree;
pub use machine::{Machine, ROOT_WORDS};
pub use new_objects::{ObjectLocation, slot_bytes};
pub use node::{NodeKind, Refusal, RerouteFuture, Revalidate};
pub use options::{DurableStorage, MachineOptions, OpenError, StartReport};
pub use pending_patches::WithdrawnPatches;
pub use read_set::ReadEntry;
pub use savepoint::Savepoint;
pub use statement_snapshot::{Mark, MarkIndex};
pub use stop::{AbortReason, Outcome, Stop};
pub use transaction::{Coordinator, FarCounts, Mode, ReadsMark, Transaction};
pub use work::Work;

pub use fencepost_fabric::MachineId;
pub use fencepost_storage::{Addr, FatPtr, Timestamp, View};
