//! INSERT … ON CONFLICT DO UPDATE: a row is inserted, or the existing row with its key is updated.
//!
//! The existing row is locked before it is read, as for an UPDATE, so upserts of one key wait for
//! each other. A row that appears between the index lookup and the insert conflicts with the
//! insert. The insert is then rolled back, and the next lookup finds the row.

use std::sync::Arc;

use fencepost_sql::bound::ConflictUpdate;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{AbortReason, Stop, Strength};
use foldhash::HashSet;

use super::foreign_key_actions::ForeignKeyActions;
use super::rows::{Inserted, RowWriter, Yield};
use super::rules::{check_row, generate};
use super::triggers::{PendingTriggers, StatementEvent, check_unchanged};
use crate::exec::Cx;
use crate::plan::TablePlan;
use crate::store::read_row;

/// The foreign-key checks and triggers to notify of changed rows.
type RowObservers<'a> = (
    &'a mut Option<ForeignKeyActions>,
    &'a mut Option<PendingTriggers>,
);

/// The outcome of an upsert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsertOutcome {
    /// The row was inserted.
    Inserted,
    /// The existing row was updated.
    Updated,
    /// Nothing was changed, because of WHERE or a trigger.
    Neither,
}

/// The state that an upsert keeps from row to row.
#[derive(Default)]
pub struct Upsert {
    /// The addresses of rows that the statement has inserted or updated.
    touched: HashSet<u64>,
    words: Vec<u64>,
    /// The existing row, followed by the proposed row.
    both: Vec<Value>,
}

impl Upsert {
    /// Inserts `row`, or updates the row that has its key in the index `index`. In that case `row`
    /// receives the updated row.
    pub async fn put(
        &mut self,
        cx: &mut Cx<'_>,
        (table, index): (&Arc<TablePlan>, usize),
        update: &ConflictUpdate,
        writer: &mut RowWriter,
        (row, observers): (&mut [Value], RowObservers<'_>),
    ) -> Result<UpsertOutcome, StatementStop> {
        let whole = table;
        let (mut table, mut index) = (table, index);
        if let Some(leaves) = &whole.leaves {
            let leaf = leaves.leaf_of(whole, row, &cx.eval.settings)?;
            index = leaves.index_in(whole, index, leaf)?;
            table = leaves.plan(leaf);
        }
        check_row(cx, table, row, None).await?;
        let mut last = Addr::NULL;
        loop {
            cx.breathe().await?;
            let Some(place) = writer.holder(cx, (table, index), row).await? else {
                match writer.insert(cx, table, row, Yield::Index(index)).await? {
                    Inserted::Conflict => continue,
                    Inserted::Done => {
                        self.touched.extend(writer.last_row());
                        if let Some(actions) = observers.0 {
                            actions.inserted(cx, row).await?;
                        }
                        if let Some(triggers) = observers.1 {
                            triggers
                                .after(cx, whole, StatementEvent::INSERT, (None, Some(row)))
                                .await?;
                        }
                        return Ok(UpsertOutcome::Inserted);
                    }
                }
            };
            let by_others = |mark| cx.tx.has_changed_since(mark, place.addr);
            if self.touched.contains(&place.addr.raw()) || cx.before.is_some_and(by_others) {
                return Err(touched_twice().into());
            }
            cx.queue(place.addr, Strength::NoKeyUpdate).await?;
            if read_row(cx.tx, place.addr, &mut self.words).await? {
                let rows = (row, observers);
                let tables = (whole, table);
                return self.change(cx, tables, update, writer, place, rows).await;
            }
            // The row was deleted or moved while this transaction waited for its lock: read the
            // index again.
            if place.addr == last {
                return Err(Stop::Retry(AbortReason::NodeConflict).into());
            }
            last = place.addr;
        }
    }

    /// Updates the row at `place`, whose encoding is in `words`. `table` is the leaf of `whole`
    /// that contains it, or `whole` itself.
    async fn change(
        &mut self,
        cx: &mut Cx<'_>,
        (whole, table): (&Arc<TablePlan>, &Arc<TablePlan>),
        update: &ConflictUpdate,
        writer: &mut RowWriter,
        place: FatPtr,
        (row, (actions, triggers)): (&mut [Value], RowObservers<'_>),
    ) -> Result<UpsertOutcome, StatementStop> {
        let width = table.layout.width();
        self.both.clear();
        self.both.resize(width, Value::Null);
        table.layout.decode(&self.words, &mut self.both)?;
        self.both.extend_from_slice(row);
        if !cx.deep_holds(update.filter.as_ref(), &self.both).await? {
            return Ok(UpsertOutcome::Neither);
        }
        row.clone_from_slice(&self.both[..width]);
        let mut changed: Vec<usize> = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            row[assignment.column] = match assignment.value.has_subquery() {
                true => cx.deep_value(&assignment.value, &self.both).await?,
                false => cx.value(&assignment.value, &self.both).await?,
            };
            changed.push(assignment.column);
        }
        // The columns that SET assigns, for the triggers.
        let set = triggers.as_ref().map_or_else(Vec::new, |_| changed.clone());
        let doing = StatementEvent::update(&set);
        if let Some(triggers) = triggers {
            let both = (Some(&self.both[..width]), Some(&mut *row));
            if !triggers.before(cx, table, doing, both).await? {
                return Ok(UpsertOutcome::Neither);
            }
            check_unchanged(cx, table, place, &self.both, "updated").await?;
            if triggers.looks_at_rows(cx, table, doing) {
                changed = (0..width).collect();
            }
        }
        generate(cx, table, row).await?;
        changed.extend(table.rules.generated.iter().map(|g| g.column));
        let rows = (&self.both[..width], &*row);
        if let Some(leaves) = &whole.leaves
            && leaves.leaf_of(whole, row, &cx.eval.settings)?
                != leaves.leaf_of(whole, rows.0, &cx.eval.settings)?
        {
            return Err(moved().into());
        }
        let now = writer.update(cx, table, place, rows, &changed).await?;
        self.touched.insert(now.raw());
        if let Some(actions) = actions {
            actions.updated(cx, rows).await?;
        }
        if let Some(triggers) = triggers {
            triggers
                .after(cx, whole, doing, (Some(rows.0), Some(rows.1)))
                .await?;
        }
        Ok(UpsertOutcome::Updated)
    }
}

/// Returns error 0A000: the update would move the row to another partition.
fn moved() -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "invalid ON UPDATE specification",
    )
    .detail("The result tuple would appear in a different partition than the original tuple.")
}

/// Returns error 21000: the statement would affect one row twice.
fn touched_twice() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate \
         constrained values.",
    )
}
