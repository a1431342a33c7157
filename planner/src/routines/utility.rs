//! Statements of routines that have no plan: DDL, changes of settings, CALL and DO.

use std::sync::Arc;

use fencepost_sql::bound::{Maintenance, SetScope, SetStatement, SetValue, Statement};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::notify::{ListenChange, Notification};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::Mode;

use super::Owner;
use super::call::run_routine;
use super::machine::BodyExecution;
use super::procedure::anonymous;
use super::returned::RoutineOutput;
use crate::analyze::run_analyze;
use crate::ddl::{
    DdlCx, await_catalog_lock, command_alone, ddl_command, lock_for_ddl, made_until_commit,
    makes_temporary, open_temporary_schema, run_ddl,
};
use crate::exec::Cx;

/// Runs a statement. Returns the row of a CALL.
pub async fn run_utility(
    statement: &Statement,
    params: &[Value],
    owner: &Owner,
    cx: &mut Cx<'_>,
) -> Result<Option<Vec<Value>>, StatementStop> {
    if let Some(command) = ddl_command(statement) {
        if let Some(command) = command_alone(statement) {
            let message = format!("{command} cannot be executed from a function");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message).into());
        }
        ddl((statement, params), command, owner, cx).await?;
        return Ok(None);
    }
    match statement {
        Statement::Set(set) => set_setting(set, cx)?,
        Statement::Reset(Some(name)) => {
            let value = fencepost_sql::settings::Settings::new();
            let value = value.get(name).unwrap_or_default().into_owned();
            cx.eval.change_setting(name, &value, false)?;
        }
        Statement::Notify(Notification { channel, payload }) => {
            not_in_others("NOTIFY", owner)?;
            cx.eval.notifications.notify(channel, payload)?;
        }
        Statement::Listen(change) => {
            let command = match change {
                ListenChange::To(_) => "LISTEN",
                ListenChange::NoMore(_) | ListenChange::ToNothing => "UNLISTEN",
            };
            not_in_others(command, owner)?;
            cx.eval.notifications.listen(change.clone());
        }
        Statement::Maintenance(Maintenance::Analyze(targets)) => {
            Box::pin(run_analyze(targets, cx)).await?;
        }
        Statement::Maintenance(
            Maintenance::Reindex { alone: None } | Maintenance::Cluster { alone: false },
        ) => {}
        Statement::LockTables(locks) => {
            locks.take(cx.eval).await?;
            cx.tx.freshen().await;
        }
        Statement::Call(call) => {
            let mut args = Vec::with_capacity(call.args.len());
            for arg in &call.args {
                args.push(cx.value_with(arg, params).await?);
            }
            let called = run_routine(&call.routine, args, &call.columns, cx);
            return Ok(match Box::pin(called).await? {
                RoutineOutput::Row(row) => row,
                RoutineOutput::Set(_) => None,
            });
        }
        Statement::Do(body) => {
            let body = Arc::new(anonymous(body, cx).await?);
            cx.scratch.routines.enter()?;
            let mut machine = BodyExecution::new(&body, Vec::new());
            let ran = machine.run_through(cx).await;
            cx.scratch.routines.leave();
            ran?;
        }
        Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint(_)
        | Statement::Release(_)
        | Statement::RollbackTo(_) => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "unsupported transaction command in PL/pgSQL",
            )
            .into());
        }
        Statement::Maintenance(alone) => {
            let command = match alone {
                Maintenance::Reindex {
                    alone: Some(command),
                } => command,
                Maintenance::Cluster { .. } => "CLUSTER",
                _ => "VACUUM",
            };
            let message = format!("{command} cannot be executed from a function");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message).into());
        }
        Statement::Checkpoint => {
            return Err(SqlError::unsupported("CHECKPOINT in a function").into());
        }
        _ => return Err(SqlError::unsupported("this statement in a function").into()),
    }
    Ok(None)
}

/// Returns error 0A000 in a function that is not volatile.
fn not_in_others(command: &str, owner: &Owner) -> Result<(), SqlError> {
    match owner.writes {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{command} is not allowed in a non-volatile function"),
        )),
    }
}

fn set_setting(set: &SetStatement, cx: &Cx<'_>) -> Result<(), SqlError> {
    let local = set.scope == SetScope::Local;
    let value = match &set.value {
        SetValue::Value(value) => value.clone(),
        SetValue::Default => {
            let initial = fencepost_sql::settings::Settings::new();
            initial.get(&set.name).unwrap_or_default().into_owned()
        }
    };
    if set.name.starts_with("transaction_") {
        return Err(SqlError::unsupported("SET TRANSACTION in a function"));
    }
    cx.eval.change_setting(&set.name, &value, local).map(|_| ())
}

/// Returns error 55006 if the statement changes a table from within one of its triggers.
fn check_unused(statement: &Statement, command: &str, cx: &Cx<'_>) -> Result<(), SqlError> {
    let in_use = &cx.scratch.routines.in_use;
    let tables = match statement {
        Statement::AlterTable(alter) => alter.table.as_slice(),
        Statement::CreateIndex(create) => std::slice::from_ref(&create.table),
        Statement::DropTable(drop) => &drop.tables,
        Statement::Truncate(truncate) => &truncate.tables,
        _ => return Ok(()),
    };
    match tables.iter().find(|table| in_use.contains(&table.id)) {
        None => Ok(()),
        Some(table) => Err(SqlError::new(
            SqlState::OBJECT_IN_USE,
            format!(
                "cannot {command} \"{}\" because it is being used by active queries in this \
                 session",
                table.name
            ),
        )),
    }
}

/// Runs DDL, and binds it again if the catalog has changed.
async fn ddl(
    (statement, params): (&Statement, &[Value]),
    command: &str,
    owner: &Owner,
    cx: &mut Cx<'_>,
) -> Result<(), StatementStop> {
    not_in_others(command, owner)?;
    if cx.tx.mode() == Mode::ReadOnly {
        return Err(SqlError::read_only(command).into());
    }
    check_unused(statement, command, cx)?;
    let Some(catalog) = cx.eval.database_catalog.clone() else {
        return Err(SqlError::internal("no catalog").into());
    };
    let known = cx.eval.catalog();
    lock_for_ddl(statement, &known, cx.eval).await?;
    await_catalog_lock(cx, &catalog).await?;
    let snapshot = if makes_temporary(statement) {
        open_temporary_schema(&catalog, &mut cx.within(&[])).await?
    } else {
        catalog.snapshot(cx.tx).await?
    };
    let mut notices = Vec::new();
    let salt = cx.scratch.routines.fresh_salt();
    let mut ddl = DdlCx {
        catalog: &catalog,
        snapshot: &snapshot,
        notices: &mut notices,
        rows: None,
        salt,
    };
    let ran = {
        let mut inner = cx.within(params);
        run_ddl(statement, &mut inner, &mut ddl).await
    };
    cx.scratch.routines.notices.append(&mut notices);
    ran?;
    let private = catalog.snapshot(cx.tx).await?;
    let made = made_until_commit(statement, &snapshot, &private);
    cx.scratch.routines.on_commit.extend(made);
    cx.eval.set_private(Some(private));
    Ok(())
}
