//! ON CONFLICT.
//!
//! The expressions of DO UPDATE see the row that is there, by the table's name, and the one that was to go in, as
//! `excluded`. Both have all columns, so a column without a relation is ambiguous, as in PostgreSQL.

use sqlparser::ast;

use super::from::table_leaf;
use super::scope::Scope;
use super::{Binder, names};
use crate::bound::{ConflictUpdate, OnConflict};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};

impl Binder<'_> {
    pub(super) fn conflict(
        &mut self,
        table: &TableDef,
        alias: Option<&str>,
        conflict: &ast::OnConflict,
    ) -> Result<OnConflict, SqlError> {
        let index = match &conflict.conflict_target {
            None => None,
            Some(ast::ConflictTarget::Columns(idents)) => Some(self.arbiter(table, idents)?),
            Some(ast::ConflictTarget::OnConstraint(name)) => Some(constraint(table, name)?),
        };
        let update = match &conflict.action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(_) if index.is_none() => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .hint("For example, ON CONFLICT (column_name)."));
            }
            ast::OnConflictAction::DoUpdate(update) => {
                Some(self.conflict_update(table, alias, update)?)
            }
        };
        Ok(OnConflict { index, update })
    }

    /// The unique index over just these columns.
    fn arbiter(&self, table: &TableDef, idents: &[ast::Ident]) -> Result<usize, SqlError> {
        let mut wanted = Vec::with_capacity(idents.len());
        for ident in idents {
            let name = names::fold(ident);
            wanted.push(table.column(&name).ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" does not exist"),
                )
                .or_at(self.position(ident.span))
            })?);
        }
        let fits = table.indexes.iter().position(|index| {
            index.unique
                && !index.is_hidden()
                && !index.is_partial()
                && index.columns.iter().all(|c| wanted.contains(&c.column))
                && wanted.iter().all(|c| index.covers(*c))
        });
        fits.ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "there is no unique or exclusion constraint matching the ON CONFLICT specification",
            )
        })
    }

    fn conflict_update(
        &mut self,
        table: &TableDef,
        alias: Option<&str>,
        update: &ast::DoUpdate,
    ) -> Result<ConflictUpdate, SqlError> {
        let mut scope = Scope::default();
        scope.push(table_leaf(table, alias.map(str::to_owned), 0))?;
        let excluded = Some("excluded".to_owned());
        scope.push(table_leaf(table, excluded, table.columns.len()))?;
        let mut assignments = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            self.assignments(table, assignment, &scope, &mut assignments)?;
        }
        let filter = match &update.selection {
            Some(filter) => Some(self.filter(filter, &scope)?),
            None => None,
        };
        Ok(ConflictUpdate {
            assignments,
            filter,
        })
    }
}

/// The index of the constraint called `name`.
fn constraint(table: &TableDef, name: &ast::ObjectName) -> Result<usize, SqlError> {
    let (_, name) = names::table_name(name)?;
    let mut indexes = table.indexes.iter();
    let fits = indexes.position(|index| index.constraint && index.name == name);
    fits.ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!(
                "constraint \"{name}\" for table \"{}\" does not exist",
                table.name
            ),
        )
    })
}
