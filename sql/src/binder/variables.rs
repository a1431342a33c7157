//! Names that are neither columns nor parameters: the arguments of a function, and the variables of PL/pgSQL.
//!
//! They are parameters of the statement in which they are named: who runs the statement knows which.

use sqlparser::ast;

use super::whole_row::field_at;
use super::{Binder, names};
use crate::bound::{Expr, Node};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};
use crate::types::{Composite, Fields, Type, TypeKind};

/// A variable that a name has been found to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variable {
    /// The parameter that it is, from 0.
    pub param: usize,
    /// Its type.
    pub ty: Type,
    /// The field of it that is meant, where it is of a composite type.
    pub field: Option<usize>,
}

/// What a name means that may be a column's, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// The column.
    Column,
    /// The variable.
    Variable,
    /// It is an error.
    Neither,
}

/// The variables that a statement may name.
pub trait Variables {
    /// The variable of a name, by its parts.
    fn find(&self, path: &[String]) -> Result<Option<Variable>, SqlError>;

    /// The fields of a row, by its name.
    fn fields(&self, path: &[String]) -> Result<Option<Vec<(String, Variable)>>, SqlError>;

    /// The place of the row of a table that a cursor is on, if the name is one's.
    fn place(&self, cursor: &str, table: (&str, u32)) -> Option<Variable>;

    /// A variable that holds a row of a table, and the type of the row.
    fn row_type(&self, _path: &[String]) -> Option<(Variable, Composite)> {
        None
    }

    /// The rows that go by a name in FROM: an array of a composite type.
    fn rows(&self, _name: &str) -> Result<Option<Variable>, SqlError> {
        Ok(None)
    }

    /// What a name means that may be a column's, too.
    fn prefer(&self) -> Prefer;
}

impl Binder<'_> {
    /// The variable of a name.
    pub(super) fn variable(&mut self, path: &[String]) -> Result<Option<Expr>, SqlError> {
        let Some(found) = self.variables else {
            return Ok(None);
        };
        let found = found.find(path)?;
        Ok(found.map(|found| self.parameter_of(found)))
    }

    /// The place of the row that a cursor variable is on.
    pub(super) fn place_variable(&mut self, name: &str, table: &TableDef) -> Option<Expr> {
        let variables = self.variables?;
        let found = variables.place(name, (&table.name, table.id))?;
        Some(self.parameter_of(found))
    }

    /// The rows that go by a name in FROM, if that is not a relation's.
    pub(super) fn rows_variable(
        &mut self,
        name: &ast::ObjectName,
    ) -> Result<Option<Expr>, SqlError> {
        let parts = names::parts(name)?;
        let (Some(variables), [name]) = (self.variables, parts.as_slice()) else {
            return Ok(None);
        };
        let found = variables.rows(&names::fold(name))?;
        Ok(found.map(|found| self.parameter_of(found)))
    }

    pub(super) fn parameter_of(&mut self, variable: Variable) -> Expr {
        let ty = variable.ty.plain();
        self.params.declare(variable.param, ty);
        let param = Expr::new(ty, Node::Param(variable.param));
        match (variable.field, ty.kind) {
            (Some(at), TypeKind::Composite(of)) => field_at(param, &Fields::Named(of), at),
            _ => param,
        }
    }

    /// What is meant by a name that has been found among the columns.
    pub(super) fn column_or_variable(
        &mut self,
        column: Expr,
        path: &[String],
    ) -> Result<Expr, SqlError> {
        let Some(variables) = self.variables else {
            return Ok(column);
        };
        match variables.prefer() {
            Prefer::Column => Ok(column),
            Prefer::Variable => Ok(self.variable(path)?.unwrap_or(column)),
            Prefer::Neither if variables.find(path)?.is_none() => Ok(column),
            Prefer::Neither => Err(SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{}\" is ambiguous", path.join(".")),
            )
            .detail("It could refer to either a PL/pgSQL variable or a table column.")),
        }
    }

    /// The fields of a row variable, for `name.*`.
    pub(super) fn row_fields(
        &mut self,
        name: &ast::ObjectName,
    ) -> Result<Option<Vec<(String, Expr)>>, SqlError> {
        let Some(variables) = self.variables else {
            return Ok(None);
        };
        let parts = names::parts(name)?;
        let path: Vec<String> = parts.iter().map(|part| names::fold(part)).collect();
        let fields = variables.fields(&path)?;
        Ok(fields.map(|fields| {
            fields
                .into_iter()
                .map(|(name, field)| (name, self.parameter_of(field)))
                .collect()
        }))
    }
}
