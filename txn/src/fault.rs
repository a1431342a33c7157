//! Injected faults: mistakes in the protocol that tests switch on, one at a time, to show that they
//! are found.
//!
//! ```text
//! simulator/tests/injected_faults.rs: a seed ─► run with a fault ─► some checker reports an error
//!                                    └► run without ──────► no checker reports an error
//! ```
//! `tests/restart/injected_faults.rs` finds the faults of disks in the same way.
//!
//! Each fault is a protocol step that is left out or done too early. The code calls [`injected`] at
//! the place of that step.
//!
//! *Concurrency.* The active fault is local to a thread: the simulator runs a whole cluster in one
//! thread.
//!
//! Without the feature `injected-faults`, [`injected`] is a constant, and no code of the faults is
//! left.
//! Only tests enable the feature.

#[cfg(feature = "injected-faults")]
use std::cell::Cell;

macro_rules! mistakes {
    ($($(#[doc = $what:literal])+ $name:ident in $place:literal,)+) => {
        /// An injected fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[doc = $what])+ $name,)+
        }

        impl Fault {
            /// All faults.
            pub const EVERY: &[Fault] = &[$(Fault::$name),+];

            /// Returns a description of the fault.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Fault::$name => concat!($($what),+).trim_ascii(),)+
                }
            }

            /// Returns the file that contains the fault, relative to this crate's sources or to the
            /// root of all crates.
            pub const fn place(self) -> &'static str {
                match self {
                    $(Fault::$name => $place,)+
                }
            }
        }
    };
}

mistakes! {
    // Commit.
    /// The read set is not validated.
    SkipValidation in "validate.rs",
    /// A transaction reads before its read timestamp is in force.
    SkipWaitForForce in "in_force.rs",
    /// A reader of another machine's object does not wait for its lock.
    ReadUnderLock in "read_far.rs",
    /// A primary locks an object whatever version it has.
    LockAnyVersion in "network/primary.rs",
    /// A coordinator's own objects are unlocked before their new versions are there.
    UnlockTooEarly in "network/distributed_commit.rs",
    /// COMMIT-PRIMARY does not wait for one of the backups.
    SkipBackupAck in "network/distributed_commit.rs",
    /// A backup puts ranges into a version that they do not change.
    ApplyRangesAtOnce in "network/backup.rs",
    /// A backup replaces a version by an older one.
    ApplyOlderVersion in "network/backup.rs",
    /// A transaction is truncated before all primaries have COMMIT-PRIMARY.
    TruncateTooEarly in "network/in_flight.rs",
    /// An acknowledgement counts although a record before it was lost with its connection.
    TrustAcksBehindHoles in "network/peer_sender/readiness.rs",
    /// A commit that others may have seen is given up when no client waits for it any more.
    AbortWhatMayBeSeen in "network/participants.rs",
    /// Slots and old versions are reused while a transaction may still read their contents.
    ReuseTooEarly in "machine.rs",
    // Reconfiguration.
    /// A machine tells clients how transactions end although it is suspected or has no lease.
    AnswerWithoutLease in "network/driver/mod.rs",
    /// A configuration is in force before old leases have run out.
    SkipOldLeases in "network/driver/apply_actions.rs",
    /// Writes of machines that are no members are accepted.
    AcceptLostMachines in "network/peer_receiver.rs",
    /// A commit goes on in a later configuration.
    CommitInLaterConfiguration in "network/distributed_commit.rs",
    /// A commit that may have been seen is given up at the next configuration.
    AbortInDoubt in "network/distributed_commit.rs",
    /// Slots that were reserved at the primary before become objects.
    KeepStaleSlots in "network/slot_stocks.rs",
    /// A reader that has no old version of a promoted region's object takes it for new.
    ForgetFloor in "read.rs",
    /// A region that moved in a configuration that a machine never applied counts as one that
    /// stays.
    OverlookMissedMoves in "network/region_allocation/reconfigure.rs",
    // Recovery of transactions.
    /// Recovery begins before the logs are drained.
    RecoverBeforeDrained in "network/driver/drain.rs",
    /// Promoted regions serve before their transactions are settled.
    ServeBeforeSettled in "network/driver/recover.rs",
    /// Promoted regions serve before what is committed is applied to them.
    ServeBeforeApplied in "network/driver/recover.rs",
    /// A primary does not hear of what its backups have seen.
    OverlookBackups in "recovery/region.rs",
    /// Backups are not told what other replicas have seen.
    SkipReplication in "recovery/region.rs",
    /// The first region's vote decides.
    DecideOnFirstVote in "recovery/coordinator.rs",
    /// A region that has never heard of a transaction has nothing against it.
    UnknownIsNoObjection in "recovery/decide.rs",
    /// A machine that has truncated a transaction says that there never was one.
    ForgetTruncated in "network/truncated.rs",
    /// TRUNCATE-RECOVERY is not sent.
    SkipTruncateRecovery in "recovery/coordinator.rs",
    // Recovery of data and of the allocator.
    /// A new backup leaves out a block.
    SkipBlock in "network/driver/data_recovery/mod.rs",
    /// Allocated slots of a promoted region count as free.
    ForgetAllocatedBits in "network/region_allocation/handover.rs",
    // Tables and their indexes, which only some runs have.
    /// A cached definition of a table is used without a look at its guard.
    SkipTableGuard in "simulator/src/workload/tables.rs",
    /// TRUNCATE does not write the guards of its table.
    TruncateWithoutGuards in "simulator/src/workload/catalog.rs",
    /// An index build passes over rows that are locked.
    MissLockedRows in "simulator/src/workload/catalog.rs",
    /// Leaves of a tree that was filled while others saw it do not have the timestamp of the
    /// commit.
    FillWithoutStamp in "btree/src/bulk.rs",
    /// Leaves of a tree that was filled while others saw it do not lead to the empty tree before.
    FillWithoutPast in "btree/src/bulk.rs",
    // Isolation levels, which only runs of mixed levels exercise.
    /// A statement at READ COMMITTED keeps the snapshot of the statement before it.
    KeepOldSnapshot in "refresh.rs",
    /// A row at READ COMMITTED is compared with the snapshot as it has moved, not as it was when
    /// the row was found.
    ForgetOldestSnapshot in "transaction.rs",
    /// A locked row that has changed is written at READ COMMITTED as the statement has found it.
    WriteRowAsFound in "simulator/src/workload/ledger/rows.rs",
    /// A row that is locked and has not changed is written at READ COMMITTED although another
    /// transaction got past the lock.
    TrustRowLock in "transaction.rs",
    /// A transaction at REPEATABLE READ overwrites a version that is newer than its snapshot.
    OverwriteNewer in "write.rs",
    /// The snapshot of a transaction at REPEATABLE READ moves although its reads do not hold any
    /// more.
    MoveSnapshotUnchecked in "isolation.rs",
    /// A commit at SERIALIZABLE does not validate which keys a scan has found in an index node.
    SkipKeyNotes in "transaction.rs",
    // Disks.
    /// COMMIT-PRIMARY does not wait for disks.
    CommitBeforeDurable in "network/disk/part.rs",
    /// A machine begins without those that may know more.
    BeginAlone in "network/disk/meet.rs",
    /// A new backup is whole before a checkpoint has its data.
    WholeBeforeCheckpoint in "network/driver/data_recovery/durably.rs",
    /// Regions are given up that only the disk of a machine has which is out.
    GiveUpRegions in "network/driver/mod.rs",
    /// The retained versions of a machine that comes back are taken whatever version their primary
    /// has.
    TakeOldVersions in "network/driver/data_recovery/block.rs",
}

