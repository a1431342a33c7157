//! DEFERRABLE unique constraints: two rows may have one key for a while.
//!
//! ```text
//! an entry comes      is there another one with its key?  then it is noted, beside the foreign keys that wait
//! end of statement    those of constraints that are immediate: there is one entry at most by now
//! commit              all of them
//! ```
//! The index has the row's address behind each key, as one that is not unique. What was looked at is in the read set, so of two
//! transactions that bring the same key one comes to see the other's.

use std::ops::Bound;
use std::sync::Arc;

use fencepost_btree::{Direction, ScanBatch};
use fencepost_sql::catalog::{IndexDef, TableDef};
use fencepost_sql::key::successor;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;

use super::errors::duplicate;
use crate::exec::Cx;
use crate::index::tree;
use crate::plan::TablePlan;

/// A key that two rows have had.
#[derive(Clone, Debug)]
pub struct Twin {
    table: Arc<TableDef>,
    /// The index, by position, and the partition of it.
    position: usize,
    partition: u32,
    /// The key without an address.
    key: Vec<u8>,
    /// One of the rows.
    row: Vec<Value>,
}

impl Twin {
    fn index(&self) -> &IndexDef {
        &self.table.indexes[self.position]
    }

    /// The oid of the table.
    pub fn table(&self) -> u32 {
        self.table.id
    }

    /// The oid of the constraint, that it may wait, and whether it does unless it is told otherwise.
    pub fn waits(&self) -> (u32, bool, bool) {
        let index = self.index();
        (index.id, true, index.more.deferrable == Some(true))
    }

    /// 23505 where two rows still have the key.
    pub async fn verify(&self, cx: &mut Cx<'_>) -> Result<(), Halt> {
        match self.is_alone(cx).await? {
            true => Ok(()),
            false => {
                let settings = &cx.eval.settings;
                Err(duplicate(&self.table, self.index(), &self.row, settings).into())
            }
        }
    }

    async fn is_alone(&self, cx: &mut Cx<'_>) -> Result<bool, Halt> {
        let mut end = self.key.clone();
        let upper = match successor(&mut end) {
            true => Bound::Excluded(end.as_slice()),
            false => Bound::Unbounded,
        };
        let lower = Bound::Included(self.key.as_slice());
        let tree = tree(self.index(), self.partition);
        let mut cursor = tree.scan(lower, upper, Direction::Forward);
        let mut entries = ScanBatch::default();
        let mut found = 0;
        loop {
            cx.breathe().await?;
            let more = cursor.next_batch(cx.tx, &mut entries, 2).await?;
            found += entries.len();
            if found > 1 || !more {
                return Ok(found <= 1);
            }
        }
    }
}

/// Notes the key of a row whose entry has come to a deferrable index, if another row has it.
pub async fn note_twin(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    (position, partition): (usize, u32),
    row: &[Value],
) -> Result<(), Halt> {
    let codec = &table.keys[position];
    let keys = codec.key_row(row, cx.eval)?;
    let index = table.index_def(position);
    let mut columns = index.columns.iter();
    if !index.more.nulls_equal && columns.any(|column| keys[column.column].is_null()) {
        return Ok(());
    }
    let mut key = Vec::new();
    codec.encode_row(&keys, &mut key);
    let twin = Twin {
        table: Arc::clone(&table.def),
        position,
        partition,
        key,
        row: row.to_vec(),
    };
    if twin.is_alone(cx).await? {
        return Ok(());
    }
    match &mut cx.deferred {
        Some(deferred) => {
            deferred.push_twin(twin);
            Ok(())
        }
        None => twin.verify(cx).await,
    }
}

/// At the end of a statement: what is not deferred is to be right by now.
pub async fn check_twins(cx: &mut Cx<'_>) -> Result<(), Halt> {
    let due = match &mut cx.deferred {
        Some(deferred) if deferred.has_new_twins() => deferred.new_twins(),
        _ => return Ok(()),
    };
    for twin in due {
        cx.breathe().await?;
        twin.verify(cx).await?;
    }
    Ok(())
}
