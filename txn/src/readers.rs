//! The registry of active read timestamps: the bound below which old versions and freed slots are
//! garbage.
//!
//! # Picture
//! ```text
//! slot of a coordinator | reads at R (or idle) | commits at or above C (or not) | first log byte |
//! ```
//! # Invariants
//! * READ-1: once [`Readers::oldest`] has returned `b`, no transaction reads below `b` any more.
//!   The exception is a transaction on the snapshot of a peer's transaction, which that peer
//!   protects ([`crate::shared_snapshot`]). A reader publishes its read timestamp and then reads
//!   the bound. The collector publishes the bound and then reads the slots again. So one of the two
//!   sees the other. Where the time is known as an interval [L, U], both use L: a reader publishes
//!   the L of its begin, although it will read at U. So a slot also shows when its reader began.
//!   The reader cannot meet objects that were unlinked at or below that L, even before R is in
//!   force.
//! * READ-2: every commit at or below [`Readers::settled`] has been appended to the log. A commit
//!   publishes a lower bound of its write timestamp before it takes it.

use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_storage::Timestamp;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

use crate::clock::Clock;

const IDLE: u64 = u64::MAX;

/// The slot of one coordinator in the registry.
#[derive(Debug)]
#[repr(align(128))]
pub struct ReaderSlot {
    reading: AtomicU64,
    committing: AtomicU64,
    first_lsn: AtomicU64,
}

/// The slots of all coordinators.
#[derive(Debug, Default)]
pub struct Readers {
    slots: RwLock<Vec<Arc<ReaderSlot>>>,
    spare: Mutex<Vec<Arc<ReaderSlot>>>,
    bound: AtomicU64,
}

impl ReaderSlot {
    fn new() -> Self {
        ReaderSlot {
            reading: AtomicU64::new(IDLE),
            committing: AtomicU64::new(IDLE),
            first_lsn: AtomicU64::new(IDLE),
        }
    }

    /// Moves the published read timestamp: forward, or to one that a peer protects
    /// ([`crate::shared_snapshot`]).
    pub fn move_to(&self, r: Timestamp) {
        self.reading.store(r.raw(), Ordering::SeqCst);
    }

    /// Ends reading.
    #[inline]
    pub fn end(&self) {
        self.reading.store(IDLE, Ordering::Release);
    }

    /// Announces that a write timestamp above the current one of `clock` is about to be taken.
    /// Needed only on a machine that is alone, whose clock is a counter: other machines have no
    /// such log.
    #[inline]
    pub fn begin_commit(&self, clock: &Clock) {
        self.committing.store(clock.now().raw(), Ordering::SeqCst);
    }

    /// Ends the announcement: the commit is in the log, or was given up.
    #[inline]
    pub fn end_commit(&self) {
        self.committing.store(IDLE, Ordering::Release);
    }

    /// Publishes where in the log the records of a large transaction begin.
    pub fn hold_log(&self, lsn: u64) {
        self.first_lsn.fetch_min(lsn, Ordering::SeqCst);
    }

    /// Ends the hold of the transaction on the log.
    pub fn release_log(&self) {
        self.first_lsn.store(IDLE, Ordering::SeqCst);
    }
}

impl Readers {
    /// Returns a slot for a new coordinator.
    pub fn join(&self) -> Arc<ReaderSlot> {
        if let Some(slot) = self.spare.lock().pop() {
            return slot;
        }
        let slot = Arc::new(ReaderSlot::new());
        self.slots.write().push(Arc::clone(&slot));
        slot
    }

    /// Gives a slot back.
    pub fn leave(&self, slot: &Arc<ReaderSlot>) {
        slot.end();
        slot.end_commit();
        slot.release_log();
        self.spare.lock().push(Arc::clone(slot));
    }

    /// Begins reading in `slot` at the newest timestamp (READ-1). Returns that timestamp, which is
    /// U, and whether it is already in force.
    #[inline]
    pub fn begin(&self, slot: &ReaderSlot, clock: &Clock) -> (Timestamp, bool) {
        loop {
            let (low, r) = clock.interval();
            slot.reading.store(low.raw(), Ordering::SeqCst);
            if self.bound.load(Ordering::SeqCst) <= low.raw() {
                return (r, low == r);
            }
        }
    }

    /// Returns a timestamp below which no transaction reads, now or later (READ-1).
    pub fn oldest(&self, clock: &Clock) -> Timestamp {
        let slots = self.slots.read();
        let scan = |from: u64| {
            slots.iter().fold(from, |low, slot| {
                low.min(slot.reading.load(Ordering::SeqCst))
            })
        };
        let bound = scan(clock.low().raw());
        self.bound.fetch_max(bound, Ordering::SeqCst);
        Timestamp::from_raw(scan(bound))
    }

    /// Returns the timestamp up to which every commit has been appended to the log (READ-2), on a
    /// machine that is alone.
    pub fn settled(&self, clock: &Clock) -> Timestamp {
        let now = clock.now().raw();
        let slots = self.slots.read();
        let low = slots.iter().fold(now, |low, slot| {
            low.min(slot.committing.load(Ordering::SeqCst))
        });
        Timestamp::from_raw(low)
    }

    /// Returns the first log position that a running transaction still needs, if any.
    pub fn first_lsn(&self) -> Option<u64> {
        let low = self.slots.read().iter().fold(IDLE, |low, slot| {
            low.min(slot.first_lsn.load(Ordering::SeqCst))
        });
        (low != IDLE).then_some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ten() -> Clock {
        let clock = Clock::default();
        clock.raise(Timestamp::from_raw(10));
        clock
    }

    #[test]
    fn oldest_reader_bounds_garbage() {
        let (readers, clock) = (Readers::default(), at_ten());
        let (a, b) = (readers.join(), readers.join());
        assert_eq!(readers.begin(&a, &clock), (Timestamp::from_raw(10), true));
        clock.count().expect("a counter");
        assert_eq!(readers.begin(&b, &clock), (Timestamp::from_raw(11), true));
        assert_eq!(readers.oldest(&clock).raw(), 10);
        a.end();
        assert_eq!(readers.oldest(&clock).raw(), 11);
        b.end();
        clock.count().expect("a counter");
        assert_eq!(readers.oldest(&clock).raw(), 12);
    }

    #[test]
    fn in_flight_commit_holds_settled_point_back() {
        let (readers, clock) = (Readers::default(), at_ten());
        let slot = readers.join();
        slot.begin_commit(&clock);
        let w = clock.count().expect("a counter");
        assert!(readers.settled(&clock) < w);
        slot.end_commit();
        assert_eq!(readers.settled(&clock), w);
    }
}
