//! UPDATE.

use sqlparser::ast;

use super::expr::{Around, Clause};
use super::from::table_leaf;
use super::given::check_settable;
use super::insert::is_default;
use super::rules::Change;
use super::scope::Scope;
use super::subquery::query_of;
use super::{Binder, names};
use crate::bound::{Assignment, From, Statement, Update};
use crate::catalog::TableDef;
use crate::catalog::acl::Privileges;
use crate::error::{SqlError, SqlState};

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
        let table = self.changed_table(name)?;
        let alias_name = alias.as_ref().map(|a| names::fold(&a.name));
        let mut scope = Scope::default();
        let mut leaf = table_leaf(&table, alias_name.clone(), 0);
        leaf.reads = Some(self.need_change(&table, Privileges::UPDATE));
        let shown = leaf.alias.clone();
        scope.push(leaf)?;
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
        let integrity = self.integrity(&table, change)?;
        let filter = match &update.selection {
            Some(filter) => Some(self.filter(filter, &scope)?),
            None => None,
        };
        let returning = match &update.returning {
            Some(items) => self.targets(items, &scope, Clause::Returning, None, None)?,
            None => Vec::new(),
        };
        Ok(Statement::Update(Box::new(Update {
            table,
            alias: shown,
            from,
            filter,
            assignments,
            integrity,
            returning,
        })))
    }

    /// `column = value` or `(columns) = (values)`.
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
            (ast::AssignmentTarget::Tuple(columns), ast::Expr::Tuple(values)) => {
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
                let around = Around {
                    scope,
                    clause: Clause::Set,
                    aggregates: None,
                };
                let values = self.row_subquery(query, &around)?;
                if columns.len() != values.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in columns.iter().zip(values) {
                    let column = self.assigned_column(table, name, out)?;
                    check_settable(&table.columns[column])?;
                    let value = self.assign(value, &table.columns[column])?;
                    out.push(Assignment { column, value });
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
        let column = self.assigned_column(table, name, out)?;
        let definition = &table.columns[column];
        let value = if is_default(value) {
            self.default_of(definition)?
        } else {
            check_settable(definition)?;
            let bound = self.scalar(value, scope, Clause::Set)?;
            self.assign(bound, definition)
                .map_err(|e| e.or_at(self.position_near(value)))?
        };
        out.push(Assignment { column, value });
        Ok(())
    }

    /// The column that an assignment means, which has none yet.
    fn assigned_column(
        &self,
        table: &TableDef,
        name: &ast::ObjectName,
        out: &[Assignment],
    ) -> Result<usize, SqlError> {
        let parts = names::parts(name)?;
        let Some(first) = parts.first() else {
            return Err(SqlError::internal("an assignment without a column"));
        };
        let column = self.column_of(table, first)?;
        if parts.len() > 1 {
            return Err(SqlError::unsupported("UPDATE of a part of a column"));
        }
        if out.iter().any(|a| a.column == column) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "multiple assignments to same column \"{}\"",
                    names::fold(first)
                ),
            ));
        }
        Ok(column)
    }
}
