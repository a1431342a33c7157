//! What becomes of transactions whose commit a failure has met: transaction recovery (SOSP'15 §5.3).
//!
//! ```text
//!  each replica       the region's primary          the transaction's coordinator
//!  drained logs ────► what they have all seen ────► votes of all regions it writes
//!  [`Evidence`]           [`Vote::of`]                  [`decide`] ─► COMMIT-RECOVERY or ABORT-RECOVERY
//! ```
//! What is here is the rule by which it is decided, as a function of what has survived. Whoever applies it has
//! drained the logs, and has had every replica of a region that is left remember what any of them has seen, before
//! the region votes.
//!
//! # Invariants
//! * RECOVERY-1: a transaction of which a primary has shown a version, or whose success was reported, is committed.
//! * RECOVERY-2: one whose coordinator gave it up is not. Coordinators do so before the first COMMIT-BACKUP alone.
//! * RECOVERY-3: once anybody has acted on a decision, every later recovery decides the same.
//!
//! They hold as long as no region loses more than f of its replicas. `model.rs` tries every point at which a commit
//! can be met, every set of machines that can be lost there, and every point of the recovery at which more can be.

mod decide;
#[cfg(test)]
mod model;
mod vote;

pub use decide::{Decision, decide};
pub use vote::{Evidence, Vote};
