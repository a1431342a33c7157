//! The encoding of the log's files: positions, headers, checksums. Pure functions on bytes.
//!
//! *Picture* (little endian).
//!
//! ```text
//!   segment header, 4096 bytes
//!     0 magic  8 version u32  12 zero  16 log id  24 segment bytes  32 number  40 start LSN
//!     48 zero …                                                     4092 crc of all before
//!   batch header, 48 bytes
//!     0 magic  8 log id  16 start LSN  24 end LSN of the batch before
//!     32 bytes of records u32  36 records u32  40 life u32  44 crc of all before
//!   record header, 16 bytes
//!     0 bytes of body u32  4 crc of (life, 0..4, 8..16, body, padding)  8 LSN | kind << 56
//! ```
//!
//! The *life* is a random number drawn each time the log is opened. It seeds the checksums of a
//! batch's records. So the remains of a torn flush never complete a batch that is written later at
//! the same position.

use std::fmt;

/// Most bytes of one append, including its records' headers and padding; fewer where segments are
/// smaller.
pub const MAX_APPEND_BYTES: usize = 8 << 20;

/// Bytes of header before each record's body.
pub const RECORD_HEADER_BYTES: usize = 16;

pub(super) const SEGMENT_HEADER_BYTES: u64 = 4096;
pub(super) const BATCH_HEADER_BYTES: usize = 48;
/// Batches begin at multiples of this, so that looking for one need not try every byte.
pub(super) const BATCH_ALIGN: u64 = 512;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"FencLog\x01");
const BATCH_MAGIC: u64 = u64::from_le_bytes(*b"FencBat\x01");
const VERSION: u32 = 1;
const KIND_SHIFT: u32 = 56;

/// A position in the log: bytes since its beginning, including headers and gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// The beginning of the log.
    pub const ZERO: Lsn = Lsn(0);

    /// Returns the position as a number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the position of a number from [`Lsn::raw`].
    pub const fn from_raw(raw: u64) -> Self {
        Lsn(raw)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// Returns the next position at or after `at` where a batch may begin.
pub(super) const fn align_batch(at: u64) -> u64 {
    at.next_multiple_of(BATCH_ALIGN)
}

/// Returns the bytes that a record of `body` bytes takes in the log.
pub(super) const fn record_bytes(body: usize) -> usize {
    RECORD_HEADER_BYTES + body.next_multiple_of(8)
}

/// The first page of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub log_id: u64,
    pub segment_bytes: u64,
    pub number: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; SEGMENT_HEADER_BYTES as usize];
        put_u64(&mut page, 0, SEGMENT_MAGIC);
        put_u32(&mut page, 8, VERSION);
        put_u64(&mut page, 16, self.log_id);
        put_u64(&mut page, 24, self.segment_bytes);
        put_u64(&mut page, 32, self.number);
        put_u64(&mut page, 40, self.number * self.segment_bytes);
        let at = page.len() - 4;
        let crc = crc32c::crc32c(&page[..at]);
        put_u32(&mut page, at, crc);
        page
    }

    /// Decodes a page. Returns a description of the defect if it is not a valid header.
    pub fn decode(page: &[u8]) -> Result<Self, &'static str> {
        let at = SEGMENT_HEADER_BYTES as usize - 4;
        if page.len() != at + 4 || u64_at(page, 0) != SEGMENT_MAGIC {
            return Err("this is not a segment of a log");
        }
        if crc32c::crc32c(&page[..at]) != u32_at(page, at) {
            return Err("the segment header's checksum is wrong");
        }
        if u32_at(page, 8) != VERSION {
            return Err("the segment has a format version this program does not know");
        }
        let header = Self {
            log_id: u64_at(page, 16),
            segment_bytes: u64_at(page, 24),
            number: u64_at(page, 32),
        };
        let start = header.number.checked_mul(header.segment_bytes);
        if start != Some(u64_at(page, 40)) || header.segment_bytes < 2 * SEGMENT_HEADER_BYTES {
            return Err("the segment header contradicts itself");
        }
        Ok(header)
    }
}

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub log_id: u64,
    pub start: u64,
    pub prev_end: u64,
    pub bytes: u32,
    pub records: u32,
    pub incarnation: u32,
}

impl BatchHeader {
    pub fn encode(&self, out: &mut [u8]) {
        put_u64(out, 0, BATCH_MAGIC);
        put_u64(out, 8, self.log_id);
        put_u64(out, 16, self.start);
        put_u64(out, 24, self.prev_end);
        put_u32(out, 32, self.bytes);
        put_u32(out, 36, self.records);
        put_u32(out, 40, self.incarnation);
        let crc = crc32c::crc32c(&out[..44]);
        put_u32(out, 44, crc);
    }

