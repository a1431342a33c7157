//! The end of the log, shared by appenders, flusher and filler.
//!
//! *Picture.*
//!
//! ```text
//!   … written │ being written │ closed batches │ batch being gathered │ reserved │ allocated │
//!             ▲ flushed                        ▲ batch.start          ▲ next     filled ▲
//! ```
//!
//! *Invariants.*
//! - Every batch, padded, ends at or below `filled` and before its segment does (LOG-3). It ends at
//!   least 8 bytes before, so that the end of any record is a position in its segment.
//! - A batch that cannot take an append is closed. The next one begins after it, if necessary in
//!   the next segment. Closed batches wait for the flusher in order.
//! - `next + reserved <= filled`, where `next` is the last position at which the next batch would
//!   begin. So an append with reserved space never waits (see [`super::reservation`]).
//!
//! *Concurrency.* `tail` is the only lock. The flusher and the filler each wait on a condition
//! variable of their own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::Batch;
use super::error::LogError;
use super::format::{BATCH_HEADER_BYTES, Lsn, MAX_APPEND_BYTES, SEGMENT_HEADER_BYTES, align_batch};
use super::reservation::SpaceWaiter;
use super::segments::Segments;
use super::waiters::Waiters;

/// The state that all threads of a log share.
pub(super) struct Shared {
    pub segments: Segments,
    pub fill_ahead_bytes: u64,
    pub buffer_bytes: u64,
    pub incarnation: u32,
    pub tail: Mutex<Tail>,
    /// The flusher waits here for records.
    pub work: Condvar,
    /// The filler waits here until the tail has come closer.
    pub fill: Condvar,
    /// Space that is reserved and not used yet.
    pub reserved: AtomicU64,
    /// Largest value of `reserved` that needs no check under the lock; changed under the tail's
    /// lock.
    pub ceiling: AtomicU64,
    /// A copy of [`Tail::full`] for readers without the lock.
    pub full: AtomicBool,
    /// Number of requests that wait for space; changed under the tail's lock.
    pub waiting: AtomicUsize,
    pub appended: AtomicU64,
    pub watermark: AtomicU64,
    pub waiters: Waiters,
    pub failure: OnceLock<Arc<str>>,
    /// Whether the flusher has ended: records that are not durable now never will be.
    pub flusher_ended: AtomicBool,
    pub counts: Counts,
}

/// Counts of events since the log was opened.
#[derive(Default)]
pub(super) struct Counts {
    pub flushes: AtomicU64,
    pub flushed_bytes: AtomicU64,
    pub flushed_records: AtomicU64,
    pub append_waits: AtomicU64,
    pub refused: AtomicU64,
}

/// The end of the log; guarded by one mutex.
pub(super) struct Tail {
    pub batch: Batch,
    /// Batches that take no more records, each with the end of the one before it.
    closed: VecDeque<(Batch, u64)>,
    /// Bytes of records that the flusher has not taken yet.
    pub gathered: u64,
    /// The buffer of the last batch written, while it is unused.
    pub spare_buffer: Vec<u8>,
    /// The end of the batch before the gathered one.
    prev_end: u64,
    /// The position up to which the log has allocated bytes.
    pub filled: u64,
    /// Whether the last attempt to allocate more found the disk full.
    pub full: bool,
    /// Whether more space is needed than was allocated at that attempt.
    pub wanted: bool,
    pub closing: bool,
    pub flusher_idle: bool,
    pub filler_idle: bool,
    /// Requests that wait for space, first come, first served.
    pub waiting: VecDeque<Arc<SpaceWaiter>>,
}

impl Shared {
    /// Returns the error that all callers get once a flush has failed.
    pub fn failure(&self) -> Option<LogError> {
        self.failure
            .get()
            .map(|why| LogError::Failed(Arc::clone(why)))
    }

    /// Returns the reason why the log takes no more appends, if there is one.
    pub fn ended(&self, tail: &Tail) -> Option<LogError> {
        self.failure().or(tail.closing.then_some(LogError::Closed))
    }

    /// Fails the log for good: the contents of the disk are unknown.
    pub fn fail(&self, why: String) {
        // Only the first failure is reported.
        let _ = self.failure.set(why.into());
        self.notify_threads();
        self.waiters.wake_all();
    }

    /// Refuses further appends; the threads end when they have done the remaining work.
    pub fn close(&self) {
        self.tail.lock().closing = true;
        self.notify_threads();
    }

    fn notify_threads(&self) {
        // Under the lock: a thread that has checked already waits, and one that has not will see
        // the change.
        let mut tail = self.tail.lock();
        self.work.notify_all();
        self.fill.notify_all();
        self.grant_space(&mut tail);
    }

    /// Returns the most bytes that one append may take.
    pub fn append_limit(&self) -> usize {
        let segment = self.segments.segment_bytes as usize;
        MAX_APPEND_BYTES.min(segment - SEGMENT_HEADER_BYTES as usize - BATCH_HEADER_BYTES - 8)
    }