impl Fault {
    /// The first of the faults of disks.
    const DISKS: Fault = Fault::CommitBeforeDurable;

    /// Returns the faults that runs of the simulator find, and the faults of disks, which
    /// `tests/restart` finds.
    fn split() -> (&'static [Fault], &'static [Fault]) {
        let of_disks = |fault: &Fault| *fault < Fault::DISKS;
        Fault::EVERY.split_at(Fault::EVERY.partition_point(of_disks))
    }

    /// Returns the faults that runs of the simulator find.
    pub fn all() -> &'static [Fault] {
        Fault::split().0
    }

    /// Returns the faults of disks, which `tests/restart` finds.
    pub fn of_disks() -> &'static [Fault] {
        Fault::split().1
    }
}

/// Returns `false`: without the feature no fault is active.
#[cfg(not(feature = "injected-faults"))]
#[inline(always)]
pub const fn injected(_: Fault) -> bool {
    false
}

#[cfg(feature = "injected-faults")]
thread_local! {
    static NOW: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Returns whether a fault is active in this thread.
#[cfg(feature = "injected-faults")]
pub fn injected(fault: Fault) -> bool {
    NOW.get() == Some(fault)
}

/// Activates a fault in this thread until the returned guard is dropped.
#[cfg(feature = "injected-faults")]
#[must_use]
pub fn inject(fault: Fault) -> InjectedFault {
    InjectedFault(NOW.replace(Some(fault)))
}

/// A guard that keeps a fault active; [`inject`] returns it.
#[cfg(feature = "injected-faults")]
pub struct InjectedFault(Option<Fault>);

#[cfg(feature = "injected-faults")]
impl Drop for InjectedFault {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}
