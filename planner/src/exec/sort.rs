//! ORDER BY: all rows in memory, or with a limit only the first of them.
//!
//! Rows that exceed `work_mem` are written to a temporary file as sorted runs, which are merged at
//! the end ([`runs`]).

mod runs;

use std::cmp::Ordering;

use fencepost_sql::bound::OrderKey;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::sort_compare;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::order::sort_indexes;
use crate::plan::SelectPlan;
use runs::{RunMerge, SortedRuns};

/// The number of rows beyond the limit that collect before they are discarded.
const SLACK: usize = 4096;

/// Rows to be sorted, or sorted rows after `finish`.
pub struct Sorter {
    keys: Vec<OrderKey>,
    keep: u64,
    /// Rows in order of arrival. Once `is_bounded`, the first `keep` are the best of an earlier
    /// trim, sorted: a row that is not before the last of them is not among the result.
    rows: Batch,
    is_bounded: bool,
    order: Vec<u32>,
    next: usize,
    arrived: Arrived,
    memory: CollectedMemory,
    runs: Option<Box<SortedRuns>>,
    /// The rows after `finish`, if there are runs.
    merge: Option<Box<RunMerge>>,
}

/// The rows that a sorter has received in the order of its first keys.
#[derive(Default)]
struct Arrived {
    rows: u64,
    /// The values of these keys in the last row.
    last: Vec<Value>,
    /// The number of rows with these values.
    same: u64,
}

impl Sorter {
    /// Creates a sorter for the plan's ORDER BY that returns the first `keep` rows. Rows that
    /// exceed `work_mem` are written to a temporary file.
    pub fn new(plan: &SelectPlan, keep: u64, cx: &Cx<'_>) -> Sorter {
        let memory = CollectedMemory::limited(cx.eval.settings.work_memory.sort_bytes());
        Sorter {
            keep,
            memory,
            ..Sorter::in_memory(plan.sort.clone(), plan.targets.len())
        }
    }

    /// Creates a sorter of rows with `width` values that keeps all rows in memory.
    pub fn in_memory(keys: Vec<OrderKey>, width: usize) -> Sorter {
        Sorter {
            keys,
            keep: u64::MAX,
            rows: Batch::new(width),
            is_bounded: false,
            order: Vec::new(),
            next: 0,
            arrived: Arrived::default(),
            memory: CollectedMemory::default(),
            runs: None,
            merge: None,
        }
    }

    /// Returns the batch to which rows are added.
    pub fn rows(&mut self) -> &mut Batch {
        &mut self.rows
    }

    /// Returns whether the rows behind those that were added cannot be among the first. All rows
    /// are added in the order of the first `presorted` keys; those from `from` on are new.
    pub fn is_over(&mut self, presorted: usize, from: usize) -> bool {
        let new = self.rows.len() - from;
        if presorted == 0 || self.keep == u64::MAX || new == 0 {
            return false;
        }
        let keys = &self.keys[..presorted];
        let last = self.rows.row(self.rows.len() - 1);
        let ties = |row: &usize| compare_rows(self.rows.row(*row), last, keys).is_eq();
        let same = (from..self.rows.len()).rev().take_while(ties).count();
        let arrived = &mut self.arrived;
        let continues = same == new
            && arrived.rows > 0
            && keys.iter().zip(&arrived.last).all(|(key, value)| {
                sort_compare(value, &last[key.target], key.desc, key.nulls_first).is_eq()
            });
        arrived.same = same as u64 + if continues { arrived.same } else { 0 };
        arrived.rows += new as u64;
        arrived.last.clear();
        let values = keys.iter().map(|key| last[key.target].clone());
        arrived.last.extend(values);
        arrived.rows - arrived.same >= self.keep
    }

    /// Takes the rows from `from` on, the ones added last: discards those that cannot be among the
    /// first, and counts the memory of the others. Writes all rows to a run when the memory is
    /// full. Returns whether it has discarded earlier rows too.
    ///
    /// # Errors
    /// Those of the temporary file; 53200 at the memory limit if the sorter has none.
    pub async fn take(&mut self, cx: &mut Cx<'_>, from: usize) -> Result<bool, StatementStop> {
        let has_trimmed = self.trim(cx, from).await?;
        if has_trimmed {
            self.memory.restart();
            self.memory.add_rows(cx, &self.rows, 0)?;
        } else {
            self.memory.add_rows(cx, &self.rows, from)?;
        }
        if self.memory.is_full() {
            self.write_run(cx).await?;
        }
        Ok(has_trimmed)
    }

    /// Returns the value of the first key behind which no row is among the first ones, once it is
    /// known.
    pub fn last_of_first(&self) -> Option<&Value> {
        let last = self.keep().checked_sub(1).filter(|_| self.is_bounded)?;
        Some(&self.rows.row(last)[self.keys.first()?.target])
    }

    /// Returns the number of rows to return, as a position in memory.
    fn keep(&self) -> usize {
        usize::try_from(self.keep).unwrap_or(usize::MAX)
    }

