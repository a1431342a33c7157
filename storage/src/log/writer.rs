//! [`Log`]: the open log and its operations.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::error::LogError;
use super::format::{Lsn, SEGMENT_HEADER_BYTES, record_bytes};
use super::reservation::{LogReservation, Reserve};
use super::tail::Shared;
use super::waiters::FlushWait;
use super::{filler, flusher};

/// The function that the flusher calls before each flush; see [`Log::durable_watermark`].
pub type Watermark = Box<dyn Fn() -> u64 + Send + Sync>;

/// A record to be appended: its kind, and the parts of its body.
pub type NewRecord<'a> = (u8, &'a [&'a [u8]]);

/// The layout of a log. An existing log keeps the segment size that it was made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of a segment file; a multiple of 4096 of at least 16 KiB.
    pub segment_bytes: u64,
    /// Bytes that are kept allocated ahead of the end.
    pub fill_ahead_bytes: u64,
    /// Bytes of records that are gathered while the flusher is busy.
    pub buffer_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            fill_ahead_bytes: 16 << 20,
            buffer_bytes: 8 << 20,
        }
    }
}

impl LogOptions {
    /// Returns the options with every number moved into its valid range.
    pub(super) fn sound(&self) -> Self {
        let least = 4 * SEGMENT_HEADER_BYTES;
        let segment_bytes = self
            .segment_bytes
            .max(least)
            .next_multiple_of(SEGMENT_HEADER_BYTES);
        Self {
            segment_bytes,
            ..self.clone()
        }
    }
}

/// Counters of a log since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Batches written, which is also the number of syncs that commits wait for.
    pub flushes: u64,
    /// Bytes written in batches, including headers and padding.
    pub flushed_bytes: u64,
    /// Records written.
    pub flushed_records: u64,
    /// Times a reservation had to wait for the flusher or for space.
    pub append_waits: u64,
    /// Reservations refused because the disk was full.
    pub refused: u64,
}

/// The open log; made by [`super::LogRecovery::finish`]. Dropping it closes it.
pub struct Log {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Log {
    pub(super) fn start(shared: Shared, watermark: Watermark) -> io::Result<Self> {
        let shared = Arc::new(shared);
        shared.grant_space(&mut shared.tail.lock());
        let log = Self {
            shared: Arc::clone(&shared),
            threads: Mutex::default(),
        };
        let of_flusher = Arc::clone(&shared);
        let flush = thread::Builder::new().name("log-flusher".to_owned());
        let flush = flush.spawn(move || flusher::run(&of_flusher, &watermark))?;
        log.threads.lock().push(flush);
        let fill = thread::Builder::new().name("log-filler".to_owned());
        log.threads
            .lock()
            .push(fill.spawn(move || filler::run(&shared))?);
        Ok(log)
    }

