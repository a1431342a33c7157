//! Scans by several threads: helpers read parts of the range while the session reads others.
//!
//! ```text
//! session   part 0 ─▶ rows │ part 1's blocks ─▶ rows │ part 3 ─▶ blocks │ …
//! helper    part 1 ─▶ blocks │ part 2 ─▶ blocks          │ part 4 …
//! ```
//! A thread reads index entries and rows, tests the rows, and puts those that pass into blocks
//! (`part`). The session takes the blocks in the order of the range (`queue`), so the rows are
//! those of a scan by one thread, in the same order. While it waits for a part, it reads another
//! one ahead.
//!
//! A scan begins alone. It is divided once it has read many entries and the rest of its range has
//! several parts: queries that end early, and small tables, need no helper.
//!
//! The helpers read the session's snapshot in transactions of their own
//! ([`fencepost_txn::shared_snapshot`]). They begin while the session's transaction is open, and so
//! keep its versions. A transaction that may write has helpers at READ COMMITTED alone, before its
//! first change, and for statements that only read: otherwise its snapshot may move, or what it has
//! read must be in its read set.
//!
//! # Failure
//! Without a helper the session reads all parts. A helper's error is the scan's error.

mod block;
mod part;
mod queue;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use fencepost_btree::Cursor;
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{Machine, Mode};

use self::block::RowBlock;
use self::part::{PartReader, RowRead, help};
use self::queue::{NextRows, Queue, ROOM_BYTES};
use super::super::cx::{Cx, check_stop};
use super::super::row_filter::{Cutoff, RowFilter};
use crate::helper_threads::{reading_helpers, runtime};
use crate::plan::{Hints, Scan};

/// A scan that several threads read.
pub struct ParallelScan {
    queue: Arc<Queue>,
    read: Arc<RowRead>,
    reader: PartReader,
    /// The part that this thread reads.
    own: Option<(usize, Cursor)>,
    block: RowBlock,
    /// The position of the next row in the block.
    row: usize,
    /// The memory of the blocks.
    _memory: BlockMemory,
}

impl ParallelScan {
    /// Lets helpers read the rest of a cursor's range. Returns `None`, and changes nothing, if the
    /// scan goes on alone.
    ///
    /// # Errors
    /// Those of fixing the snapshot.
    pub async fn begin(
        scan: &Scan,
        cx: &mut Cx<'_>,
        cursor: &Cursor,
        (filter, cutoff): (Option<&Arc<RowFilter>>, Option<&Arc<Cutoff>>),
    ) -> Result<Option<ParallelScan>, StatementStop> {
        let helpers = cx.eval.settings.parallel_workers.min(reading_helpers());
        let is_able = scan.locks.is_none()
            && scan.pointer_slot.is_none()
            && scan.hints == Hints::No
            && cx.before.is_none()
            && (cx.only_reads || cx.tx.mode() == Mode::ReadOnly);
        if helpers == 0 || !is_able || !cursor.is_divisible(cx.tx.machine()) {
            return Ok(None);
        }
        let Some(snapshot) = cx.tx.share_scans().await? else {
            return Ok(None);
        };
        let (Some(memory), Ok(runtime)) = (BlockMemory::take(cx.tx.machine()), runtime()) else {
            return Ok(None);
        };
        let queue = Arc::new(Queue::new(cursor.clone()));
        let (layout, columns) = (scan.table.layout.clone(), scan.columns.clone());
        let mut read = RowRead::new(layout, columns, filter.cloned());
        if scan.columns.is_empty() && scan.filter.is_none() {
            read = read.only_counting();
        }
        let read = Arc::new(read);
        if let Some(cutoff) = cutoff {
            read.cut_off(cutoff);
        }
        for _ in 0..helpers {
            let tx = cx.tx.machine().coordinator().begin_at(snapshot);
            let (helper, queue) = (queue.register_helper(), Arc::clone(&queue));
            let read = Arc::clone(&read);
            runtime.spawn(async move {
                help(&queue, &read, tx).await;
                drop(helper);
            });
        }
        cx.scratch.parallel_scans += 1;
        Ok(Some(ParallelScan {
            queue,
            read,
            reader: PartReader::new(),
            own: None,
            block: RowBlock::default(),
            row: 0,
            _memory: memory,
        }))
    }

