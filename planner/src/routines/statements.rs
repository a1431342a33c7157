//! The SQL expressions and statements in a body: they are prepared with the current types of its
//! variables, and run.
//!
//! A body keeps a prepared statement as long as the variables that it names have the same types.

use std::sync::Arc;

use fencepost_sql::bound::{Node, RoutineCall, Statement};
use fencepost_sql::catalog::Snapshot;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{IntoClause, NameMeaning, Target};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, is_same};
use fencepost_sql::value::Value;

use super::machine::BodyExecution;
use super::prepared::{self, Body as What, NameScope, PreparedBody, prepared_by};
use super::returned::fit;
use super::rows::Rows;
use super::utility::run_utility;
use crate::ddl::ddl_command;
use crate::exec::Cx;

impl BodyExecution {
    /// Returns the prepared statement of a text, for the current types of the parameters and of the
    /// variables that it names.
    pub async fn ready(
        &mut self,
        text: usize,
        cx: &mut Cx<'_>,
    ) -> Result<Arc<PreparedBody>, StatementStop> {
        let body = Arc::clone(&self.body);
        let code = &body.code;
        let cached = body.prepared.lock().get(text).cloned().flatten();
        let slots = &self.slots;
        let same = |(named, ty): &(NameMeaning, Type)| {
            slots
                .type_of(code, named)
                .is_ok_and(|now| is_same(now, *ty))
        };
        let cached = cached.filter(|cached| cached.within == cx.eval.within);
        let cached = cached.filter(|cached| cached.references.iter().all(same));
        let known = cached.clone();
        let of = &code.texts[text];
        let prepare = |cx: &Cx<'_>, snapshot: &Snapshot| {
            let place = NameScope {
                code,
                scope: of.scope,
                slots,
                cursor: of.cursor,
            };
            let made = PreparedBody::of(&of.sql, &body.given, Some(place), (cx, snapshot));
            made.map_err(SqlError::without_position)
        };
        let prepared = match &cached {
            // DDL is bound with the catalog as the transaction sees it.
            Some(cached) if is_ddl(cached) => prepared_by(cx, true, &prepare).await?,
            _ => prepared::ready(cx, cached, &prepare).await?,
        };
        let prepared = match known.is_none() && is_ddl(&prepared) {
            true => prepared_by(cx, true, &prepare).await?,
            false => prepared,
        };
        if known.is_none_or(|known| !Arc::ptr_eq(&known, &prepared))
            && let Some(place) = body.prepared.lock().get_mut(text)
        {
            *place = Some(Arc::clone(&prepared));
        }
        Ok(prepared)
    }

    /// Returns the parameters of a statement.
    pub fn params(&self, prepared: &PreparedBody, cx: &Cx<'_>) -> Result<Vec<Value>, SqlError> {
        let code = &self.body.code;
        let given = code.args.iter().map(|arg| self.slots.get(*arg));
        let mut params: Vec<Value> = given.collect();
        for (named, _) in &prepared.references {
            let portals = &cx.scratch.routines.portals;
            params.push(self.slots.value_of(code, named, portals)?);
        }
        Ok(params)
    }

    /// Returns the value of an expression, and its type.
    pub async fn value(
        &mut self,
        text: usize,
        cx: &mut Cx<'_>,
    ) -> Result<(Value, Type), StatementStop> {
        let prepared = self.ready(text, cx).await?;
        let params = self.params(&prepared, cx)?;
        match &prepared.body {
            What::Value(expr, _) => {
                let value = cx.value_with(expr, &params).await?;
                Ok((value, expr.ty))
            }
            What::Planned(planned) => {
                let owner = &self.body.owner;
                let ran = Box::pin(prepared::run(planned, &params, owner, cx, 2));
                let (rows, _) = ran.await?;
                let [(_, ty)] = rows.columns.as_slice() else {
                    let message = format!("query returned {} columns", rows.columns.len());
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
                };
                if rows.rows.len() > 1 {
                    return Err(SqlError::new(
                        SqlState::CARDINALITY_VIOLATION,
                        "query returned more than one row",
                    )
                    .into());
                }
                let value = rows.rows.into_iter().next();
                let value = value.and_then(|row| row.into_iter().next());
                Ok((value.unwrap_or_default(), *ty))
            }
            What::Utility(_) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "not an expression").into())
            }
        }
    }

    /// Returns whether a condition is true; NULL counts as false.
    pub async fn holds(&mut self, text: usize, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
        let (value, ty) = self.value(text, cx).await?;
        let value = fit(value, &ty, &Type::BOOL, cx.eval)?;
        Ok(value.as_bool() == Some(true))
    }

    /// Runs an SQL statement.
    pub async fn statement(
        &mut self,
        text: usize,
        into: Option<&IntoClause>,
        perform: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let prepared = self.ready(text, cx).await?;
        let params = self.params(&prepared, cx)?;
        let place = (into, perform);
        Box::pin(self.run_prepared(&prepared, &params, place, cx)).await
    }

    /// Runs a prepared statement, and stores its row in the INTO targets.
    pub async fn run_prepared(
        &mut self,
        prepared: &PreparedBody,
        params: &[Value],
        (into, perform): (Option<&IntoClause>, bool),
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let owner = self.body.owner.clone();
        let (rows, count, changes) = match &prepared.body {
            What::Value(expr, name) => {
                let value = cx.value_with(expr, params).await?;
                let rows = Rows {
                    columns: vec![(name.clone(), expr.ty)],
                    rows: vec![vec![value]],
                    ..Rows::default()
                };
                (rows, 1, false)
            }
            What::Planned(planned) => {
                let changes = planned.plan.is_write();
                let wanted = match into {
                    Some(into) if into.strict || changes => 2,
                    Some(_) => 1,
                    None => usize::MAX,
                };
                let (rows, count) = prepared::run(planned, params, &owner, cx, wanted).await?;
                (rows, count, changes)
            }
            What::Utility(statement) => {
                if let Statement::Call(call) = &**statement {
                    return self.call(call, prepared, params, cx).await;
                }
                if into.is_some() {
                    return Err(no_rows_to_give().into());
                }
                run_utility(statement, params, &owner, cx).await?;
                self.row_count = 0;
                return Ok(());
            }
        };
        let gives = match &prepared.body {
            What::Planned(planned) => planned.columns.is_some(),
            _ => true,
        };
        match into {
            Some(_) if !gives => return Err(no_rows_to_give().into()),
            Some(into) => {
                if (into.strict || changes) && rows.rows.len() > 1 {
                    return Err(SqlError::new(
                        SqlState::new(b"P0003"),
                        "query returned more than one row",
                    )
                    .hint("Make sure the query returns a single row, or use LIMIT 1.")
                    .into());
                }
                if into.strict && rows.rows.is_empty() {
                    let state = SqlState::new(b"P0002");
                    return Err(SqlError::new(state, "query returned no rows").into());
                }
                let count = if changes {
                    count
                } else {
                    rows.rows.len() as u64
                };
                let first = rows.rows.into_iter().next();
                self.assign_row(into, first, &rows.columns, cx).await?;
                self.found(count);
            }
            None if gives && !perform => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "query has no destination for result data",
                )
                .hint("If you want to discard the results of a SELECT, use PERFORM instead.")
                .into());
            }
            None => self.found(count),
        }
        Ok(())
    }

    /// Runs CALL within a body: output arguments are assigned to the given variables.
    async fn call(
        &mut self,
        call: &RoutineCall,
        prepared: &PreparedBody,
        params: &[Value],
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let mut targets = Vec::new();
        let inputs = call.routine.inputs().zip(&call.args);
        for (arg, given) in inputs.filter(|(arg, _)| arg.mode.is_output()) {
            let named = match given.node {
                Node::Param(param) => param
                    .checked_sub(self.body.code.args.len())
                    .and_then(|nth| prepared.references.get(nth)),
                _ => None,
            };
            let Some((named, _)) = named else {
                let message = format!(
                    "procedure parameter \"{}\" is an output parameter but corresponding argument \
                     is not writable",
                    arg.name
                );
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
            };
            targets.push(match named {
                NameMeaning::Variable(variable) => Target::Variable(*variable),
                NameMeaning::Field(row, field) => Target::Field(*row, field.clone()),
                NameMeaning::Place(cursor, ..) => Target::Variable(*cursor),
                NameMeaning::Rows(_) => {
                    return Err(SqlError::unsupported("rows as an argument").into());
                }
            });
        }
        if targets.len() != call.columns.len() {
            return Err(SqlError::unsupported("OUT arguments of CALL in a body").into());
        }
        let owner = self.body.owner.clone();
        let statement = Statement::Call(Box::new(call.clone()));
        let row = Box::pin(run_utility(&statement, params, &owner, cx)).await?;
        if let Some(row) = row {
            for ((target, value), (_, ty)) in targets.iter().zip(row).zip(&call.columns) {
                self.assign(target, value, *ty, cx).await?;
            }
        }
        Ok(())
    }
}

fn is_ddl(prepared: &PreparedBody) -> bool {
    matches!(&prepared.body, What::Utility(statement) if ddl_command(statement).is_some())
}

fn no_rows_to_give() -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        "INTO used with a command that cannot return data",
    )
}
