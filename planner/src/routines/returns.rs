//! The results of a body: RETURN with and without a value, RETURN NEXT, and the end of the body.

use fencepost_sql::catalog::RoutineKind;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use super::machine::{BodyExecution, Step};
use super::returned::{RoutineOutput, check_types, fit, fit_row, mismatch, unpacked};
use super::variables::{Row, Slot};
use crate::exec::Cx;

impl BodyExecution {
    pub async fn returns(
        &mut self,
        value: Option<usize>,
        cx: &mut Cx<'_>,
    ) -> Result<Step, StatementStop> {
        let Some(text) = value else {
            return self.finish(cx.eval).map_err(StatementStop::Error);
        };
        let (value, ty) = self.value(text, cx).await?;
        let routine = self.body.routine.as_ref();
        if routine.is_some_and(|r| r.result.trigger) {
            return Ok(Step::Done(RoutineOutput::Row(self.trigger_value(value)?)));
        }
        if routine.is_some_and(|r| r.gives_row()) {
            let row = match self.columns.is_empty() {
                // The declaration does not describe the fields; the record itself does.
                true => Some(vec![record_only(value)?]),
                false => unpacked(value, &self.columns, cx.eval)?,
            };
            return Ok(Step::Done(RoutineOutput::Row(row)));
        }
        let value = fit(value, &ty, &self.lone_type(), cx.eval)?;
        Ok(Step::Done(RoutineOutput::Row(Some(vec![value]))))
    }

    /// Converts the value of RETURN in a trigger function: NULL, or a row.
    fn trigger_value(&self, value: Value) -> Result<Option<Vec<Value>>, SqlError> {
        match value {
            Value::Null => Ok(None),
            Value::Record(row) => {
                let fields = row.fields.iter();
                let columns: Vec<_> = fields.map(|f| (f.name.clone(), f.ty)).collect();
                let values = (0..columns.len()).map(|at| row.get(at).clone()).collect();
                self.returns_trigger_row(&Row {
                    columns,
                    values,
                    of: None,
                })
            }
            _ => record_only(value).map(|_| None),
        }
    }

    pub fn returns_row(&mut self, variable: usize, cx: &Cx<'_>) -> Result<Step, SqlError> {
        let trigger = self.body.routine.as_ref().is_some_and(|r| r.result.trigger);
        let Some(Slot::Row(Some(row))) = self.slots.0.get(variable) else {
            // A record without a row so far is NULL.
            return match trigger {
                true => Ok(Step::Done(RoutineOutput::Row(None))),
                false => self.slots.row(&self.body.code, variable).map(|_| Step::Go),
            };
        };
        if trigger {
            let row = self.returns_trigger_row(row)?;
            return Ok(Step::Done(RoutineOutput::Row(row)));
        }
        let gives_row = self.body.routine.as_ref().is_some_and(|r| r.gives_row());
        if !gives_row {
            return Err(mismatch());
        }
        if row.values.is_empty() {
            return Ok(Step::Done(RoutineOutput::Row(None)));
        }
        if self.columns.is_empty() {
            return Ok(Step::Done(RoutineOutput::Row(Some(vec![row.as_value()]))));
        }
        check_types(&row.columns, &self.columns)?;
        let values = fit_row(row.values.clone(), &row.columns, &self.columns, cx.eval)?;
        Ok(Step::Done(RoutineOutput::Row(Some(values))))
    }

    /// Runs RETURN without a value.
    fn finish(&mut self, eval: &EvalContext) -> Result<Step, SqlError> {
        let Some(routine) = &self.body.routine else {
            return Ok(Step::Done(RoutineOutput::Row(None)));
        };
        if routine.result.set {
            return Ok(Step::Done(RoutineOutput::Set(std::mem::take(
                &mut self.set,
            ))));
        }
        let outputs = self.outputs(eval)?;
        let is_void = routine.kind == RoutineKind::Function
            && routine.result.ty.kind == TypeKind::Void
            && !routine.result.trigger;
        Ok(Step::Done(RoutineOutput::Row(match outputs.is_empty() {
            true if is_void => Some(vec![Value::text("")]),
            true => None,
            false => Some(outputs),
        })))
    }

    /// Handles the end of the body without RETURN.
    pub fn ended(&mut self, eval: &EvalContext) -> Result<Step, SqlError> {
        if let Some(routine) = &self.body.routine {
            let void = routine.result.ty.kind == TypeKind::Void && !routine.result.trigger;
            let outputs = routine.outputs().next().is_some();
            if !void && !routine.result.set && !outputs {
                return Err(SqlError::new(
                    SqlState::new(b"2F005"),
                    match routine.result.trigger {
                        true => "control reached end of trigger procedure without RETURN",
                        false => "control reached end of function without RETURN",
                    },
                ));
            }
        }
        self.finish(eval)
    }

    pub fn gather(&mut self, row: Vec<Value>, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        self.gathered.add_row(cx, &row)?;
        self.set.push(row);
        Ok(())
    }

    /// Returns the columns of the rows that the routine returns.
    pub fn wanted_columns(&self) -> Vec<(String, Type)> {
        match self.columns.is_empty() {
            false => self.columns.clone(),
            true => vec![(String::new(), self.lone_type())],
        }
    }

    /// Returns the type of its single value.
    pub fn lone_type(&self) -> Type {
        match (self.columns.as_slice(), &self.body.routine) {
            ([(_, ty)], _) => *ty,
            (_, Some(routine)) => routine.result.ty,
            (_, None) => Type::of(TypeKind::Void),
        }
    }

    /// Returns the values of the output arguments.
    pub fn outputs(&self, eval: &EvalContext) -> Result<Vec<Value>, SqlError> {
        let args = self.body.routine.iter().flat_map(|routine| &routine.args);
        let outputs = args.zip(&self.body.code.args);
        let outputs = outputs.filter(|(arg, _)| arg.mode.is_output());
        let mut values: Vec<Value> = outputs
            .map(|(_, variable)| self.slots.get(*variable))
            .collect();
        let routine = self.body.routine.as_ref();
        let whole = routine.is_some_and(|of| of.result.ty.kind.as_composite().is_some());
        if whole && values.len() == 1 {
            // The only output argument is the whole row.
            let row = unpacked(values.swap_remove(0), &self.columns, eval)?;
            return Ok(row.unwrap_or_else(|| vec![Value::Null; self.columns.len()]));
        }
        Ok(values)
    }
}

/// Returns error 42804 unless the value is a row or NULL.
fn record_only(value: Value) -> Result<Value, SqlError> {
    match value {
        Value::Null | Value::Record(_) => Ok(value),
        _ => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            "cannot return non-composite value from function returning composite type",
        )),
    }
}
