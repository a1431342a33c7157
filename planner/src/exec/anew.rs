//! Rows that another transaction has changed after a READ COMMITTED statement found them:
//! PostgreSQL's EvalPlanQual.
//!
//! ```text
//! found in the snapshot ─► lock ─► newest version is in snapshot ─► Same
//!                                  newest version is not         ─► Changed: read again, recheck
//!                                  the row is gone   ─► follow its unique key ─► lock ─► …
//!                                                       no row under the key ─► Gone
//! ```
//!
//! Invariants
//! - RECREATE-1: only the locked row is read again. Rows that it is joined with, and subqueries in
//!   expressions, stay as the snapshot has them.
//! - RECREATE-2: the snapshot does not move here. The writer of a changed row moves it first
//!   ([`fencepost_txn::Transaction::refresh`]).
//!
//! At REPEATABLE READ, a changed row is a conflict. At SERIALIZABLE, the read or write itself
//! detects the change if the snapshot cannot move; here the row counts as `Same`.

use fencepost_sql::bound::RowLockOptions;
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{AbortReason, Isolation, Stop, Strength, Timestamp};

use super::cx::Cx;
use super::lock::lock_row;
use super::scan::PointRow;
use crate::index::find;
use crate::plan::{Scan, TablePlan};
use crate::store::{read_columns, read_row, read_version};

/// The maximal number of moves of one row, from object to object, that a statement follows.
const MOVES_MAX: u32 = 1024;

/// The state of a locked row, compared with the snapshot in which it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedRowState {
    /// The snapshot has the row's newest version, or this transaction has changed the row itself.
    Same,
    /// The row has a newer version.
    Changed,
    /// The row no longer exists.
    Deleted,
}

/// The result of locking a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row is as it was found.
    Same,
    /// The row has changed, and lives at this address now.
    Changed(FatPtr),
    /// The row was deleted, or SKIP LOCKED skips it because another transaction has locked it.
    Out,
    /// The row was deleted or has moved; without a unique key the two cannot be distinguished.
    Unknown,
}

/// A table whose rows are locked.
#[derive(Clone, Copy)]
pub struct LockTarget<'a> {
    /// The table.
    pub table: &'a TablePlan,
    /// The columns to read again.
    pub columns: &'a [usize],
    /// The strength of the lock, and the wait policy.
    pub hold: RowLockOptions,
}

/// Compares the newest version of a locked row with the snapshot. If the lock excludes other
/// writers, the commit also validates a newer version, because the lock may be lost (LEVEL-4).
pub async fn standing(
    cx: &mut Cx<'_>,
    row: Addr,
    strength: Strength,
) -> Result<LockedRowState, StatementStop> {
    if cx.tx.isolation() == Isolation::Serializable {
        return Ok(LockedRowState::Same);
    }
    let snapshot = oldest_snapshot(cx);
    let seen = cx.tx.newest().view(row, None, |_| ()).await?;
    Ok(match seen {
        None => LockedRowState::Deleted,
        Some(((), seen)) if seen.is_own() || seen.timestamp() <= snapshot => LockedRowState::Same,
        Some(((), seen)) => {
            if strength >= Strength::Share {
                cx.tx.guard(seen);
            }
            LockedRowState::Changed
        }
    })
}

/// Returns the newest commit timestamp that a version may have and still count as found
/// ([`LockedRowState::Same`]).
pub fn decided_by(cx: &Cx<'_>) -> Timestamp {
    match cx.tx.isolation() {
        Isolation::ReadCommitted => cx.tx.statement_timestamp(),
        // All reads are validated when the snapshot moves.
        Isolation::RepeatableRead | Isolation::Serializable => Timestamp::MAX,
    }
}

/// Returns the oldest snapshot in which the row may have been found (LEVEL-3).
fn oldest_snapshot(cx: &Cx<'_>) -> Timestamp {
    match cx.tx.isolation() {
        Isolation::ReadCommitted => cx.tx.statement_timestamp(),
        // If the snapshot has moved, the rows that were found before have not changed.
        Isolation::RepeatableRead | Isolation::Serializable => cx.tx.read_timestamp(),
    }
}

/// Compares as [`standing`] does, and reads the `wanted` columns of the newest version into
/// `words`.
pub async fn read_standing(
    cx: &mut Cx<'_>,
    row: Addr,
    wanted: (&RowLayout, &[usize]),
    words: &mut Vec<u64>,
) -> Result<LockedRowState, StatementStop> {
    let snapshot = oldest_snapshot(cx);
    let mut seen = cx.seen();
    let version = read_version(&mut seen.newest(), row, wanted, words).await?;
    Ok(match version {
        None => LockedRowState::Deleted,
        Some(seen) if seen.is_own() || seen.timestamp() <= snapshot => LockedRowState::Same,
        Some(_) => LockedRowState::Changed,
    })
}

