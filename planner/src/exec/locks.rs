//! `pg_locks`, of all machines: advisory locks, locks of LOCK TABLE, intents on rows and the
//! transactions that wait for them. It also shows the tables of the statements that run, or that
//! ran last in an open transaction.
//!
//! A row is identified by its address: the region as `page`, the offset in the region as `objid`.

use fencepost_sql::advisory::{LockKey, LockState};
use fencepost_sql::catalog::{CatalogView, Snapshot};
use fencepost_sql::pg_catalog::{Relation, Rows};
use fencepost_sql::sessions::{Activity, SessionState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::Strength;

use super::Cx;
use crate::index::is_key_lock;
use crate::locate::row_at;
use crate::plan::TablePlan;

/// The number of row locks for which the table is searched; for further row locks it is unknown.
const SOUGHT_MAX: usize = 1000;
/// The columns that are NULL for most kinds of locks.
const NONE: [&str; 8] = [
    "relation",
    "page",
    "tuple",
    "transactionid",
    "classid",
    "objid",
    "objsubid",
    "virtualtransaction",
];

/// Returns all rows of the view.
pub async fn rows(
    relation: &'static Relation,
    snapshot: &Snapshot,
    cx: &mut Cx<'_>,
) -> Result<Vec<Vec<Value>>, StatementStop> {
    let mut rows = Rows::of(relation);
    if let Some(advisory) = &cx.eval.advisory {
        for lock in advisory.all().await? {
            add_advisory(&mut rows, &lock);
        }
    }
    let Some(sessions) = &cx.eval.sessions else {
        return Ok(rows.made);
    };
    let entries = sessions.row_queue_entries().await?;
    let states = sessions.all().await?;
    let mut sought: Option<(u64, Value)> = None;
    for (looks, entry) in entries.into_iter().enumerate() {
        let state = entry
            .session
            .and_then(|session| states.iter().find(|state| state.session == session));
        let database = match state {
            Some(state) => database_of(snapshot, state),
            None => Value::Null,
        };
        let is_here = database == Value::Oid(snapshot.database());
        let table = match &sought {
            Some((row, table)) if *row == entry.row => table.clone(),
            _ if !is_here && state.is_some() => Value::Null,
            _ if looks < SOUGHT_MAX => table_of(snapshot, cx, entry.row).await,
            _ => Value::Null,
        };
        sought = Some((entry.row, table.clone()));
        let began = state.filter(|_| !entry.granted).and_then(|s| s.statement);
        let at = Addr::from_raw(entry.row);
        rows.add(nothing().chain([
            ("locktype", Value::text("tuple")),
            ("database", database),
            ("relation", table),
            ("page", Value::Int4(at.region().0 as i32)),
            ("objid", Value::Oid(at.offset())),
            ("pid", entry.session.map_or(Value::Null, Value::Int4)),
            ("mode", Value::text(mode_of(entry.strength))),
            ("granted", Value::Bool(entry.granted)),
            ("waitstart", began.map_or(Value::Null, Value::TimestampTz)),
        ]));
    }
    for state in &states {
        add_tables(&mut rows, snapshot, state);
    }
    Ok(rows.made)
}

/// Returns PostgreSQL's name for the mode of a row lock.
fn mode_of(strength: Strength) -> &'static str {
    match strength {
        Strength::KeyShare => "AccessShareLock",
        Strength::Share => "RowShareLock",
        Strength::NoKeyUpdate => "ExclusiveLock",
        Strength::Update => "AccessExclusiveLock",
    }
}

fn nothing() -> impl Iterator<Item = (&'static str, Value)> {
    NONE.into_iter().map(|name| (name, Value::Null))
}

fn add_advisory(rows: &mut Rows, lock: &LockState) {
    let (class, object, kind) = lock.key.parts();
    if let LockKey::Table(database, table) = lock.key {
        rows.add(nothing().chain([
            ("locktype", Value::text("relation")),
            ("database", Value::Oid(database)),
            ("relation", Value::Oid(table)),
            ("pid", Value::Int4(lock.session)),
            ("mode", Value::text(lock.mode.name())),
            ("granted", Value::Bool(lock.granted)),
        ]));
        return;
    }
    let locktype = match lock.key {
        LockKey::NotifyCommit => "object",
        _ => "advisory",
    };
    rows.add(nothing().chain([
        ("locktype", Value::text(locktype)),
        ("database", Value::Oid(lock.key.database())),
        ("classid", Value::Oid(class)),
        ("objid", Value::Oid(object)),
        ("objsubid", Value::Int2(kind)),
        ("pid", Value::Int4(lock.session)),
        ("mode", Value::text(lock.mode.name())),
        ("granted", Value::Bool(lock.granted)),
    ]));
}

/// Returns the oid of a session's database.
fn database_of(snapshot: &Snapshot, state: &SessionState) -> Value {
    let database = snapshot.database_named(&state.database);
    database.map_or(Value::Null, |of| Value::Oid(of.id))
}

/// Adds the tables of the statement that a session runs, or ran last in its transaction.
fn add_tables(rows: &mut Rows, snapshot: &Snapshot, state: &SessionState) {
    if matches!(state.activity, Activity::Idle | Activity::IdleInFailed) {
        return;
    }
    for (table, changed) in &state.tables {
        let mode = match changed {
            true => "RowExclusiveLock",
            false => "AccessShareLock",
        };
        rows.add(nothing().chain([
            ("locktype", Value::text("relation")),
            ("database", database_of(snapshot, state)),
            ("relation", Value::Oid(*table)),
            ("pid", Value::Int4(state.session)),
            ("mode", Value::text(mode)),
            ("granted", Value::Bool(true)),
            ("fastpath", Value::Bool(true)),
        ]));
    }
}

/// Returns the oid of the table that a row belongs to; NULL if it is unknown. The reads of this
/// search do not stay in the read set.
async fn table_of(snapshot: &Snapshot, cx: &mut Cx<'_>, row: u64) -> Value {
    if is_key_lock(Addr::from_raw(row)) {
        return Value::Null;
    }
    for def in snapshot.tables() {
        if def.is_parent() {
            continue;
        }
        let mark = cx.tx.reads_mark();
        let plan = TablePlan::new(&def);
        let found = row_at(cx.tx, &plan, Addr::from_raw(row)).await;
        cx.tx.forget_reads(mark);
        if found.is_ok_and(|row| row.is_some()) {
            return Value::Oid(def.id);
        }
    }
    Value::Null
}
