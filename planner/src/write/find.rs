//! The rows that an UPDATE, DELETE or MERGE is to change, all of them before the first is changed.

use fencepost_sql::bound::Assignment;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;

use super::change::{Action, ChangePlan};
use crate::exec::{Batch, Cx, SourceState, pointer_of};

const CHUNK: usize = 1024;

/// All from rows that pass WHERE, with their pointers; the weight of long ones is held.
pub(super) async fn find_rows(plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<Batch, Halt> {
    let mut rows = Batch::new(plan.width + 1);
    let mut state = SourceState::new(&plan.source, plan.width + 1);
    let mut more = true;
    // Whether MERGE may change a row that another part has changed depends on what it does with it.
    let merges = matches!(plan.action, Action::Merge(_));
    while more {
        let (start, held) = (rows.len(), rows.weight());
        more = state.next(&plan.source, cx, &mut rows, CHUNK).await?;
        if rows.weight() > held {
            cx.tx.hold_memory(rows.weight() - held)?;
        }
        let mut kept = start;
        for i in start..rows.len() {
            cx.breathe().await?;
            let place = pointer_of(&rows.row(i)[plan.width]);
            if !merges && place.is_some_and(|place| is_changed(cx, place)) {
                continue;
            }
            let holds = match plan.deep {
                true => cx.deep_holds(plan.filter.as_ref(), rows.row(i)).await?,
                false => cx.holds(plan.filter.as_ref(), rows.row(i))?,
            };
            if holds {
                rows.swap(kept, i);
                kept += 1;
            }
        }
        rows.truncate(kept);
    }
    Ok(rows)
}

/// Has another part of the statement, or what it calls, changed the row at this place?
pub(super) fn is_changed(cx: &Cx<'_>, place: FatPtr) -> bool {
    let mark = cx.before;
    mark.is_some_and(|mark| cx.tx.has_changed_since(mark, place.addr))
}

/// What SET gives each row, where it has queries, which see the tables as they were before the first change.
pub(super) async fn deep_values(
    assignments: &[Assignment],
    cx: &mut Cx<'_>,
    rows: &Batch,
) -> Result<Vec<Vec<Value>>, Halt> {
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
