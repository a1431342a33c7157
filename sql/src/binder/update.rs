//! UPDATE.

use std::rc::Rc;

use sqlparser::ast;

use super::expr::{Clause, ExprContext};
use super::from::table_leaf;
use super::insert::is_default;
use super::overriding::check_settable;
use super::row_compare::row_of;
use super::rules::Change;
use super::scope::{Scope, ScopeLeaf};
use super::subfield::ColumnPath;
use super::subquery::query_of;
use super::{Binder, names};
use crate::bound::{Assignment, Expr, From, Integrity, Node, Statement, Update};
use crate::catalog::acl::Privileges;
use crate::catalog::{Event, TableDef};
use crate::error::{SqlError, SqlState};
use crate::functions::changes_a_part;

impl Binder<'_> {
    pub(super) fn update(&mut self, update: &ast::Update) -> Result<Statement, SqlError> {
        if update.or.is_some()
            || update.output.is_some()
            || !update.order_by.is_empty()
            || update.limit.is_some()
            || !update.table.joins.is_empty()
        {
            return Err(SqlError::unsupported("this form of UPDATE"));
        }
        let ast::TableFactor::Table { name, alias, .. } = &update.table.relation else {
            return Err(SqlError::unsupported("UPDATE of what is not a table"));
        };
        let changing = self.changing_target(name, Event::Update)?;
        let (first_slot, width) = changing.slots();
        let (table, through) = (changing.table, changing.through);
        let alias_name = alias.as_ref().map(|a| names::fold(&a.name));
        let mut scope = Scope::default();
        let mut leaf = table_leaf(&table, alias_name.clone(), first_slot);
        let reads = self.need_change(&table, Privileges::UPDATE);
        leaf.reads = Some(Rc::clone(&reads));
        let alias_name = leaf.alias.clone();
        scope.push(leaf)?;
        scope.width = width;
        let from = match &update.from {
            None => None,
            Some(
                ast::UpdateTableFromKind::BeforeSet(list)
                | ast::UpdateTableFromKind::AfterSet(list),
            ) => match self.relations(list, &mut scope)? {
                From::Nothing => None,
                from => Some(from),
            },
        };
        let mut assignments = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            self.assignments(&table, assignment, &scope, &mut assignments)?;
        }
        let columns: Vec<usize> = assignments.iter().map(|a| a.column).collect();
        self.need_columns(&table, Privileges::UPDATE, &columns);
        let change = Change {
            updates: &columns,
            ..Change::default()
        };
        let integrity = match through {
            None => self.integrity(&table, change)?,
            Some(_) => Integrity::default(),
        };
        let current = self.current_of(update.selection.as_ref(), &table)?;
        let filter = match &update.selection {
            _ if current.is_some() => None,
            Some(filter) => Some(self.filter(filter, &scope)?),
            None => None,
        };
        let returning = match &update.returning {
            Some(items) => self.targets(items, &scope, Clause::Returning, None, None)?,
            None => Vec::new(),
        };
        let bound = Update {
            view: match through {
                None => self.instead_query(&table)?,
                Some(_) => None,
            },
            table,
            alias: alias_name,
            from,
            filter,
            current,
            assignments,
            integrity,
            returning,
        };
        match through {
            None => Ok(Statement::Update(Box::new(bound))),
            Some(through) => self.update_through(through, &reads, bound),
        }
    }

    /// Binds `column = value` or `(columns) = (values)`.
    pub(super) fn assignments(
        &mut self,
        table: &TableDef,
        assignment: &ast::Assignment,
        scope: &Scope,
        out: &mut Vec<Assignment>,
    ) -> Result<(), SqlError> {
        match (&assignment.target, &assignment.value) {
            (ast::AssignmentTarget::ColumnName(name), value) => {
                self.one_assignment(table, name, value, scope, out)
            }
            (ast::AssignmentTarget::Tuple(columns), value) if row_of(value).is_some() => {
                let values = row_of(value).unwrap_or_default();
                if columns.len() != values.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in columns.iter().zip(values) {
                    self.one_assignment(table, name, value, scope, out)?;
                }
                Ok(())
            }
            (ast::AssignmentTarget::Tuple(columns), value) if query_of(value).is_some() => {
                let Some(query) = query_of(value) else {
                    return Err(SqlError::internal("a query that is none"));
                };
                let mut around = ExprContext {
                    scope,
                    clause: Clause::Set,
                    aggregates: None,
                };
                let values = self.row_subquery(query, &mut around)?;
                if columns.len() != values.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in columns.iter().zip(values) {
                    let place = self.assigned_place(table, name, out)?;
                    check_settable(&table.columns[place.column])?;
                    self.put(table, place, value, scope, out)?;
                }
                Ok(())
            }
            _ => Err(SqlError::unsupported(
                "UPDATE of several columns from one source",
            )),
        }
    }

    fn one_assignment(
        &mut self,
        table: &TableDef,
        name: &ast::ObjectName,
        value: &ast::Expr,
        scope: &Scope,
        out: &mut Vec<Assignment>,
    ) -> Result<(), SqlError> {
        let place = self.assigned_place(table, name, out)?;
        let column = place.column;
        let definition = &table.columns[column];
        if is_default(value) {
            if !place.path.is_empty() {
                return Err(super::subfield::no_default(&place.path)?);
            }
            let value = self.default_of(definition)?;
            out.push(Assignment { column, value });
            return Ok(());
        }
        check_settable(definition)?;
        let bound = self.scalar(value, scope, Clause::Set)?;
        self.put(table, place, bound, scope, out)
            .map_err(|e| e.or_at(self.position_near(value)))
    }

    /// Assigns a value to a column or to a part of it; other parts of the column may have
    /// assignments already.
    fn put(
        &mut self,
        table: &TableDef,
        ColumnPath { column, path }: ColumnPath,
        value: Expr,
        scope: &Scope,
        out: &mut Vec<Assignment>,
    ) -> Result<(), SqlError> {
        let definition = &table.columns[column];
        if path.is_empty() {
            let value = self.assign(value, definition)?;
            out.push(Assignment { column, value });
            return Ok(());
        }
        let so_far = out.iter().position(|a| a.column == column);
        let before = match so_far {
            Some(at) => out[at].value.clone(),
            None => {
                let is_it = |leaf: &&ScopeLeaf| {
                    let origin = leaf.columns.get(column).and_then(|c| c.origin);
                    origin.is_some_and(|origin| origin.table == table.id)
                };
                let leaf = scope.leaves.iter().find(is_it);
                let leaf = leaf.ok_or_else(|| SqlError::internal("a table without its row"))?;
                leaf.found(column).expr
            }
        };
        let value = self.with_part(before, (definition, &path), value, scope)?;
        match so_far {
            Some(at) => out[at].value = value,
            None => out.push(Assignment { column, value }),
        }
        Ok(())
    }

    /// Returns the target of an assignment: a column without an assignment, or a part of a column
    /// that is not assigned as a whole.
    fn assigned_place(
        &self,
        table: &TableDef,
        name: &ast::ObjectName,
        out: &[Assignment],
    ) -> Result<ColumnPath, SqlError> {
        let parts = names::parts(name)?;
        let Some(first) = parts.first() else {
            return Err(SqlError::internal("an assignment without a column"));
        };
        let column = self.column_of(table, first)?;
        let path: Vec<ast::Ident> = parts[1..].iter().map(|part| (*part).clone()).collect();
        let in_parts = |a: &Assignment| {
            !path.is_empty()
                && matches!(&a.value.node, Node::Call { function, .. } if changes_a_part(function))
        };
        if out.iter().any(|a| a.column == column && !in_parts(a)) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "multiple assignments to same column \"{}\"",
                    names::fold(first)
                ),
            ));
        }
        Ok(ColumnPath { column, path })
    }
}
