//! Calls of routines from expressions and from FROM.

use std::sync::Arc;

use fencepost_sql::bound::{RoutineCall, Volatility};
use fencepost_sql::catalog::{GuardScope, Language, RoutineDef, RoutineKind, guard_type};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{Header, compile};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Fields;
use fencepost_sql::value::Value;

use super::Owner;
use super::machine::{Body, BodyExecution, Step};
use super::prepared::snapshot;
use super::returned::RoutineOutput;
use super::settings::settings_of;
use super::sql::SqlBody;
use crate::exec::Cx;

/// A compiled routine.
#[derive(Clone, Debug)]
pub enum CompiledRoutine {
    Sql(Arc<SqlBody>),
    PlPgSql(Arc<Body>),
}

/// Returns the routine's compiled code. Compiles it unless the session has it.
pub async fn compiled(
    routine: &Arc<RoutineDef>,
    cx: &mut Cx<'_>,
) -> Result<CompiledRoutine, StatementStop> {
    let mut again = false;
    if let Some(compiled) = cx.scratch.routines.get(routine, cx.eval) {
        // The code is valid only while the types of its variables are unchanged.
        let mut same = true;
        if let CompiledRoutine::PlPgSql(body) = &compiled {
            for ty in &body.code.types {
                same = same && guard_type(cx.tx, ty, GuardScope::Statement).await?;
            }
        }
        if same {
            return Ok(compiled);
        }
        again = true;
    }
    let owner = Owner {
        name: routine.signature().into(),
        writes: routine.volatility == Volatility::Volatile,
    };
    let compiled = match routine.language {
        Language::Sql => {
            CompiledRoutine::Sql(Arc::new(SqlBody::of(routine, owner, false, cx).await?))
        }
        Language::PlPgSql => {
            let header = Header {
                name: &routine.name,
                args: &routine.args,
                result: &routine.result,
                procedure: routine.kind == RoutineKind::Procedure,
                polymorphic: routine
                    .as_called
                    .as_ref()
                    .is_some_and(|called| called.result.is_polymorphic()),
            };
            let known = snapshot(cx, again).await?;
            let code = match compile(&routine.body, header, &*known, cx.eval) {
                Ok(code) => code,
                Err(_) => {
                    let newest = snapshot(cx, true).await?;
                    compile(&routine.body, header, &*newest, cx.eval)?
                }
            };
            let body = Body::new(code, owner, Some(Arc::clone(routine)));
            CompiledRoutine::PlPgSql(Arc::new(body))
        }
        Language::C => return Err(no_symbol(routine).into()),
    };
    cx.scratch.routines.keep(routine, cx.eval, &compiled);
    Ok(compiled)
}

/// Returns an error for a function that an extension does not provide; callers evaluate the
/// provided functions.
fn no_symbol(routine: &RoutineDef) -> SqlError {
    let message = format!(
        "could not find function \"{}\" in file \"{}\"",
        routine.body, routine.name
    );
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}

/// Runs a routine that neither ends transactions nor is a trigger function.
pub async fn run_routine(
    routine: &Arc<RoutineDef>,
    args: Vec<Value>,
    columns: &[(String, fencepost_sql::types::Type)],
    cx: &mut Cx<'_>,
) -> Result<RoutineOutput, StatementStop> {
    if !routine.settings.is_empty() {
        return Box::pin(under_own(routine, args, columns, cx)).await;
    }
    run_here(routine, args, columns, cx).await
}

/// Runs a routine with its own settings (SET clauses).
async fn under_own(
    routine: &Arc<RoutineDef>,
    args: Vec<Value>,
    columns: &[(String, fencepost_sql::types::Type)],
    cx: &mut Cx<'_>,
) -> Result<RoutineOutput, StatementStop> {
    let eval = settings_of(routine, cx.eval)?;
    let params = cx.params;
    let mut inner = cx.within(params);
    inner.eval = &eval;
    let result = run_here(routine, args, columns, &mut inner).await;
    let held = inner.held;
    cx.held += held;
    cx.eval.resume(eval, &routine.settings);
    result
}

