//! A sink for statements that wait for sequence values after the client has received some of their
//! rows. The next run skips the rows that the client has already.
//!
//! The next run produces the same rows, because it sees the same data and draws the same values.
//!
//! The sink also computes a digest of the rows, if the transaction may be replayed as a whole
//! ([`super::history`]).

use fencepost_planner::{FlushFuture, RowSink};
use fencepost_sql::error::SqlError;
use fencepost_sql::value::Value;

use super::history::RowDigest;

/// The output of a run: rows, or bytes of a COPY.
#[derive(Clone, Copy, Default)]
struct RunOutput {
    rows: u64,
    bytes: usize,
}

/// A sink that accepts a repetition of the rows that it has already received.
pub(super) struct ResumingSink<'a> {
    sink: &'a mut dyn RowSink,
    /// The output that the inner sink has received.
    given: RunOutput,
    /// The output of this run so far.
    made: RunOutput,
    /// A digest of the rows that the inner sink has received, if one is needed.
    digest: Option<Box<RowDigest>>,
}

impl<'a> ResumingSink<'a> {
    pub(super) fn new(
        sink: &'a mut dyn RowSink,
        digest: Option<Box<RowDigest>>,
    ) -> ResumingSink<'a> {
        ResumingSink {
            sink,
            given: RunOutput::default(),
            made: RunOutput::default(),
            digest,
        }
    }

    /// Returns the digest of the rows.
    pub(super) fn digest(&self) -> Option<&RowDigest> {
        self.digest.as_deref()
    }

    /// Starts another run of the statement. Output that the inner sink has received and cannot
    /// discard is skipped.
    pub(super) fn resume(&mut self) {
        if !self.rewind() {
            self.made = RunOutput::default();
        }
    }
}

impl RowSink for ResumingSink<'_> {
    #[inline]
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.made.rows += 1;
        if self.made.rows <= self.given.rows {
            return Ok(());
        }
        self.given.rows = self.made.rows;
        if let Some(digest) = &mut self.digest {
            digest.add(row);
        }
        self.sink.row(row)
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let passed = (self.given.bytes - self.made.bytes).min(data.len());
        self.made.bytes += data.len();
        self.given.bytes = self.given.bytes.max(self.made.bytes);
        match data.get(passed..) {
            Some(new) if passed == 0 || !new.is_empty() => self.sink.copy_data(new),
            _ => Ok(()),
        }
    }

    fn rewind(&mut self) -> bool {
        let forgets = self.sink.rewind();
        if forgets {
            (self.given, self.made) = (RunOutput::default(), RunOutput::default());
            if let Some(digest) = &mut self.digest {
                digest.clear();
            }
        }
        forgets
    }

    #[inline]
    fn should_flush(&self) -> bool {
        self.sink.should_flush()
    }

    fn flush(&mut self) -> FlushFuture<'_> {
        self.sink.flush()
    }
}
