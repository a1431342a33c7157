//! The execution of UNION, INTERSECT and EXCEPT.
//!
//! UNION ALL returns the left rows, then the right rows. The other operations compare rows by the
//! bytes of their values. UNION remembers the rows that it has returned. INTERSECT and EXCEPT first
//! read and count the rows of the right side, and then look up the left rows.
//!
//! When the counted rows exceed their memory, rows of both sides that are not counted yet are
//! written to a temporary file, divided by the hash of their values. The operation is then repeated
//! for each partition.

use fencepost_sql::bound::SetOp;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use foldhash::HashMap;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::join::push_comparable;
use super::select::SelectState;
use super::spill::{Partitions, StreamReader};
use crate::plan::SetPlan;

const CHUNK: usize = 1024;

/// The streams of a partition: rows to count, and rows to look up.
const COUNTED: usize = 0;
const LOOKED_UP: usize = 1;

/// The state of a set operation.
pub struct SetState {
    side: Side,
    current: SelectState,
    rows: Batch,
    /// For each row: how often it may still be returned (INTERSECT) or still removes a left row
    /// (EXCEPT). For UNION: it was returned.
    counts: HashMap<Vec<u8>, u64>,
    memory: Option<CollectedMemory>,
    /// Whether new rows are counted in memory. Otherwise `spill` takes them.
    is_open: bool,
    spill: Option<Box<Partitions<2>>>,
    /// The rows to look up of the current partition.
    reader: Option<StreamReader>,
    key: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The rows of the right side must be counted first.
    Count,
    Left,
    Right,
    /// The partitions of the temporary file.
    Spilled,
}

