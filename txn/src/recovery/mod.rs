//! What becomes of transactions whose commit a failure has met: transaction recovery (SOSP'15 §5.3).
//!
//! ```text
//!  each replica       the region's primary               the transaction's coordinator
//!  drained logs ────► what they have all seen, ────────► votes of all regions it writes
//!  [`Evidence`]       locks, told to all; [`Vote::of`]   [`decide`] ─► COMMIT-RECOVERY or ABORT-RECOVERY
//!     step 2             steps 3 to 6 (`region.rs`)         steps 6 and 7 (`coordinator.rs`)
//! ```
//! [`Vote`] and [`decide`] are the rule by which it is decided, as functions of what has survived. [`Recovery`] is a
//! machine's part in it: a state machine that is given messages, time and, at each new configuration, what this
//! machine has found in its logs, and that says what to do.
//!
//! Every transaction of an older configuration of which any replica has records is recovered. *Unlike the paper*
//! all backups send NEED-RECOVERY, so that nobody has to know which of them are new, and replicas are told all evidence
//! that any of them has, not the LOCK alone, before their region votes.
//!
//! # Invariants
//! * RECOVERY-1: a transaction of which a primary has shown a version, or whose success was reported, is committed.
//! * RECOVERY-2: one whose coordinator gave it up is not. Coordinators do so before the first COMMIT-BACKUP alone.
//! * RECOVERY-3: once anybody has acted on a decision, every later recovery decides the same.
//!
//! They hold as long as no region loses more than f of its replicas. `model.rs` tries every point at which a commit
//! can be met, every set of machines that can be lost there, and every point of the recovery at which more can be.
//! `tests` has machines do it, message by message.
//!
//! # What is asked of whoever carries it out
//! * [`Recovery::begin`] comes when all that older configurations have written to this machine has been processed; it
//!   takes nothing of them afterwards.
//! * What was found and kept stays until [`Action::Truncate`], also where it was committed or aborted: another recovery
//!   may need it. That a replica has truncated a transaction is remembered until all have
//!   ([`Surroundings::was_truncated`]).
//! * A replica that is new counts as one that has its region's data no sooner than every machine's recovery
//!   [is done](Recovery::is_done); until then it knows too little to vote for those who are lost.
//! * Several recovering transactions may have written one object, one after the other: what was committed but not
//!   truncated everywhere was locked again. The object is locked until all of them are settled, and they are applied
//!   by their versions.
//!
//! # Concurrency
//! One owner. Actions are carried out in their order, and a message is sent after what stands before it is done.
//!
//! # Failure
//! Messages between members come in order and are not lost; REQUEST-VOTE alone is put again. When a member is lost the
//! next configuration begins anew with what the replicas have by then.

mod coordinator;
mod decide;
mod message;
#[cfg(test)]
mod model;
mod post;
mod protocol;
mod region;
mod seen;
#[cfg(test)]
mod tests;
mod vote;

use std::sync::Arc;

use fencepost_cluster::MachineId;

use crate::record::TxnId;

pub use decide::{Decision, decide};
pub use message::{Body, RecoveryMessage};
pub use protocol::{Begin, Recovery};
pub use seen::Seen;
pub use vote::{Evidence, RegionVote, Vote};

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Send(MachineId, RecoveryMessage),
    /// Keep this with what this replica has of the transaction: it is evidence from now on, as if it had been seen
    /// here.
    Keep {
        /// The evidence, to be added to what there is.
        seen: Seen,
        /// What the transaction writes to the region, where the replica lacks it.
        content: Option<Arc<[u64]>>,
    },
    /// Lock what the transaction writes to the region, whose primary is here. What it has locked stays so, and what has
    /// its version or a later one stays as it is.
    Lock {
        /// The region.
        region: u32,
        /// The transaction.
        id: TxnId,
    },
    /// The region, whose primary is here, can be used.
    Active(u32),
    /// All regions whose primary is here can be.
    RegionsActive,
    /// The transaction is committed: put what it writes to the region in place, unless that was done, release its
    /// locks there, and keep this evidence, also where there is no record of it.
    Commit(Seen),
    /// It is aborted: release its locks in the region, and keep this evidence, also where there is no record of it.
    Abort(Seen),
    /// All replicas have done so: forget all records of it, and remember that it is truncated.
    Truncate {
        /// The transaction.
        id: TxnId,
    },
    /// It is decided; for whoever waits for it on this machine.
    Decided {
        /// The transaction.
        id: TxnId,
        /// What becomes of it.
        decision: Decision,
    },
}

/// What recovery has to know from elsewhere.
pub trait Surroundings {
    /// Where the primary of a region is in this configuration.
    fn whereabouts(&self, region: u32) -> Whereabouts;

    /// Whether this machine has truncated a transaction since it has been a replica of the region.
    fn was_truncated(&self, id: TxnId, region: u32) -> bool;

    /// What a transaction writes to a region, of which this machine has found or kept evidence that comes with it:
    /// LOCK, COMMIT-BACKUP or COMMIT-PRIMARY.
    fn content(&self, id: TxnId, region: u32) -> Arc<[u64]>;
}

/// Where a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// This machine is its primary.
    Primary(MachineId),
    /// No replica with its data is left.
    Lost,
    /// That is not known here, and being found out.
    Unknown,
}
