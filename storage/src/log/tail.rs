//! The end of the log as appenders, flusher and filler share it.
//!
//! *Picture.*
//!
//! ```text
//!   … written batches │ batch being written │ batch being gathered │  allocated   │ nothing yet
//!                     ▲ flushed             ▲ batch.start          ▲ appended     ▲ filled
//! ```
//!
//! *Invariants.*
//! - The gathered batch, padded, ends at or below `filled` and before its segment does (LOG-3).
//!   It ends at least 8 bytes before, so that the end of any record is a place in its segment.
//! - A sealed batch takes no more records: the next one begins the next segment.
//!
//! *Concurrency.* `tail` is the only lock; three condition variables tell its three kinds of
//! waiters apart.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::Batch;
use super::error::LogError;
use super::format::{BATCH_HEADER_BYTES, Lsn, MAX_APPEND_BYTES, SEGMENT_HEADER_BYTES, align_batch};
use super::segments::Segments;
use super::waiters::Waiters;

/// What all threads of a log share.
pub(super) struct Shared {
    pub segments: Segments,
    pub fill_ahead_bytes: u64,
    pub life: u32,
    pub tail: Mutex<Tail>,
    /// The flusher waits here for records.
    pub work: Condvar,
    /// Appenders wait here for room in the batch, or for allocated space.
    pub room: Condvar,
    /// The filler waits here until the tail has come closer.
    pub fill: Condvar,
    pub appended: AtomicU64,
    pub watermark: AtomicU64,
    pub waiters: Waiters,
    pub failure: OnceLock<Arc<str>>,
    /// The flusher has ended: what is not durable now never will be.
    pub flusher_gone: AtomicBool,
    pub counts: Counts,
}

/// What happened since the log was opened.
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
    /// The buffer of the last batch written, while nobody uses it.
    pub spare_buffer: Vec<u8>,
    /// The end of the batch before the gathered one.
    pub prev_end: u64,
    pub sealed: bool,
    /// Up to here the log has allocated bytes.
    pub filled: u64,
    /// The last attempt to allocate more found the disk full.
    pub full: bool,
    /// An append was refused since that attempt.
    pub wanted: bool,
    pub closing: bool,
    pub flusher_idle: bool,
    pub filler_idle: bool,
}

/// Whether and why not an append has room.
enum Room {
    Yes,
    /// The batch must be written first.
    AfterFlush,
    /// More of the log must be allocated first.
    AfterFill,
}

impl Shared {
    /// The error all callers get once a flush has failed.
    pub fn failure(&self) -> Option<LogError> {
        self.failure
            .get()
            .map(|why| LogError::Failed(Arc::clone(why)))
    }

    /// Ends the log's life: nothing is known about the disk any more.
    pub fn fail(&self, why: String) {
        // The first failure is the one that is told.
        let _ = self.failure.set(why.into());
        self.notify_threads();
        self.waiters.wake_all();
    }

    /// Refuses further appends; the threads end when they have done what is left.
    pub fn close(&self) {
        self.tail.lock().closing = true;
        self.notify_threads();
    }

    fn notify_threads(&self) {
        // Under the lock: whoever has looked already waits, whoever has not will see.
        let _tail = self.tail.lock();
        self.work.notify_all();
        self.room.notify_all();
        self.fill.notify_all();
    }

    /// The most one append may take.
    pub fn append_limit(&self) -> usize {
        let segment = self.segments.segment_bytes as usize;
        MAX_APPEND_BYTES.min(segment - SEGMENT_HEADER_BYTES as usize - BATCH_HEADER_BYTES - 8)
    }

    /// Locks the tail with room for `bytes` more in its batch.
    pub fn reserve(&self, bytes: usize) -> Result<MutexGuard<'_, Tail>, LogError> {
        let mut tail = self.tail.lock();
        loop {
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            if tail.closing {
                return Err(LogError::Closed);
            }
            match tail.room(bytes, self.segments.segment_bytes) {
                Room::Yes => return Ok(tail),
                Room::AfterFlush => self.wake_flusher(&mut tail),
                Room::AfterFill if tail.full => {
                    tail.wanted = true;
                    self.fill.notify_one();
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    return Err(LogError::Full);
                }
                Room::AfterFill => {
                    tail.wanted = true;
                    self.fill.notify_one();
                }
            }
            self.counts.append_waits.fetch_add(1, Ordering::Relaxed);
            self.room.wait(&mut tail);
        }
    }

    /// Makes what was pushed under `tail` known; gives the log's new end.
    pub fn commit(&self, mut tail: MutexGuard<'_, Tail>) -> Lsn {
        let end = tail.batch.end();
        self.appended.store(end, Ordering::Release);
        if tail.filler_idle && !tail.full && tail.filled < self.fill_target(&tail) {
            tail.filler_idle = false;
            self.fill.notify_one();
        }
        self.wake_flusher(&mut tail);
        Lsn::from_raw(end)
    }

    fn wake_flusher(&self, tail: &mut Tail) {
        if tail.flusher_idle {
            tail.flusher_idle = false;
            self.work.notify_one();
        }
    }

    /// How far the log should be allocated.
    pub fn fill_target(&self, tail: &Tail) -> u64 {
        tail.batch.end() + self.fill_ahead_bytes
    }
}

impl Tail {
    /// Looks for a place for `bytes` more; an empty batch is moved where there is one.
    fn room(&mut self, bytes: usize, segment_bytes: u64) -> Room {
        if self.sealed {
            return Room::AfterFlush;
        }
        let fits = |end: u64, start: u64| end + 8 <= (start / segment_bytes + 1) * segment_bytes;
        if !fits(self.batch.end() + bytes as u64, self.batch.start()) {
            if !self.batch.is_empty() {
                self.sealed = true;
                return Room::AfterFlush;
            }
            self.batch
                .move_to(segment_after(self.batch.start(), segment_bytes));
        }
        if !self.batch.is_empty() && self.batch.len() + bytes > MAX_APPEND_BYTES {
            return Room::AfterFlush;
        }
        if align_batch(self.batch.end() + bytes as u64) > self.filled {
            return Room::AfterFill;
        }
        Room::Yes
    }

    /// Takes the gathered batch and begins the next; gives it with the end of the one before.
    pub fn take_batch(&mut self, segment_bytes: u64) -> (Batch, u64) {
        let end = self.batch.end();
        let next = next_start(self.batch.start(), end, self.sealed, segment_bytes);
        let buffer = std::mem::take(&mut self.spare_buffer);
        let batch = std::mem::replace(&mut self.batch, Batch::new(next, buffer));
        let prev_end = std::mem::replace(&mut self.prev_end, end);
        self.sealed = false;
        (batch, prev_end)
    }
}

/// Where the first batch of the segment behind `at` begins.
fn segment_after(at: u64, segment_bytes: u64) -> u64 {
    (at / segment_bytes + 1) * segment_bytes + SEGMENT_HEADER_BYTES
}

/// Where a batch begins that follows one from `start` to `end`.
pub(super) fn next_start(start: u64, end: u64, sealed: bool, segment_bytes: u64) -> u64 {
    let next = align_batch(end);
    let next_segment = segment_after(start, segment_bytes);
    // A batch with one empty record is the least that may follow.
    let crowded = next + BATCH_HEADER_BYTES as u64 + 24 > next_segment - SEGMENT_HEADER_BYTES;
    if sealed || crowded {
        next_segment
    } else {
        next
    }
}
