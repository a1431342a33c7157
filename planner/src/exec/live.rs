//! The rows of PostgreSQL's activity views: the sessions of all machines, and the statements of
//! this machine.

use fencepost_sql::advisory::LockKey;
use fencepost_sql::catalog::CatalogView;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;
use fencepost_sql::pg_catalog::{Relation, Rows};
use fencepost_sql::sessions::Activity;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;

/// Returns the rows of a relation if it is an activity view.
pub async fn rows(
    relation: &'static Relation,
    eval: &EvalContext,
) -> Result<Option<Vec<Vec<Value>>>, SqlError> {
    if relation.schema != "pg_catalog" {
        return Ok(None);
    }
    let mut rows = Rows::of(relation);
    match relation.name {
        "pg_stat_activity" => activity(&mut rows, eval).await?,
        "pg_stat_statements" => statements(&mut rows, eval),
        _ => return Ok(None),
    }
    Ok(Some(rows.made))
}

/// Adds `pg_stat_activity`: the sessions of all machines.
async fn activity(rows: &mut Rows, eval: &EvalContext) -> Result<(), SqlError> {
    let Some(sessions) = &eval.sessions else {
        return Ok(());
    };
    let locks = match &eval.advisory {
        Some(advisory) => advisory.all().await?,
        None => Vec::new(),
    };
    let catalog = eval.catalog();
    let time = |at: Option<i64>| at.map_or(Value::Null, Value::TimestampTz);
    let entries = sessions.row_queue_entries().await?;
    for state in sessions.all().await? {
        let mut waiting = locks.iter().filter(|lock| !lock.granted);
        let waiting = waiting.find(|lock| lock.session == state.session);
        let mut in_line = entries.iter().filter(|entry| !entry.granted);
        let waits = match state.activity {
            Activity::Active if in_line.any(|entry| entry.session == Some(state.session)) => {
                Some(("Lock", "tuple"))
            }
            Activity::Active => waiting.map(|lock| match lock.key {
                LockKey::Table(..) => ("Lock", "relation"),
                _ => ("Lock", "advisory"),
            }),
            _ => Some(("Client", "ClientRead")),
        };
        let (kind, event) = waits.map_or((Value::Null, Value::Null), |(kind, event)| {
            (Value::text(kind), Value::text(event))
        });
        let role = catalog.role(&state.user)?;
        let database = catalog.database_named(&state.database);
        let (address, port) = match state.client {
            Some(client) => (
                Value::Inet(client.ip().to_canonical().into()),
                Value::Int4(i32::from(client.port())),
            ),
            None => (Value::Null, Value::Int4(-1)),
        };
        rows.add([
            (
                "datid",
                database.map_or(Value::Null, |of| Value::Oid(of.id)),
            ),
            ("datname", Value::text(&state.database)),
            ("pid", Value::Int4(state.session)),
            ("leader_pid", Value::Null),
            (
                "usesysid",
                role.map_or(Value::Null, |role| Value::Oid(role.id)),
            ),
            ("usename", Value::text(&state.user)),
            ("application_name", Value::text(&state.application)),
            ("client_addr", address),
            ("client_port", port),
            ("backend_start", Value::TimestampTz(state.opened)),
            ("xact_start", time(state.transaction)),
            ("query_start", time(state.statement)),
            ("state_change", Value::TimestampTz(state.since)),
            ("wait_event_type", kind),
            ("wait_event", event),
            ("state", Value::text(state.activity.name())),
            ("backend_xid", Value::Null),
            ("backend_xmin", Value::Null),
            ("query_id", Value::Null),
            ("query", Value::text(&state.text)),
            ("backend_type", Value::text("client backend")),
        ]);
    }
    Ok(())
}

/// Adds `pg_stat_statements`: the statements of this machine, all roles together. Values that are
/// not counted are NULL.
fn statements(rows: &mut Rows, eval: &EvalContext) {
    let ms = |ns: f64| Value::Float8(ns / 1e6);
    let nothing = rows.columns_of(&[TypeKind::Int8, TypeKind::Float8]);
    for totals in eval.statements.iter().flat_map(|known| known.totals()) {
        let unknown = nothing.iter().map(|column| (*column, Value::Null));
        rows.add(unknown.chain([
            ("userid", Value::Null),
            ("dbid", Value::Oid(eval.database_oid())),
            ("toplevel", Value::Bool(true)),
            ("queryid", Value::Int8(totals.number())),
            ("calls", Value::Int8(totals.calls as i64)),
            ("total_exec_time", ms(totals.total_ns as f64)),
            ("min_exec_time", ms(totals.min_ns as f64)),
            ("max_exec_time", ms(totals.max_ns as f64)),
            ("mean_exec_time", ms(totals.mean_ns())),
            ("stddev_exec_time", ms(totals.deviation_ns())),
            ("rows", Value::Int8(totals.rows as i64)),
            ("query", Value::text(&totals.text)),
        ]));
    }
}
