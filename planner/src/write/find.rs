//! The rows that an UPDATE, DELETE or MERGE changes. All of them are found before the first is
//! changed.

use fencepost_sql::bound::Assignment;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;
use fencepost_txn::{AbortReason, Stop, Timestamp};
use foldhash::{HashSet, HashSetExt};

use super::change_plan::{Action, ChangePlan};
use crate::exec::{
    Batch, Cx, LockTarget, RowState, SourceState, decided_by, lock_anew, pointer_of, pointer_value,
};

const CHUNK: usize = 1024;

/// Returns all from rows that pass WHERE, with their fat pointers. The memory of long rows is
/// charged.
pub(super) async fn find_rows(plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<Batch, StatementStop> {
    let mut rows = Batch::new(plan.width + 1);
    let mut state = SourceState::new(&plan.source, plan.width + 1);
    let mut more = true;
    while more {
        let held = rows.weight();
        more = find_more(plan, cx, &mut state, &mut rows).await?;
        if rows.weight() > held {
            cx.tx.hold_memory(rows.weight() - held)?;
        }
    }
    Ok(rows)
}

/// Appends the next from rows that pass WHERE, with their fat pointers, to `rows`. Returns false if
/// these were the last ones.
pub(super) async fn find_more(
    plan: &ChangePlan,
    cx: &mut Cx<'_>,
    state: &mut SourceState,
    rows: &mut Batch,
) -> Result<bool, StatementStop> {
    // Whether MERGE may change a row that another part of the statement has changed depends on its
    // WHEN clause.
    let merges = matches!(plan.action, Action::Merge(_));
    let start = rows.len();
    let more = state.next(&plan.source, cx, rows, CHUNK).await?;
    let mut kept = start;
    for i in start..rows.len() {
        cx.breathe().await?;
        let place = pointer_of(&rows.row(i)[plan.width]);
        if !merges && place.is_some_and(|place| is_changed(cx, place)) {
            continue;
        }
        let holds = match plan.deep {
            true => cx.deep_holds(plan.filter.as_ref(), rows.row(i)).await?,
            false => cx.holds(plan.filter.as_ref(), rows.row(i)).await?,
        };
        if holds {
            rows.swap(kept, i);
            kept += 1;
        }
    }
    rows.truncate(kept);
    Ok(more)
}

/// Finds rows as [`find_rows`] does, and locks each row. At READ COMMITTED, rows that others have
/// changed since are rechecked.
///
/// The rows are locked before the first is changed. At the other levels, a row that changes while
/// this transaction waits for its lock restarts the statement.
pub(super) async fn find_and_lock(
    plan: &ChangePlan,
    cx: &mut Cx<'_>,
) -> Result<(Batch, Decisions), StatementStop> {
    let mut decisions = Decisions::new(cx);
    if plan.table.def.is_view() {
        return Ok((find_rows(plan, cx).await?, decisions));
    }
    for _ in 0..FINDS_MAX {
        let mut rows = find_rows(plan, cx).await?;
        decisions.update(cx);
        match lock_found(plan, cx, (&mut rows, &mut decisions)).await? {
            Lock::OfAll => return Ok((rows, decisions)),
            Lock::OfNewer => {
                cx.tx.refresh().await?;
                return Ok((rows, decisions));
            }
            Lock::Lost => {
                cx.tx.release_memory(rows.weight());
                cx.tx.refresh().await?;
            }
        }
    }
    Err(Stop::Retry(AbortReason::WriteConflict).into())
}

/// The row versions on which a statement's decisions are based.
pub(super) struct Decisions {
    /// The newest commit timestamp of a row that is as it was found.
    by: Timestamp,
    /// The addresses of the rows that were read again; the commit validates their versions.
    anew: HashSet<u64>,
}

impl Decisions {
    /// Creates the decisions of a statement that has changed no row yet.
    pub(super) fn new(cx: &Cx<'_>) -> Decisions {
        Decisions {
            by: decided_by(cx),
            anew: HashSet::new(),
        }
    }

    /// Takes the snapshots into account at which further rows were found.
    pub(super) fn update(&mut self, cx: &Cx<'_>) {
        self.by = decided_by(cx);
    }

    /// Returns the newest commit timestamp that the version of the row at `place` may have.
    pub fn latest(&self, place: FatPtr) -> Timestamp {
        if self.anew.contains(&place.addr.raw()) {
            Timestamp::MAX
        } else {
            self.by
        }
    }
}

/// The maximal number of searches for rows that other transactions keep moving.
pub(super) const FINDS_MAX: u32 = 64;

/// The result of locking the rows of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// All rows are as in the snapshot.
    OfAll,
    /// Some rows are newer than the snapshot, which must move before they are written.
    OfNewer,
    /// A row of a table without unique keys has moved, and must be searched again.
    Lost,
}

/// Locks the rows, and removes the rows that need not be changed any more.
pub(super) async fn lock_found(
    plan: &ChangePlan,
    cx: &mut Cx<'_>,
    (rows, decisions): (&mut Batch, &mut Decisions),
) -> Result<Lock, StatementStop> {
    let columns: Vec<usize> = (0..plan.table.layout.width()).collect();
    let mut lock = Lock::OfAll;
    let mut kept = 0;
    for i in 0..rows.len() {
        cx.breathe().await?;
        let place = match pointer_of(&rows.row(i)[plan.width]) {
            Some(place) => place,
            // A source row of a MERGE without a matching row.
            None if matches!(plan.action, Action::Merge(_)) => {
                rows.swap(kept, i);
                kept += 1;
                continue;
            }
            None => return Err(SqlError::internal("a row to change has no address").into()),
        };
        let of = LockTarget {
            table: &plan.table,
            columns: &columns,
            hold: plan.hold,
        };
        let mut keeps = match lock_anew(cx, of, place, rows.row_mut(i)).await? {
            RowState::Same => true,
            RowState::Changed(place) => {
                lock = Lock::OfNewer;
                decisions.anew.insert(place.addr.raw());
                rows.row_mut(i)[plan.width] = pointer_value(place);
                cx.deep_holds(plan.whole.as_ref(), rows.row(i)).await?
            }
            RowState::Out => false,
            RowState::Unknown => return Ok(Lock::Lost),
        };
        if !keeps && matches!(plan.action, Action::Merge(_)) {
            // The source row has no matching row any more.
            let row = rows.row_mut(i);
            row[..columns.len()].fill(Value::Null);
            row[plan.width] = Value::Null;
            keeps = true;
        }
        if keeps {
            rows.swap(kept, i);
            kept += 1;
        }
    }
    rows.truncate(kept);
    Ok(lock)
}

/// Returns whether another part of the statement, or a function it calls, has changed the row at
/// this address.
pub(super) fn is_changed(cx: &Cx<'_>, place: FatPtr) -> bool {
    let mark = cx.before;
    mark.is_some_and(|mark| cx.tx.has_changed_since(mark, place.addr))
}

/// Returns the values of SET for each row, if SET contains subqueries. They see the tables as they
/// were before the first change.
pub(super) async fn deep_values(
    assignments: &[Assignment],
    cx: &mut Cx<'_>,
    rows: &Batch,
) -> Result<Vec<Vec<Value>>, StatementStop> {
    let mut all = Vec::with_capacity(rows.len());
    for i in 0..rows.len() {
        cx.breathe().await?;
        let mut values = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            values.push(cx.deep_value(&assignment.value, rows.row(i)).await?);
        }
        all.push(values);
    }
    Ok(all)
}