    /// Discards rows from `from` on that cannot be among the first. Returns true if it has
    /// discarded earlier rows too, which happens from time to time.
    async fn trim(&mut self, cx: &mut Cx<'_>, from: usize) -> Result<bool, SqlError> {
        if self.is_bounded {
            self.discard_late(from);
        }
        let keep = self.keep();
        if self.rows.len() < keep.saturating_mul(2).saturating_add(SLACK) {
            return Ok(false);
        }
        self.sort(cx).await?;
        let mut best = Batch::new(self.rows.width());
        for &row in self.order.iter().take(keep) {
            if cx.is_due() {
                cx.pause().await?;
            }
            take_row(&mut self.rows, row, best.push());
        }
        self.rows = best;
        self.is_bounded = keep > 0;
        Ok(true)
    }

    /// Writes the rows in memory as a sorted run.
    async fn write_run(&mut self, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        self.sort(cx).await?;
        self.order.truncate(self.keep());
        let (keys, width) = (&self.keys, self.rows.width());
        let new = || Box::new(SortedRuns::new(cx, keys, width));
        let runs = self.runs.get_or_insert_with(new);
        runs.add(cx, &self.rows, &self.order).await?;
        self.order.clear();
        self.rows.clear();
        self.is_bounded = false;
        self.memory.restart();
        Ok(())
    }

    /// Discards the rows from `from` on that are not before the last of the best rows. The sort is
    /// stable, so of equal rows the earlier one is returned.
    fn discard_late(&mut self, from: usize) {
        let last = self.keep() - 1;
        let mut end = from;
        for row in from..self.rows.len() {
            if compare_rows(self.rows.row(row), self.rows.row(last), &self.keys).is_lt() {
                self.rows.swap(end, row);
                end += 1;
            }
        }
        self.rows.truncate(end);
    }

    /// Sorts the rows, and skips the first `skip` rows.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn finish(&mut self, cx: &mut Cx<'_>, skip: u64) -> Result<(), SqlError> {
        if self.runs.is_none() {
            self.sort(cx).await?;
            self.order.truncate(self.keep());
            self.next = usize::try_from(skip).unwrap_or(usize::MAX);
            return Ok(());
        }
        self.write_run(cx).await?;
        let Some(runs) = self.runs.take() else {
            return Ok(());
        };
        let mut merge = Box::new(runs.merge(cx, self.keep).await?);
        let mut row = vec![Value::Null; self.rows.width()];
        for _ in 0..skip {
            cx.breathe().await?;
            if !merge.next(&mut row).await? {
                break;
            }
        }
        self.rows = Batch::new(self.rows.width());
        self.merge = Some(merge);
        Ok(())
    }

    /// Keeps the next `count` rows, and the rows that tie with the last of them.
    pub fn keep_ties(&mut self, count: u64) {
        if let Some(merge) = &mut self.merge {
            merge.keep_ties(count);
            return;
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut count = self.next.saturating_add(count);
        let row = |at: usize| self.order.get(at).map(|row| self.rows.row(*row as usize));
        while count > 0
            && let (Some(last), Some(next)) = (row(count - 1), row(count))
            && compare_rows(last, next, &self.keys).is_eq()
        {
            count += 1;
        }
        self.order.truncate(count);
    }

    /// Returns the next row of a sorter without runs.
    pub fn peek(&self) -> Option<&[Value]> {
        let row = self.order.get(self.next)?;
        Some(self.rows.row(*row as usize))
    }

    /// Moves the next row of a sorter without runs to `out`. Returns false if there is none.
    pub fn next_in_memory(&mut self, out: &mut Batch) -> bool {
        let Some(&row) = self.order.get(self.next) else {
            return false;
        };
        self.next += 1;
        take_row(&mut self.rows, row, out.push());
        true
    }

    /// Moves up to `max` rows to `out`. Returns false if no more rows follow.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn next(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, SqlError> {
        if self.merge.is_some() {
            return Box::pin(self.next_merged(cx, out, max)).await;
        }
        for _ in 0..max {
            if !self.next_in_memory(out) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn next_merged(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, SqlError> {
        let Some(merge) = &mut self.merge else {
            return Ok(false);
        };
        for _ in 0..max {
            cx.breathe().await?;
            if !merge.next(out.push()).await? {
                out.pop();
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn sort(&mut self, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        self.order.clear();
        self.order.extend(0..self.rows.len() as u32);
        let (rows, keys) = (&self.rows, &self.keys);
        // The sort is stable: rows that are equal under the keys keep their order.
        let compare = |a, b| compare_rows(rows.row(a as usize), rows.row(b as usize), keys);
        sort_indexes(&mut self.order, cx, compare).await
    }
}

fn take_row(rows: &mut Batch, row: u32, to: &mut [Value]) {
    for (to, from) in to.iter_mut().zip(rows.row_mut(row as usize)) {
        *to = std::mem::take(from);
    }
}

/// Compares two rows by the sort keys.
pub fn compare_rows(a: &[Value], b: &[Value], keys: &[OrderKey]) -> Ordering {
    for key in keys {
        let ordering = sort_compare(&a[key.target], &b[key.target], key.desc, key.nulls_first);
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}