    /// Publishes the records that were pushed under `tail`. Returns the log's new end.
    pub fn commit(&self, mut tail: MutexGuard<'_, Tail>) -> Lsn {
        let end = tail.batch.end();
        self.appended.store(end, Ordering::Release);
        if tail.filler_idle && !tail.full && tail.filled < self.fill_target(&tail) {
            self.wake_filler(&mut tail);
        }
        if tail.flusher_idle {
            tail.flusher_idle = false;
            self.work.notify_one();
        }
        Lsn::from_raw(end)
    }

    pub fn wake_filler(&self, tail: &mut Tail) {
        tail.filler_idle = false;
        self.fill.notify_one();
    }

    /// Stores the result of the last attempt to allocate more.
    pub fn set_full(&self, tail: &mut Tail, full: bool) {
        tail.full = full;
        tail.wanted = false;
        self.full.store(full, Ordering::Release);
        self.grant_space(tail);
    }

    /// Makes the filler check whether a full disk has space again.
    pub fn want_more(&self, tail: &mut Tail) {
        if !std::mem::replace(&mut tail.wanted, true) {
            self.wake_filler(tail);
        }
    }

    /// Returns the position up to which the log should be allocated.
    pub fn fill_target(&self, tail: &Tail) -> u64 {
        tail.batch.end() + self.fill_ahead_bytes
    }
}

impl Tail {
    /// Returns the end of a log whose last batch ends at `prev_end`; the next one is `batch`.
    pub fn new(batch: Batch, prev_end: u64, filled: u64) -> Self {
        Self {
            batch,
            closed: VecDeque::new(),
            gathered: 0,
            spare_buffer: Vec::new(),
            prev_end,
            filled,
            full: false,
            wanted: false,
            closing: false,
            flusher_idle: false,
            filler_idle: false,
            waiting: VecDeque::new(),
        }
    }

    /// Makes the gathered batch one that takes `bytes` more. Returns `false` if no bytes are
    /// allocated there.
    pub fn place(&mut self, bytes: u64, segment_bytes: u64) -> bool {
        let fits = |batch: &Batch| {
            batch.end() + bytes + 8 <= (batch.start() / segment_bytes + 1) * segment_bytes
        };
        if !self.batch.is_empty() {
            let in_segment = fits(&self.batch);
            if !in_segment || self.batch.len() as u64 + bytes > MAX_APPEND_BYTES as u64 {
                self.close_batch(!in_segment, segment_bytes);
            }
        }
        if self.batch.is_empty() && !fits(&self.batch) {
            let next = segment_after(self.batch.start(), segment_bytes);
            self.batch.move_to(next);
        }
        align_batch(self.batch.end() + bytes) <= self.filled
    }

    /// Returns the last position at which the next batch begins its records, if nothing more is
    /// appended before it.
    pub fn next(&self, segment_bytes: u64) -> u64 {
        let (start, end) = (self.batch.start(), self.batch.end());
        if self.batch.is_empty() {
            end
        } else {
            next_start(start, end, false, segment_bytes) + BATCH_HEADER_BYTES as u64
        }
    }

    fn close_batch(&mut self, sealed: bool, segment_bytes: u64) {
        let end = self.batch.end();
        let next = next_start(self.batch.start(), end, sealed, segment_bytes);
        let buffer = std::mem::take(&mut self.spare_buffer);
        let batch = std::mem::replace(&mut self.batch, Batch::new(next, buffer));
        let prev_end = std::mem::replace(&mut self.prev_end, end);
        self.closed.push_back((batch, prev_end));
    }

    /// Returns whether the flusher has nothing to write.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.batch.is_empty()
    }

    /// Takes the oldest batch. Returns it with the end of the one before.
    pub fn take_batch(&mut self, segment_bytes: u64) -> Option<(Batch, u64)> {
        if self.is_empty() {
            return None;
        }
        if self.closed.is_empty() {
            self.close_batch(false, segment_bytes);
        }
        let taken = self.closed.pop_front()?;
        self.gathered -= (taken.0.len() - BATCH_HEADER_BYTES) as u64;
        Some(taken)
    }
}

/// Returns the position of the first batch in the segment after `at`.
fn segment_after(at: u64, segment_bytes: u64) -> u64 {
    (at / segment_bytes + 1) * segment_bytes + SEGMENT_HEADER_BYTES
}

/// Returns the position of a batch that follows one from `start` to `end`.
pub(super) fn next_start(start: u64, end: u64, sealed: bool, segment_bytes: u64) -> u64 {
    let next = align_batch(end);
    let next_segment = segment_after(start, segment_bytes);
    // The smallest batch that may follow has one empty record.
    let crowded = next + BATCH_HEADER_BYTES as u64 + 24 > next_segment - SEGMENT_HEADER_BYTES;
    if sealed || crowded {
        next_segment
    } else {
        next
    }
}
