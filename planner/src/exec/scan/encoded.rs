//! Scans that pass on their rows without decoding them.

use fencepost_sql::error::SqlError;
use fencepost_sql::row::RowReader;
use fencepost_sql::stop::StatementStop;
use fencepost_storage::FatPtr;

use super::super::cx::Cx;
use super::super::range::Keys;
use super::super::row_filter::Cutoff;
use super::parallel::ParallelScan;
use super::{LAST_CHUNK, ScanState, Walk, read_words, row_filter};
use crate::plan::{Hints, Scan};

/// The number of words of rows after which a batch ends.
const BATCH_WORDS: usize = 1 << 20;

/// A receiver of encoded rows.
pub trait EncodedRows: Send {
    /// Receives a row.
    ///
    /// # Errors
    /// XX001 if the row is damaged, and the errors of what the receiver computes.
    fn add(&mut self, row: &RowReader<'_>) -> Result<(), SqlError>;

    /// Receives this number of rows of which no column is read.
    ///
    /// # Errors
    /// The errors of what the receiver computes.
    fn add_unread(&mut self, rows: usize) -> Result<(), SqlError>;
}

/// The result of [`ScanState::next_encoded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedNext {
    /// More rows may follow.
    More,
    /// No more rows follow.
    Done,
    /// This scan cannot pass on encoded rows. It has passed on none; use [`ScanState::next`].
    Unable,
}

impl ScanState {
    /// Passes about `max` rows to `rows`, without decoding them. A scan that has begun so continues
    /// so.
    ///
    /// # Errors
    /// Those of the scan and of the receiver.
    pub async fn next_encoded(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        rows: &mut impl EncodedRows,
        max: usize,
    ) -> Result<EncodedNext, StatementStop> {
        if self.keys.is_none() {
            self.open(scan, cx, &[]).await?;
            // Nothing is gained by small batches: the scan does not end early.
            self.chunk = LAST_CHUNK;
        }
        if !self.passes_encoded(scan, cx) {
            return Ok(EncodedNext::Unable);
        }
        let mut left = max;
        let mut words = 0;
        while left > 0 && words < BATCH_WORDS {
            cx.breathe().await?;
            if !self.read_entries(scan, cx, self.chunk.min(left)).await? {
                return Ok(EncodedNext::Done);
            }
            if let Some(Walk::Parallel(parallel)) = &mut self.walk {
                left = left.saturating_sub(parallel.rows_left());
                words += pass_block(scan, cx, (parallel, self.cutoff.as_deref()), rows).await?;
            } else {
                left = left.saturating_sub(self.entries.len() - self.entry);
                words += self.pass_rows(scan, cx, rows).await?;
            }
            self.end_range();
        }
        Ok(EncodedNext::More)
    }

    /// Returns whether the scan needs no decoded rows.
    fn passes_encoded(&mut self, scan: &Scan, cx: &Cx<'_>) -> bool {
        let sound = scan.locks.is_none()
            && scan.pointer_slot.is_none()
            && scan.hints == Hints::No
            && matches!(self.keys, Some(Keys::Ranges(_)));
        if !sound || scan.filter.is_none() {
            return sound;
        }
        let filter = self.filter.get_or_insert_with(|| row_filter(scan, cx));
        filter
            .as_ref()
            .is_some_and(|filter| filter.rest().is_none())
    }

    /// Passes on the rows of the remaining entries. Returns the number of words that were read.
    async fn pass_rows(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        rows: &mut impl EncodedRows,
    ) -> Result<usize, StatementStop> {
        if scan.columns.is_empty() && scan.filter.is_none() {
            // An entry is in its index exactly while its row exists.
            rows.add_unread(self.entries.len() - self.entry)?;
            self.entry = self.entries.len();
            return Ok(0);
        }
        let mut words_read = 0;
        while self.entry < self.entries.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            self.prefetch(cx);
            let row = FatPtr::from_words(self.entries.value(self.entry));
            self.entry += 1;
            if !read_words(scan, cx, row.addr, &mut self.words).await? {
                continue;
            }
            words_read += self.words.len();
            let reader = scan.table.layout.partial_reader(&self.words)?;
            let is_within = match &self.cutoff {
                Some(cutoff) => cutoff.admits(&reader)?,
                None => true,
            };
            let passes = match &self.filter {
                Some(Some(filter)) => is_within && filter.holds(&reader)?,
                Some(None) | None => is_within,
            };
            if passes {
                rows.add(&reader)?;
            }
        }
        Ok(words_read)
    }
}

/// Passes on the rows of a block. Returns the number of words of the rows.
async fn pass_block(
    scan: &Scan,
    cx: &mut Cx<'_>,
    (parallel, cutoff): (&mut ParallelScan, Option<&Cutoff>),
    rows: &mut impl EncodedRows,
) -> Result<usize, StatementStop> {
    if parallel.only_counts() {
        rows.add_unread(parallel.skip_rows())?;
        return Ok(0);
    }
    let mut words = 0;
    while let Some(row) = parallel.next_row() {
        if cx.is_due() {
            cx.pause().await?;
        }
        words += row.len();
        let reader = scan.table.layout.partial_reader(row)?;
        let is_within = match cutoff {
            Some(cutoff) => cutoff.admits(&reader)?,
            None => true,
        };
        if is_within {
            rows.add(&reader)?;
        }
    }
    Ok(words)
}
