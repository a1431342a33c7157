//! The execution of window functions.
//!
//! All rows are collected. For each window they are sorted and split into partitions, and each
//! partition into peer groups, which are equal under ORDER BY. Then the values of each call go into
//! the slots behind the rows. The rows are returned in the order of the last window.
//!
//! An aggregate whose frame starts with the partition only adds the rows that are new in the frame.
//! Any other aggregate is computed again for each frame.

mod subqueries;

use std::cmp::Ordering;
use std::ops::Range;

use fencepost_sql::bound::{
    Aggregate, Exclude, Expr, Frame, FrameBound, FrameOffset, FrameUnit, WindowCall, WindowFunction,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{Accumulator, sort_compare};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::calendar::DAY_US;
use fencepost_sql::value::Value;

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

/// Rows in the order of a window. A place is a position in that order.
struct WindowOrder {
    /// The places of each partition.
    partitions: Vec<Range<usize>>,
    /// For each place, the number of its peer group.
    groups: Vec<u32>,
    /// The places of each peer group.
    group_ranges: Vec<Range<usize>>,
    /// The values of the first ORDER BY expression, by place.
    keys: Vec<Value>,
}

impl WindowOrder {
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
        let mut gathered = CollectedMemory::default();
        for i in 0..rows.len() {
            if i % BREATH == 0 {
                gathered.add_rows(cx, &keys, i.saturating_sub(BREATH))?;
            }
            if cx.is_due() {
                cx.pause().await?;
            }
            for (slot, (expr, ..)) in keys.push().iter_mut().zip(&exprs) {
                *slot = cx.value(expr, rows.row(i)).await?;
            }
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
            sort_indexes(order, cx, |a, b| compare(a, b, 0..exprs.len())).await?;
        }
        let mut sorted = WindowOrder {
            partitions: Vec::new(),
            groups: Vec::with_capacity(order.len()),
            group_ranges: Vec::new(),
            keys: Vec::new(),
        };
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

/// The offsets of a frame after evaluation.
struct Bounds {
    start: Value,
    end: Value,
}

impl Bounds {
    fn new(frame: &Frame, cx: &Cx<'_>) -> Result<Bounds, SqlError> {
        let offset = |bound: &FrameBound, which: &str| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => {
                let value = cx.value_here(&offset.by, &[])?;
                check_offset(&value, frame.unit, which)?;
                Ok::<Value, SqlError>(value)
            }
            _ => Ok(Value::Null),
        };
        Ok(Bounds {
            start: offset(&frame.start, "starting")?,
            end: offset(&frame.end, "ending")?,
        })
    }
}

fn check_offset(value: &Value, unit: FrameUnit, which: &str) -> Result<(), SqlError> {
    if value.is_null() {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            format!("frame {which} offset must not be null"),
        ));
    }
    let negative = match value {
        Value::Float4(v) => *v < 0.0,
        Value::Float8(v) => *v < 0.0,
        Value::Numeric(v) => v.is_sign_negative() && !v.is_zero(),
        other => other.as_int().is_some_and(|v| v < 0),
    };
    if negative {
        return Err(SqlError::new(
            SqlState::INVALID_FRAME_OFFSET,
            match unit {
                FrameUnit::Range => {
                    "invalid preceding or following size in window function".to_owned()
                }
                FrameUnit::Rows | FrameUnit::Groups => {
                    format!("frame {which} offset must not be negative")
                }
            },
        ));
    }
    Ok(())
}

/// A partition, for one call.
struct WindowPartition<'a> {
    rows: &'a Batch,
    /// Its rows, in the window's order.
    order: &'a [u32],
    /// The place of its first row.
    first: usize,
    sorted: &'a WindowOrder,
    call: &'a WindowCall,
    bounds: &'a Bounds,
}

