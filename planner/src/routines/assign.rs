//! Assignments to variables.

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{IntoClause, Target, VariableKind};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Fields, Type};
use fencepost_sql::value::Value;

use super::machine::BodyExecution;
use super::returned::fit;
use super::variables::{Row, Slot};
use crate::exec::Cx;

impl BodyExecution {
    /// Initializes a variable at its declaration.
    pub async fn declare(
        &mut self,
        variable: usize,
        value: Option<usize>,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let body = std::sync::Arc::clone(&self.body);
        let kind = &body.code.variables[variable].kind;
        match (kind, value) {
            (VariableKind::Cursor { .. }, _) => {
                let name = Value::text(body.code.variables[variable].name.as_str());
                self.slots.0[variable] = Slot::Value(name, Type::REFCURSOR);
            }
            (VariableKind::Record, None) => self.slots.0[variable] = Slot::Row(None),
            (VariableKind::Row(of), None) => {
                self.slots.0[variable] = Slot::Row(Some(Row::absent(*of)));
            }
            (VariableKind::Value(ty), None) => {
                let value = fit(Value::Null, &Type::UNKNOWN, ty, cx.eval)?;
                self.slots.0[variable] = Slot::Value(value, *ty);
            }
            (_, Some(value)) => {
                let (value, ty) = self.value(value, cx).await?;
                self.assign(&Target::Variable(variable), value, ty, cx)
                    .await?;
            }
        }
        Ok(())
    }

    /// Runs `target := value`.
    pub async fn assign(
        &mut self,
        target: &Target,
        value: Value,
        from: Type,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let body = std::sync::Arc::clone(&self.body);
        let code = &body.code;
        match target {
            Target::Variable(variable) => {
                let of = &code.variables[*variable];
                match &of.kind {
                    VariableKind::Value(ty) => {
                        if value.is_null() && of.not_null {
                            return Err(null_refused(&of.name).into());
                        }
                        // A variable of the compiler takes the type of its value.
                        let ty = if *ty == Type::UNKNOWN { from } else { *ty };
                        let value = fit(value, &from, &ty, cx.eval)?;
                        self.slots.0[*variable] = Slot::Value(value, ty);
                    }
                    VariableKind::Record | VariableKind::Row(_) if value.is_null() => {
                        if of.not_null {
                            return Err(null_refused(&of.name).into());
                        }
                        self.slots.0[*variable] = match of.kind {
                            VariableKind::Row(of) => Slot::Row(Some(Row::absent(of))),
                            _ => Slot::Row(from.kind.as_composite().map(Row::absent)),
                        };
                    }
                    VariableKind::Record | VariableKind::Row(_)
                        if let Value::Record(row) = value =>
                    {
                        let fields = row.fields.iter();
                        let columns: Vec<_> = fields.map(|f| (f.name.clone(), f.ty)).collect();
                        let values = (0..columns.len()).map(|at| row.get(at).clone());
                        self.set_row(*variable, Some(values.collect()), &columns, cx)?;
                        if let (Some(Slot::Row(Some(set))), Fields::Named(of)) =
                            (self.slots.0.get_mut(*variable), &row.fields)
                        {
                            set.of.get_or_insert(*of);
                        }
                    }
                    VariableKind::Record | VariableKind::Row(_) => {
                        return Err(SqlError::new(
                            SqlState::DATATYPE_MISMATCH,
                            "cannot assign non-composite value to a record variable",
                        )
                        .into());
                    }
                    VariableKind::Cursor { .. } => {
                        let value = fit(value, &from, &Type::REFCURSOR, cx.eval)?;
                        self.slots.0[*variable] = Slot::Value(value, Type::REFCURSOR);
                    }
                }
            }
            Target::Field(row, field) => {
                let of = self.slots.row(code, *row)?;
                let at = of.field(code, *row, field)?;
                let to = of.columns[at].1;
                let value = fit(value, &from, &to, cx.eval)?;
                if let Some(Slot::Row(Some(row))) = self.slots.0.get_mut(*row) {
                    row.values.resize(row.columns.len(), Value::Null);
                    row.values[at] = value;
                }
            }
            Target::Part(of, subscripts) => {
                self.assign_part(of, subscripts, (value, from), cx).await?
            }
        }
        Ok(())
    }

    /// Assigns a row, or no row, to a row variable or to one variable for each column.
    pub async fn assign_row(
        &mut self,
        into: &IntoClause,
        row: Option<Vec<Value>>,
        columns: &[(String, Type)],
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        if let [Target::Variable(variable)] = into.targets.as_slice()
            && self.body.code.is_row(*variable)
        {
            return Ok(self.set_row(*variable, row, columns, cx)?);
        }
        let mut values = row.unwrap_or_default().into_iter();
        let mut types = columns.iter().map(|(_, ty)| *ty);
        for target in &into.targets {
            let value = values.next().unwrap_or_default();
            let ty = types.next().unwrap_or(Type::UNKNOWN);
            self.assign(target, value, ty, cx).await?;
        }
        Ok(())
    }

    /// Sets a row variable to a row of these columns, or to no row.
    fn set_row(
        &mut self,
        variable: usize,
        row: Option<Vec<Value>>,
        columns: &[(String, Type)],
        cx: &Cx<'_>,
    ) -> Result<(), SqlError> {
        let new = match self.body.code.variables[variable].kind {
            VariableKind::Row(of) => {
                let mut new = Row::absent(of);
                let mut given = row.unwrap_or_default().into_iter().zip(columns);
                for (_, ty) in &new.columns {
                    new.values.push(match given.next() {
                        Some((value, (_, from))) => fit(value, from, ty, cx.eval)?,
                        None => fit(Value::Null, &Type::UNKNOWN, ty, cx.eval)?,
                    });
                }
                new
            }
            _ => Row {
                values: row.unwrap_or_else(|| vec![Value::Null; columns.len()]),
                columns: columns.to_vec(),
                of: None,
            },
        };
        self.slots.0[variable] = Slot::Row(Some(new));
        Ok(())
    }
}

/// Returns error 22004.
fn null_refused(name: &str) -> SqlError {
    SqlError::new(
        SqlState::new(b"22004"),
        format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL"),
    )
}
