//! The reading of a part of a scan's range, by whichever thread has begun it.

use std::future::poll_fn;
use std::sync::Arc;

use fencepost_btree::{Cursor, ScanBatch};
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::StatementStop;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Machine, Stop, Transaction};
use parking_lot::Mutex;
use tokio::task::yield_now;

use super::super::super::row_filter::{Cutoff, RowFilter};
use super::block::RowBlock;
use super::queue::{Claim, PartGuard, Queue};
use crate::store::{prefetch_row, read_at_once, read_columns};

/// The number of entries that are read at once.
const BATCH_ENTRIES: usize = 1024;
/// The distance in rows at which rows are prefetched.
const ROWS_AHEAD: usize = 8;

/// The columns and tests of a scan, as its threads need them to read a row.
pub struct RowRead {
    layout: RowLayout,
    columns: Vec<usize>,
    filter: Option<Arc<RowFilter>>,
    cutoff: Mutex<Option<Arc<Cutoff>>>,
    /// Whether only the number of rows matters.
    only_counts: bool,
}

impl RowRead {
    /// Creates the reading of some columns of rows that pass `filter`.
    pub fn new(layout: RowLayout, columns: Vec<usize>, filter: Option<Arc<RowFilter>>) -> RowRead {
        RowRead {
            layout,
            columns,
            filter,
            cutoff: Mutex::new(None),
            only_counts: false,
        }
    }

    /// Reads no row: only their number matters.
    pub fn only_counting(self) -> RowRead {
        RowRead {
            only_counts: true,
            ..self
        }
    }

    /// Leaves out rows from the next batch on.
    pub fn cut_off(&self, cutoff: &Arc<Cutoff>) {
        *self.cutoff.lock() = Some(Arc::clone(cutoff));
    }

    /// Returns whether only the number of rows matters: the rows of blocks have no words.
    pub fn only_counts(&self) -> bool {
        self.only_counts
    }
}

/// The buffers of a thread that reads parts.
pub struct PartReader {
    entries: ScanBatch,
    words: Vec<u64>,
}

impl PartReader {
    pub fn new() -> PartReader {
        PartReader {
            entries: ScanBatch::of_values(),
            words: Vec::new(),
        }
    }

    /// Adds the rows of the next entries to `block`. Returns false at the end of the part.
    pub async fn read(
        &mut self,
        read: &RowRead,
        tx: &mut Transaction,
        cursor: &mut Cursor,
        block: &mut RowBlock,
    ) -> Result<bool, StatementStop> {
        let more = cursor
            .next_batch(tx, &mut self.entries, BATCH_ENTRIES)
            .await?;
        block.entries += self.entries.len();
        if read.only_counts {
            block.push_unread(self.entries.len());
            return Ok(more);
        }
        let entries = self.entries.values();
        for first in entries.iter().take(ROWS_AHEAD) {
            prefetch_row(tx, FatPtr::from_words(*first));
        }
        let cutoff = read.cutoff.lock().clone();
        for (i, entry) in entries.iter().enumerate() {
            if let Some(ahead) = entries.get(i + ROWS_AHEAD) {
                prefetch_row(tx, FatPtr::from_words(*ahead));
            }
            let row = FatPtr::from_words(*entry).addr;
            if read_words(read, tx, row, &mut self.words).await?
                && read.passes(cutoff.as_deref(), &self.words)?
            {
                block.push(&self.words);
            }
        }
        Ok(more)
    }
}

impl RowRead {
    #[inline]
    fn passes(&self, cutoff: Option<&Cutoff>, words: &[u64]) -> Result<bool, StatementStop> {
        if self.filter.is_none() && cutoff.is_none() {
            return Ok(true);
        }
        let row = self.layout.partial_reader(words)?;
        let is_within = match cutoff {
            Some(cutoff) => cutoff.admits(&row)?,
            None => true,
        };
        Ok(is_within
            && match &self.filter {
                Some(filter) => filter.holds(&row)?,
                None => true,
            })
    }
}

#[inline]
async fn read_words(
    read: &RowRead,
    tx: &mut Transaction,
    row: Addr,
    words: &mut Vec<u64>,
) -> Result<bool, Stop> {
    match read_at_once(tx, row, words) {
        Some(there) => there,
        None => read_columns(tx, row, (&read.layout, &read.columns), words).await,
    }
}

/// Reads parts until none is left, or the queue is closed.
pub async fn help(queue: &Queue, read: &RowRead, mut tx: Transaction) {
    let machine = Arc::clone(tx.machine());
    let mut reader = PartReader::new();
    while let Some(claim) = next_part(queue, &machine).await {
        let number = claim.number;
        let guard = PartGuard { queue, number };
        let end = read_part(queue, read, &mut tx, claim, &mut reader).await;
        queue.end_part(number, end);
        drop(guard);
    }
    // It has only read, so nothing depends on the outcome.
    let _ = tx.commit().await;
}

async fn next_part(queue: &Queue, machine: &Machine) -> Option<Claim> {
    poll_fn(|task| queue.poll_part(machine, task.waker())).await
}

async fn read_part(
    queue: &Queue,
    read: &RowRead,
    tx: &mut Transaction,
    Claim { number, mut cursor }: Claim,
    reader: &mut PartReader,
) -> Result<(), StatementStop> {
    let mut more = true;
    while more && poll_fn(|task| queue.poll_room(number, task.waker())).await {
        let mut block = queue.spare_block();
        more = reader.read(read, tx, &mut cursor, &mut block).await?;
        queue.push(number, block);
        // The thread has other queries to help.
        yield_now().await;
    }
    Ok(())
}
