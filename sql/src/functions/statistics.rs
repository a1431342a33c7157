//! `pg_stat_get_…` and `pg_stat_reset…`: each call collects the counters of all machines.

use super::library::{stable, volatile, waiting};
use super::{ScalarFunction, ValueFuture};
use crate::catalog::CatalogView;
use crate::context::EvalContext;
use crate::counts::{Count, Event, Totals};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Float8, Int4, Int8, Oid, Text, TimestampTz, Void};
use crate::value::Value;

/// Defines a function that returns a counter of a table or an index.
macro_rules! of_relation {
    ($name:literal, $count:expr) => {
        waiting($name, &[Oid], Int8, |a, cx| {
            asked(a, cx, |totals, id| Value::Int8($count(totals, id)))
        })
    };
}

/// Defines a function that returns a counter of the database.
macro_rules! of_database {
    ($name:literal, $count:expr) => {
        waiting($name, &[Oid], Int8, |a, cx| {
            asked_of(oid(a), cx, |totals| Value::Int8($count(totals)))
        })
    };
}

/// Defines a function for a counter that is not maintained; it returns 0.
macro_rules! nothing {
    ($name:literal) => {
        stable($name, &[Oid], Int8, |_, _| Ok(Value::Int8(0)))
    };
}

/// Defines a function for an event that is not recorded; it returns NULL.
macro_rules! never {
    ($name:literal) => {
        stable($name, &[Oid], TimestampTz, |_, _| Ok(Value::Null))
    };
}

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    waiting("pg_stat_reset", &[], Void, |_, cx| Box::pin(reset(cx, None, "pg_stat_reset"))),
    waiting("pg_stat_reset_single_table_counters", &[Oid], Void, |a, cx| {
        let id = oid(a);
        Box::pin(reset(cx, Some(vec![id]), "pg_stat_reset_single_table_counters"))
    }),
    // None of the shared statistics are maintained.
    stable("pg_stat_reset_shared", &[Text], Void, reset_shared),
    volatile("pg_stat_clear_snapshot", &[], Void, |_, _| Ok(Value::text(""))),
    volatile("pg_stat_force_next_flush", &[], Void, |_, _| Ok(Value::text(""))),
    stable("pg_stat_get_snapshot_timestamp", &[], TimestampTz, |_, _| Ok(Value::Null)),
    of_relation!("pg_stat_get_numscans", |t: &Totals, id| t.of(id, Count::Scans)),
    of_relation!("pg_stat_get_tuples_returned", |t: &Totals, id| t.of(id, Count::Returned)),
    of_relation!("pg_stat_get_tuples_fetched", |t: &Totals, id| t.of(id, Count::Fetched)),
    of_relation!("pg_stat_get_tuples_inserted", |t: &Totals, id| t.of(id, Count::Inserted)),
    of_relation!("pg_stat_get_tuples_updated", |t: &Totals, id| t.of(id, Count::Updated)),
    of_relation!("pg_stat_get_tuples_deleted", |t: &Totals, id| t.of(id, Count::Deleted)),
    of_relation!("pg_stat_get_live_tuples", |t: &Totals, id| {
        (t.of(id, Count::Inserted) - t.of(id, Count::Deleted)).max(0)
    }),
    of_relation!("pg_stat_get_mod_since_analyze", changes),
    of_relation!("pg_stat_get_ins_since_vacuum", |t: &Totals, id| t.of(id, Count::Inserted)),
    nothing!("pg_stat_get_tuples_hot_updated"),
    nothing!("pg_stat_get_dead_tuples"),
    nothing!("pg_stat_get_blocks_fetched"),
    nothing!("pg_stat_get_blocks_hit"),
    nothing!("pg_stat_get_vacuum_count"),
    nothing!("pg_stat_get_autovacuum_count"),
    nothing!("pg_stat_get_analyze_count"),
    nothing!("pg_stat_get_autoanalyze_count"),
    never!("pg_stat_get_last_vacuum_time"),
    never!("pg_stat_get_last_autovacuum_time"),
    never!("pg_stat_get_last_analyze_time"),
    never!("pg_stat_get_last_autoanalyze_time"),
    of_database!("pg_stat_get_db_xact_commit", |t: &Totals| t.event(Event::Commits)),
    of_database!("pg_stat_get_db_xact_rollback", |t: &Totals| t.event(Event::Rollbacks)),
    of_database!("pg_stat_get_db_deadlocks", |t: &Totals| t.event(Event::Deadlocks)),
    of_database!("pg_stat_get_db_sessions", |t: &Totals| t.event(Event::Sessions)),
    of_database!("pg_stat_get_db_sessions_killed", |t: &Totals| t.event(Event::Killed)),
    of_database!("pg_stat_get_db_tuples_returned", |t: &Totals| t.all(Count::Returned)),
    of_database!("pg_stat_get_db_tuples_fetched", |t: &Totals| t.all(Count::Fetched)),
    of_database!("pg_stat_get_db_tuples_inserted", |t: &Totals| t.all(Count::Inserted)),
    of_database!("pg_stat_get_db_tuples_updated", |t: &Totals| t.all(Count::Updated)),
    of_database!("pg_stat_get_db_tuples_deleted", |t: &Totals| t.all(Count::Deleted)),
    nothing!("pg_stat_get_db_blocks_fetched"),
    nothing!("pg_stat_get_db_blocks_hit"),
    nothing!("pg_stat_get_db_conflict_all"),
    nothing!("pg_stat_get_db_temp_files"),
    nothing!("pg_stat_get_db_temp_bytes"),
    nothing!("pg_stat_get_db_sessions_abandoned"),
    nothing!("pg_stat_get_db_sessions_fatal"),
    waiting("pg_stat_get_db_active_time", &[Oid], Float8, |a, cx| {
        asked_of(oid(a), cx, |totals| Value::Float8(totals.event(Event::ActiveNs) as f64 / 1e6))
    }),
    waiting("pg_stat_get_db_stat_reset_time", &[Oid], TimestampTz, |a, cx| {
        asked_of(oid(a), cx, |totals| totals.reset.map_or(Value::Null, Value::TimestampTz))
    }),
    waiting("pg_stat_get_db_numbackends", &[Oid], Int4, |a, cx| Box::pin(sessions_of(oid(a), cx))),
];

