//! The clock that orders commits.
//!
//! On one machine the clock is a counter: a transaction reads at its value and a commit moves it on.
//! A commit takes its write timestamp after its locks, so whoever begins at or after that timestamp
//! meets either the lock or the new version.

use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_storage::Timestamp;

/// Source of read and write timestamps.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Clock(AtomicU64);

impl Clock {
    /// The newest timestamp given out: everything committed so far is at or below it.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_raw(self.0.load(Ordering::SeqCst))
    }

    /// A write timestamp above all others so far.
    #[inline]
    pub fn advance(&self) -> Timestamp {
        Timestamp::from_raw(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Moves the clock to at least `recovered`.
    pub fn raise(&self, recovered: Timestamp) {
        self.0.fetch_max(recovered.raw(), Ordering::SeqCst);
    }
}
