//! UPDATE and DELETE: find the rows, then change them.
//!
//! A statement for one whole unique key accesses its row directly. Any other statement finds all
//! its rows before it changes the first, so it never sees its own changes.
//!
//! A DELETE whose rows no trigger, foreign key or RETURNING observes does not keep their values:
//!
//! ```text
//! scan ─► some rows ─► lock ─► index keys and fat pointers     until all rows are found
//!                              free the rows, then remove the entries in the order of their keys
//! ```

use fencepost_sql::counts::Count;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;
use fencepost_txn::{AbortReason, Blocks, Stop, Timestamp};
use foldhash::{HashSet, HashSetExt};

use super::bulk_index_builder::EntryRemovals;
use super::change_plan::{Action, ChangePlan};
use super::find::{
    Decisions, FINDS_MAX, Lock, deep_values, find_and_lock, find_more, is_changed, lock_found,
};
use super::foreign_key_actions::ForeignKeyActions;
use super::returning::Returning;
use super::rows::RowWriter;
use super::triggers::{PendingTriggers, already_modified};
use crate::access::are_plain;
use crate::exec::{
    Batch, Cx, LockedRowState, PointRow, SourceState, decided_by, fetch_point, point_key,
    pointer_of,
};
use crate::plan::{Scan, Source};
use crate::store::{free_row, prefetch_row};

/// The distance in rows at which rows are prefetched.
const ROWS_AHEAD: usize = 8;
/// The number of rows from which space in the write set is reserved.
const RESERVED_FROM: usize = 1024;
/// One write of an index leaf is expected for so many rows.
const LEAVES_SHARE: usize = 4;
/// The number of rows from which a DELETE removes the index entries of all rows together.
const MANY: usize = 16;

