//! The execution of window functions.
//!
//! All rows are collected. For each window they are sorted and split into partitions, and each
//! partition into peer groups, which are equal under ORDER BY. Then the values of each call go into
//! the slots behind the rows. The rows are returned in the order of the last window.
//!
//! An aggregate whose frame starts with the partition only adds the rows that are new in the frame.
//! Any other aggregate is computed again for each frame.

mod calls;
mod frame;
mod partition;
mod subqueries;

use std::cmp::Ordering;
use std::ops::Range;

use fencepost_sql::bound::{Expr, WindowCall};
use fencepost_sql::functions::{SortDirection, sort_compare, sort_heads};
use fencepost_sql::stop::StatementStop;

use self::partition::{Bounds, WindowOrder, WindowPartition};
use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::order::sort_indexes;
use super::set::give;

/// The number of rows after which their memory is counted.
const BREATH: usize = 1024;

/// Rows with the values of their window function calls. Before the calls are computed, it only
/// collects rows.
#[derive(Default)]
pub struct WindowRows {
    rows: Batch,
    order: Vec<u32>,
    next: usize,
    gathered: CollectedMemory,
    /// The number of values in a row, without those of subqueries behind them.
    width: usize,
}

impl WindowRows {
    /// Creates an empty collection of rows with `width` values, including the slots for the calls.
    pub fn new(width: usize) -> WindowRows {
        WindowRows {
            rows: Batch::new(width),
            width,
            ..WindowRows::default()
        }
    }

    /// Returns the number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds the first `width` values of each row.
    pub fn add(
        &mut self,
        cx: &mut Cx<'_>,
        rows: &Batch,
        width: usize,
    ) -> Result<(), StatementStop> {
        let from = self.rows.len();
        for i in 0..rows.len() {
            self.rows.push()[..width].clone_from_slice(&rows.row(i)[..width]);
        }
        self.gathered.add_rows(cx, &self.rows, from)?;
        Ok(())
    }

    /// Computes as [`Self::compute`] does, for calls without subqueries.
    async fn compute_values(
        &mut self,
        calls: &[WindowCall],
        cx: &mut Cx<'_>,
        first: usize,
    ) -> Result<(), StatementStop> {
        self.order = (0..self.rows.len() as u32).collect();
        let mut done = vec![false; calls.len()];
        for at in 0..calls.len() {
            if done[at] {
                continue;
            }
            let window = &calls[at];
            let sorted = WindowOrder::new(&mut self.order, &self.rows, window, cx).await?;
            for (nth, call) in calls.iter().enumerate() {
                let same =
                    call.partition_by == window.partition_by && call.order_by == window.order_by;
                if same && !done[nth] {
                    done[nth] = true;
                    self.call(call, &sorted, cx, first + nth).await?;
                }
            }
        }
        Ok(())
    }

    async fn call(
        &mut self,
        call: &WindowCall,
        sorted: &WindowOrder,
        cx: &mut Cx<'_>,
        slot: usize,
    ) -> Result<(), StatementStop> {
        let bounds = Bounds::new(&call.frame, cx)?;
        for partition in &sorted.partitions {
            let part = WindowPartition {
                rows: &self.rows,
                order: &self.order[partition.clone()],
                first: partition.start,
                sorted,
                call,
                bounds: &bounds,
            };
            let values = part.values(cx).await?;
            for (row, value) in self.order[partition.clone()].iter().zip(values) {
                if cx.is_due() {
                    cx.pause().await?;
                }
                self.rows.row_mut(*row as usize)[slot] = value;
            }
        }
        Ok(())
    }

    /// Moves up to `max` rows to `out`. Returns whether more rows follow.
    pub fn give(&mut self, out: &mut Batch, max: usize) -> bool {
        let end = self.order.len().min(self.next + max);
        for i in self.next..end {
            give(self.rows.row_mut(self.order[i] as usize), out.push());
        }
        self.next = end;
        end < self.order.len()
    }
}

impl WindowOrder {
    /// Creates an order without rows, with space for some.
    fn with_capacity(rows: usize) -> WindowOrder {
        WindowOrder {
            partitions: Vec::new(),
            groups: Vec::with_capacity(rows),
            group_ranges: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Sorts `order` into the window's order.
    async fn new(
        order: &mut Vec<u32>,
        rows: &Batch,
        window: &WindowCall,
        cx: &mut Cx<'_>,
    ) -> Result<WindowOrder, StatementStop> {
        let parts = window.partition_by.len();
        let exprs: Vec<(&Expr, bool, bool)> = window
            .partition_by
            .iter()
            .map(|expr| (expr, false, false))
            .chain(
                window
                    .order_by
                    .iter()
                    .map(|(e, desc, nulls)| (e, *desc, *nulls)),
            )
            .collect();
        let mut keys = Batch::new(exprs.len());
        let mut heads = Vec::with_capacity(rows.len());
        let directions = exprs.iter().map(|(_, desc, nulls_first)| SortDirection {
            desc: *desc,
            nulls_first: *nulls_first,
        });
        let mut gathered = CollectedMemory::default();
        for i in 0..rows.len() {
            if i % BREATH == 0 {
                gathered.add_rows(cx, &keys, i.saturating_sub(BREATH))?;
            }
            if cx.is_due() {
                cx.pause().await?;
            }
            let key = keys.push();
            for (slot, (expr, ..)) in key.iter_mut().zip(&exprs) {
                *slot = cx.value(expr, rows.row(i)).await?;
            }
            heads.push(sort_heads(key.iter().zip(directions.clone())));
        }
        let compare = |a: u32, b: u32, range: Range<usize>| {
            let (a, b) = (keys.row(a as usize), keys.row(b as usize));
            for at in range {
                let (_, desc, nulls_first) = exprs[at];
                let ordering = sort_compare(&a[at], &b[at], desc, nulls_first);
                if ordering.is_ne() {
                    return ordering;
                }
            }
            Ordering::Equal
        };
        if !exprs.is_empty() {
            sort_indexes(order, cx, |a, b| {
                let by_heads = heads[a as usize].cmp(&heads[b as usize]);
                by_heads.then_with(|| compare(a, b, 0..exprs.len()))
            })
            .await?;
        }
        let mut sorted = WindowOrder::with_capacity(order.len());
        for (place, row) in order.iter().enumerate() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let before = place.checked_sub(1).map(|before| order[before]);
            let new_partition = before.is_none_or(|b| compare(b, *row, 0..parts).is_ne());
            let new_group = new_partition
                || before.is_none_or(|b| compare(b, *row, parts..exprs.len()).is_ne());
            extend(&mut sorted.partitions, place, new_partition);
            extend(&mut sorted.group_ranges, place, new_group);
            sorted.groups.push(sorted.group_ranges.len() as u32 - 1);
            if !window.order_by.is_empty() {
                sorted.keys.push(keys.row(*row as usize)[parts].clone());
            }
        }
        Ok(sorted)
    }
}

/// Adds a place to the last range, or begins a range.
fn extend(ranges: &mut Vec<Range<usize>>, place: usize, new: bool) {
    match ranges.last_mut() {
        Some(last) if !new => last.end = place + 1,
        _ => ranges.push(place..place + 1),
    }
}
