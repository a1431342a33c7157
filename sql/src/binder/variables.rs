//! Names that are neither columns nor parameters: the arguments of a function, and PL/pgSQL
//! variables.
//!
//! They become parameters of the statement that names them; the executor of the statement supplies
//! their values.

use sqlparser::ast;

use super::whole_row::field_at;
use super::{Binder, names};
use crate::bound::{Expr, Node};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};
use crate::types::{Composite, Fields, Type, TypeKind};

/// The variable that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variable {
    /// The number of its parameter, from 0.
    pub param: usize,
    /// Its type.
    pub ty: Type,
    /// The field that the name refers to, if the variable is composite.
    pub field: Option<usize>,
}

/// The resolution of a name that is both a column and a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePriority {
    /// The name refers to the column.
    Column,
    /// The name refers to the variable.
    Variable,
    /// The name is ambiguous, which is an error.
    Neither,
}

/// The variables that a statement may refer to.
pub trait Variables {
    /// Returns the variable with this qualified name.
    fn find(&self, path: &[String]) -> Result<Option<Variable>, SqlError>;

    /// Returns the fields of the row variable with this name.
    fn fields(&self, path: &[String]) -> Result<Option<Vec<(String, Variable)>>, SqlError>;

    /// Returns the row location of the cursor `cursor`, if it is a cursor variable on a row of this
    /// table.
    fn place(&self, cursor: &str, table: (&str, u32)) -> Option<Variable>;

    /// Returns the variable that holds a row of a table, with its row type.
    fn row_type(&self, _path: &[String]) -> Option<(Variable, Composite)> {
        None
    }

    /// Returns the rows that a name in FROM refers to: an array of a composite type.
    fn rows(&self, _name: &str) -> Result<Option<Variable>, SqlError> {
        Ok(None)
    }

    /// Returns how a name is resolved that is both a column and a variable.
    fn prefer(&self) -> NamePriority;
}

impl Binder<'_> {
    /// Returns the variable of a name.
    pub(super) fn variable(&mut self, path: &[String]) -> Result<Option<Expr>, SqlError> {
        let Some(found) = self.variables else {
            return Ok(None);
        };
        let found = found.find(path)?;
        Ok(found.map(|found| self.parameter_of(found)))
    }

    /// Returns the row location of a cursor variable.
    pub(super) fn place_variable(&mut self, name: &str, table: &TableDef) -> Option<Expr> {
        let variables = self.variables?;
        let found = variables.place(name, (&table.name, table.id))?;
        Some(self.parameter_of(found))
    }

    /// Returns the rows that a name in FROM refers to, if it is not the name of a relation.
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

    /// Resolves a name that is a column and may also be a variable.
    pub(super) fn column_or_variable(
        &mut self,
        column: Expr,
        path: &[String],
    ) -> Result<Expr, SqlError> {
        let Some(variables) = self.variables else {
            return Ok(column);
        };
        match variables.prefer() {
            NamePriority::Column => Ok(column),
            NamePriority::Variable => Ok(self.variable(path)?.unwrap_or(column)),
            NamePriority::Neither if variables.find(path)?.is_none() => Ok(column),
            NamePriority::Neither => Err(SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{}\" is ambiguous", path.join(".")),
            )
            .detail("It could refer to either a PL/pgSQL variable or a table column.")),
        }
    }

    /// Returns the fields of a row variable, for `name.*`.
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
