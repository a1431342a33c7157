//! Joins: an index lookup on the right side for each left row, or a right side kept in memory.
//!
//! A hash join whose right side exceeds its memory divides both sides, and joins the parts one
//! after the other ([`partitions`]).

mod key_table;
mod partitions;
mod probe;
mod stored;

use fencepost_sql::bound::{Expr, JoinKind};
use fencepost_sql::error::SqlError;
use fencepost_sql::key::encode_plain;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::source::SourceState;
use super::spill::StreamReader;
use crate::plan::{Join, JoinMethod, Source};
use crate::slots::Slots;
pub use key_table::KeyTable;
use partitions::JoinPartitions;
use probe::Probe;
use stored::StoredSide;

const LEFT_CHUNK: usize = 256;
/// The number of rows that are looked up at once.
const PROBE_CHUNK: usize = 1024;

/// The state of a join.
pub struct JoinState {
    left: SourceState,
    right: SourceState,
    left_rows: Batch,
    left_more: bool,
    /// The first stored row that may match each left row, if the left rows have been looked up.
    left_candidates: Vec<Option<usize>>,
    /// The left row for which matching rows are searched.
    current: usize,
    /// Whether the search for the current left row has begun.
    open: bool,
    /// Whether the current left row had a match.
    matched: bool,
    /// The right rows of an index join for the current left row.
    found: Batch,
    found_more: bool,
    /// The right side of another join, once it is read.
    stored: Option<StoredSide>,
    /// The next right row to compare with the current left row, in `found` or `stored`.
    candidate: Option<usize>,
    /// The next right row to return without a match.
    unmatched_at: usize,
    key: Vec<u8>,
    divided: Option<Box<DividedJoin>>,
}

/// A hash join of which one pair of partitions is in memory.
struct DividedJoin {
    partitions: JoinPartitions,
    /// The memory of the right side.
    memory: CollectedMemory,
    /// The left rows of the current pair; `None` before the first pair.
    left: Option<StreamReader>,
}

