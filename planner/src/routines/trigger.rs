//! Trigger functions: their variables, and their results.
//!
//! NEW and OLD always have the columns of the table. If one does not exist for the event, it has no
//! values: it reads as NULL, and returning it returns NULL.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_sql::bound::Trigger;
use fencepost_sql::catalog::{Event, TableDef, row_type};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::TriggerVariables;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::{Array, Value};
use fencepost_txn::Work;

use super::call::{CompiledRoutine, OwnerGuard, compiled};
use super::machine::{Body, BodyExecution};
use super::returned::RoutineOutput;
use super::settings::settings_of;
use super::variables::{Row, Slot, Transition};
use crate::exec::Cx;

/// A call of a trigger.
#[derive(Clone, Copy, Debug)]
pub struct TriggerCall<'a> {
    /// The trigger.
    pub trigger: &'a Trigger,
    /// The table with the changed rows.
    pub table: &'a TableDef,
    /// The event.
    pub event: Event,
    /// The row before the change, if there is one.
    pub old: Option<&'a [Value]>,
    /// The row after the change, if there is one.
    pub new: Option<&'a [Value]>,
    /// The transition tables: all changed rows, before and after the change, if the trigger reads
    /// them.
    pub rows: Option<&'a [Value; 2]>,
}

/// The future of a call; it returns a row, or `None` for NULL.
type TriggerFuture<'a> = Work<'a, Result<Option<Vec<Value>>, StatementStop>>;

/// A guard that counts the nesting of triggers, for `pg_trigger_depth()`.
struct Depth<'a>(&'a EvalContext);

impl<'a> Depth<'a> {
    fn enter(eval: &'a EvalContext) -> Depth<'a> {
        eval.trigger_depth.fetch_add(1, Ordering::Relaxed);
        Depth(eval)
    }
}

impl Drop for Depth<'_> {
    fn drop(&mut self) {
        self.0.trigger_depth.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the function of a trigger.
pub fn call_trigger<'a>(call: TriggerCall<'a>, cx: &'a mut Cx<'_>) -> TriggerFuture<'a> {
    Box::pin(run(call, cx))
}

async fn run(call: TriggerCall<'_>, cx: &mut Cx<'_>) -> Result<Option<Vec<Value>>, StatementStop> {
    let routine = &call.trigger.routine;
    if routine.settings.is_empty() {
        return run_here(call, cx).await;
    }
    let own = &routine.settings;
    let eval = settings_of(routine, cx.eval)?;
    let mut inner = cx.within(&[]);
    inner.eval = &eval;
    let result = Box::pin(run_here(call, &mut inner)).await;
    cx.eval.resume(eval, own);
    result
}

async fn run_here(
    call: TriggerCall<'_>,
    cx: &mut Cx<'_>,
) -> Result<Option<Vec<Value>>, StatementStop> {
    let _acting = OwnerGuard::of(&call.trigger.routine, cx.eval);
    let CompiledRoutine::PlPgSql(body) = compiled(&call.trigger.routine, cx).await? else {
        return Err(SqlError::internal("a trigger in SQL").into());
    };
    cx.scratch.routines.enter()?;
    let depth = Depth::enter(cx.eval);
    let before = cx.held;
    cx.scratch.routines.in_use.push(call.table.id);
    let mut machine = machine_of(&body, call);
    let returned = machine.run_through(cx).await;
    cx.scratch.routines.in_use.pop();
    drop(depth);
    cx.scratch.routines.leave();
    let held = std::mem::replace(&mut cx.held, before).saturating_sub(before);
    cx.tx.release_memory(held);
    match returned? {
        RoutineOutput::Row(row) => Ok(row),
        RoutineOutput::Set(_) => Err(SqlError::internal("a trigger that gives a set").into()),
    }
}

fn machine_of(body: &Arc<Body>, call: TriggerCall<'_>) -> BodyExecution {
    let columns = call.table.columns.iter();
    let columns: Vec<(String, Type)> = columns.map(|c| (c.name.clone(), c.ty)).collect();
    let given = if call.trigger.def.row {
        columns.clone()
    } else {
        Vec::new()
    };
    let mut machine = BodyExecution::new(body, given);
    machine.slots.put(body.code.found, Value::Bool(false));
    if let Some(variables) = &body.code.trigger {
        tell(&mut machine, variables, call, columns);
    }
    let row = call.rows.map(|_| TypeKind::Composite(row_type(call.table)));
    if let (Some(rows), Some(array)) = (call.rows, row.and_then(TypeKind::array)) {
        let named = call.trigger.def.transition.iter().zip(rows);
        let seen = named.filter_map(|(name, rows)| {
            Some(Transition {
                name: name.clone()?,
                ty: Type::of(array),
                rows: rows.clone(),
            })
        });
        machine.slots.1.extend(seen);
    }
    machine
}

/// Sets the variables of a trigger function.
fn tell(
    machine: &mut BodyExecution,
    variables: &TriggerVariables,
    call: TriggerCall<'_>,
    columns: Vec<(String, Type)>,
) {
    let def = &call.trigger.def;
    let slots = &mut machine.slots;
    let of = row_type(call.table);
    for (variable, row) in [(variables.new, call.new), (variables.old, call.old)] {
        slots.0[variable] = Slot::Row(Some(Row {
            columns: columns.clone(),
            values: row.map_or_else(Vec::new, <[Value]>::to_vec),
            of: Some(of),
        }));
    }
    let level = if def.row { "ROW" } else { "STATEMENT" };
    slots.put(variables.name, Value::text(&def.name));
    slots.put(variables.when, Value::text(def.timing.written()));
    slots.put(variables.level, Value::text(level));
    slots.put(variables.op, Value::text(call.event.written()));
    slots.put(variables.relname, Value::text(&call.table.name));
    slots.put(variables.table_name, Value::text(&call.table.name));
    slots.put(variables.table_schema, Value::text(&call.table.schema));
    slots.put(variables.relid, Value::Oid(call.table.id));
    slots.put(variables.nargs, Value::Int4(def.args.len() as i32));
    if !def.args.is_empty() {
        let mut args = Array::of(def.args.iter().map(Value::text).collect());
        args.dims.iter_mut().for_each(|dim| dim.lower = 0);
        slots.put(variables.argv, args.into());
    }
}

impl BodyExecution {
    /// Converts the row that RETURN gives in a trigger function.
    pub fn returns_trigger_row(&self, row: &Row) -> Result<Option<Vec<Value>>, SqlError> {
        if row.values.is_empty() || self.columns.is_empty() {
            return Ok(None);
        }
        let mut wrong = None;
        if row.columns.len() != self.columns.len() {
            wrong = Some(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                row.columns.len(),
                self.columns.len()
            ));
        }
        for (nth, ((_, from), (_, to))) in row.columns.iter().zip(&self.columns).enumerate() {
            if from.plain().kind != to.plain().kind {
                wrong.get_or_insert_with(|| {
                    format!(
                        "Returned type {from} does not match expected type {to} in column {}.",
                        nth + 1
                    )
                });
            }
        }
        match wrong {
            None => Ok(Some(row.values.clone())),
            Some(detail) => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                "returned row structure does not match the structure of the triggering table",
            )
            .detail(detail)),
        }
    }
}