/// Whether a row belongs to the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Membership {
    Member,
    Excluded,
    /// Other rows with its values are in the temporary file.
    Unknown,
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
            memory: None,
            is_open: true,
            spill: None,
            reader: None,
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
            Box::pin(self.count(set, cx)).await?;
        }
        let plan = match self.side {
            Side::Left => &set.left,
            Side::Right => &set.right,
            Side::Spilled => return Box::pin(self.next_spilled(set, cx, out, max)).await,
            Side::Count => return Ok(false),
        };
        self.rows.clear();
        let more = self.current.next(plan, cx, &mut self.rows, max).await?;
        for i in 0..self.rows.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let all = set.op == SetOp::Union && set.all;
            if all || self.is_member(set, cx, i, plan.visible)? {
                let row = &mut self.rows.row_mut(i)[..plan.visible];
                give(row, &mut out.push()[set.first_slot..]);
            }
        }
        self.write_full(cx).await?;
        if more {
            return Ok(true);
        }
        if set.op == SetOp::Union && self.side == Side::Left {
            self.side = Side::Right;
            self.current = SelectState::new(&set.right);
            self.rows = Batch::new(set.right.targets.len());
            return Ok(true);
        }
        self.side = Side::Spilled;
        self.rows = Batch::new(plan.visible);
        Ok(self.spill.is_some())
    }

    /// Adds up to `max` rows of the partitions to `out`. Returns false when no more rows follow.
    async fn next_spilled(
        &mut self,
        set: &SetPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => match self.begin_partition(cx).await? {
                Some(reader) => reader,
                None => return Ok(false),
            },
        };
        self.rows.clear();
        let more = self.read(&mut reader, cx, max).await?;
        let width = self.rows.width();
        for i in 0..self.rows.len() {
            cx.breathe().await?;
            if self.is_member(set, cx, i, width)? {
                give(self.rows.row_mut(i), &mut out.push()[set.first_slot..]);
            }
        }
        self.write_full(cx).await?;
        self.reader = Some(reader).filter(|_| more);
        Ok(true)
    }

    /// Counts the rows of the next partition. Returns its rows to look up; `None` if there is no
    /// partition.
    async fn begin_partition(
        &mut self,
        cx: &mut Cx<'_>,
    ) -> Result<Option<StreamReader>, StatementStop> {
        let next = self.spill.as_mut().and_then(|spill| spill.take_partition());
        let Some([mut counted, looked_up]) = next else {
            return Ok(None);
        };
        self.counts.clear();
        self.memory.iter_mut().for_each(CollectedMemory::restart);
        self.is_open = true;
        let mut more = true;
        while more {
            self.rows.clear();
            more = self.read(&mut counted, cx, CHUNK).await?;
            self.count_rows(cx, self.rows.width()).await?;
        }
        Ok(Some(looked_up))
    }

    /// Reads up to `max` rows of a partition. Returns whether more follow.
    async fn read(
        &mut self,
        reader: &mut StreamReader,
        cx: &mut Cx<'_>,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let Some(spill) = &mut self.spill else {
            return Ok(false);
        };
        for _ in 0..max {
            cx.breathe().await?;
            if !spill.next(reader, self.rows.push()).await? {
                self.rows.pop();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts the rows of the right side.
    async fn count(&mut self, set: &SetPlan, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        loop {
            self.rows.clear();
            let next = self.current.next(&set.right, cx, &mut self.rows, CHUNK);
            let more = next.await?;
            self.count_rows(cx, set.right.visible).await?;
            if !more {
                break;
            }
        }
        self.side = Side::Left;
        self.current = SelectState::new(&set.left);
        self.rows = Batch::new(set.left.targets.len());
        Ok(())
    }

    /// Counts the first `width` values of the rows in `rows`.
    async fn count_rows(&mut self, cx: &mut Cx<'_>, width: usize) -> Result<(), StatementStop> {
        for i in 0..self.rows.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let row = &self.rows.row(i)[..width];
            key_of(row, &mut self.key);
            if let Some(count) = self.counts.get_mut(&self.key) {
                *count += 1;
                continue;
            }
            match &mut self.spill {
                Some(spill) if !self.is_open => spill.add(COUNTED, &self.key, row)?,
                Some(_) | None => self.insert(cx)?,
            }
        }
        self.write_full(cx).await
    }

    /// Counts a first row with the current key.
    fn insert(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let limit = cx.eval.settings.work_memory.hash_bytes();
        let memory = self
            .memory
            .get_or_insert_with(|| CollectedMemory::limited(limit));
        memory.add_entry(cx, self.key.len())?;
        self.counts.insert(self.key.clone(), 1);
        Ok(())
    }

    /// Writes rows to the temporary file, which is created when the memory is full.
    async fn write_full(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        if let Some(spill) = &mut self.spill {
            Box::pin(spill.write()).await?;
        }
        if self.is_open && self.memory.as_ref().is_some_and(CollectedMemory::is_full) {
            self.is_open = false;
            self.spill
                .get_or_insert_with(|| Box::new(cx.new_partitions()));
        }
        Ok(())
    }

    /// Returns whether row `i` belongs to the result. Adds it to the temporary file if other rows
    /// with its values may be there.
    fn is_member(
        &mut self,
        set: &SetPlan,
        cx: &mut Cx<'_>,
        i: usize,
        width: usize,
    ) -> Result<bool, StatementStop> {
        key_of(&self.rows.row(i)[..width], &mut self.key);
        match self.membership(set) {
            Membership::Member if self.counts.contains_key(&self.key) => Ok(true),
            Membership::Member => {
                if !(set.op == SetOp::Except && set.all) {
                    self.insert(cx)?;
                }
                Ok(true)
            }
            Membership::Excluded => Ok(false),
            Membership::Unknown => {
                if let Some(spill) = &mut self.spill {
                    let row = &self.rows.row(i)[..width];
                    spill.add(LOOKED_UP, &self.key, row)?;
                }
                Ok(false)
            }
        }
    }

    /// Returns whether a row with the current key belongs to the result, and counts it if rows with
    /// its key are counted.
    fn membership(&mut self, set: &SetPlan) -> Membership {
        let is_elsewhere = self.spill.is_some() && !self.is_open;
        let is_member = match (set.op, self.counts.get_mut(&self.key)) {
            (_, None) if is_elsewhere => return Membership::Unknown,
            (SetOp::Union, Some(_)) | (SetOp::Intersect, None) => false,
            (SetOp::Intersect, Some(count)) => {
                let is_member = *count > 0;
                *count = if set.all { count.saturating_sub(1) } else { 0 };
                is_member
            }
            (SetOp::Except, Some(count)) => {
                let is_member = *count == 0 && set.all;
                *count = count.saturating_sub(1).max(u64::from(!set.all));
                is_member
            }
            (SetOp::Union | SetOp::Except, None) => true,
        };
        if is_member {
            Membership::Member
        } else {
            Membership::Excluded
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
