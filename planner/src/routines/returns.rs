//! What a body gives: RETURN with a value or without, the rows of a set, and what falls off the end.

use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use super::machine::{Machine, Step};
use super::returned::{Returned, fit, fit_row, mismatch};
use super::variables::Slot;
use crate::exec::Cx;

impl Machine {
    pub async fn returns(&mut self, value: Option<usize>, cx: &mut Cx<'_>) -> Result<Step, Halt> {
        let Some(text) = value else {
            return self.finish(cx.eval).map_err(Halt::Error);
        };
        let (value, ty) = self.value(text, cx).await?;
        let row = self.body.routine.as_ref().is_some_and(|r| r.gives_row());
        if self.body.routine.as_ref().is_some_and(|r| r.result.trigger) || row {
            if value.is_null() {
                return Ok(Step::Done(Returned::Row(None)));
            }
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                "cannot return non-composite value from function returning composite type",
            )
            .into());
        }
        let value = fit(value, &ty, &self.lone_type(), cx.eval)?;
        Ok(Step::Done(Returned::Row(Some(vec![value]))))
    }

    pub fn returns_row(&mut self, variable: usize, cx: &Cx<'_>) -> Result<Step, SqlError> {
        let trigger = self.body.routine.as_ref().is_some_and(|r| r.result.trigger);
        let Some(Slot::Row(Some(row))) = self.slots.0.get(variable) else {
            // A record that has had no row yet is NULL.
            return match trigger {
                true => Ok(Step::Done(Returned::Row(None))),
                false => self.slots.row(&self.body.code, variable).map(|_| Step::Go),
            };
        };
        if trigger {
            let row = self.returns_trigger_row(row)?;
            return Ok(Step::Done(Returned::Row(row)));
        }
        let gives_row = self.body.routine.as_ref().is_some_and(|r| r.gives_row());
        if !gives_row {
            return Err(mismatch());
        }
        let values = fit_row(row.values.clone(), &row.columns, &self.columns, cx.eval)?;
        Ok(Step::Done(Returned::Row(Some(values))))
    }

    /// RETURN without a value.
    fn finish(&mut self, eval: &EvalContext) -> Result<Step, SqlError> {
        let Some(routine) = &self.body.routine else {
            return Ok(Step::Done(Returned::Row(None)));
        };
        if routine.result.set {
            return Ok(Step::Done(Returned::Set(std::mem::take(&mut self.set))));
        }
        let outputs = self.outputs(eval)?;
        Ok(Step::Done(Returned::Row(match outputs.is_empty() {
            true => None,
            false => Some(outputs),
        })))
    }

    /// The end of the body.
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

    pub fn gather(&mut self, row: Vec<Value>, cx: &mut Cx<'_>) -> Result<(), Halt> {
        self.gathered.add_row(cx, &row)?;
        self.set.push(row);
        Ok(())
    }

    /// The columns of a row that it is to give.
    pub fn wanted_columns(&self) -> Vec<(String, Type)> {
        match self.columns.is_empty() {
            false => self.columns.clone(),
            true => vec![(String::new(), self.lone_type())],
        }
    }

    /// The type of its one value.
    pub fn lone_type(&self) -> Type {
        match (self.columns.as_slice(), &self.body.routine) {
            ([(_, ty)], _) => *ty,
            (_, Some(routine)) => routine.result.ty,
            (_, None) => Type::of(TypeKind::Void),
        }
    }

    /// The values of the arguments that come out.
    pub fn outputs(&self, _: &EvalContext) -> Result<Vec<Value>, SqlError> {
        let args = self.body.routine.iter().flat_map(|routine| &routine.args);
        let outputs = args.zip(&self.body.code.args);
        let outputs = outputs.filter(|(arg, _)| arg.mode.is_output());
        Ok(outputs
            .map(|(_, variable)| self.slots.get(*variable))
            .collect())
    }
}
