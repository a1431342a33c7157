//! Reading the log: batch after batch in large reads, and the decision at a break of the chain.
//!
//! *Picture.* The meaning of a break, by the bytes that follow it (LOG-1):
//!
//! | at the break                 | somewhere after it             | meaning                      |
//! |------------------------------|--------------------------------|------------------------------|
//! | bad header or bad record     | the batch that continues here¹ | an earlier recovery cut here |
//! | bad header or bad record     | any other good batch header    | corrupt: refuse              |
//! | bad record, or damaged header| no good batch header           | torn tail: cut here          |
//! | no header                    | no good batch header           | the clean end                |
//!
//! ¹ at the next position where a batch can begin, or at the start of the next segment, if its
//! header names the end of the last complete record as the end of the batch before it.

use std::sync::Arc;

use fencepost_fabric::DiskFile;

use super::error::LogError;
use super::format::{
    BATCH_ALIGN, BATCH_HEADER_BYTES, BatchHeader, Lsn, MAX_APPEND_BYTES, RECORD_HEADER_BYTES,
    RecordHeader, SEGMENT_HEADER_BYTES, align_batch, record_bytes,
};
use super::recovery::TornTail;

/// Bytes that are read at a time, unless a batch is larger.
const WINDOW_BYTES: u64 = 4 << 20;

/// One record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Position of its first byte.
    pub lsn: Lsn,
    /// The kind that its writer gave.
    pub kind: u8,
    /// The bytes of its body; they begin at an address that is a multiple of 8.
    pub body: &'a [u8],
}

/// A run of complete, checked records. It owns its bytes, so that another thread may replay it.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    base: u64,
    words: Vec<u64>,
    spans: Vec<(usize, usize)>,
    records: u64,
}

impl Chunk {
    /// Returns the records, in the order in which they were appended.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        self.spans.iter().flat_map(move |&(from, to)| RecordsOf {
            chunk: self.base,
            bytes,
            from,
            to,
        })
    }

    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }
}

struct RecordsOf<'a> {
    chunk: u64,
    bytes: &'a [u8],
    from: usize,
    to: usize,
}

impl<'a> Iterator for RecordsOf<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.from >= self.to {
            return None;
        }
        let header = RecordHeader::peek(&self.bytes[self.from..self.to])?;
        let body = self.from + RECORD_HEADER_BYTES;
        let lsn = Lsn::from_raw(self.chunk + self.from as u64);
        self.from += record_bytes(header.body_bytes as usize);
        let body = self.bytes.get(body..body + header.body_bytes as usize)?;
        Some(Record {
            lsn,
            kind: header.kind,
            body,
        })
    }
}

/// A segment file with a good header.
pub(super) struct SegmentFile {
    pub number: u64,
    pub path: String,
    pub file: Arc<dyn DiskFile>,
    /// Bytes in the file that belong to the segment.
    pub len: u64,
}

/// A reader that follows the chain of batches.
pub(super) struct Reader {
    pub segments: Vec<SegmentFile>,
    pub log_id: u64,
    pub segment_bytes: u64,
    /// Records that begin before this position are skipped.
    from: u64,
    index: usize,
    offset: u64,
    /// The end of the last complete record; none before the first batch.
    end: Option<u64>,
    done: bool,
    pub torn: Option<TornTail>,
}

/// A position at which the chain of batches breaks.
struct Break {
    /// Offset in the file of the bad bytes.
    offset: u64,
    /// Offset at which to begin the search for later batches.
    behind: u64,
    /// Number of bytes to cut off if this is a torn tail; 0 where nothing was written.
    torn_bytes: u64,
    what: &'static str,
}

enum Stop {
    /// The next batch is not completely in the window; a window of this many bytes is needed.
    NeedsBytes(u64),
    Break(Break),
}

impl Reader {
    pub fn new(segments: Vec<SegmentFile>, log_id: u64, segment_bytes: u64, from: Lsn) -> Self {
        Self {
            done: segments.is_empty(),
            segments,
            log_id,
            segment_bytes,
            from: from.raw(),
            index: 0,
            offset: SEGMENT_HEADER_BYTES,
            end: None,
            torn: None,
        }
    }

