//! The execution of UNION, INTERSECT and EXCEPT.
//!
//! UNION ALL returns the left rows, then the right rows. The other operations compare rows by the
//! bytes of their values. UNION remembers the rows that it has returned. INTERSECT and EXCEPT first
//! read and count the rows of the right side, and then look up the left rows.

use fencepost_sql::bound::SetOp;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use foldhash::HashMap;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::join::push_comparable;
use super::select::SelectState;
use crate::plan::SetPlan;

const CHUNK: usize = 1024;

/// The state of a set operation.
pub struct SetState {
    side: Side,
    current: SelectState,
    rows: Batch,
    /// For each row: how often it may still be returned (INTERSECT) or still removes a left row
    /// (EXCEPT). For UNION: it was returned.
    counts: HashMap<Vec<u8>, u64>,
    gathered: CollectedMemory,
    key: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The rows of the right side must be counted first.
    Count,
    Left,
    Right,
    Over,
}

impl SetState {
    /// Creates the state before the first row.
    pub fn new(set: &SetPlan) -> SetState {
        let (side, first) = match set.op {
            SetOp::Union => (Side::Left, &set.left),
            SetOp::Intersect | SetOp::Except => (Side::Count, &set.right),
        };
        SetState {
            side,
            current: SelectState::new(first),
            rows: Batch::new(first.targets.len()),
            counts: HashMap::default(),
            gathered: CollectedMemory::default(),
            key: Vec::new(),
        }
    }

    /// Adds up to `max` rows to `out`. Returns false when no more rows follow.
    pub async fn next(
        &mut self,
        set: &SetPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if self.side == Side::Count {
            self.count(set, cx).await?;
        }
        let plan = match self.side {
            Side::Left => &set.left,
            Side::Right => &set.right,
            Side::Count | Side::Over => return Ok(false),
        };
        self.rows.clear();
        let more = self.current.next(plan, cx, &mut self.rows, max).await?;
        for i in 0..self.rows.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let all = set.op == SetOp::Union && set.all;
            if all || self.passes(set, cx, i, plan.visible)? {
                let row = &mut self.rows.row_mut(i)[..plan.visible];
                give(row, &mut out.push()[set.first_slot..]);
            }
        }
        if more {
            return Ok(true);
        }
        if set.op == SetOp::Union && self.side == Side::Left {
            self.side = Side::Right;
            self.current = SelectState::new(&set.right);
            self.rows = Batch::new(set.right.targets.len());
            return Ok(true);
        }
        self.side = Side::Over;
        Ok(false)
    }

    /// Counts the rows of the right side.
    async fn count(&mut self, set: &SetPlan, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        loop {
            self.rows.clear();
            let next = self.current.next(&set.right, cx, &mut self.rows, CHUNK);
            let more = next.await?;
            for i in 0..self.rows.len() {
                if cx.is_due() {
                    cx.pause().await?;
                }
                key_of(&self.rows.row(i)[..set.right.visible], &mut self.key);
                match self.counts.get_mut(&self.key) {
                    Some(count) => *count += 1,
                    None => {
                        self.gathered.add_entry(cx, self.key.len())?;
                        self.counts.insert(self.key.clone(), 1);
                    }
                }
            }
            if !more {
                break;
            }
        }
        self.side = Side::Left;
        self.current = SelectState::new(&set.left);
        self.rows = Batch::new(set.left.targets.len());
        Ok(())
    }

    /// Returns whether row `i` belongs to the result.
    fn passes(
        &mut self,
        set: &SetPlan,
        cx: &mut Cx<'_>,
        i: usize,
        width: usize,
    ) -> Result<bool, StatementStop> {
        key_of(&self.rows.row(i)[..width], &mut self.key);
        match (set.op, self.counts.get_mut(&self.key)) {
            (SetOp::Union, Some(_)) | (SetOp::Intersect, None) => Ok(false),
            (SetOp::Intersect, Some(count)) => {
                let passes = *count > 0;
                *count = if set.all { count.saturating_sub(1) } else { 0 };
                Ok(passes)
            }
            (SetOp::Except, Some(count)) => {
                let passes = *count == 0 && set.all;
                *count = count.saturating_sub(1).max(u64::from(!set.all));
                Ok(passes)
            }
            (SetOp::Except, None) if set.all => Ok(true),
            (SetOp::Union | SetOp::Except, None) => {
                self.gathered.add_entry(cx, self.key.len())?;
                self.counts.insert(self.key.clone(), 1);
                Ok(true)
            }
        }
    }
}

/// Writes the key of a row to `key`: equal rows have equal keys, and NULLs count as equal.
pub fn key_of(row: &[Value], key: &mut Vec<u8>) {
    key.clear();
    for value in row {
        push_comparable(value, key);
    }
}

/// Moves the values of `from` to `to`.
pub fn give(from: &mut [Value], to: &mut [Value]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = std::mem::take(from);
    }
}
