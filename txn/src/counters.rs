//! Operation counters of a machine: commits, aborts by reason, and events of transactions.
//! [`crate::network::Traffic`] counts the operations that the machine posts to others.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stop::AbortReason;

const SHARDS: usize = 16;

/// A counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// Committed read-write transactions.
    CommitWrite,
    /// Committed transactions without writes.
    CommitRead,
    /// Read timestamps moved forward instead of aborting.
    Refresh,
    /// Reads answered from an old version.
    OldVersionRead,
    /// Reads that met a lock and waited.
    LockWait,
    /// Intents that had to wait in a queue.
    IntentWait,
    /// Patches re-applied under the lock because the node had moved.
    PatchReapplied,
    /// Truncations that a backup applies later, because a version that they change has not arrived
    /// yet.
    VersionAwaited,
    /// First of the abort counters, one for each [`AbortReason`].
    FirstAbort,
}

const EVENTS: usize = Event::FirstAbort as usize + AbortReason::ALL.len();

#[repr(align(128))]
#[derive(Debug)]
struct Shard([AtomicU64; EVENTS]);

/// Counters, sharded by coordinator so that counting costs an uncontended addition.
#[derive(Debug)]
pub struct Counters {
    shards: Box<[Shard]>,
}

/// The values of the counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Committed read-write transactions.
    pub committed_writes: u64,
    /// Committed transactions without writes.
    pub committed_reads: u64,
    /// Read timestamps moved forward.
    pub refreshes: u64,
    /// Reads answered from an old version.
    pub old_version_reads: u64,
    /// Reads that waited for a lock.
    pub lock_waits: u64,
    /// Intents that waited.
    pub intent_waits: u64,
    /// Patches applied again under the lock.
    pub patches_reapplied: u64,
    /// Truncations that a backup applied later, because a version that they change had not arrived
    /// yet.
    pub versions_awaited: u64,
    /// Aborts by reason, in the order of [`AbortReason::ALL`].
    pub aborts: [u64; AbortReason::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        let shard = || Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }
}

impl Counters {
    #[inline]
    pub(crate) fn count(&self, shard: usize, event: Event) {
        self.shards[shard % SHARDS].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_abort(&self, shard: usize, reason: AbortReason) {
        self.shards[shard % SHARDS].0[Event::FirstAbort as usize + reason as usize]
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the sums over all coordinators.
    pub fn totals(&self) -> Totals {
        let sum = |event: usize| {
            self.shards
                .iter()
                .map(|s| s.0[event].load(Ordering::Relaxed))
                .sum()
        };
        Totals {
            committed_writes: sum(Event::CommitWrite as usize),
            committed_reads: sum(Event::CommitRead as usize),
            refreshes: sum(Event::Refresh as usize),
            old_version_reads: sum(Event::OldVersionRead as usize),
            lock_waits: sum(Event::LockWait as usize),
            intent_waits: sum(Event::IntentWait as usize),
            patches_reapplied: sum(Event::PatchReapplied as usize),
            versions_awaited: sum(Event::VersionAwaited as usize),
            aborts: std::array::from_fn(|reason| sum(Event::FirstAbort as usize + reason)),
        }
    }
}