    /// Returns the end of the last complete record, once all has been read.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Returns the segment that contains the end.
    pub fn last(&self) -> Option<&SegmentFile> {
        self.segments.get(self.index)
    }

    /// Returns the next run of records; `None` at the end of the log.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, LogError> {
        let mut window = WINDOW_BYTES;
        while !self.done {
            let mut chunk = self.read(window)?;
            match self.parse(&mut chunk) {
                Stop::NeedsBytes(bytes) => window = bytes.max(WINDOW_BYTES),
                Stop::Break(broken) => self.resolve(&broken)?,
            }
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    fn read(&self, bytes: u64) -> Result<Chunk, LogError> {
        let segment = &self.segments[self.index];
        let bytes = bytes.min(segment.len.saturating_sub(self.offset));
        let mut words = vec![0u64; (bytes as usize).div_ceil(8)];
        let out: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let read = segment
            .file
            .read_at(self.offset, &mut out[..bytes as usize]);
        let n = read.map_err(LogError::io(segment.path.as_str()))?;
        if n as u64 != bytes {
            return Err(LogError::Io {
                file: segment.path.clone(),
                error: std::io::ErrorKind::UnexpectedEof.into(),
            });
        }
        Ok(Chunk {
            base: self.place(self.offset),
            words,
            ..Chunk::default()
        })
    }

    fn place(&self, offset: u64) -> u64 {
        self.segments[self.index].number * self.segment_bytes + offset
    }

    /// Takes batches from the window until one is missing or bad.
    fn parse(&mut self, chunk: &mut Chunk) -> Stop {
        let Chunk {
            words,
            spans,
            records,
            base,
        } = chunk;
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let len = self.segments[self.index].len;
        loop {
            let at = (self.place(self.offset) - *base) as usize;
            let in_file = len.saturating_sub(self.offset);
            let left = bytes.get(at..).unwrap_or_default();
            let left = &left[..left.len().min(in_file as usize)];
            if left.len() < BATCH_HEADER_BYTES && left.len() as u64 != in_file {
                return Stop::NeedsBytes(WINDOW_BYTES);
            }
            let Some(header) = self.header_at(left, self.offset, self.end) else {
                return Stop::Break(self.bad_header(left));
            };
            let whole = BATCH_HEADER_BYTES as u64 + u64::from(header.bytes);
            if (left.len() as u64) < whole.min(in_file) {
                return Stop::NeedsBytes(whole);
            }
            let body = &left[..left.len().min(whole as usize)];
            let start = self.place(self.offset);
            let (good, skipped, counted) = self.check_records(body, &header);
            self.end = Some(start + good as u64);
            if skipped < good {
                spans.push((at + skipped, at + good));
                *records += counted;
            }
            if (good as u64) < whole {
                return Stop::Break(Break {
                    offset: self.offset + good as u64,
                    behind: self.offset + BATCH_ALIGN,
                    torn_bytes: whole - good as u64,
                    what: "a record is damaged",
                });
            }
            self.offset = align_batch(self.offset + whole);
        }
    }

    /// Returns the header at the start of `bytes`, if it continues the log after `end`.
    fn header_at(&self, bytes: &[u8], offset: u64, end: Option<u64>) -> Option<BatchHeader> {
        let header = BatchHeader::decode(bytes, self.log_id, self.place(offset))?;
        let continues = end.is_none_or(|end| header.prev_end == end);
        let fits = header.bytes as usize <= MAX_APPEND_BYTES
            && offset + u64::from(header.bytes) < self.segment_bytes;
        (continues && fits).then_some(header)
    }

    fn bad_header(&self, bytes: &[u8]) -> Break {
        let damaged = BatchHeader::resembles(bytes, self.log_id, self.place(self.offset));
        Break {
            offset: self.offset,
            behind: self.offset + BATCH_ALIGN,
            torn_bytes: if damaged {
                BATCH_HEADER_BYTES as u64
            } else {
                0
            },
            what: "a batch header is damaged",
        }
    }

    /// Checks the records of one batch. Returns the number of good bytes, how many of these lie
    /// before the first requested record, and the number of records after them. Earlier records are
    /// checked too, because the batch may have been cut, and then its header does not say where.
    fn check_records(&self, batch: &[u8], header: &BatchHeader) -> (usize, usize, u64) {
        let whole = BATCH_HEADER_BYTES + header.bytes as usize;
        let (mut at, mut skipped) = (BATCH_HEADER_BYTES, BATCH_HEADER_BYTES);
        let (mut all, mut counted) = (0, 0);
        while at < batch.len() {
            let lsn = header.start + at as u64;
            let Some(record) = RecordHeader::decode(&batch[at..], lsn, header.incarnation) else {
                break;
            };
            at += record_bytes(record.body_bytes as usize);
            all += 1;
            if lsn < self.from {
                skipped = at;
            } else {
                counted += 1;
            }
        }
        debug_assert!(
            at < whole || all == header.records,
            "the writer counts its records"
        );
        (at, skipped, counted)
    }

    /// Decides the meaning of a break: continues after it, ends the log there, or refuses.
    fn resolve(&mut self, broken: &Break) -> Result<(), LogError> {
        if let Some(end) = self.end {
            let resume_at = align_batch(end % self.segment_bytes);
            if resume_at >= broken.behind && self.continues_at(self.index, resume_at, end)? {
                self.offset = resume_at;
                return Ok(());
            }
            let next = self.index + 1;
            if self.continues_at(next, SEGMENT_HEADER_BYTES, end)? {
                self.index = next;
                self.offset = SEGMENT_HEADER_BYTES;
                return Ok(());
            }
        }
        if let Some(behind) = self.batch_behind(broken.behind)? {
            return Err(self.corrupt(broken, &behind));
        }
        let segment = &self.segments[self.index];
        if broken.torn_bytes > 0 {
            self.torn = Some(TornTail {
                file: segment.path.clone(),
                offset: broken.offset,
                bytes: broken.torn_bytes,
            });
        }
        self.done = true;
        Ok(())
    }

    /// Returns the error for damage, given the first good batch after it.
    fn corrupt(&self, broken: &Break, behind: &BatchHeader) -> LogError {
        // If the batch before that one began a later segment, the later segment is damaged.
        let number = behind.prev_end / self.segment_bytes;
        let later = self.segments[self.index + 1..]
            .iter()
            .find(|later| later.number == number);
        let (segment, offset) = match later {
            Some(later) => (later, SEGMENT_HEADER_BYTES),
            None => (&self.segments[self.index], broken.offset),
        };
        LogError::Corrupt {
            file: segment.path.clone(),
            offset,
            what: broken.what,
        }
    }

    /// Returns whether the batch at a position follows `end`, by its header.
    fn continues_at(&self, index: usize, offset: u64, end: u64) -> Result<bool, LogError> {
        let Some(segment) = self.segments.get(index) else {
            return Ok(false);
        };
        let place = segment.number * self.segment_bytes + offset;
        let mut bytes = [0; BATCH_HEADER_BYTES];
        let read = segment.file.read_at(offset, &mut bytes);
        let n = read.map_err(LogError::io(segment.path.as_str()))?;
        let header = BatchHeader::decode(&bytes[..n], self.log_id, place);
        Ok(header.is_some_and(|header| header.prev_end == end))
    }

    /// Returns the first good batch header at or after an offset of the current segment.
    fn batch_behind(&self, offset: u64) -> Result<Option<BatchHeader>, LogError> {
        let mut words = vec![0u64; (WINDOW_BYTES / 8) as usize];
        let window: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let mut from = offset;
        for segment in &self.segments[self.index..] {
            while from < segment.len {
                let n = (segment.len - from).min(WINDOW_BYTES) as usize;
                let read = segment.file.read_at(from, &mut window[..n]);
                let n = read.map_err(LogError::io(segment.path.as_str()))?;
                if n == 0 {
                    break;
                }
                let base = segment.number * self.segment_bytes + from;
                let mut places = (0..n).step_by(BATCH_ALIGN as usize);
                let found = places.find_map(|at| {
                    BatchHeader::decode(&window[at..n], self.log_id, base + at as u64)
                });
                if found.is_some() {
                    return Ok(found);
                }
                from += n as u64;
            }
            from = SEGMENT_HEADER_BYTES;
        }
        Ok(None)
    }
}
