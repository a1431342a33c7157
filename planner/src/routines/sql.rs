//! Functions in SQL: their statements run one after the other, and the last one returns the result.

use std::sync::Arc;

use fencepost_sql::binder::bind_body;
use fencepost_sql::catalog::{RoutineDef, Snapshot};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;
use fencepost_sql::stack::on_large_stack;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Fields, Type, TypeKind};
use fencepost_sql::value::{Record, Value};

use super::Owner;
use super::prepared::{Body, PreparedBody, guard, run, snapshot};
use super::returned::{RoutineOutput, fit, fit_row, unpacked};
use super::utility::run_utility;
use crate::context::PlanContext;
use crate::ddl::ddl_command;
use crate::exec::Cx;

/// The number of times that one body is planned again before a catalog that keeps changing is an
/// error.
const PLANS_MAX: usize = 8;

/// Binds and plans the statements of a function, deeply nested ones on a larger stack.
fn planned_body(
    routine: &RoutineDef,
    catalog: &Snapshot,
    eval: &EvalContext,
) -> Result<Vec<PreparedBody>, SqlError> {
    let text = (routine.body.as_str(), routine.atomic);
    let of = (routine.name.as_str(), &routine.args[..], &routine.result);
    on_large_stack(|| {
        let bound = bind_body(text, of, catalog, eval)?;
        let planned = bound.statements.into_iter().map(|(statement, params)| {
            let depends = params.dependencies(catalog.version());
            let cx = PlanContext::of(eval);
            PreparedBody::planned(statement, Vec::new(), depends, cx)
        });
        planned.collect()
    })
}

/// The planned statements of a function.
#[derive(Debug)]
pub struct SqlBody {
    owner: Owner,
    statements: Vec<PreparedBody>,
}

impl SqlBody {
    /// Binds and plans a body.
    pub async fn of(
        routine: &RoutineDef,
        owner: Owner,
        again: bool,
        cx: &mut Cx<'_>,
    ) -> Result<SqlBody, StatementStop> {
        let mut catalog = snapshot(cx, again).await?;
        let mut bound = planned_body(routine, &catalog, cx.eval);
        if bound.is_err() && !again {
            catalog = snapshot(cx, true).await?;
            bound = planned_body(routine, &catalog, cx.eval);
        }
        let statements = bound?;
        Ok(SqlBody { owner, statements })
    }

    /// Runs the function.
    pub async fn run(
        self: Arc<Self>,
        routine: &Arc<RoutineDef>,
        args: &[Value],
        columns: &[(String, Type)],
        cx: &mut Cx<'_>,
    ) -> Result<RoutineOutput, StatementStop> {
        let mut body = self;
        let mut returned = RoutineOutput::Row(None);
        for nth in 0..body.statements.len() {
            let mut planned = 0;
            while let Some(PreparedBody {
                body: Body::Planned(plan),
                ..
            }) = body.statements.get(nth)
                && !guard(plan, cx).await?
            {
                planned += 1;
                if planned > PLANS_MAX {
                    return Err(StatementStop::Stale);
                }
                let owner = body.owner.clone();
                body = Arc::new(SqlBody::of(routine, owner, true, cx).await?);
                let compiled = super::call::CompiledRoutine::Sql(Arc::clone(&body));
                cx.scratch.routines.keep(routine, cx.eval, &compiled);
            }
            let last = nth + 1 == body.statements.len();
            let ran = Box::pin(body.statement(nth, (routine, args, columns), last, cx)).await;
            returned = ran.map_err(|halt| match halt {
                StatementStop::Error(error) => {
                    let place = format!("SQL function \"{}\" statement {}", routine.name, nth + 1);
                    StatementStop::Error(error.within(&place))
                }
                halt => halt,
            })?;
        }
        Ok(returned)
    }

