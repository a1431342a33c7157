//! The batch that is gathered in memory, and its completion before it is written.
//!
//! *Concurrency.* Records are appended under the tail's mutex, by copying only. The flusher
//! computes the checksums when it alone owns the batch.

use super::format::{
    BATCH_HEADER_BYTES, BatchHeader, RecordHeader, align_batch, record_bytes, seal_record,
};

/// A buffer larger than this is returned to the allocator after its flush.
const RETAINED_BYTES: usize = 1 << 20;

/// One batch: space for its header, then records.
#[derive(Debug)]
pub(super) struct Batch {
    start: u64,
    records: u32,
    bytes: Vec<u8>,
}

impl Batch {
    /// Returns an empty batch that begins at `start`, in a buffer that may have been used before.
    pub fn new(start: u64, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.shrink_to(RETAINED_BYTES);
        buffer.resize(BATCH_HEADER_BYTES, 0);
        Self {
            start,
            records: 0,
            bytes: buffer,
        }
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn records(&self) -> u32 {
        self.records
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the LSN after the last record.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Returns the bytes so far, including the header and without padding.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Moves an empty batch to another position.
    pub fn move_to(&mut self, start: u64) {
        debug_assert!(self.is_empty(), "records know their LSN");
        self.start = start;
    }

    /// Appends one record, whose body is the concatenation of the parts.
    pub fn push(&mut self, kind: u8, parts: &[&[u8]]) {
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let header = RecordHeader {
            body_bytes: body_bytes as u32,
            lsn: self.end(),
            kind,
        };
        self.bytes.extend_from_slice(&header.encode());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.records += 1;
    }

    /// Fills in all checksums and the header. Returns the bytes to write at the batch's start.
    pub fn seal(&mut self, log_id: u64, incarnation: u32, prev_end: u64) -> &[u8] {
        let mut at = BATCH_HEADER_BYTES;
        while let Some(header) = RecordHeader::peek(&self.bytes[at..]) {
            let end = at + record_bytes(header.body_bytes as usize);
            seal_record(&mut self.bytes[at..end], incarnation);
            at = end;
        }
        let header = BatchHeader {
            log_id,
            start: self.start,
            prev_end,
            bytes: (at - BATCH_HEADER_BYTES) as u32,
            records: self.records,
            incarnation,
        };
        header.encode(&mut self.bytes);
        let padded = align_batch(self.bytes.len() as u64) as usize;
        self.bytes.resize(padded, 0);
        &self.bytes
    }

    /// Returns the buffer, for the batch after the next one.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}