    /// Leaves out rows of the blocks that are read from now on.
    pub fn cut_off(&self, cutoff: &Arc<Cutoff>) {
        self.read.cut_off(cutoff);
    }

    /// Returns the number of rows of the last block that are left.
    pub fn rows_left(&self) -> usize {
        self.block.len() - self.row
    }

    /// Returns the words of the next row of the last block.
    #[inline]
    pub fn next_row(&mut self) -> Option<&[u64]> {
        if self.row == self.block.len() {
            return None;
        }
        self.row += 1;
        Some(self.block.row(self.row - 1))
    }

    /// Leaves out the rows of the last block that are left. Returns their number.
    pub fn skip_rows(&mut self) -> usize {
        let left = self.rows_left();
        self.row = self.block.len();
        left
    }

    /// Returns whether only the number of rows matters: they have no words.
    pub fn only_counts(&self) -> bool {
        self.read.only_counts()
    }

    /// Loads the next block. Returns its number of entries, or `None` at the end of the range.
    ///
    /// # Errors
    /// Those of the scan.
    pub async fn load(&mut self, cx: &mut Cx<'_>) -> Result<Option<usize>, StatementStop> {
        self.row = 0;
        let mut used = Some(std::mem::take(&mut self.block));
        loop {
            cx.breathe().await?;
            let Some(next) = self.queue.take(used.take())? else {
                // No helper still reads when the statement has ended.
                self.wait(cx, |queue, waker| queue.poll_end(waker)).await?;
                return Ok(None);
            };
            let ahead = match next {
                NextRows::Block(block) => {
                    self.block = block;
                    return Ok(Some(self.block.entries));
                }
                NextRows::Reading(number) => self.own.as_ref().is_none_or(|own| own.0 != number),
                NextRows::Unread => false,
            };
            if !self.read_own(ahead, cx).await? {
                self.wait(cx, |queue, waker| queue.poll_rows(waker)).await?;
            }
        }
    }

    /// Reads a block of this thread's part, and begins a part if there is none. Returns false if
    /// there is no part to begin, or it would be read too far ahead.
    async fn read_own(&mut self, ahead: bool, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
        if self.own.is_none() {
            let claim = self.queue.begin_part(cx.tx.machine());
            self.own = claim.map(|claim| (claim.number, claim.cursor));
        }
        let Some((number, cursor)) = &mut self.own else {
            return Ok(false);
        };
        let number = *number;
        if ahead && !self.queue.has_room(number) {
            return Ok(false);
        }
        let mut block = self.queue.spare_block();
        let tx = &mut cx.seen();
        let more = self.reader.read(&self.read, tx, cursor, &mut block).await?;
        self.queue.push(number, block);
        if !more {
            self.own = None;
            self.queue.end_part(number, Ok(()));
        }
        Ok(true)
    }

    /// Waits for helpers, or until the statement is cancelled.
    async fn wait(
        &self,
        cx: &mut Cx<'_>,
        poll: impl Fn(&Queue, &Waker) -> Poll<()> + Send,
    ) -> Result<(), StatementStop> {
        let (cancel, deadline) = (cx.cancel, cx.deadline);
        poll_fn(|task| {
            if let Err(error) = check_stop(cancel, deadline, Instant::now()) {
                return Poll::Ready(Err(error));
            }
            poll(&self.queue, task.waker()).map(Ok)
        })
        .await?;
        cx.scratch.pace.begin_slice(Instant::now());
        Ok(())
    }
}

impl Drop for ParallelScan {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// The memory of a scan's blocks, charged to the machine.
struct BlockMemory(Arc<Machine>);

impl BlockMemory {
    /// Charges the memory. Returns `None` at the memory limit.
    fn take(machine: &Arc<Machine>) -> Option<BlockMemory> {
        let charged = machine.account().charge(ROOM_BYTES as u64);
        charged.is_ok().then(|| BlockMemory(Arc::clone(machine)))
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        self.0.account().release(ROOM_BYTES as u64);
    }
}