/// Returns the number of rows inserted, updated and deleted.
fn changes(totals: &Totals, id: u32) -> i64 {
    let counts = [Count::Inserted, Count::Updated, Count::Deleted];
    counts.iter().map(|count| totals.of(id, *count)).sum()
}

fn oid(args: &[Value]) -> u32 {
    match args.first() {
        Some(Value::Oid(oid)) => *oid,
        _ => 0,
    }
}

/// Returns the number of sessions in a database.
async fn sessions_of(database: u32, cx: &EvalContext) -> Result<Value, SqlError> {
    let name = cx
        .catalog()
        .database_by_id(database)
        .map(|of| of.name.clone());
    let all = match &cx.sessions {
        Some(sessions) => sessions.all().await?,
        None => Vec::new(),
    };
    let of_it = all
        .iter()
        .filter(|state| Some(&state.database) == name.as_ref());
    Ok(Value::Int4(of_it.count() as i32))
}

fn asked<'a>(
    args: &[Value],
    cx: &'a EvalContext,
    answer: impl Fn(&Totals, u32) -> Value + Send + 'a,
) -> ValueFuture<'a> {
    let id = oid(args);
    asked_of(cx.database_oid(), cx, move |totals| answer(totals, id))
}

/// Applies `answer` to the counters of a database.
fn asked_of<'a>(
    database: u32,
    cx: &'a EvalContext,
    answer: impl Fn(&Totals) -> Value + Send + 'a,
) -> ValueFuture<'a> {
    Box::pin(async move {
        let totals = match &cx.counters {
            Some(counters) => counters.totals(database).await?,
            None => Totals::default(),
        };
        Ok(answer(&totals))
    })
}

/// Checks that the current role can call a function. Execution cannot be granted.
///
/// # Errors
/// 42501 if the role is not a superuser.
fn allowed(cx: &EvalContext, function: &str) -> Result<(), SqlError> {
    let known = cx.catalog().role(&cx.current_user())?;
    match known.is_some_and(|role| role.superuser) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied for function {function}"),
        )),
    }
}

async fn reset(
    cx: &EvalContext,
    relations: Option<Vec<u32>>,
    function: &str,
) -> Result<Value, SqlError> {
    allowed(cx, function)?;
    if let Some(counters) = &cx.counters {
        counters.reset(cx.database_oid(), relations).await?;
    }
    Ok(Value::text(""))
}

fn reset_shared(args: &[Value], cx: &EvalContext) -> Result<Value, SqlError> {
    allowed(cx, "pg_stat_reset_shared")?;
    let target = args.first().and_then(Value::as_text).unwrap_or("");
    match target {
        "archiver" | "bgwriter" | "wal" | "recovery_prefetch" => Ok(Value::text("")),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized reset target: \"{target}\""),
        )
        .hint("Target must be \"archiver\", \"bgwriter\", \"recovery_prefetch\", or \"wal\".")),
    }
}
