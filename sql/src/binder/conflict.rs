//! ON CONFLICT.
//!
//! The expressions of DO UPDATE see the existing row by the table's name, and the proposed row as
//! `excluded`. Both have all columns, so an unqualified column is ambiguous, as in PostgreSQL.

use std::rc::Rc;

use sqlparser::ast;

use super::expr::Clause;
use super::from::table_leaf;
use super::needs::Columns;
use super::scope::Scope;
use super::updatable::ViewChain;
use super::{Binder, names};
use crate::bound::{ConflictUpdate, Expr, Node, OnConflict};
use crate::catalog::{Event, IndexDef, TableDef};
use crate::error::{SqlError, SqlState};
use crate::parser;

impl Binder<'_> {
    pub(super) fn conflict(
        &mut self,
        (table, through): (&TableDef, Option<&ViewChain>),
        (alias, reads): (Option<&str>, &Columns),
        conflict: &ast::OnConflict,
    ) -> Result<OnConflict, SqlError> {
        let base = through.map_or(table, |through| &*through.base);
        let index = match &conflict.conflict_target {
            None => None,
            Some(ast::ConflictTarget::Columns(idents)) => {
                let filter = self.conflict_filter(table)?;
                let arbiter = self.arbiter((table, through), idents, filter)?;
                let index = &base.indexes[arbiter];
                let columns = table.columns.iter().enumerate();
                let read = columns.filter(|(at, _)| match through {
                    None => index.depends_on(*at),
                    Some(through) => {
                        let to = through.written(*at, Event::Insert);
                        to.is_ok_and(|to| index.depends_on(to))
                    }
                });
                let numbers = read.map(|(_, column)| column.attnum);
                reads.borrow_mut().extend(numbers);
                Some(arbiter)
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => Some(constraint(table, name)?),
        };
        let arbiter = |(at, of): &(usize, &IndexDef)| {
            of.more.deferrable.is_some() && index.is_none_or(|index| index == *at)
        };
        if base.indexes.iter().enumerate().any(|of| arbiter(&of)) {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "ON CONFLICT does not support deferrable unique constraints/exclusion constraints \
                 as arbiters",
            ));
        }
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
                Some(self.conflict_update(table, (alias, reads), update)?)
            }
        };
        Ok(OnConflict { index, update })
    }

    /// Returns the conditions of `ON CONFLICT (…) WHERE …`.
    fn conflict_filter(&mut self, table: &TableDef) -> Result<Vec<Expr>, SqlError> {
        let Some(filter) = parser::conflict_filter(self.text)? else {
            return Ok(Vec::new());
        };
        let mut scope = Scope::default();
        scope.push(table_leaf(table, None, 0))?;
        let filter = self.filter(&filter, &scope)?;
        Ok(match filter.node {
            Node::And(parts) => parts,
            _ => vec![filter],
        })
    }

    /// Returns the arbiter: the unique index over exactly these columns that covers every row for
    /// which `filter` is true.
    fn arbiter(
        &mut self,
        (table, through): (&TableDef, Option<&ViewChain>),
        idents: &[ast::Ident],
        mut filter: Vec<Expr>,
    ) -> Result<usize, SqlError> {
        let mut wanted = Vec::with_capacity(idents.len());
        let mut expressions = Vec::new();
        let mut named = Vec::new();
        // If the target contains an expression, sqlparser has not parsed the column names either.
        let idents = match parser::conflict_target(self.text)? {
            None => idents,
            Some(target) => {
                let mut scope = Scope::default();
                scope.push(table_leaf(table, None, 0))?;
                for part in target {
                    match part {
                        ast::Expr::Identifier(ident) => named.push(ident),
                        expr => {
                            expressions.push(self.scalar(&expr, &scope, Clause::IndexExpression)?)
                        }
                    }
                }
                &named
            }
        };
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
        let mut table = table;
        if let Some(through) = through {
            // The target names columns of the view; replace them by columns of the base table.
            let place = |slot: usize| through.columns.get(slot).cloned();
            let below = expressions.iter_mut().chain(&mut filter);
            below.for_each(|expr| expr.replace_columns(&place));
            let mut columns = Vec::with_capacity(wanted.len());
            for column in wanted {
                match through.columns[column].node {
                    Node::Column(slot) => columns.push(slot),
                    _ => expressions.push(through.columns[column].clone()),
                }
            }
            wanted = columns;
            table = &*through.base;
        }
        let fits = table.indexes.iter().position(|index| {
            index.is_unique()
                && !index.is_hidden()
                && table.is_whole(index)
                && has_all(index, &filter)
                && wanted.iter().all(|c| index.covers(*c))
                && index
                    .columns
                    .iter()
                    .all(|c| match index.expression(c.column) {
                        None => wanted.contains(&c.column),
                        Some(of) => expressions.contains(&of.value),
                    })
                && expressions
                    .iter()
                    .all(|e| index.more.expressions.iter().any(|of| of.value == *e))
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
        (alias, reads): (Option<&str>, &Columns),
        update: &ast::DoUpdate,
    ) -> Result<ConflictUpdate, SqlError> {
        let mut scope = Scope::default();
        let mut leaf = table_leaf(table, alias.map(str::to_owned), 0);
        leaf.reads = Some(Rc::clone(reads));
        scope.push(leaf)?;
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

/// Returns whether the index surely has an entry for every row that satisfies the conditions.
fn has_all(index: &IndexDef, filter: &[Expr]) -> bool {
    let Some(predicate) = &index.more.predicate else {
        return true;
    };
    match &predicate.condition.node {
        Node::And(parts) => parts.iter().all(|part| filter.contains(part)),
        _ => filter.contains(&predicate.condition),
    }
}

/// Returns the position of the index of the constraint `name`.
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