/// Locks the row found at `place`. If it has changed since, fills `row` with its current columns.
///
/// # Errors
/// 40001 at REPEATABLE READ, if it has changed.
pub async fn lock_anew(
    cx: &mut Cx<'_>,
    of: LockTarget<'_>,
    place: FatPtr,
    row: &mut [Value],
) -> Result<RowState, StatementStop> {
    if !lock_row(cx, of.table, place.addr, of.hold).await? {
        return Ok(RowState::Out);
    }
    match standing(cx, place.addr, of.hold.strength).await? {
        LockedRowState::Same => Ok(RowState::Same),
        _ if cx.tx.isolation() == Isolation::RepeatableRead => {
            Err(Stop::Retry(AbortReason::WriteConflict).into())
        }
        stands => Box::pin(read_anew(cx, of, (place, stands), row)).await,
    }
}

async fn read_anew(
    cx: &mut Cx<'_>,
    of: LockTarget<'_>,
    (found, mut stands): (FatPtr, LockedRowState),
    row: &mut [Value],
) -> Result<RowState, StatementStop> {
    let mut place = found;
    let mut words = Vec::new();
    for _ in 0..MOVES_MAX {
        if stands != LockedRowState::Deleted {
            let wanted = (&of.table.layout, of.columns);
            if read_columns(&mut cx.tx.newest(), place.addr, wanted, &mut words).await? {
                of.table.layout.decode_some(&words, of.columns, row)?;
                return Ok(RowState::Changed(place));
            }
        }
        let Some(key) = unique_key(cx, of.table, found).await? else {
            return Ok(RowState::Unknown);
        };
        let (position, partition, key) = key;
        let index = of.table.index_def(position);
        let entry = find(&mut cx.tx.newest(), (index, partition), &key).await?;
        let Some(entry) = entry.map(FatPtr::from_words) else {
            return Ok(RowState::Out);
        };
        place = entry;
        if !lock_row(cx, of.table, place.addr, of.hold).await? {
            return Ok(RowState::Out);
        }
        stands = standing(cx, place.addr, of.hold.strength).await?;
    }
    Err(Stop::Retry(AbortReason::WriteConflict).into())
}

/// Returns a unique key of the row in the snapshot: the position of its index, its partition, its
/// bytes.
async fn unique_key(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    found: FatPtr,
) -> Result<Option<(usize, u32, Vec<u8>)>, StatementStop> {
    let mut indexes = table.def.indexes.iter();
    let whole = indexes.position(|index| index.unique && !index.is_hidden() && !index.is_partial());
    let Some(position) = whole else {
        return Ok(None);
    };
    let mut words = Vec::new();
    if !read_row(&mut cx.seen(), found.addr, &mut words).await? {
        return Ok(None);
    }
    let mut row = vec![Value::Null; table.layout.width()];
    table.layout.decode(&words, &mut row)?;
    let codec = &table.keys[position];
    let mut key = Vec::new();
    if codec.encode_row(&codec.key_row(&row, cx.eval)?, &mut key) {
        return Ok(None);
    }
    let partition = match table.def.tree() {
        Some(tree) => match tree.leaf_of(&|column| &row[column]) {
            Ok(leaf) => leaf,
            Err(_) => return Ok(None),
        },
        None => table.def.partition_of(&row, &mut Vec::new()),
    };
    Ok(Some((position, partition, key)))
}

/// Locks the row under a whole key that has changed since the snapshot. Fills `words` with the
/// columns that the scan needs, in their current state.
///
/// # Errors
/// 40001 at REPEATABLE READ.
pub async fn lock_point(
    cx: &mut Cx<'_>,
    (scan, hold): (&Scan, RowLockOptions),
    (key, partition): (&[u8], u32),
    words: &mut Vec<u64>,
) -> Result<Option<PointRow>, StatementStop> {
    let index = (scan.table.index_def(scan.index), partition);
    let wanted = (&scan.table.layout, scan.columns.as_slice());
    let mut entry = find(&mut cx.seen(), index, key).await?;
    for _ in 0..MOVES_MAX {
        let Some(row) = entry.map(FatPtr::from_words) else {
            return Ok(None);
        };
        if !lock_row(cx, &scan.table, row.addr, hold).await? {
            return Ok(None);
        }
        let stands = standing(cx, row.addr, hold.strength).await?;
        if stands != LockedRowState::Same && cx.tx.isolation() == Isolation::RepeatableRead {
            return Err(Stop::Retry(AbortReason::WriteConflict).into());
        }
        if stands == LockedRowState::Same
            && read_columns(&mut cx.seen(), row.addr, wanted, words).await?
        {
            return Ok(Some(PointRow { place: row, stands }));
        }
        let now = find(&mut cx.tx.newest(), index, key).await?;
        if now != entry {
            entry = now;
            continue;
        }
        let there = stands == LockedRowState::Changed
            && read_columns(&mut cx.tx.newest(), row.addr, wanted, words).await?;
        return Ok(there.then_some(PointRow { place: row, stands }));
    }
    Err(Stop::Retry(AbortReason::WriteConflict).into())
}