    /// Appends records without a gap between them. Returns the LSN after the last, which is the one
    /// to wait for. The body of a record is the concatenation of its parts.
    ///
    /// Blocks while there is no log space. The caller must not hold anything that others wait for.
    /// An append of no records returns [`Self::position`] at once. Any thread may append. The
    /// records are not durable yet: see [`Self::wait_flushed`].
    ///
    /// # Errors
    /// Nothing was appended: [`LogError::TooLarge`] beyond [`Self::append_limit`],
    /// [`LogError::Full`] if the disk has no space, [`LogError::Failed`] after a failed flush,
    /// [`LogError::Closed`] after [`Self::close`].
    pub fn append(&self, records: &[NewRecord<'_>]) -> Result<Lsn, LogError> {
        let bytes = self.size(records)?;
        if bytes == 0 {
            return Ok(self.position());
        }
        let mut space = self.shared.reserve_blocking(bytes, 1)?;
        self.append_reserved(&mut space, records, true)
    }

    /// Appends as [`Log::append`] does, if log space is available at once. Otherwise appends
    /// nothing and returns `None`. Never waits for space, not even on a full disk.
    ///
    /// # Errors
    /// As [`Self::append`], but never [`LogError::Full`].
    pub fn try_append(&self, records: &[NewRecord<'_>]) -> Result<Option<Lsn>, LogError> {
        let bytes = self.size(records)?;
        match self.shared.try_reserve(bytes, 1) {
            Some(mut reservation) => self
                .append_reserved(&mut reservation, records, true)
                .map(Some),
            None => Ok(None),
        }
    }

    /// Reserves log space for `appends` appends of `bytes` together, if it is available at once.
    /// `bytes` includes headers and padding ([`RECORD_HEADER_BYTES`](super::RECORD_HEADER_BYTES),
    /// and up to a multiple of 8). Unused space must be given back. Returns `None` also while other
    /// requests wait (LOGSPACE-2).
    #[inline]
    pub fn try_reserve(&self, bytes: usize, appends: usize) -> Option<LogReservation> {
        self.shared.try_reserve(bytes, appends)
    }

    /// Reserves as [`Log::try_reserve`] does, but waits in the queue. Must not be awaited by a
    /// caller that has reserved space, or that holds anything for which another holder of reserved
    /// space waits. Needs no particular executor, and may be dropped at any time.
    ///
    /// # Errors
    /// [`LogError::Full`] if the disk has no space for it: abort, and try again later.
    /// [`LogError::Failed`] after a failed flush, [`LogError::Closed`] after [`Self::close`].
    pub fn reserve(
        &self,
        bytes: usize,
        appends: usize,
    ) -> impl Future<Output = Result<LogReservation, LogError>> + Send + Unpin + '_ {
        Reserve::new(&self.shared, bytes, appends)
    }

    /// Gives back unused space.
    pub fn give_back(&self, reservation: LogReservation) {
        self.shared.give_back(reservation);
    }

    /// Appends as [`Log::append`] does, into reserved space: never waits. If `done`, the rest of
    /// the reservation is given back, after an error, too. The caller must not append more than it
    /// has reserved.
    ///
    /// # Errors
    /// Nothing was appended: [`LogError::Failed`] after a failed flush, [`LogError::Closed`] after
    /// [`Self::close`], [`LogError::TooLarge`] beyond [`Self::append_limit`].
    pub fn append_reserved(
        &self,
        reservation: &mut LogReservation,
        records: &[NewRecord<'_>],
        done: bool,
    ) -> Result<Lsn, LogError> {
        let appended = self.push(reservation, records, done);
        if done && appended.is_err() {
            self.give_back(std::mem::take(reservation));
        }
        appended
    }

    fn push(
        &self,
        reservation: &mut LogReservation,
        records: &[NewRecord<'_>],
        done: bool,
    ) -> Result<Lsn, LogError> {
        let bytes = self.size(records)? as u64;
        let segment_bytes = self.shared.segments.segment_bytes;
        let mut tail = self.shared.tail.lock();
        if let Some(ended) = self.shared.ended(&tail) {
            return Err(ended);
        }
        let before = tail.next(segment_bytes);
        let placed = tail.place(bytes, segment_bytes);
        debug_assert!(placed, "what is reserved is allocated");
        if !placed {
            return Err(LogError::Full);
        }
        for (kind, parts) in records {
            tail.batch.push(*kind, parts);
        }
        tail.gathered += bytes;
        let moved = tail.next(segment_bytes) - before;
        self.shared.use_up(&mut tail, reservation, moved, done);
        Ok(self.shared.commit(tail))
    }

    fn size(&self, records: &[NewRecord<'_>]) -> Result<usize, LogError> {
        let size = |parts: &[&[u8]]| record_bytes(parts.iter().map(|part| part.len()).sum());
        let bytes = records.iter().map(|(_, parts)| size(parts)).sum();
        let limit = self.shared.append_limit();
        if bytes > limit {
            return Err(LogError::TooLarge { bytes, limit });
        }
        Ok(bytes)
    }

    /// Returns the most bytes that one append may take, including headers and padding.
    pub fn append_limit(&self) -> usize {
        self.shared.append_limit()
    }

    /// Returns the end of all appended records. Waiting until the log is durable up to here waits
    /// for everything that was appended before the call.
    pub fn position(&self) -> Lsn {
        Lsn::from_raw(self.shared.appended.load(Ordering::Acquire))
    }

    /// Returns whether the disk was full at the last attempt to allocate more space. The allocated
    /// space is then still ahead of the end by [`LogOptions::fill_ahead_bytes`], less one step, so
    /// that running commits find space.
    pub fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Acquire)
    }

    /// Makes the filler check a full disk again; [`Log::is_full`] returns the result.
    pub fn look_for_space(&self) {
        let mut tail = self.shared.tail.lock();
        if tail.full {
            self.shared.want_more(&mut tail);
        }
    }

    /// Returns the end of the durable part (LOG-2), without waiting.
    pub fn flushed(&self) -> Lsn {
        Lsn::from_raw(self.shared.waiters.flushed())
    }

    /// Returns the newest number that the watermark function returned before a flush that is now
    /// durable. If the function returns timestamps up to which every commit has been appended,
    /// every commit up to this one is durable.
    pub fn durable_watermark(&self) -> u64 {
        self.shared.watermark.load(Ordering::Acquire)
    }

    /// Returns a future that is ready once the log is durable up to `lsn`, or has failed. Needs no
    /// particular executor, and may be dropped at any time. The flusher wakes it; one flush may
    /// wake many.
    ///
    /// # Errors
    /// [`LogError::Failed`] if a flush has failed before the log was durable up to there: the
    /// records may or may not be on the disk. [`LogError::Closed`] if the log has been closed and
    /// `lsn` is beyond its end.
    pub fn wait_flushed(
        &self,
        lsn: Lsn,
    ) -> impl Future<Output = Result<(), LogError>> + Send + Unpin + '_ {
        FlushWait::new(&self.shared, lsn)
    }

    /// Blocks the thread until the log is durable up to `lsn`, or has failed.
    ///
    /// # Errors
    /// As [`Self::wait_flushed`].
    pub fn wait_flushed_blocking(&self, lsn: Lsn) -> Result<(), LogError> {
        self.shared.wait_flushed_blocking(lsn)
    }

    /// Retires all segments without records at or after `lsn`. Call it when a checkpoint from which
    /// replay begins at `lsn` is durable. Removes nothing that is not durable yet. Blocks for the
    /// calls of the disk, but holds up no append.
    ///
    /// # Errors
    /// [`LogError::Io`] if the disk refuses to rename or remove a segment: it stays until the next
    /// opening. The log itself still works.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), LogError> {
        let below = lsn.min(self.flushed());
        self.shared
            .segments
            .retire_below(below.raw() / self.shared.segments.segment_bytes)
    }

    /// Returns whether a flush has failed: nothing more will become durable.
    pub fn has_failed(&self) -> bool {
        self.shared.failure.get().is_some()
    }

    /// Returns the counters since the log was opened.
    pub fn counters(&self) -> LogCounters {
        let counts = &self.shared.counts;
        LogCounters {
            flushes: counts.flushes.load(Ordering::Relaxed),
            flushed_bytes: counts.flushed_bytes.load(Ordering::Relaxed),
            flushed_records: counts.flushed_records.load(Ordering::Relaxed),
            append_waits: counts.append_waits.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
        }
    }

    /// Makes everything appended durable and ends the threads; later appends are refused. Blocks
    /// until the threads have ended. A second call has no effect.
    ///
    /// # Errors
    /// [`LogError::Failed`] if a flush has failed, now or earlier.
    pub fn close(&self) -> Result<(), LogError> {
        self.shared.close();
        for thread in self.threads.lock().drain(..) {
            // A panic of a log thread has been reported by its own message.
            let _ = thread.join();
        }
        self.shared.waiters.wake_all();
        self.shared.failure().map_or(Ok(()), Err)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // An error has no receiver any more; all waiters have been answered.
        let _ = self.close();
    }
}
