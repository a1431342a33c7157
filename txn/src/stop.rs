//! The early ends of a transaction, named by the required reaction of the caller.

use fencepost_storage::{OutOfMemory, Timestamp};

/// The reason why the protocol aborted a transaction. It had no effect; it may be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// An object it writes was changed since it was read (LOCK).
    WriteConflict,
    /// An object it writes stayed locked by another commit (LOCK).
    LockBusy,
    /// An object it read was changed (VALIDATE).
    ReadConflict,
    /// An object it read was locked by another commit (VALIDATE).
    ReadLocked,
    /// A node it read was changed after the time at which it is to hold (VALIDATE, refresh).
    ReadNewer,
    /// A version newer than its snapshot turned up and the snapshot could not be moved (refresh).
    RefreshFailed,
    /// A condition on an index node no longer holds (LOCK).
    NodeConflict,
    /// The snapshot is older than the old versions that are kept.
    SnapshotTooOld,
    /// Another transaction has an intent on an object it writes, and this transaction yields.
    IntentHeld,
    /// One of its changes was interrupted half-way, and it was to commit nevertheless.
    Interrupted,
    /// A machine that it needs cannot be reached.
    Unreachable,
    /// The caller aborted the transaction.
    Requested,
}

impl AbortReason {
    /// All reasons, in the order of the counters.
    pub const ALL: [AbortReason; 12] = [
        AbortReason::WriteConflict,
        AbortReason::LockBusy,
        AbortReason::ReadConflict,
        AbortReason::ReadLocked,
        AbortReason::ReadNewer,
        AbortReason::RefreshFailed,
        AbortReason::NodeConflict,
        AbortReason::SnapshotTooOld,
        AbortReason::IntentHeld,
        AbortReason::Interrupted,
        AbortReason::Unreachable,
        AbortReason::Requested,
    ];

    /// Returns the name of the reason in reports.
    pub const fn name(self) -> &'static str {
        match self {
            AbortReason::WriteConflict => "write_conflict",
            AbortReason::LockBusy => "lock_busy",
            AbortReason::ReadConflict => "read_conflict",
            AbortReason::ReadLocked => "read_locked",
            AbortReason::ReadNewer => "read_newer",
            AbortReason::RefreshFailed => "refresh_failed",
            AbortReason::NodeConflict => "node_conflict",
            AbortReason::SnapshotTooOld => "snapshot_too_old",
            AbortReason::IntentHeld => "intent_held",
            AbortReason::Interrupted => "interrupted",
            AbortReason::Unreachable => "unreachable",
            AbortReason::Requested => "requested",
        }
    }
}

/// The reason why an operation of a transaction failed. The transaction can only be aborted, or
/// rolled back to an earlier savepoint (TXN-4). "Run the transaction again" means from its
/// beginning, in a new transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Run the transaction again.
    #[error("conflict with a concurrent transaction ({})", .0.name())]
    Retry(AbortReason),
    /// Run the transaction again; it was chosen to end a deadlock.
    #[error("deadlock detected")]
    Deadlock,
    /// Report it: the memory limit is reached.
    #[error("the memory limit is reached")]
    OutOfMemory,
    /// Report it: the disk is full. Reads go on.
    #[error("the disk is full")]
    DiskFull,
    /// Report it: larger than the stated limit.
    #[error("{0}")]
    TooLarge(&'static str),
    /// Report it: a write in a read-only transaction.
    #[error("the transaction is read-only")]
    ReadOnly,
    /// Stop: the durable log failed, and no later commit will be acknowledged.
    #[error("the durable log failed")]
    Failed,
    /// Report it: this machine is no longer a member of the cluster, or is closing. Nothing took
    /// effect.
    #[error("this machine is no member of the cluster any more")]
    NotMember,
    /// Report it: this machine does not know whether the transaction took effect.
    #[error("whether it has taken effect is not known")]
    InDoubt,
    /// Stop: no object is at an address.
    #[error("an object is missing or damaged")]
    Damaged,
}

impl From<OutOfMemory> for Stop {
    fn from(_: OutOfMemory) -> Self {
        Stop::OutOfMemory
    }
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect at this timestamp and is as durable as was asked for.
    Committed(Timestamp),
    /// It had no effect.
    Aborted(AbortReason),
}
