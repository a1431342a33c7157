//! UNION, INTERSECT and EXCEPT at work.
//!
//! UNION ALL gives the left rows, then the right ones. The others know rows by the bytes of their values: UNION keeps
//! what it has given; INTERSECT and EXCEPT first read the right side and count it, then look the left rows up.

use fencepost_sql::bound::SetOp;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use foldhash::HashMap;

use super::batch::Batch;
use super::cx::Cx;
use super::gathered::Gathered;
use super::join::push_comparable;
use super::select::SelectState;
use crate::plan::SetPlan;

const CHUNK: usize = 1024;

/// Where a set operation stands.
pub struct SetState {
    side: Side,
    current: SelectState,
    rows: Batch,
    /// How often each row may still be given, or stands in the way of a left one; for UNION: it was given.
    counts: HashMap<Vec<u8>, u64>,
    gathered: Gathered,
    key: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The right side is to be counted.
    Count,
    Left,
    Right,
    Over,
}

impl SetState {
    /// The state before the first row.
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
            gathered: Gathered::default(),
            key: Vec::new(),
        }
    }

    /// Adds up to `max` rows to `out`; false when there are no more after them.
    pub async fn next(
        &mut self,
        set: &SetPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, Halt> {
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
    async fn count(&mut self, set: &SetPlan, cx: &mut Cx<'_>) -> Result<(), Halt> {
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

    /// Is row `i` one of the result?
    fn passes(
        &mut self,
        set: &SetPlan,
        cx: &mut Cx<'_>,
        i: usize,
        width: usize,
    ) -> Result<bool, Halt> {
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

/// The bytes that equal rows have in common; NULLs are equal here.
pub fn key_of(row: &[Value], key: &mut Vec<u8>) {
    key.clear();
    for value in row {
        push_comparable(value, key);
    }
}

/// Moves values.
pub fn give(from: &mut [Value], to: &mut [Value]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = std::mem::take(from);
    }
}
