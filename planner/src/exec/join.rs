//! Joins: an index lookup on the right side for each left row, or a right side kept in memory.

use std::ops::Range;

use fencepost_sql::bound::{Expr, JoinKind};
use fencepost_sql::error::SqlError;
use fencepost_sql::key::encode_plain;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use foldhash::HashMap;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::source::SourceState;
use crate::plan::{Join, JoinMethod};

const LEFT_CHUNK: usize = 256;
const RIGHT_CHUNK: usize = 1024;

/// The state of a join.
pub struct JoinState {
    left: SourceState,
    right: SourceState,
    left_rows: Batch,
    left_more: bool,
    /// The left row for which matching rows are searched.
    current: usize,
    /// Whether the search for the current left row has begun.
    open: bool,
    /// Whether the current left row had a match.
    matched: bool,
    /// The right rows in memory; for an index join, those of the current left row.
    right_rows: Batch,
    right_more: bool,
    right_at: usize,
    built: bool,
    by_key: HashMap<Vec<u8>, Vec<u32>>,
    bucket: Vec<u32>,
    right_matched: Vec<bool>,
    unmatched_at: usize,
    key: Vec<u8>,
}

impl JoinState {
    /// Creates the state before the first row.
    pub fn new(join: &Join, width: usize) -> JoinState {
        JoinState {
            left: SourceState::new(&join.left, width),
            right: SourceState::new(&join.right, width),
            left_rows: Batch::new(width),
            left_more: true,
            current: 0,
            open: false,
            matched: false,
            right_rows: Batch::new(width),
            right_more: true,
            right_at: 0,
            built: false,
            by_key: HashMap::default(),
            bucket: Vec::new(),
            right_matched: Vec::new(),
            unmatched_at: 0,
            key: Vec::new(),
        }
    }

    /// Adds up to `max` rows to `out`. Returns false when no more rows follow.
    pub async fn next(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if !self.built && !matches!(join.method, JoinMethod::Index) {
            self.build(join, cx).await?;
        }
        let target = out.len() + max;
        while out.len() < target {
            cx.breathe().await?;
            if self.current == self.left_rows.len() {
                if !self.left_more {
                    return Ok(self.unmatched_right(join, out, target));
                }
                self.left_rows.clear();
                self.current = 0;
                let chunk = LEFT_CHUNK.min(max);
                let next = self.left.next(&join.left, cx, &mut self.left_rows, chunk);
                self.left_more = next.await?;
                continue;
            }
            if !self.open {
                self.open_row(join, cx).await?;
            }
            let done = match join.method {
                JoinMethod::Index => self.partners_by_index(join, cx, out, target).await?,
                _ => self.partners_in_memory(join, cx, out, target).await?,
            };
            if done {
                if !self.matched && matches!(join.kind, JoinKind::Left | JoinKind::Full) {
                    let row = out.push();
                    let left = self.left_rows.row(self.current);
                    copy(left, row, join.left_slots);
                    clear(row, join.right_slots);
                    for carried in &join.carried {
                        row[carried.slot] = match carried.from_left {
                            true => left[carried.slot].clone(),
                            false => Value::Null,
                        };
                    }
                }
                self.open = false;
                self.current += 1;
            }
        }
        Ok(true)
    }

    /// Reads the whole right side into memory.
    async fn build(&mut self, join: &Join, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let mut gathered = CollectedMemory::default();
        while self.right_more {
            let from = self.right_rows.len();
            let next = self
                .right
                .next(&join.right, cx, &mut self.right_rows, RIGHT_CHUNK);
            self.right_more = next.await?;
            gathered.add_rows(cx, &self.right_rows, from)?;
        }
        if let JoinMethod::Hash { right_keys, .. } = &join.method {
            for i in 0..self.right_rows.len() {
                if cx.is_due() {
                    cx.pause().await?;
                }
                let (row, key) = (self.right_rows.row(i), &mut self.key);
                if cx.in_parts(|cx| hash_key(right_keys, cx, row, key)).await? {
                    match self.by_key.get_mut(&self.key) {
                        Some(rows) => rows.push(i as u32),
                        None => {
                            self.by_key.insert(self.key.clone(), vec![i as u32]);
                            gathered.add_entry(cx, self.key.len())?;
                        }
                    }
                }
            }
        }
        if join.kind == JoinKind::Full {
            self.right_matched = vec![false; self.right_rows.len()];
        }
        self.built = true;
        Ok(())
    }

