//! The gathering side of a split SELECT: other machines run parts of it, and this machine combines
//! the results.
//!
//! ```text
//! any order     request parts ─► own partitions ─► results of others ─► partitions left unread
//! index order   request parts ─► results of others, merged with own and unread partitions
//! ```
//!
//! So all machines work at the same time. In index order, however, no row of the own partitions can
//! be returned before the first rows of the other machines are known.
//!
//! # Failure
//! A part that no other machine runs is run here, in the same transaction, on the same snapshot.

use fencepost_sql::bound::OrderKey;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::Work;

use super::batch::Batch;
use super::cx::Cx;
use super::sort::{Sorter, compare_rows};

/// The result of a part.
pub enum PartResult {
    /// The values of its rows, side by side.
    Rows(Vec<Value>),
    /// The partitions that were not read.
    Undone(Vec<u32>),
}

/// The future of the next result; it yields `None` after the last one.
pub type NextPartResult<'a> = Work<'a, Result<Option<PartResult>, StatementStop>>;

/// The statistics of a part that has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartStatistics {
    /// The number of the machine that ran the part.
    pub machine: u32,
    /// The number of rows and bytes; `None` if the part was run here after all.
    pub rows: Option<(u64, u64)>,
}

/// The parts of a statement that other machines run.
pub trait RemoteParts: Send {
    /// Returns the partitions that no other machine is asked for, in order.
    fn own(&self) -> Vec<u32>;

    /// Requests the other partitions. Returns the number of messages.
    fn ask(&mut self) -> u32;

    /// Waits for the result of the next part.
    fn next(&mut self) -> NextPartResult<'_>;

    /// Returns the statistics of the parts that have finished.
    fn came(&self) -> Vec<PartStatistics>;
}

/// The progress of a gathering SELECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// This machine reads its own partitions.
    Own,
    /// This machine waits for the parts of other machines.
    Others,
    /// This machine reads the partitions that other machines did not read. This is the last stage.
    Rest,
}

/// The state of a gathering SELECT.
pub struct GatherState {
    pub stage: Stage,
    pub undone: Vec<u32>,
    merging: Option<OrderedMerge>,
}

/// The rows of other machines in the order of the index, and the rows of this machine.
pub struct OrderedMerge {
    theirs: Sorter,
    ours: Batch,
    at: usize,
    more: bool,
}

impl GatherState {
    /// Requests the parts of other machines.
    pub fn begin(cx: &mut Cx<'_>) -> Option<GatherState> {
        let parts = cx.parts.as_mut()?;
        let messages = parts.ask();
        cx.part = Some(parts.own());
        cx.tx.count_messages(messages);
        Some(GatherState {
            stage: Stage::Own,
            undone: Vec::new(),
            merging: None,
        })
    }

    /// Returns the rows of the next part. Collects the partitions that were not read.
    pub async fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Vec<Value>>, StatementStop> {
        loop {
            let Some(parts) = cx.parts.as_mut() else {
                return Ok(None);
            };
            match parts.next().await? {
                None => return Ok(None),
                Some(PartResult::Rows(values)) => return Ok(Some(values)),
                Some(PartResult::Undone(partitions)) => self.undone.extend(partitions),
            }
        }
    }

    /// Starts to read the partitions that other machines did not read. Returns whether there are
    /// any.
    pub fn begin_rest(&mut self, cx: &mut Cx<'_>) -> bool {
        self.stage = Stage::Rest;
        let mut undone = std::mem::take(&mut self.undone);
        undone.sort_unstable();
        let some = !undone.is_empty();
        cx.part = Some(undone);
        some
    }

    /// Returns the merge of rows in an order. Before the first row it waits for all parts of other
    /// machines.
    pub async fn merging(
        &mut self,
        cx: &mut Cx<'_>,
        (order, width): (&[OrderKey], usize),
    ) -> Result<Option<&mut OrderedMerge>, StatementStop> {
        if self.merging.is_none() {
            let mut theirs = Sorter::in_memory(order.to_vec(), width);
            while let Some(mut values) = self.next(cx).await? {
                let from = theirs.rows().len();
                push_rows(&mut values, theirs.rows());
                theirs.take(cx, from).await?;
            }
            theirs.finish(cx, 0).await?;
            let own = cx.part.take().unwrap_or_default();
            self.undone.extend(own);
            self.merging = Some(OrderedMerge {
                theirs,
                ours: Batch::new(width),
                at: 0,
                more: self.begin_rest(cx),
            });
        }
        Ok(self.merging.as_mut())
    }
}

impl OrderedMerge {
    /// Returns the batch to which rows of this machine must be added before more rows can be
    /// returned; `None` if no rows are needed.
    pub fn wants(&mut self) -> Option<&mut Batch> {
        if self.at < self.ours.len() || !self.more {
            return None;
        }
        self.at = 0;
        self.ours.clear();
        Some(&mut self.ours)
    }

    /// Records that rows were added, and whether more may follow.
    pub fn added(&mut self, more: bool) {
        self.more = more;
    }

    /// Moves rows to `out`, until it has `target` rows or rows of this machine are needed. Returns
    /// false when there are no more rows.
    pub fn give(&mut self, order: &[OrderKey], out: &mut Batch, target: usize) -> bool {
        while out.len() < target {
            let ours = (self.at < self.ours.len()).then(|| self.ours.row(self.at));
            let take_ours = match (ours, self.theirs.peek()) {
                (None, _) if self.more => return true,
                (None, None) => return false,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(ours), Some(theirs)) => compare_rows(ours, theirs, order).is_le(),
            };
            if take_ours {
                let slots = out.push().iter_mut();
                for (slot, value) in slots.zip(self.ours.row_mut(self.at)) {
                    *slot = std::mem::take(value);
                }
                self.at += 1;
            } else {
                self.theirs.next_in_memory(out);
            }
        }
        true
    }
}

/// Moves rows, side by side in `values`, to `out`.
pub fn push_rows(values: &mut [Value], out: &mut Batch) {
    for row in values.chunks_exact_mut(out.width().max(1)) {
        for (slot, value) in out.push().iter_mut().zip(row) {
            *slot = std::mem::take(value);
        }
    }
}