    async fn statement(
        &self,
        nth: usize,
        (routine, args, columns): (&RoutineDef, &[Value], &[(String, Type)]),
        last: bool,
        cx: &mut Cx<'_>,
    ) -> Result<RoutineOutput, StatementStop> {
        let result = &routine.result;
        let void = columns.is_empty() && result.ty.kind == TypeKind::Void;
        let nothing = match result.set {
            true => RoutineOutput::Set(Vec::new()),
            false => RoutineOutput::Row(None),
        };
        match &self.statements[nth].body {
            Body::Value(expr, _) => {
                let value = cx.value_with(expr, args).await?;
                if !last || void {
                    return Ok(nothing);
                }
                if expr.ty.kind.is_row() && routine.gives_row() {
                    let row = row_of(value, &expr.ty, (routine, columns), cx)?;
                    return Ok(match (result.set, row) {
                        (true, row) => {
                            RoutineOutput::Set(vec![row.unwrap_or_else(|| nulls(columns))])
                        }
                        (false, row) => RoutineOutput::Row(row),
                    });
                }
                let to = columns.first().map_or(&result.ty, |(_, ty)| ty);
                let row = vec![fit(value, &expr.ty, to, cx.eval)?];
                Ok(match result.set {
                    true => RoutineOutput::Set(vec![row]),
                    false => RoutineOutput::Row(Some(row)),
                })
            }
            Body::Planned(planned) => {
                let one = last && !result.set && !void;
                let wanted = if one { 1 } else { usize::MAX };
                let (rows, _) = run(planned, args, &self.owner, cx, wanted).await?;
                if !last || void {
                    return Ok(nothing);
                }
                let lone = [(String::new(), result.ty)];
                let to = if columns.is_empty() {
                    &lone[..]
                } else {
                    columns
                };
                if let ([(_, ty)], true) = (rows.columns.as_slice(), routine.gives_row())
                    && ty.kind.is_row()
                {
                    let mut fitted = Vec::with_capacity(rows.rows.len());
                    for mut row in rows.rows {
                        let value = row.pop().unwrap_or_default();
                        fitted.push(row_of(value, ty, (routine, columns), cx)?);
                    }
                    return Ok(match result.set {
                        true => {
                            let all = fitted.into_iter();
                            RoutineOutput::Set(
                                all.map(|r| r.unwrap_or_else(|| nulls(columns))).collect(),
                            )
                        }
                        false => RoutineOutput::Row(fitted.into_iter().next().flatten()),
                    });
                }
                // Without a column definition list, each record describes its own fields.
                if result.record && columns.is_empty() {
                    let fields = Fields::own(rows.columns.iter().cloned());
                    let all = rows.rows.into_iter();
                    let mut all = all.map(|row| vec![Record::new(fields.clone(), row).into()]);
                    return Ok(match result.set {
                        true => RoutineOutput::Set(all.collect()),
                        false => RoutineOutput::Row(all.next()),
                    });
                }
                let mut fitted = Vec::with_capacity(rows.rows.len());
                for row in rows.rows {
                    fitted.push(fit_row(row, &rows.columns, to, cx.eval)?);
                }
                Ok(match result.set {
                    true => RoutineOutput::Set(fitted),
                    false => RoutineOutput::Row(fitted.into_iter().next()),
                })
            }
            Body::Utility(statement) if ddl_command(statement).is_some() => {
                // DDL is bound with the catalog as the transaction sees it.
                let owner = self.owner.clone();
                let again = SqlBody::of(routine, owner, true, cx).await?;
                if let Some(Body::Utility(statement)) = again.statements.get(nth).map(|s| &s.body) {
                    run_utility(statement, args, &self.owner, cx).await?;
                }
                Ok(nothing)
            }
            Body::Utility(statement) => {
                run_utility(statement, args, &self.owner, cx).await?;
                Ok(nothing)
            }
        }
    }
}

/// Converts a row value to the declared result of the function.
fn row_of(
    value: Value,
    from: &Type,
    (routine, columns): (&RoutineDef, &[(String, Type)]),
    cx: &Cx<'_>,
) -> Result<Option<Vec<Value>>, SqlError> {
    match columns.is_empty() {
        true => Ok(Some(vec![value])),
        false => {
            let value = fit(value, from, &routine.result.ty, cx.eval)?;
            unpacked(value, columns, cx.eval)
        }
    }
}

fn nulls(columns: &[(String, Type)]) -> Vec<Value> {
    vec![Value::Null; columns.len()]
}