    /// Begins the search for matches of the current left row.
    async fn open_row(&mut self, join: &Join, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        self.open = true;
        self.matched = false;
        self.right_at = 0;
        let left = self.left_rows.row(self.current);
        match &join.method {
            JoinMethod::Index => {
                let left = (left, join.left_slots);
                self.right.reopen(&join.right, cx, left).await?;
                self.right_rows.clear();
                self.right_more = true;
            }
            JoinMethod::Hash { left_keys, .. } => {
                self.bucket.clear();
                let key = &mut self.key;
                if cx.in_parts(|cx| hash_key(left_keys, cx, left, key)).await?
                    && let Some(rows) = self.by_key.get(&self.key)
                {
                    self.bucket.extend_from_slice(rows);
                }
            }
            JoinMethod::Loop => {}
        }
        Ok(())
    }

    async fn partners_by_index(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        target: usize,
    ) -> Result<bool, StatementStop> {
        loop {
            let rows = self.right_at..self.right_rows.len();
            if !self.pair(join, cx, out, target, rows).await? {
                return Ok(false);
            }
            if !self.right_more {
                return Ok(true);
            }
            self.right_rows.clear();
            self.right_at = 0;
            let next = self
                .right
                .next(&join.right, cx, &mut self.right_rows, LEFT_CHUNK);
            self.right_more = next.await?;
        }
    }

    async fn partners_in_memory(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        target: usize,
    ) -> Result<bool, StatementStop> {
        let end = match join.method {
            JoinMethod::Hash { .. } => self.bucket.len(),
            _ => self.right_rows.len(),
        };
        self.pair(join, cx, out, target, self.right_at..end).await
    }

    /// Joins the current left row with candidates. Returns false if `out` is full before the
    /// candidates end.
    async fn pair(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        target: usize,
        candidates: Range<usize>,
    ) -> Result<bool, StatementStop> {
        for candidate in candidates {
            if out.len() >= target {
                return Ok(false);
            }
            if cx.is_due() {
                cx.pause().await?;
            }
            self.right_at = candidate + 1;
            let right = match join.method {
                JoinMethod::Hash { .. } => self.bucket[candidate] as usize,
                _ => candidate,
            };
            let row = out.push();
            copy(self.left_rows.row(self.current), row, join.left_slots);
            copy(self.right_rows.row(right), row, join.right_slots);
            for carried in &join.carried {
                let from = match carried.from_left {
                    true => self.left_rows.row(self.current),
                    false => self.right_rows.row(right),
                };
                row[carried.slot] = from[carried.slot].clone();
            }
            let holds = match join.deep {
                true => cx.deep_holds(join.on.as_ref(), row).await?,
                false => cx.holds(join.on.as_ref(), row).await?,
            };
            if holds {
                self.matched = true;
                if let Some(matched) = self.right_matched.get_mut(right) {
                    *matched = true;
                }
            } else {
                out.pop();
            }
        }
        Ok(true)
    }

    /// Adds the right rows of a full join that had no match, after the last left row.
    fn unmatched_right(&mut self, join: &Join, out: &mut Batch, target: usize) -> bool {
        while self.unmatched_at < self.right_matched.len() {
            if out.len() >= target {
                return true;
            }
            let right = self.unmatched_at;
            self.unmatched_at += 1;
            if !self.right_matched[right] {
                let row = out.push();
                clear(row, join.left_slots);
                copy(self.right_rows.row(right), row, join.right_slots);
                for carried in join.carried.iter().filter(|carried| !carried.from_left) {
                    row[carried.slot] = self.right_rows.row(right)[carried.slot].clone();
                }
            }
        }
        false
    }
}

fn copy(from: &[Value], to: &mut [Value], slots: (usize, usize)) {
    to[slots.0..slots.1].clone_from_slice(&from[slots.0..slots.1]);
}

fn clear(row: &mut [Value], slots: (usize, usize)) {
    row[slots.0..slots.1].fill(Value::Null);
}

/// Writes the hash key of a row to `out`; equal values have equal bytes. Returns false if a value
/// is NULL and matches nothing.
pub fn hash_key(
    keys: &[Expr],
    cx: &Cx<'_>,
    row: &[Value],
    out: &mut Vec<u8>,
) -> Result<bool, SqlError> {
    out.clear();
    for key in keys {
        let value = cx.value_here(key, row)?;
        if value.is_null() {
            return Ok(false);
        }
        push_comparable(&value, out);
    }
    Ok(true)
}

/// Encodes a value for comparison: integers of every width are encoded as bigint.
pub fn push_comparable(value: &Value, out: &mut Vec<u8>) {
    match value.as_int() {
        Some(wide) => encode_plain(&Value::Int8(wide), false, out),
        None => encode_plain(value, false, out),
    }
}
