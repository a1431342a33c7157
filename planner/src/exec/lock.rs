//! FOR UPDATE and FOR SHARE: rows are locked as they come out of a SELECT, in its order, and then
//! checked again.
//!
//! A lock is an intent: other transactions that want to change or lock the row wait, or skip it.
//! Returned values are read after the lock was taken, so they are the newest. A row that no longer
//! satisfies the query is left out. SKIP LOCKED leaves out rows that other transactions have
//! locked, and its result does not depend on rows that it does not return.

use fencepost_sql::bound::{RowLockOptions, WaitPolicy};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{AbortReason, Isolation, Stop, Strength};

use super::anew::{LockTarget, RowState, lock_anew};
use super::batch::Batch;
use super::cx::Cx;
use super::pointer::pointer_of;
use super::sort::Sorter;
use super::targets::Limits;
use crate::locking::{LockedLeaf, RowLock};
use crate::plan::{SelectPlan, TablePlan};
use crate::store::read_columns;

/// Locks a row according to the wait policy of `hold`. Returns false if the row must be left out.
pub async fn lock_row(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    row: Addr,
    hold: RowLockOptions,
) -> Result<bool, StatementStop> {
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

/// Returns error 55P03.
#[cold]
fn not_available(table: &str) -> SqlError {
    SqlError::new(
        SqlState::LOCK_NOT_AVAILABLE,
        format!("could not obtain lock on row in relation \"{table}\""),
    )
}

/// Locks the rows of `out` from `from` on, which are target rows of `plan`. Recomputes the targets
/// of rows that have changed, and removes rows that are left out.
pub async fn lock_rows(
    plan: &SelectPlan,
    lock: &RowLock,
    cx: &mut Cx<'_>,
    out: &mut Batch,
    from: usize,
) -> Result<(), StatementStop> {
    let mut row = vec![Value::Null; plan.width];
    let mut places = Vec::with_capacity(lock.leaves.len());
    let mut kept = from;
    for i in from..out.len() {
        cx.breathe().await?;
        for (slot, target) in &lock.carried {
            row[*slot] = out.row(i)[*target].clone();
        }
        places.clear();
        match lock_leaves(lock, cx, out.row(i), (&mut row, &mut places)).await? {
            LockOutcome::Out => continue,
            LockOutcome::Same => {}
            LockOutcome::Anew => {
                if !cx.deep_holds(lock.filter.as_ref(), &row).await? {
                    continue;
                }
                for (at, target) in plan.targets.iter().enumerate() {
                    if !lock.hides(at) {
                        out.row_mut(i)[at] = cx.deep_value(&target.expr, &row).await?;
                    }
                }
            }
        }
        out.swap(kept, i);
        kept += 1;
    }
    out.truncate(kept);
    Ok(())
}

/// The outcome of locking the rows behind one row of targets.
#[derive(PartialEq, Eq)]
enum LockOutcome {
    /// The row is left out.
    Out,
    /// The row is as it was found.
    Same,
    /// The from row was read again.
    Anew,
}

/// Locks the rows behind one row of targets. If they must be checked again, reads them into the
/// from row `row`.
async fn lock_leaves(
    lock: &RowLock,
    cx: &mut Cx<'_>,
    targets: &[Value],
    (row, places): (&mut [Value], &mut Vec<(usize, FatPtr)>),
) -> Result<LockOutcome, StatementStop> {
    let mut sight = match cx.tx.isolation() {
        Isolation::ReadCommitted | Isolation::RepeatableRead => LockOutcome::Same,
        // The row was read before its lock was taken, and is not in the read set
        // ([`crate::plan::Hints`]).
        Isolation::Serializable => LockOutcome::Anew,
    };
    for (nth, leaf) in lock.leaves.iter().enumerate() {
        let pointer = &targets[leaf.pointer];
        if pointer.is_null() {
            // The outer join has no row of this table here.
            row[leaf.first_slot..][..leaf.width()].fill(Value::Null);
            continue;
        }
        let place = pointer_of(pointer).ok_or_else(|| SqlError::internal("a row has no place"))?;
        let of = LockTarget {
            table: leaf.table()?,
            columns: &leaf.columns,
            hold: lock.hold,
        };
        match lock_anew(cx, of, place, &mut row[leaf.first_slot..]).await? {
            RowState::Out => return Ok(LockOutcome::Out),
            RowState::Unknown => return Err(Stop::Retry(AbortReason::WriteConflict).into()),
            RowState::Same => places.push((nth, place)),
            RowState::Changed(place) => {
                sight = LockOutcome::Anew;
                guard_lock(cx, lock.hold, place).await?;
            }
        }
    }
    for (nth, place) in places.iter().copied() {
        if sight == LockOutcome::Anew && !read_leaf(&lock.leaves[nth], cx, place, row).await? {
            return Ok(LockOutcome::Out);
        }
        guard_lock(cx, lock.hold, place).await?;
    }
    Ok(sight)
}

/// Reads a locked row of one table into the from row. Returns false if the row does not exist.
async fn read_leaf(
    leaf: &LockedLeaf,
    cx: &mut Cx<'_>,
    place: FatPtr,
    row: &mut [Value],
) -> Result<bool, StatementStop> {
    let table = leaf.table()?;
    let wanted = (&table.layout, leaf.columns.as_slice());
    let mut words = std::mem::take(&mut cx.scratch.words);
    let found = read_columns(cx.tx, place.addr, wanted, &mut words).await;
    let decoded = match found {
        Ok(true) => {
            let own = &mut row[leaf.first_slot..];
            let decoded = table.layout.decode_some(&words, &leaf.columns, own);
            decoded.map(|()| true).map_err(StatementStop::from)
        }
        Ok(false) => Ok(false),
        Err(stop) => Err(stop.into()),
    };
    cx.scratch.words = words;
    decoded
}

/// Makes the commit validate that no other transaction has written a locked row, because a lock is
/// lost if its machine fails. Locks weaker than [`Strength::Share`] do not exclude writers.
async fn guard_lock(
    cx: &mut Cx<'_>,
    hold: RowLockOptions,
    place: FatPtr,
) -> Result<(), StatementStop> {
    if cx.tx.isolation() != Isolation::Serializable && hold.strength >= Strength::Share {
        let seen = cx.tx.newest().view(place.addr, None, |_| ()).await?;
        if let Some(((), seen)) = seen {
            cx.tx.guard(seen);
        }
    }
    Ok(())
}

/// Adds the next rows of a sorted SELECT that locks the rows it returns.
pub async fn next_locked(
    plan: &SelectPlan,
    lock: &RowLock,
    cx: &mut Cx<'_>,
    (sorter, limits): (&mut Sorter, &mut Option<Limits>),
    out: &mut Batch,
    max: usize,
) -> Result<bool, StatementStop> {
    let target = out.len() + max;
    let Some(limits) = limits else {
        return Ok(false);
    };
    while out.len() < target {
        let start = out.len();
        if limits.take == 0 || !sorter.next(cx, out, 1).await? {
            return Ok(false);
        }
        lock_rows(plan, lock, cx, out, start).await?;
        if out.len() == start {
            continue;
        }
        match limits.skip {
            0 => limits.take -= 1,
            _ => {
                limits.skip -= 1;
                out.pop();
            }
        }
    }
    Ok(limits.take > 0)
}