impl WindowPartition<'_> {
    fn row(&self, at: usize) -> &[Value] {
        self.rows.row(self.order[at] as usize)
    }

    /// Returns the peers of the row at `at`.
    fn peers(&self, at: usize) -> Range<usize> {
        let group = self.sorted.groups[self.first + at] as usize;
        self.group(group)
    }

    fn group(&self, group: usize) -> Range<usize> {
        let range = &self.sorted.group_ranges[group];
        range.start - self.first..range.end - self.first
    }

    /// Returns the call's value for each row.
    async fn values(&self, cx: &mut Cx<'_>) -> Result<Vec<Value>, StatementStop> {
        if let WindowFunction::Aggregate(aggregate) = &self.call.function {
            return self.aggregates(aggregate, cx).await;
        }
        let mut values = Vec::with_capacity(self.order.len());
        for at in 0..self.order.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            values.push(cx.in_parts(|cx| self.value(at, cx)).await?);
        }
        Ok(values)
    }

    fn value(&self, at: usize, cx: &Cx<'_>) -> Result<Value, SqlError> {
        use WindowFunction as W;
        let count = self.order.len();
        let first_group = self.sorted.groups[self.first];
        Ok(match &self.call.function {
            W::RowNumber => Value::Int8(at as i64 + 1),
            W::Rank => Value::Int8(self.peers(at).start as i64 + 1),
            W::DenseRank => {
                let group = self.sorted.groups[self.first + at];
                Value::Int8(i64::from(group - first_group) + 1)
            }
            W::PercentRank if count == 1 => Value::Float8(0.0),
            W::PercentRank => Value::Float8(self.peers(at).start as f64 / (count - 1) as f64),
            W::CumeDist => Value::Float8(self.peers(at).end as f64 / count as f64),
            W::Ntile => self.bucket(at, cx)?,
            W::Lag => self.beside(at, -1, cx)?,
            W::Lead => self.beside(at, 1, cx)?,
            W::FirstValue => {
                let first = self.pieces(at, cx)?.into_iter().flatten().next();
                self.argument(0, first, cx)?
            }
            W::LastValue => {
                let last = self.pieces(at, cx)?.into_iter().flatten().next_back();
                self.argument(0, last, cx)?
            }
            W::NthValue => {
                let Some(nth) = self.argument(1, Some(at), cx)?.as_int() else {
                    return Ok(Value::Null);
                };
                if nth <= 0 {
                    return Err(SqlError::new(
                        SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                        "argument of nth_value must be greater than zero",
                    ));
                }
                let mut left = nth as usize - 1;
                let mut wanted = None;
                for piece in self.pieces(at, cx)? {
                    if left < piece.len() {
                        wanted = Some(piece.start + left);
                        break;
                    }
                    left -= piece.len();
                }
                self.argument(0, wanted, cx)?
            }
            W::Aggregate(_) => Value::Null,
        })
    }

    /// Evaluates an argument over the row at `at`; NULL if there is no such argument or row.
    fn argument(&self, nth: usize, at: Option<usize>, cx: &Cx<'_>) -> Result<Value, SqlError> {
        match (self.call.args.get(nth), at) {
            (Some(arg), Some(at)) => cx.value_here(arg, self.row(at)),
            _ => Ok(Value::Null),
        }
    }

    /// Evaluates `ntile`: if the rows do not divide evenly, the first buckets have one row more.
    fn bucket(&self, at: usize, cx: &Cx<'_>) -> Result<Value, SqlError> {
        let Some(buckets) = self.argument(0, Some(0), cx)?.as_int() else {
            return Ok(Value::Null);
        };
        if buckets <= 0 {
            return Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_NTILE,
                "argument of ntile must be greater than zero",
            ));
        }
        let (count, buckets, at) = (self.order.len() as i64, buckets, at as i64);
        let (size, longer) = (count / buckets, count % buckets);
        let bucket = match at < longer * (size + 1) {
            true => at / (size + 1),
            false => longer + (at - longer * (size + 1)) / size.max(1),
        };
        Ok(Value::Int4(i32::try_from(bucket + 1).unwrap_or(i32::MAX)))
    }

    /// Evaluates `lag` and `lead`.
    fn beside(&self, at: usize, direction: i64, cx: &Cx<'_>) -> Result<Value, SqlError> {
        let offset = match self.call.args.len() {
            1 => 1,
            _ => match self.argument(1, Some(at), cx)?.as_int() {
                Some(offset) => offset,
                None => return Ok(Value::Null),
            },
        };
        let wanted = (at as i64).checked_add(direction * offset);
        let wanted = wanted.and_then(|at| usize::try_from(at).ok());
        match wanted.filter(|at| *at < self.order.len()) {
            Some(there) => self.argument(0, Some(there), cx),
            None => self.argument(2, Some(at), cx),
        }
    }

    async fn aggregates(
        &self,
        aggregate: &Aggregate,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Value>, StatementStop> {
        if self.call.frame.exclude != Exclude::NoOthers {
            return self.aggregates_of_pieces(aggregate, cx).await;
        }
        let mut values: Vec<Value> = Vec::with_capacity(self.order.len());
        let grows = self.call.frame.start == FrameBound::First;
        let mut sum = Accumulator::new(aggregate);
        let mut last: Option<Range<usize>> = None;
        for at in 0..self.order.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let frame = self.frame(at, cx)?;
            if let (Some(same), Some(value)) = (&last, values.last())
                && *same == frame
            {
                values.push(value.clone());
                continue;
            }
            let taken = match &last {
                Some(last) if grows && last.end <= frame.end => last.end,
                _ => {
                    sum = Accumulator::new(aggregate);
                    frame.start
                }
            };
            for at in taken..frame.end {
                if cx.is_due() {
                    cx.pause().await?;
                }
                cx.in_parts(|cx| sum.update(aggregate, self.row(at), cx.params(), cx.eval))
                    .await?;
            }
            values.push(sum.clone().finish(aggregate)?);
            last = Some(frame);
        }
        Ok(values)
    }

    /// Computes as [`WindowPartition::aggregates`] does, for frames with an EXCLUDE clause.
    async fn aggregates_of_pieces(
        &self,
        aggregate: &Aggregate,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Value>, StatementStop> {
        let mut values = Vec::with_capacity(self.order.len());
        for at in 0..self.order.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let mut sum = Accumulator::new(aggregate);
            for at in self.pieces(at, cx)?.into_iter().flatten() {
                if cx.is_due() {
                    cx.pause().await?;
                }
                cx.in_parts(|cx| sum.update(aggregate, self.row(at), cx.params(), cx.eval))
                    .await?;
            }
            values.push(sum.finish(aggregate)?);
        }
        Ok(values)
    }

    /// Returns the frame of the row at `at` without the excluded rows, as ordered pieces that may
    /// be empty.
    fn pieces(&self, at: usize, cx: &Cx<'_>) -> Result<[Range<usize>; 3], SqlError> {
        let frame = self.frame(at, cx)?;
        let (hole, kept) = match self.call.frame.exclude {
            Exclude::NoOthers => (frame.end..frame.end, 0..0),
            Exclude::Current => (at..at + 1, 0..0),
            Exclude::Group => (self.peers(at), 0..0),
            Exclude::Ties => (self.peers(at), at..at + 1),
        };
        let within = |piece: Range<usize>| {
            let start = piece.start.max(frame.start);
            start..piece.end.min(frame.end).max(start)
        };
        Ok([
            within(frame.start..hole.start),
            within(kept),
            within(hole.end..frame.end),
        ])
    }

    /// Returns the frame of the row at `at`.
    fn frame(&self, at: usize, cx: &Cx<'_>) -> Result<Range<usize>, SqlError> {
        let frame = &self.call.frame;
        let count = self.order.len();
        let start = match &frame.start {
            FrameBound::First => 0,
            FrameBound::Last => count,
            FrameBound::Current => match frame.unit {
                FrameUnit::Rows => at,
                FrameUnit::Range | FrameUnit::Groups => self.peers(at).start,
            },
            FrameBound::Preceding(offset) => {
                self.bound(at, (-1, offset, &self.bounds.start), true, cx)?
            }
            FrameBound::Following(offset) => {
                self.bound(at, (1, offset, &self.bounds.start), true, cx)?
            }
        };
        let end = match &frame.end {
            FrameBound::First => 0,
            FrameBound::Last => count,
            FrameBound::Current => match frame.unit {
                FrameUnit::Rows => at + 1,
                FrameUnit::Range | FrameUnit::Groups => self.peers(at).end,
            },
            FrameBound::Preceding(offset) => {
                self.bound(at, (-1, offset, &self.bounds.end), false, cx)?
            }
            FrameBound::Following(offset) => {
                self.bound(at, (1, offset, &self.bounds.end), false, cx)?
            }
        };
        Ok(start..end.max(start))
    }

    /// Returns the position of a bound with an offset: the first row inside (`start`), or the first
    /// row beyond.
    fn bound(
        &self,
        at: usize,
        (direction, offset, by): (i64, &FrameOffset, &Value),
        start: bool,
        cx: &Cx<'_>,
    ) -> Result<usize, SqlError> {
        let count = self.order.len();
        let far = |from: usize| {
            let by = by.as_int().unwrap_or(0);
            (from as i64).saturating_add(direction.saturating_mul(by))
        };
        match self.call.frame.unit {
            FrameUnit::Rows => {
                let place = far(at).saturating_add(i64::from(!start));
                Ok(usize::try_from(place).unwrap_or(0).min(count))
            }
            FrameUnit::Groups => {
                let first = self.sorted.groups[self.first];
                let last = self.sorted.groups[self.first + count - 1];
                let group = far(self.sorted.groups[self.first + at] as usize);
                if group < i64::from(first) {
                    return Ok(0);
                }
                if group > i64::from(last) {
                    return Ok(count);
                }
                let range = self.group(group as usize);
                Ok(if start { range.start } else { range.end })
            }
            FrameUnit::Range => {
                let keys = &self.sorted.keys[self.first..self.first + count];
                let (Some(value), Some((_, desc, nulls_first))) =
                    (&offset.value, self.call.order_by.first())
                else {
                    return Ok(at);
                };
                if keys[at].is_null() {
                    let peers = self.peers(at);
                    return Ok(if start { peers.start } else { peers.end });
                }
                // In 128 bits, no sum of integers overflows.
                if let (Some(key), Some(by)) = (keys[at].as_int(), by.as_int()) {
                    let (key, by) = (i128::from(key), i128::from(by));
                    let bound = match (direction < 0) != *desc {
                        true => key - by,
                        false => key + by,
                    };
                    let within = |key: &Value| {
                        let key = key.as_int().map(i128::from);
                        let ordering = match (key, *desc) {
                            (Some(key), true) => bound.cmp(&key),
                            (Some(key), false) => key.cmp(&bound),
                            (None, _) if *nulls_first => Ordering::Less,
                            (None, _) => Ordering::Greater,
                        };
                        match start {
                            true => ordering.is_lt(),
                            false => ordering.is_le(),
                        }
                    };
                    return Ok(keys.partition_point(within));
                }
                let bound = cx.value_here(value, &[keys[at].clone(), by.clone()])?;
                let within = |key: &Value| {
                    let wide = as_wide(key, &bound);
                    let key = wide.as_ref().unwrap_or(key);
                    let ordering = sort_compare(key, &bound, *desc, *nulls_first);
                    match start {
                        true => ordering.is_lt(),
                        false => ordering.is_le(),
                    }
                };
                Ok(keys.partition_point(within))
            }
        }
    }
}

/// Converts a key to the type of key plus offset, if that differs from the key's type.
fn as_wide(key: &Value, bound: &Value) -> Option<Value> {
    match (key, bound) {
        (Value::Date(day), Value::Timestamp(_)) => Some(Value::Timestamp(match *day {
            i32::MIN => i64::MIN,
            i32::MAX => i64::MAX,
            day => i64::from(day).saturating_mul(DAY_US),
        })),
        (Value::Float4(key), Value::Float8(_)) => Some(Value::Float8(f64::from(*key))),
        _ => None,
    }
}