impl JoinState {
    /// Creates the state before the first row.
    pub fn new(join: &Join, width: usize) -> JoinState {
        JoinState {
            left: SourceState::new(&join.left, width),
            right: SourceState::new(&join.right, width),
            left_rows: Batch::new(width),
            left_more: true,
            left_candidates: Vec::new(),
            current: 0,
            open: false,
            matched: false,
            found: Batch::new(width),
            found_more: true,
            stored: None,
            candidate: None,
            unmatched_at: 0,
            key: Vec::new(),
            divided: None,
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
        if self.stored.is_none() && !matches!(join.method, JoinMethod::Index) {
            Box::pin(self.store_right(join, cx)).await?;
        }
        let target = out.len() + max;
        while out.len() < target {
            cx.breathe().await?;
            if self.current == self.left_rows.len() {
                if !self.left_more {
                    if self.unmatched_right(join, out, target) {
                        return Ok(true);
                    }
                    if !Box::pin(self.next_pair(join, cx)).await? {
                        return Ok(false);
                    }
                    continue;
                }
                self.read_left(join, cx, max).await?;
                continue;
            }
            if !self.open {
                self.open_row(join, cx).await?;
            }
            let done = match join.method {
                JoinMethod::Index => self.matches_by_index(join, cx, out, target).await?,
                JoinMethod::Hash { .. } | JoinMethod::Loop => {
                    self.matches_in_memory(join, cx, out, target).await?
                }
            };
            if done {
                if !self.matched && matches!(join.kind, JoinKind::Left | JoinKind::Full) {
                    self.unmatched_left(join, out);
                }
                self.open = false;
                self.current += 1;
            }
        }
        Ok(true)
    }

    /// Reads the right side. If a hash table of it does not fit into memory, divides both sides.
    async fn store_right(&mut self, join: &Join, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let width = self.left_rows.width();
        let mut memory = match join.method {
            JoinMethod::Hash { .. } => {
                CollectedMemory::limited(cx.eval.settings.work_memory.hash_bytes())
            }
            JoinMethod::Index | JoinMethod::Loop => CollectedMemory::default(),
        };
        let mut stored = StoredSide::new(join);
        let to = (width, &mut memory);
        if !stored.read(join, &mut self.right, to, cx).await? {
            self.stored = Some(stored);
            return Ok(());
        }
        let mut partitions = JoinPartitions::new(join, &stored, width, cx);
        let sides = (&mut self.left, &mut self.right);
        partitions.divide(join, stored, sides, cx).await?;
        self.divided = Some(Box::new(DividedJoin {
            partitions,
            memory,
            left: None,
        }));
        self.left_more = false;
        self.stored = Some(StoredSide::new(join));
        Ok(())
    }

    /// Begins to join the next pair of partitions. Returns false if there is none.
    async fn next_pair(&mut self, join: &Join, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
        let Some(divided) = self.divided.as_deref_mut() else {
            return Ok(false);
        };
        self.stored = None;
        let memory = &mut divided.memory;
        let pair = divided.partitions.next_pair(join, memory, cx).await?;
        let Some((stored, left)) = pair else {
            self.stored = Some(StoredSide::new(join));
            return Ok(false);
        };
        self.stored = Some(stored);
        divided.left = Some(left);
        self.left_more = true;
        self.unmatched_at = 0;
        Ok(true)
    }

    /// Reads the next left rows, of which the caller uses about `max`.
    async fn read_left(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        max: usize,
    ) -> Result<(), StatementStop> {
        self.left_rows.clear();
        self.left_candidates.clear();
        self.current = 0;
        if let Some(divided) = self.divided.as_deref_mut() {
            let DividedJoin {
                partitions, left, ..
            } = divided;
            self.left_more = match left {
                Some(left) => {
                    let read = partitions.read_left(left, &mut self.left_rows, cx);
                    Box::pin(read).await?
                }
                None => false,
            };
            return Ok(());
        }
        if let (SourceState::Scan(state), Some(stored), Some(probe)) =
            (&mut self.left, &self.stored, Probe::of(join))
        {
            let to = (&mut self.left_rows, &mut self.left_candidates);
            // Most of the rows may find no match.
            let chunk = if max < LEFT_CHUNK { max } else { PROBE_CHUNK };
            if let Some(more) = probe.next(state, cx, stored, to, chunk).await? {
                self.left_more = more;
                return Ok(());
            }
        }
        let chunk = LEFT_CHUNK.min(max);
        let next = self.left.next(&join.left, cx, &mut self.left_rows, chunk);
        self.left_more = next.await?;
        Ok(())
    }

    /// Begins the search for matches of the current left row.
    async fn open_row(&mut self, join: &Join, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        self.open = true;
        self.matched = false;
        if let Some(candidate) = self.left_candidates.get(self.current) {
            self.candidate = *candidate;
            return Ok(());
        }
        let left = self.left_rows.row(self.current);
        match (&join.method, &self.stored) {
            (JoinMethod::Index, _) => {
                let left = (left, &join.left_slots);
                self.right.reopen(&join.right, cx, left).await?;
                self.found.clear();
                self.found_more = true;
                self.candidate = None;
            }
            (JoinMethod::Hash { left_keys, .. }, Some(stored)) => {
                let key = &mut self.key;
                let has_key = cx.in_parts(|cx| hash_key(left_keys, cx, left, key)).await?;
                self.candidate = if has_key {
                    stored.first(&self.key)
                } else {
                    None
                };
            }
            (JoinMethod::Loop, Some(stored)) => self.candidate = stored.first(&[]),
            (JoinMethod::Hash { .. } | JoinMethod::Loop, None) => self.candidate = None,
        }
        Ok(())
    }

    /// Joins the current left row with the rows that the right side returns for it. Returns false
    /// if `out` is full before they end.
    async fn matches_by_index(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        target: usize,
    ) -> Result<bool, StatementStop> {
        loop {
            while let Some(candidate) = self.candidate {
                if out.len() >= target {
                    return Ok(false);
                }
                self.candidate = Some(candidate + 1).filter(|next| *next < self.found.len());
                let row = out.push();
                let right = self.found.row(candidate);
                copy(right, row, &join.right_slots);
                for carried in join.carried.iter().filter(|carried| !carried.from_left) {
                    row[carried.slot].clone_from(&right[carried.slot]);
                }
                self.matched |= self.keep_match(join, cx, out).await?;
            }
            if !self.found_more {
                return Ok(true);
            }
            self.found.clear();
            self.found_more = match (&mut self.right, &join.right) {
                (SourceState::Scan(state), Source::Scan(scan)) => {
                    state.next(scan, cx, &mut self.found, LEFT_CHUNK).await?
                }
                (right, source) => right.next(source, cx, &mut self.found, LEFT_CHUNK).await?,
            };
            self.candidate = (self.found.len() > 0).then_some(0);
        }
    }

    /// Joins the current left row with the stored rows that may match it. Returns false if `out`
    /// is full before they end.
    async fn matches_in_memory(
        &mut self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        target: usize,
    ) -> Result<bool, StatementStop> {
        while let (Some(candidate), Some(stored)) = (self.candidate, &self.stored) {
            if out.len() >= target {
                return Ok(false);
            }
            self.candidate = stored.after(candidate);
            stored.copy(candidate, out.push());
            if self.keep_match(join, cx, out).await? {
                self.matched = true;
                if let Some(stored) = &mut self.stored {
                    stored.mark_matched(candidate);
                }
            }
        }
        Ok(true)
    }

    /// Completes the last row of `out`, which has the values of the right side, and removes it
    /// again if the condition rejects it. Returns whether it stays.
    async fn keep_match(
        &self,
        join: &Join,
        cx: &mut Cx<'_>,
        out: &mut Batch,
    ) -> Result<bool, StatementStop> {
        if cx.is_due() {
            cx.pause().await?;
        }
        let last = out.len() - 1;
        let row = out.row_mut(last);
        self.copy_left(join, row);
        let holds = if join.deep {
            cx.deep_holds(join.on.as_ref(), row).await?
        } else {
            cx.holds(join.on.as_ref(), row).await?
        };
        if !holds {
            out.pop();
        }
        Ok(holds)
    }

    fn copy_left(&self, join: &Join, row: &mut [Value]) {
        let left = self.left_rows.row(self.current);
        copy(left, row, &join.left_slots);
        for carried in join.carried.iter().filter(|carried| carried.from_left) {
            row[carried.slot].clone_from(&left[carried.slot]);
        }
    }

    /// Adds the current left row without a match.
    fn unmatched_left(&self, join: &Join, out: &mut Batch) {
        let row = out.push();
        self.copy_left(join, row);
        clear(row, &join.right_slots);
        for carried in join.carried.iter().filter(|carried| !carried.from_left) {
            row[carried.slot] = Value::Null;
        }
    }

    /// Adds the right rows of a full join that had no match, after the last left row. Returns
    /// whether more of them follow.
    fn unmatched_right(&mut self, join: &Join, out: &mut Batch, target: usize) -> bool {
        let Some(stored) = &self.stored else {
            return false;
        };
        while self.unmatched_at < stored.len() {
            if out.len() >= target {
                return true;
            }
            let right = self.unmatched_at;
            self.unmatched_at += 1;
            if stored.is_unmatched(right) {
                let row = out.push();
                clear(row, &join.left_slots);
                for carried in join.carried.iter().filter(|carried| carried.from_left) {
                    row[carried.slot] = Value::Null;
                }
                stored.copy(right, row);
            }
        }
        false
    }
}

fn copy(from: &[Value], to: &mut [Value], slots: &Slots) {
    for range in slots.ranges() {
        to[range.clone()].clone_from_slice(&from[range]);
    }
}

fn clear(row: &mut [Value], slots: &Slots) {
    for range in slots.ranges() {
        row[range].fill(Value::Null);
    }
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
