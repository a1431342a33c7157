//! The reading of a part of a scan's range, by whichever thread has begun it.

use std::future::poll_fn;
use std::sync::Arc;

use fencepost_btree::{Cursor, ScanBatch};
use fencepost_sql::stop::StatementStop;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Machine, Stop, Transaction};
use tokio::task::yield_now;

use super::super::super::row_filter::RowFilter;
use super::super::{LAST_CHUNK, ROWS_AHEAD};
use super::block::RowBlock;
use super::queue::{Claim, PartGuard, Queue};
use crate::plan::{Scan, TablePlan};
use crate::store::{prefetch_row, read_at_once, read_columns};

/// The columns and tests of a scan, as its threads need them to read a row.
pub struct RowRead {
    table: Arc<TablePlan>,
    columns: Vec<usize>,
    filter: Option<Arc<RowFilter>>,
    /// Whether only the number of rows matters.
    only_counts: bool,
}

impl RowRead {
    /// Returns the columns of a scan. `filter` has the tests of its filter.
    pub fn of(scan: &Scan, filter: Option<Arc<RowFilter>>) -> RowRead {
        RowRead {
            table: Arc::clone(&scan.table),
            columns: scan.columns.clone(),
            filter,
            only_counts: scan.columns.is_empty() && scan.filter.is_none(),
        }
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
        let more = cursor.next_batch(tx, &mut self.entries, LAST_CHUNK).await?;
        block.entries += self.entries.len();
        if read.only_counts {
            block.push_unread(self.entries.len());
            return Ok(more);
        }
        let entries = self.entries.values();
        for first in entries.iter().take(ROWS_AHEAD) {
            prefetch_row(tx, FatPtr::from_words(*first));
        }
        for (i, entry) in entries.iter().enumerate() {
            if let Some(ahead) = entries.get(i + ROWS_AHEAD) {
                prefetch_row(tx, FatPtr::from_words(*ahead));
            }
            let row = FatPtr::from_words(*entry).addr;
            if read_words(read, tx, row, &mut self.words).await? && read.passes(&self.words)? {
                block.push(&self.words);
            }
        }
        Ok(more)
    }
}

impl RowRead {
    #[inline]
    fn passes(&self, words: &[u64]) -> Result<bool, StatementStop> {
        let Some(filter) = &self.filter else {
            return Ok(true);
        };
        Ok(filter.holds(&self.table.layout.partial_reader(words)?)?)
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
        None => read_columns(tx, row, (&read.table.layout, &read.columns), words).await,
    }
}

/// Reads parts until none is left, or the queue is closed.
pub async fn help(queue: Arc<Queue>, read: Arc<RowRead>, mut tx: Transaction) {
    let machine = Arc::clone(tx.machine());
    let mut reader = PartReader::new();
    while let Some(claim) = next_part(&queue, &machine).await {
        let number = claim.number;
        let guard = PartGuard {
            queue: &queue,
            number,
        };
        let end = read_part(&queue, &read, &mut tx, claim, &mut reader).await;
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
