//! Transaction recovery (SOSP'15 §5.3): the outcome of transactions whose commit was interrupted by
//! a failure.
//!
//! ```text
//!  each replica       the region's primary               the transaction's coordinator
//!  drained logs ────► evidence of all replicas, ───────► votes of all regions it writes
//!  [`Evidence`]       locks, replication; [`Vote::of`]   [`decide`] ─► COMMIT- or ABORT-RECOVERY
//!     step 2             steps 3 to 6 (`region.rs`)         steps 6 and 7 (`coordinator.rs`)
//! ```
//! [`Vote`] and [`decide`] are the decision rule, as functions of the surviving evidence.
//! [`Recovery`] is the part of one machine: a state machine. Its input is messages, time and, at
//! each new configuration, the log records that this machine has found. Its output is a list of
//! actions.
//!
//! Every transaction of an older configuration is recovered if any replica has records of it.
//! *Unlike the paper*, all backups send NEED-RECOVERY, so that no machine has to know which backups
//! are new. Before a region votes, its replicas receive all evidence that any replica has, not the
//! LOCK record alone.
//!
//! # Invariants
//! * RECOVERY-1: a transaction is committed if a primary has shown a version of it or if its
//!   success was reported.
//! * RECOVERY-2: a transaction that its coordinator gave up is not committed. A coordinator gives
//!   up only before the first COMMIT-BACKUP.
//! * RECOVERY-3: once any machine has acted on a decision, every later recovery decides the same.
//!
//! The invariants hold as long as no region loses more than f of its replicas. `model.rs` tries
//! every point at which a failure can interrupt a commit, and every set of machines that can be
//! lost there. It also tries every point of the recovery at which more machines can be lost.
//! `tests` runs the recovery on several machines, message by message.
//!
//! # Requirements on the caller
//! * The caller calls [`Recovery::begin`] after this machine has processed everything that members
//!   of older configurations have written to it. Afterwards the machine accepts nothing from them.
//! * Evidence that was found or kept stays until [`Action::Truncate`], also if the transaction was
//!   committed or aborted: another recovery may need it. A replica remembers that it has truncated
//!   a transaction until all replicas have truncated it ([`RecoveryEnvironment::was_truncated`]).
//! * A new replica does not count as a holder of its region's data before the recovery of every
//!   machine [is done](Recovery::is_over). Until then it has too little evidence to vote in place
//!   of lost replicas.
//! * Several recovering transactions may have written one object, one after the other: a
//!   transaction that was committed but not truncated everywhere is locked again. The object stays
//!   locked until all of them are decided. They are applied in the order of their versions.
//!
//! # Concurrency
//! One owner. Actions are carried out in order: a message is sent after the actions before it are
//! done.
//!
//! # Failure
//! Messages between members arrive in order and are not lost; only REQUEST-VOTE is repeated. When a
//! member is lost, the next configuration starts the recovery again with the evidence that the
//! replicas have by then.

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
pub use seen::ReplicaEvidence;
pub use vote::{Evidence, RegionVote, Vote};

/// An action that the owner of [`Recovery`] must carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message to a machine.
    Send(MachineId, RecoveryMessage),
    /// Add evidence of a transaction to the evidence of this replica, as if it had been found here.
    Keep {
        /// The evidence to add.
        seen: ReplicaEvidence,
        /// The writes of the transaction to the region, where the replica lacks them.
        content: Option<Arc<[u64]>>,
    },
    /// Lock the objects that the transaction writes to the region, whose primary is this machine.
    /// Objects that the transaction has already locked stay locked. Objects at its version or a
    /// later one are not changed.
    Lock {
        /// The region of the objects.
        region: u32,
        /// The transaction that takes the locks.
        id: TxnId,
    },
    /// The region, whose primary is this machine, can be used.
    Active(u32),
    /// All regions whose primary is this machine can be used.
    RegionsActive,
    /// The transaction is committed. Install its writes to the region if that was not done, and
    /// release its locks there. Keep this evidence, also where there is no record of the
    /// transaction.
    Commit(ReplicaEvidence),
    /// The transaction is aborted. Release its locks in the region. Keep this evidence, also where
    /// there is no record of the transaction.
    Abort(ReplicaEvidence),
    /// All replicas have committed or aborted: delete all records of the transaction, and remember
    /// that it is truncated.
    Truncate {
        /// The transaction to truncate.
        id: TxnId,
    },
    /// The transaction is decided; for the code on this machine that waits for the decision.
    Decided {
        /// The decided transaction.
        id: TxnId,
        /// The outcome of the transaction.
        decision: Decision,
    },
}

/// The information that recovery needs from other parts of the machine.
pub trait RecoveryEnvironment {
    /// Returns the primary of a region in this configuration.
    fn region_primary(&self, region: u32) -> RegionPrimary;

    /// Returns whether this machine has truncated a transaction since it became a replica of the
    /// region.
    fn was_truncated(&self, id: TxnId, region: u32) -> bool;

    /// Returns the writes of a transaction to a region. This machine has found or kept a LOCK,
    /// COMMIT-BACKUP or COMMIT-PRIMARY of it, whose evidence includes the writes.
    fn content(&self, id: TxnId, region: u32) -> Arc<[u64]>;
}

/// The location of a region's primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionPrimary {
    /// The primary is this machine or another.
    Primary(MachineId),
    /// No replica with the region's data is left.
    Lost,
    /// The primary is not known on this machine yet; the machine is asking for it.
    Unknown,
}
