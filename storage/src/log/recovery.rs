//! Opening a log after a crash or a clean end: checks the segments, returns the records, cuts the
//! torn tail, and continues where the last complete record ends.
//!
//! *Picture.* The steps of an opening:
//!
//! ```text
//!   LogRecovery::open ── next_chunk … next_chunk ── finish ──► Log
//!     headers checked     records, oldest first      tail cut, stale segments retired, threads up
//! ```
//!
//! *Failure.* Nothing is written before [`LogRecovery::finish`], so a refused log is unchanged, and
//! other tools can inspect it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::OnceLock;

use fencepost_fabric::{Disk, DiskFile, Random};
use parking_lot::{Condvar, Mutex};

use super::batch::Batch;
use super::error::LogError;
use super::format::{Lsn, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::reader::{Chunk, Reader, SegmentFile};
use super::segments::{Segments, segment_name, segment_number};
use super::tail::{Shared, Tail, next_start};
use super::waiters::Waiters;
use super::writer::{Log, LogOptions, Watermark};

/// The part of the log that must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequiredLog {
    /// The position where replay begins: the `begin` of the checkpoint, or zero if there is none.
    pub from: Lsn,
    /// The log was durable up to here, so a log that ends earlier has lost records: the `end` of
    /// the checkpoint, or zero.
    pub through: Lsn,
}

/// The half-written bytes of the last flush before the crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The file of the bytes.
    pub file: String,
    /// The first byte cut off.
    pub offset: u64,
    /// Number of bytes that the flush would have written from there on.
    pub bytes: u64,
}

/// The result of an opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// Number of records at or after the requested position.
    pub records: u64,
    /// The end of the last complete record.
    pub end: Lsn,
    /// The bytes that were cut off, if the last flush was torn.
    pub torn: Option<TornTail>,
    /// Whether there was no log, so that a new one was begun.
    pub fresh: bool,
}

/// A log that is being opened.
pub struct LogRecovery {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    needed: RequiredLog,
    reader: Reader,
    records: u64,
    /// Set if the last segment had no space for a record: the segment is ignored.
    headless: Option<TornTail>,
}

