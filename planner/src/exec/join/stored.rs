//! The right side of a join, kept in memory.

use fencepost_sql::bound::JoinKind;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::super::batch::Batch;
use super::super::collected_memory::CollectedMemory;
use super::super::cx::Cx;
use super::super::source::SourceState;
use super::hash_key;
use super::key_table::KeyTable;
use crate::plan::{Join, JoinMethod};

const RIGHT_CHUNK: usize = 1024;

/// The rows of the right side, with their needed values only.
pub struct StoredSide {
    /// The slots of the values of a row.
    slots: Vec<usize>,
    rows: Batch,
    /// The rows by their keys; `None` for a nested loop.
    by_key: Option<KeyTable>,
    /// For a full join: whether each row has had a match.
    matched: Vec<bool>,
}

impl StoredSide {
    /// Creates a right side without rows.
    pub fn new(join: &Join) -> StoredSide {
        let carried = join.carried.iter().filter(|carried| !carried.from_left);
        let slots = join.right_slots.ranges().flatten();
        let slots: Vec<usize> = slots.chain(carried.map(|carried| carried.slot)).collect();
        StoredSide {
            rows: Batch::new(slots.len()),
            slots,
            by_key: matches!(join.method, JoinMethod::Hash { .. }).then(KeyTable::default),
            matched: Vec::new(),
        }
    }

    /// Reads the right side until it ends or `memory` is full. Returns whether more rows follow.
    ///
    /// # Errors
    /// Those of the source; 53200 if the rows exceed the memory limit, and `memory` has no limit of
    /// its own.
    pub async fn read(
        &mut self,
        join: &Join,
        right: &mut SourceState,
        (width, memory): (usize, &mut CollectedMemory),
        cx: &mut Cx<'_>,
    ) -> Result<bool, StatementStop> {
        let mut chunk = Batch::new(width);
        while !memory.is_full() {
            chunk.clear();
            let more = right.next(&join.right, cx, &mut chunk, RIGHT_CHUNK).await?;
            self.add(join, &mut chunk, cx, memory).await?;
            if !more {
                self.end(join);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Prepares the rows to be matched, after the last one was added.
    pub fn end(&mut self, join: &Join) {
        if join.kind == JoinKind::Full {
            self.matched = vec![false; self.rows.len()];
        }
    }

    /// Moves the values of rows out of `chunk`, and counts their memory.
    ///
    /// # Errors
    /// Those of the keys and of the memory limit.
    pub async fn add(
        &mut self,
        join: &Join,
        chunk: &mut Batch,
        cx: &mut Cx<'_>,
        memory: &mut CollectedMemory,
    ) -> Result<(), StatementStop> {
        let from = self.rows.len();
        let mut key = Vec::new();
        for i in 0..chunk.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            if let (JoinMethod::Hash { right_keys, .. }, Some(table)) =
                (&join.method, &mut self.by_key)
            {
                let (row, key) = (chunk.row(i), &mut key);
                let has_key = cx.in_parts(|cx| hash_key(right_keys, cx, row, key)).await?;
                if has_key && table.add(key, self.rows.len() as u32) {
                    memory.add_entry(cx, key.len())?;
                }
            }
            let row = chunk.row_mut(i);
            for (stored, slot) in self.rows.push().iter_mut().zip(&self.slots) {
                *stored = std::mem::take(&mut row[*slot]);
            }
        }
        memory.add_rows(cx, &self.rows, from)?;
        Ok(())
    }

    /// Returns the slots of the values of a row.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// Moves the values of a row to a from row.
    pub fn take(&mut self, row: usize, to: &mut [Value]) {
        for (value, slot) in self.rows.row_mut(row).iter_mut().zip(&self.slots) {
            to[*slot] = std::mem::take(value);
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the first row that may match a left row with this key.
    pub fn first(&self, key: &[u8]) -> Option<usize> {
        match &self.by_key {
            Some(table) => table.first(key).map(|row| row as usize),
            None => (self.rows.len() > 0).then_some(0),
        }
    }

    /// Returns the row after `row` that may match the same left row.
    pub fn after(&self, row: usize) -> Option<usize> {
        match &self.by_key {
            Some(table) => table.after(row as u32).map(|row| row as usize),
            None => Some(row + 1).filter(|next| *next < self.rows.len()),
        }
    }

    /// Copies the values of a row to a from row.
    pub fn copy(&self, row: usize, to: &mut [Value]) {
        for (value, slot) in self.rows.row(row).iter().zip(&self.slots) {
            to[*slot].clone_from(value);
        }
    }

    /// Notes that a row has had a match.
    pub fn mark_matched(&mut self, row: usize) {
        if let Some(matched) = self.matched.get_mut(row) {
            *matched = true;
        }
    }

    /// Returns whether a row of a full join has had no match. For other joins, returns false.
    pub fn is_unmatched(&self, row: usize) -> bool {
        self.matched.get(row) == Some(&false)
    }
}
