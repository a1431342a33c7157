//! How a transaction can end early, named by what the caller must do.

use fencepost_storage::{OutOfMemory, Timestamp};

/// Why the protocol aborted a transaction. Nothing of it took effect; it may be run again.
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
    /// An object it writes is another transaction's intent, and it gives way.
    IntentHeld,
    /// A change of it was cut off half-way, and it was to commit all the same.
    Interrupted,
    /// A machine that it needs cannot be reached.
    Unreachable,
    /// The caller gave it up.
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

    /// Name in reports.
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

/// Why an operation of a transaction did not happen. The transaction is good for nothing but abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Run the transaction again.
    #[error("conflict with a concurrent transaction ({})", .0.name())]
    Retry(AbortReason),
    /// Run the transaction again; it was chosen to end a circle of waits.
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
    /// Stop: the durable log failed, and nothing will be acknowledged any more.
    #[error("the durable log failed")]
    Failed,
    /// Report it: this machine is no member of the cluster any more, or closes. Nothing took effect.
    #[error("this machine is no member of the cluster any more")]
    NotMember,
    /// Report it: whether the transaction took effect is not known here.
    #[error("whether it has taken effect is not known")]
    InDoubt,
    /// Stop: an address leads nowhere.
    #[error("an object is missing or damaged")]
    Damaged,
}

impl From<OutOfMemory> for Stop {
    fn from(_: OutOfMemory) -> Self {
        Stop::OutOfMemory
    }
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect at this timestamp and is as durable as was asked for.
    Committed(Timestamp),
    /// It had no effect.
    Aborted(AbortReason),
}
