//! ORDER BY: all rows in memory, or with a limit only the first of them.

use std::cmp::Ordering;

use fencepost_sql::bound::OrderKey;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::sort_compare;
use fencepost_sql::value::Value;

use super::batch::Batch;
use super::cx::Cx;
use super::order::sort_indexes;
use crate::plan::SelectPlan;

/// The number of rows beyond the limit that collect before they are discarded.
const SLACK: usize = 4096;

/// Rows to be sorted, or sorted rows after `finish`.
pub struct Sorter {
    keys: Vec<OrderKey>,
    keep: usize,
    /// Rows in order of arrival. Once `is_bounded`, the first `keep` are the best of an earlier
    /// trim, sorted: a row that is not before the last of them is not among the result.
    rows: Batch,
    is_bounded: bool,
    order: Vec<u32>,
    next: usize,
}

impl Sorter {
    /// Creates a sorter for the plan's ORDER BY that returns the first `keep` rows.
    pub fn new(plan: &SelectPlan, keep: u64) -> Sorter {
        Sorter::by(plan.sort.clone(), plan.targets.len(), keep)
    }

    /// Creates a sorter of rows with `width` values that returns the first `keep` rows.
    pub fn by(keys: Vec<OrderKey>, width: usize, keep: u64) -> Sorter {
        Sorter {
            keys,
            keep: usize::try_from(keep).unwrap_or(usize::MAX),
            rows: Batch::new(width),
            is_bounded: false,
            order: Vec::new(),
            next: 0,
        }
    }

    /// Returns the batch to which rows are added.
    pub fn rows(&mut self) -> &mut Batch {
        &mut self.rows
    }

    /// Discards rows from `from` on, the ones added last, that cannot be among the first. Returns
    /// true if it has discarded earlier rows too, which happens from time to time.
    pub async fn trim(&mut self, cx: &mut Cx<'_>, from: usize) -> Result<bool, SqlError> {
        if self.is_bounded {
            self.discard_late(from);
        }
        if self.rows.len() < self.keep.saturating_mul(2).saturating_add(SLACK) {
            return Ok(false);
        }
        self.sort(cx).await?;
        let mut best = Batch::new(self.rows.width());
        for &row in self.order.iter().take(self.keep) {
            if cx.is_due() {
                cx.pause().await?;
            }
            take_row(&mut self.rows, row, best.push());
        }
        self.rows = best;
        self.is_bounded = self.keep > 0;
        Ok(true)
    }

    /// Discards the rows from `from` on that are not before the last of the best rows. The sort is
    /// stable, so of equal rows the earlier one is returned.
    fn discard_late(&mut self, from: usize) {
        let last = self.keep - 1;
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
    pub async fn finish(&mut self, cx: &mut Cx<'_>, skip: u64) -> Result<(), SqlError> {
        self.sort(cx).await?;
        self.order.truncate(self.keep);
        self.next = usize::try_from(skip).unwrap_or(usize::MAX);
        Ok(())
    }

    /// Keeps the first `count` rows, and the rows that tie with the last of them.
    pub fn keep_ties(&mut self, count: u64) {
        let mut count = usize::try_from(count).unwrap_or(usize::MAX);
        let row = |at: usize| self.order.get(at).map(|row| self.rows.row(*row as usize));
        while count > 0
            && let (Some(last), Some(next)) = (row(count - 1), row(count))
            && compare_rows(last, next, &self.keys).is_eq()
        {
            count += 1;
        }
        self.order.truncate(count);
    }

    /// Returns the next row.
    pub fn peek(&self) -> Option<&[Value]> {
        let row = self.order.get(self.next)?;
        Some(self.rows.row(*row as usize))
    }

    /// Moves the next row to `out`. Returns false if there is none.
    pub fn next(&mut self, out: &mut Batch) -> bool {
        let Some(&row) = self.order.get(self.next) else {
            return false;
        };
        self.next += 1;
        take_row(&mut self.rows, row, out.push());
        true
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