impl LogRecovery {
    /// Opens the segments in `disk`, a directory that belongs to the log alone. Reads only their
    /// headers.
    ///
    /// # Errors
    /// [`LogError::Missing`] if the first needed segment does not exist, [`LogError::Corrupt`] if
    /// the header of a segment is damaged or of another log, [`LogError::Io`] if the disk cannot
    /// read one. Do not start then; nothing was changed.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        needed: RequiredLog,
    ) -> Result<Self, LogError> {
        let options = options.sound();
        let names = disk.list().map_err(LogError::io(disk.path("")))?;
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|name| segment_number(name))
            .collect();
        numbers.sort_unstable();
        let headless = drop_headless(&disk, &mut numbers)?;
        let (log_id, segment_bytes) = match numbers.last() {
            Some(&last) => {
                let header = open_segment(&disk, last)?.1;
                (header.log_id, header.segment_bytes)
            }
            None => (Random::from_entropy().next_u64(), options.segment_bytes),
        };
        let first = needed.from.raw() / segment_bytes;
        let mut segments = Vec::new();
        for &number in numbers.iter().filter(|&&number| number >= first) {
            let (file, header) = open_segment(&disk, number)?;
            if header
                != (SegmentHeader {
                    log_id,
                    segment_bytes,
                    number,
                })
            {
                return Err(LogError::Corrupt {
                    file: file.path,
                    offset: 0,
                    what: "the segment belongs to another log or place",
                });
            }
            segments.push(SegmentFile {
                len: file.len.min(segment_bytes),
                ..file
            });
        }
        let fresh = numbers.is_empty() && needed == RequiredLog::default();
        if !fresh && segments.first().map(|segment| segment.number) != Some(first) {
            return Err(LogError::Missing {
                file: disk.path(&segment_name(first)),
            });
        }
        let reader = Reader::new(segments, log_id, segment_bytes, needed.from);
        Ok(Self {
            disk,
            options,
            needed,
            reader,
            records: 0,
            headless,
        })
    }

    /// Returns the next run of records; `None` after the last. Records are checked, oldest first,
    /// each returned once.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if durable bytes are damaged (LOG-1), or if the log ends before
    /// [`RequiredLog::through`]; [`LogError::Missing`] if no segment is left of a log that is
    /// needed; [`LogError::Io`] if the disk cannot read.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, LogError> {
        let chunk = self.reader.next_chunk()?;
        if let Some(chunk) = chunk {
            self.records += chunk.len();
            return Ok(Some(chunk));
        }
        let end = self.end();
        if end < self.needed.through.max(self.needed.from) {
            return Err(match self.reader.last() {
                Some(last) => LogError::Corrupt {
                    file: last.path.clone(),
                    offset: end.raw() % self.reader.segment_bytes,
                    what: "the log ends before the checkpoint that rests on it",
                },
                None => LogError::Missing {
                    file: self.disk.path(&segment_name(0)),
                },
            });
        }
        Ok(None)
    }

    /// Makes the whole log durable as it was read. A process may have ended between a write and its
    /// sync; its bytes are then readable until the power fails. Call this before others are told of
    /// the records and the log is not open yet.
    ///
    /// # Errors
    /// [`LogError::Io`]: which of the bytes are durable is unknown then.
    pub fn sync(&self) -> Result<(), LogError> {
        for segment in &self.reader.segments {
            let synced = segment.file.sync();
            synced.map_err(LogError::io(segment.path.as_str()))?;
        }
        Ok(())
    }

    /// Returns the findings so far; complete once [`LogRecovery::next_chunk`] has returned `None`.
    pub fn report(&self) -> RecoveryReport {
        RecoveryReport {
            records: self.records,
            end: self.end(),
            torn: self.reader.torn.clone().or_else(|| self.headless.clone()),
            fresh: self.reader.segments.is_empty(),
        }
    }

    /// Opens the log for appending after the last complete record; unread chunks are read, checked
    /// and skipped. Cuts a torn tail, and starts the flusher and the filler. The flusher calls
    /// `watermark` before each flush ([`Log::durable_watermark`]).
    ///
    /// # Errors
    /// As [`Self::next_chunk`]; [`LogError::Io`] also if the disk cannot write, or if the system
    /// refuses a thread.
    pub fn finish(mut self, watermark: Watermark) -> Result<(Log, RecoveryReport), LogError> {
        while self.next_chunk()?.is_some() {}
        let report = self.report();
        let (log_id, segment_bytes) = (self.reader.log_id, self.reader.segment_bytes);
        let segments = Segments::new(Arc::clone(&self.disk), log_id, segment_bytes);
        let filled = self.adopt(&segments)?;
        let end = report.end.raw();
        let at = self.reader.last().map_or(0, |last| last.number) * segment_bytes;
        let first = Batch::new(next_start(at, end, false, segment_bytes), Vec::new());
        let tail = Tail::new(first, end, filled);
        let shared = Shared {
            segments,
            fill_ahead_bytes: self.options.fill_ahead_bytes,
            buffer_bytes: self.options.buffer_bytes,
            incarnation: Random::from_entropy().next_u64() as u32,
            tail: Mutex::new(tail),
            work: Condvar::new(),
            fill: Condvar::new(),
            reserved: 0.into(),
            ceiling: 0.into(),
            full: false.into(),
            waiting: 0.into(),
            appended: end.into(),
            watermark: 0.into(),
            waiters: Waiters::starting_at(end),
            failure: OnceLock::new(),
            flusher_ended: false.into(),
            counts: Default::default(),
        };
        let log = Log::start(shared, watermark).map_err(LogError::io(self.disk.path("")))?;
        Ok((log, report))
    }

    fn end(&self) -> Lsn {
        let start = self.reader.segments.first().map_or(0, |first| first.number);
        let start = start * self.reader.segment_bytes + SEGMENT_HEADER_BYTES;
        Lsn::from_raw(self.reader.end().unwrap_or(start))
    }

    /// Gives the segments up to the end to the open log, and retires the others. Returns the LSN up
    /// to which bytes are allocated.
    fn adopt(&self, segments: &Segments) -> Result<u64, LogError> {
        let mut live: BTreeMap<u64, Arc<dyn DiskFile>> = BTreeMap::new();
        let Some(last) = self.reader.last() else {
            segments.adopt(live)?;
            let made = segments.make(0, SEGMENT_HEADER_BYTES);
            return made.map_err(LogError::io(self.disk.path(&segment_name(0))));
        };
        for segment in self
            .reader
            .segments
            .iter()
            .filter(|s| s.number <= last.number)
        {
            live.insert(segment.number, Arc::clone(&segment.file));
        }
        segments.adopt(live)?;
        // A cut file may end anywhere; the filler works in whole pages.
        let filled = last.len.next_multiple_of(SEGMENT_HEADER_BYTES);
        if filled > last.len {
            let grown = last
                .file
                .zero_fill(last.len, filled)
                .and_then(|()| last.file.sync_all());
            grown.map_err(LogError::io(last.path.as_str()))?;
        }
        Ok(last.number * self.reader.segment_bytes + filled)
    }
}

/// Drops a last segment that is too short to contain a batch, as if it had not been made.
fn drop_headless(
    disk: &Arc<dyn Disk>,
    numbers: &mut Vec<u64>,
) -> Result<Option<TornTail>, LogError> {
    let Some(&last) = numbers.last() else {
        return Ok(None);
    };
    let name = segment_name(last);
    let len = disk.open(&name).and_then(|file| file.len());
    let len = len.map_err(LogError::io(disk.path(&name)))?;
    if len >= SEGMENT_HEADER_BYTES {
        return Ok(None);
    }
    numbers.pop();
    Ok(Some(TornTail {
        file: disk.path(&name),
        offset: 0,
        bytes: len,
    }))
}

fn open_segment(
    disk: &Arc<dyn Disk>,
    number: u64,
) -> Result<(SegmentFile, SegmentHeader), LogError> {
    let name = segment_name(number);
    let path = disk.path(&name);
    let mut page = vec![0; SEGMENT_HEADER_BYTES as usize];
    let read = disk.open(&name).and_then(|file| {
        let n = file.read_at(0, &mut page)?;
        Ok((n, file.len()?, file))
    });
    let (n, len, file) = read.map_err(LogError::io(path.as_str()))?;
    match SegmentHeader::decode(&page[..n]) {
        Ok(header) => Ok((
            SegmentFile {
                number,
                path,
                file,
                len,
            },
            header,
        )),
        Err(what) => Err(LogError::Corrupt {
            file: path,
            offset: 0,
            what,
        }),
    }
}