/// Runs the statement. Returns the number of rows that it changed.
pub async fn run_change(
    plan: &ChangePlan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, StatementStop> {
    if let Some(scan) = plan.single_point() {
        return change_point(plan, scan, cx, returning).await;
    }
    if let Some(count) = Box::pin(run_bulk_delete(plan, cx)).await? {
        return Ok(count);
    }
    for init in &plan.inits {
        cx.run_init(init).await?;
    }
    let (rows, decisions) = Box::pin(find_and_lock(plan, cx)).await?;
    let held = rows.weight();
    let mut changer = Changer::new(plan);
    changer.begin(plan, cx).await?;
    let mut seen = HashSet::new();
    let joined = !matches!(plan.source, Source::Scan(_));
    let is_view = plan.table.def.is_view();
    let mut count = 0;
    let place = |i: usize| {
        pointer_of(&rows.row(i)[plan.width])
            .ok_or_else(|| SqlError::internal("a row to change has no address"))
    };
    let mut set = match &plan.action {
        Action::Update { assignments, .. } if plan.deep_set => {
            Some(deep_values(assignments, cx, &rows).await?)
        }
        _ => None,
    };
    // Neither triggers nor RETURNING may see rows without entries, or entries without rows.
    let is_unobserved = changer.triggers.is_none() && plan.returning.is_empty() && !is_view;
    if matches!(plan.action, Action::Delete) && is_unobserved && rows.len() >= MANY {
        changer.writer.removals = EntryRemovals::of(&plan.table).map(Box::new);
    }
    for i in 0..rows.len() {
        cx.breathe().await?;
        changer.set = set.as_mut().map(|set| std::mem::take(&mut set[i]));
        if is_view {
            count += changer.instead(plan, cx, rows.row(i), returning).await?;
            continue;
        }
        let (row, place) = (rows.row(i), place(i)?);
        // A row that matches several rows of the other relations is changed once.
        if joined && !seen.insert(place.addr.raw()) {
            continue;
        }
        // Rows that other parts of the statement changed were not found. So a function or a trigger
        // has changed this row since.
        if is_changed(cx, place) {
            return Err(already_modified(plan.action.participle()).into());
        }
        changer.latest = decisions.latest(place);
        count += u64::from(changer.change(plan, cx, place, row, returning).await?);
    }
    if let Some(removals) = changer.writer.removals.take() {
        Box::pin(removals.finish(cx, &plan.table)).await?;
    }
    changer.finish(cx).await?;
    cx.tx.release_memory(held);
    Ok(count)
}

/// Changes one row by its whole unique key, without operators or batches.
async fn change_point(
    plan: &ChangePlan,
    scan: &Scan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, StatementStop> {
    let mut key = std::mem::take(&mut cx.scratch.key);
    let mut words = std::mem::take(&mut cx.scratch.words);
    let mut row = std::mem::take(&mut cx.scratch.row);
    let result = async {
        let terms = scan.single_point().unwrap_or(&[]);
        let partition = match are_plain(terms) {
            true => point_key(scan, terms, cx, &[], &mut key)?,
            false => {
                let found = cx.in_parts(|cx| point_key(scan, terms, cx, &[], &mut key));
                found.await?
            }
        };
        let Some(partition) = partition else {
            return Ok(0);
        };
        let found = fetch_point(scan, cx, (&key, partition), &mut words);
        let Some(PointRow { place, stands }) = found.await? else {
            return Ok(0);
        };
        if is_changed(cx, place) {
            return Ok(0);
        }
        let latest = match stands {
            LockedRowState::Changed => {
                cx.tx.refresh().await?;
                Timestamp::MAX
            }
            LockedRowState::Same | LockedRowState::Deleted => decided_by(cx),
        };
        row.clear();
        row.resize(plan.width, Value::Null);
        let layout = &plan.table.layout;
        layout.decode_some(&words, &scan.columns, &mut row)?;
        if !cx.holds(scan.filter.as_ref(), &row).await? {
            return Ok(0);
        }
        let mut changer = Changer::new(plan);
        changer.latest = latest;
        let changed = changer.change(plan, cx, place, &row, returning).await?;
        changer.finish(cx).await?;
        Ok(u64::from(changed))
    }
    .await;
    cx.scratch.key = key;
    cx.scratch.words = words;
    cx.scratch.row = row;
    cx.scratch.shrink();
    result
}

/// The state and buffers for changing the rows of a statement.
pub(super) struct Changer {
    pub(super) writer: RowWriter,
    pub(super) actions: Option<ForeignKeyActions>,
    pub(super) triggers: Option<PendingTriggers>,
    pub(super) new: Vec<Value>,
    /// The values of SET for the next row, if they are already computed.
    pub(super) set: Option<Vec<Value>>,
    /// The newest commit timestamp that the version of the next row may have.
    pub(super) latest: Timestamp,
}

impl Changer {
    pub(super) fn new(plan: &ChangePlan) -> Changer {
        Changer {
            writer: RowWriter::default(),
            actions: plan.references.as_ref().map(ForeignKeyActions::new),
            triggers: PendingTriggers::of(&plan.table),
            new: Vec::with_capacity(plan.width),
            set: None,
            latest: Timestamp::MAX,
        }
    }
}

/// Ends a statement that has changed all its rows: runs its foreign-key actions, its own triggers,
/// and then the triggers of the rows that foreign-key actions changed.
pub async fn finish(
    actions: &mut Option<ForeignKeyActions>,
    triggers: &mut Option<PendingTriggers>,
    cx: &mut Cx<'_>,
) -> Result<(), StatementStop> {
    if let Some(actions) = actions {
        Box::pin(actions.finish(cx)).await?;
    }
    if let Some(triggers) = triggers {
        Box::pin(triggers.finish(cx)).await?;
    }
    match actions {
        None => Ok(()),
        Some(actions) => Box::pin(actions.finish_triggers(cx)).await,
    }
}

/// The rows that are going to be deleted.
struct DoomedRows {
    rows: Blocks<FatPtr>,
    entries: EntryRemovals,
    decisions: Decisions,
    /// Bytes that are held for the fat pointers.
    held: usize,
}

/// Runs the statement, and returns the number of rows. Returns `None`, and does nothing, if it is
/// no such DELETE.
async fn run_bulk_delete(plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<Option<u64>, StatementStop> {
    let is_alone =
        matches!(plan.source, Source::Scan(_)) && !plan.deep && plan.references.is_none();
    let is_unobserved = !plan.table.fires && plan.returning.is_empty() && !plan.table.def.is_view();
    if !(matches!(plan.action, Action::Delete) && is_alone && is_unobserved) {
        return Ok(None);
    }
    for _ in 0..FINDS_MAX {
        let Some(entries) = EntryRemovals::of(&plan.table) else {
            return Ok(None);
        };
        let mut doomed = DoomedRows {
            rows: Blocks::default(),
            entries,
            decisions: Decisions::new(cx),
            held: 0,
        };
        match doomed.find(plan, cx).await? {
            Lock::OfAll => {}
            Lock::OfNewer => cx.tx.refresh().await?,
            Lock::Lost => {
                cx.tx.release_memory(doomed.held + doomed.entries.held());
                cx.tx.refresh().await?;
                continue;
            }
        }
        return doomed.delete(plan, cx).await.map(Some);
    }
    Err(Stop::Retry(AbortReason::WriteConflict).into())
}

impl DoomedRows {
    /// Finds and locks all rows.
    async fn find(&mut self, plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<Lock, StatementStop> {
        let mut batch = Batch::new(plan.width + 1);
        let mut state = SourceState::new(&plan.source, plan.width + 1);
        let mut lock = Lock::OfAll;
        let mut more = true;
        while more {
            batch.clear();
            more = find_more(plan, cx, &mut state, &mut batch).await?;
            match lock_found(plan, cx, (&mut batch, &mut self.decisions)).await? {
                Lock::OfAll => {}
                Lock::OfNewer => lock = Lock::OfNewer,
                Lock::Lost => return Ok(Lock::Lost),
            }
            let bytes = batch.len() * size_of::<FatPtr>();
            cx.tx.hold_memory(bytes)?;
            self.held += bytes;
            for i in 0..batch.len() {
                cx.breathe().await?;
                let row = batch.row(i);
                let place = pointer_of(&row[plan.width])
                    .ok_or_else(|| SqlError::internal("a row to delete has no address"))?;
                self.rows.push(place);
                self.entries.add_row(cx, &plan.table, row, place).await?;
            }
        }
        self.decisions.update(cx);
        Ok(lock)
    }

    /// Deletes the rows.
    async fn delete(self, plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<u64, StatementStop> {
        let count = self.rows.len();
        if count >= RESERVED_FROM {
            cx.tx.reserve_writes(count + count / LEAVES_SHARE)?;
        }
        for nth in 0..count {
            cx.breathe().await?;
            if nth + ROWS_AHEAD < count {
                prefetch_row(cx.tx, self.rows.get(nth + ROWS_AHEAD));
            }
            let place = self.rows.get(nth);
            // A function in WHERE has changed this row since it was found.
            if is_changed(cx, place) {
                return Err(already_modified(plan.action.participle()).into());
            }
            cx.tx.decide_by(place.addr, self.decisions.latest(place));
            free_row(cx.tx, place.addr).await?;
        }
        cx.count(plan.table.def.id, Count::Deleted, count as u64);
        Box::pin(self.entries.finish(cx, &plan.table)).await?;
        cx.tx.release_memory(self.held);
        Ok(count as u64)
    }
}