    /// Decodes the header at the start of `bytes`, if it belongs to this log and position.
    pub fn decode(bytes: &[u8], log_id: u64, start: u64) -> Option<Self> {
        if bytes.len() < BATCH_HEADER_BYTES || u64_at(bytes, 0) != BATCH_MAGIC {
            return None;
        }
        let header = Self {
            log_id: u64_at(bytes, 8),
            start: u64_at(bytes, 16),
            prev_end: u64_at(bytes, 24),
            bytes: u32_at(bytes, 32),
            records: u32_at(bytes, 36),
            incarnation: u32_at(bytes, 40),
        };
        let whole = crc32c::crc32c(&bytes[..44]) == u32_at(bytes, 44);
        (whole && header.log_id == log_id && header.start == start).then_some(header)
    }

    /// Returns whether `bytes` begins as a header of this position does: it is damaged, rather than
    /// never written.
    pub fn resembles(bytes: &[u8], log_id: u64, start: u64) -> bool {
        bytes.len() >= BATCH_HEADER_BYTES
            && u64_at(bytes, 0) == BATCH_MAGIC
            && u64_at(bytes, 8) == log_id
            && u64_at(bytes, 16) == start
    }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub body_bytes: u32,
    pub lsn: u64,
    pub kind: u8,
}

impl RecordHeader {
    /// Returns the header without its checksum; [`seal_record`] fills it in.
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        put_u32(&mut out, 0, self.body_bytes);
        put_u64(&mut out, 8, self.lsn | u64::from(self.kind) << KIND_SHIFT);
        out
    }

    /// Decodes the header at the start of `bytes` without checking it; returns `None` if there are
    /// too few bytes.
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < RECORD_HEADER_BYTES {
            return None;
        }
        let word = u64_at(bytes, 8);
        Some(Self {
            body_bytes: u32_at(bytes, 0),
            lsn: word & ((1 << KIND_SHIFT) - 1),
            kind: (word >> KIND_SHIFT) as u8,
        })
    }

    /// Decodes the header at the start of `bytes`, if it and the record after it are complete and
    /// belong to this position.
    pub fn decode(bytes: &[u8], lsn: u64, incarnation: u32) -> Option<Self> {
        let header = Self::peek(bytes)?;
        let total = record_bytes(header.body_bytes as usize);
        if header.lsn != lsn || total > bytes.len() {
            return None;
        }
        (record_crc(&bytes[..total], incarnation) == u32_at(bytes, 4)).then_some(header)
    }
}

/// Fills in the checksum of `record`, which is one whole record.
pub(super) fn seal_record(record: &mut [u8], incarnation: u32) {
    let crc = record_crc(record, incarnation);
    put_u32(record, 4, crc);
}

fn record_crc(record: &[u8], incarnation: u32) -> u32 {
    crc32c::crc32c_append(
        crc32c::crc32c_append(incarnation, &record[..4]),
        &record[8..],
    )
}

fn put_u32(out: &mut [u8], at: usize, value: u32) {
    out[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut [u8], at: usize, value: u64) {
    out[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_headers_round_trip_and_any_flip_shows() {
        let header = SegmentHeader {
            log_id: 7,
            segment_bytes: 1 << 16,
            number: 3,
        };
        let page = header.encode();
        assert_eq!(SegmentHeader::decode(&page), Ok(header));
        for at in 0..page.len() {
            let mut bad = page.clone();
            bad[at] ^= 1;
            assert!(SegmentHeader::decode(&bad).is_err(), "flip at {at}");
        }
        assert!(SegmentHeader::decode(&page[1..]).is_err());
    }

    #[test]
    fn batch_headers_belong_to_one_place_of_one_log() {
        let header = BatchHeader {
            log_id: 7,
            start: 4096,
            prev_end: 9,
            bytes: 40,
            records: 1,
            incarnation: 5,
        };
        let mut out = [0; BATCH_HEADER_BYTES];
        header.encode(&mut out);
        assert_eq!(BatchHeader::decode(&out, 7, 4096), Some(header));
        assert_eq!(BatchHeader::decode(&out, 8, 4096), None);
        assert_eq!(BatchHeader::decode(&out, 7, 8192), None);
        assert!(BatchHeader::resembles(&out, 7, 4096));
        for at in 0..out.len() {
            let mut bad = out;
            bad[at] ^= 1;
            assert_eq!(BatchHeader::decode(&bad, 7, 4096), None, "flip at {at}");
        }
    }

    #[test]
    fn records_show_any_flip() {
        let mut record = RecordHeader {
            body_bytes: 5,
            lsn: 4144,
            kind: 255,
        }
        .encode()
        .to_vec();
        record.extend_from_slice(b"hello\0\0\0");
        seal_record(&mut record, 6);
        let header = RecordHeader::decode(&record, 4144, 6).expect("whole");
        assert_eq!((header.body_bytes, header.kind), (5, 255));
        assert_eq!(record_bytes(5), record.len());
        assert!(RecordHeader::decode(&record, 4145, 6).is_none());
        assert!(RecordHeader::decode(&record, 4144, 7).is_none());
        assert!(RecordHeader::decode(&record[..23], 4144, 6).is_none());
        for at in 0..record.len() {
            let mut bad = record.clone();
            bad[at] ^= 1;
            assert!(
                RecordHeader::decode(&bad, 4144, 6).is_none(),
                "flip at {at}"
            );
        }
    }
}