async fn run_here(
    routine: &Arc<RoutineDef>,
    args: Vec<Value>,
    columns: &[(String, fencepost_sql::types::Type)],
    cx: &mut Cx<'_>,
) -> Result<RoutineOutput, StatementStop> {
    let _acting = OwnerGuard::of(routine, cx.eval);
    let compiled = compiled(routine, cx).await?;
    cx.scratch.routines.enter()?;
    let before = cx.held;
    let result = match compiled {
        CompiledRoutine::Sql(body) => body.run(routine, &args, columns, cx).await,
        CompiledRoutine::PlPgSql(body) => {
            let mut machine = BodyExecution::new(&body, columns.to_vec());
            machine.give(args, cx.eval)?;
            machine.run_through(cx).await
        }
    };
    cx.scratch.routines.leave();
    if matches!(result, Ok(RoutineOutput::Row(_))) {
        // The memory of its loops and cursors is free again.
        let held = std::mem::replace(&mut cx.held, before).saturating_sub(before);
        cx.tx.release_memory(held);
    }
    result
}

/// A guard that makes the session act as the owner of a SECURITY DEFINER routine while it runs.
pub struct OwnerGuard<'a> {
    eval: &'a EvalContext,
    before: Option<Arc<str>>,
}

impl<'a> OwnerGuard<'a> {
    /// Starts to act as the owner, if the routine is SECURITY DEFINER.
    pub fn of(routine: &RoutineDef, eval: &'a EvalContext) -> Option<OwnerGuard<'a>> {
        if !routine.definer {
            return None;
        }
        let owner = eval.catalog().security().role_name(routine.owner);
        let before = eval.act_as(Some(owner.into()));
        Some(OwnerGuard { eval, before })
    }
}

impl Drop for OwnerGuard<'_> {
    fn drop(&mut self) {
        self.eval.act_as(self.before.take());
    }
}

impl BodyExecution {
    /// Runs to the end, in a context that must not end the transaction.
    pub async fn run_through(&mut self, cx: &mut Cx<'_>) -> Result<RoutineOutput, StatementStop> {
        match Box::pin(self.run(cx)).await? {
            Step::Done(returned) => Ok(returned),
            _ => Err(SqlError::internal("a function that ends transactions").into()),
        }
    }
}

impl Cx<'_> {
    async fn routine_args(
        &mut self,
        call: &RoutineCall,
        row: &[Value],
    ) -> Result<Option<Vec<Value>>, StatementStop> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.deep_value(arg, row).await?);
        }
        let skipped = call.routine.strict && args.iter().any(Value::is_null);
        Ok((!skipped).then_some(args))
    }

    /// Returns the single value of a user-defined function.
    pub async fn call_value(
        &mut self,
        call: &RoutineCall,
        row: &[Value],
    ) -> Result<Value, StatementStop> {
        let Some(args) = self.routine_args(call, row).await? else {
            return Ok(Value::Null);
        };
        if let Some(function) = call.routine.provided() {
            return Ok((function.eval)(&args, self.eval)?);
        }
        let returned = run_routine(&call.routine, args, &call.columns, self).await?;
        let row = call.routine.gives_row() && !call.columns.is_empty();
        let fields = row.then(|| match call.routine.result.ty.kind.as_composite() {
            Some(of) => Fields::Named(of),
            None => Fields::own(call.columns.iter().cloned()),
        });
        Ok(returned.into_value(fields))
    }

    /// Returns the rows of a user-defined function.
    pub async fn call_rows(
        &mut self,
        call: &RoutineCall,
        row: &[Value],
    ) -> Result<Vec<Vec<Value>>, StatementStop> {
        let width = call.columns.len().max(1);
        let Some(args) = self.routine_args(call, row).await? else {
            return Ok(match call.routine.result.set {
                true => Vec::new(),
                false => vec![vec![Value::Null; width]],
            });
        };
        if let Some(function) = call.routine.provided() {
            return Ok(vec![vec![(function.eval)(&args, self.eval)?]]);
        }
        let returned = run_routine(&call.routine, args, &call.columns, self).await?;
        Ok(returned.into_rows(width))
    }
}
