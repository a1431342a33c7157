//! Rechecks of DEFERRABLE unique constraints, which allow two rows with the same key for a while.
//!
//! ```text
//! entry is added      another entry has the same key: the key is queued with the deferred checks
//! end of statement    recheck of the immediate constraints: at most one entry may be left
//! commit              recheck of all queued keys
//! ```
//!
//! The index has the row's address behind each key, like an index that is not unique. The entries
//! that were read are in the read set, so of two transactions that insert the same key, one detects
//! the other.

use std::ops::Bound;
use std::sync::Arc;

use fencepost_btree::{Direction, ScanBatch};
use fencepost_sql::catalog::{IndexDef, TableDef};
use fencepost_sql::key::successor;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::Strength;

use super::errors::duplicate;
use crate::exec::Cx;
use crate::plan::TablePlan;
use crate::trees::tree;

/// Waits until no open transaction has changed or deleted a row. Keeps no lock on the row.
pub(super) async fn await_writers(cx: &mut Cx<'_>, row: Addr) -> Result<(), StatementStop> {
    if cx.tx.has_image(row) {
        return Ok(());
    }
    let before = cx.tx.savepoint();
    let waited = cx.queue(row, Strength::Share).await;
    cx.tx.rollback_to(&before);
    cx.tx.release(before);
    waited
}

/// A key that two rows have had.
#[derive(Clone, Debug)]
pub struct DuplicateKey {
    table: Arc<TableDef>,
    /// The index, by position, and its partition.
    position: usize,
    partition: u32,
    /// The key without the row address.
    key: Vec<u8>,
    /// One of the rows.
    row: Vec<Value>,
}

impl DuplicateKey {
    fn index(&self) -> &IndexDef {
        &self.table.indexes[self.position]
    }

    /// Returns the oid of the table.
    pub fn table(&self) -> u32 {
        self.table.id
    }

    /// Returns the oid of the constraint, true because it is deferrable, and whether it is
    /// initially deferred.
    pub fn waits(&self) -> (u32, bool, bool) {
        let index = self.index();
        (index.id, true, index.more.deferrable == Some(true))
    }

    /// Returns error 23505 if two rows still have the key.
    pub async fn verify(&self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        match self.is_alone(cx).await? {
            true => Ok(()),
            false => {
                let settings = &cx.eval.settings;
                Err(duplicate(&self.table, self.index(), &self.row, settings).into())
            }
        }
    }

    async fn is_alone(&self, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
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

/// Queues the key of a row that was added to a deferrable index, if another row has the same key.
pub async fn record_duplicate(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    (position, partition): (usize, u32),
    row: &[Value],
) -> Result<(), StatementStop> {
    let codec = &table.keys[position];
    let keys = codec.key_row(row, cx.eval)?;
    let index = table.index_def(position);
    let mut columns = index.columns.iter();
    if !index.more.nulls_equal && columns.any(|column| keys[column.column].is_null()) {
        return Ok(());
    }
    let mut key = Vec::new();
    codec.encode_row(&keys, &mut key);
    let duplicate_key = DuplicateKey {
        table: Arc::clone(&table.def),
        position,
        partition,
        key,
        row: row.to_vec(),
    };
    if duplicate_key.is_alone(cx).await? {
        return Ok(());
    }
    match &mut cx.deferred {
        Some(deferred) => {
            deferred.push_duplicate(duplicate_key);
            Ok(())
        }
        None => duplicate_key.verify(cx).await,
    }
}

/// Rechecks the keys of constraints that are not deferred, at the end of a statement.
pub async fn recheck_unique_keys(cx: &mut Cx<'_>) -> Result<(), StatementStop> {
    let due = match &mut cx.deferred {
        Some(deferred) if deferred.has_new_duplicates() => deferred.new_duplicates(),
        _ => return Ok(()),
    };
    for duplicate in due {
        cx.breathe().await?;
        duplicate.verify(cx).await?;
    }
    Ok(())
}
