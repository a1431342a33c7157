//! FOR UPDATE and FOR SHARE: rows are locked as they come out of a SELECT, in its order, and looked at once more.
//!
//! A lock is an intent: others who are about to change the row, or lock it, wait in line or do without. What is returned was
//! read after the lock was there, so that it is the newest; a row that is no longer one of those asked for is left out.
//! SKIP LOCKED leaves out what somebody else has locked, and its result depends on no row that it does not return.

use fencepost_sql::bound::{Hold, WaitPolicy};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;

use super::batch::Batch;
use super::cx::Cx;
use super::scan::pointer_of;
use crate::plan::{RowLock, SelectPlan, Source, TablePlan};
use crate::store::read_columns;

/// Locks a row, or waits for that, or not, as told; false where it is to be left out.
pub async fn lock_row(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    row: Addr,
    hold: Hold,
) -> Result<bool, Halt> {
    match hold.wait {
        WaitPolicy::Block => {
            cx.queue(row, hold.strength).await?;
            Ok(true)
        }
        WaitPolicy::Skip => Ok(cx.tx.try_intend(row, hold.strength).await?),
        WaitPolicy::NoWait => match cx.tx.try_intend(row, hold.strength).await? {
            true => Ok(true),
            false => Err(not_available(&table.def.name).into()),
        },
    }
}

/// 55P03
#[cold]
fn not_available(table: &str) -> SqlError {
    SqlError::new(
        SqlState::LOCK_NOT_AVAILABLE,
        format!("could not obtain lock on row in relation \"{table}\""),
    )
}

/// Locks the rows of `out` from `from` on, which are `plan`'s targets, and makes their targets anew; takes those back that
/// are to be left out.
pub async fn lock_rows(
    plan: &SelectPlan,
    lock: &RowLock,
    cx: &mut Cx<'_>,
    out: &mut Batch,
    from: usize,
) -> Result<(), Halt> {
    let Source::Scan(scan) = &plan.source else {
        return Err(SqlError::internal("locked rows are of no table").into());
    };
    let mut words = Vec::new();
    let mut row = vec![Value::Null; plan.width];
    let mut kept = from;
    for i in from..out.len() {
        cx.breathe().await?;
        let pointer = &out.row(i)[lock.pointer];
        let place = pointer_of(pointer).ok_or_else(|| SqlError::internal("a row has no place"))?;
        if !lock_row(cx, &scan.table, place.addr, lock.hold).await? {
            continue;
        }
        let wanted = (&scan.table.layout, scan.columns.as_slice());
        if !read_columns(cx.tx, place.addr, wanted, &mut words).await? {
            continue;
        }
        let own = &mut row[scan.first_slot..];
        let layout = &scan.table.layout;
        layout.decode_some(&words, &scan.columns, own)?;
        if !cx.deep_holds(lock.filter.as_ref(), &row).await? {
            continue;
        }
        for (at, target) in plan.targets.iter().enumerate() {
            if at != lock.pointer {
                out.row_mut(i)[at] = cx.deep_value(&target.expr, &row).await?;
            }
        }
        out.swap(kept, i);
        kept += 1;
    }
    out.truncate(kept);
    Ok(())
}
