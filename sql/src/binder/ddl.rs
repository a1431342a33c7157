//! CREATE, DROP, ALTER and TRUNCATE.

mod alter;
mod alter_action;
mod alter_column;
mod column_errors;
mod constraint;
mod constraint_actions;
mod identity;
mod like;
mod operator_class;
mod partition;
mod partition_hierarchy;
mod storage_options;
mod table;
mod text;

use std::sync::Arc;

use sqlparser::ast;

pub(super) use table::{check_column_type, check_rows_of_tables, default_error};
pub(super) use text::{bare, text_of, unqualified};

use super::collation::{collatable, collation_of};
use super::column_name::column_name;
use super::expr::Clause;
use super::rules::{index_condition_with, index_expression_with};
use super::{Binder, index_condition, index_expression, names};
use crate::bound::{
    CreateIndex, DropAbsent, DropIndex, DropTable, KeyConstraint, Statement, Truncate, Volatility,
};
use crate::catalog::{
    EXPRESSION, Event, IndexColumn, IndexExpression, IndexKind, IndexMore, KeyOptions, Predicate,
    TableDef,
};
use crate::error::{SqlError, SqlState};
use crate::parser::{drops_concurrently, included, index_only, position_of, storage_options};

/// Refuses options that are not storage parameters of PostgreSQL; those are accepted.
pub(super) fn check_storage_options(options: &ast::CreateTableOptions) -> Result<(), SqlError> {
    partition::Options::of(options)?.check_plain()
}

impl Binder<'_> {
    pub(super) fn create_index(
        &mut self,
        create: &ast::CreateIndex,
    ) -> Result<Statement, SqlError> {
        if let Some(view) = self.view(&create.table_name)? {
            let message = format!("cannot create index on relation \"{}\"", view.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .detail("This operation is not supported for views."));
        }
        let table = self.table(&create.table_name)?;
        let kind = match &create.using {
            None | Some(ast::IndexType::BTree) => IndexKind::BTree,
            Some(ast::IndexType::Hash) => IndexKind::Hash,
            Some(ast::IndexType::BRIN) if create.unique => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "access method \"brin\" does not support unique indexes",
                ));
            }
            // The columns of a BRIN index are checked, but no index is created.
            Some(ast::IndexType::BRIN) => IndexKind::BTree,
            Some(other) => {
                return Err(SqlError::unsupported(format!("access method {other}")));
            }
        };
        let mut more = IndexMore {
            nulls_equal: create.unique && create.nulls_distinct == Some(false),
            ..IndexMore::default()
        };
        let columns = self.index_columns(&table, &create.columns, kind, &mut more)?;
        more.options = storage_options(self.text)?;
        for ident in &create.include {
            let name = names::fold(ident);
            more.include.push(table.column(&name).ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" does not exist"),
                )
            })?);
        }
        if let Some(predicate) = &create.predicate {
            let predicate = unqualified(predicate, (&table.schema, &table.name));
            let text = text_of(bare(&predicate));
            let condition = index_condition(&table, &text, self.catalog);
            let condition =
                condition.map_err(|e| self.lone_error(e, &table, &text, Clause::IndexPredicate))?;
            let settings = Arc::clone(&self.cx.settings);
            let rebound = index_condition_with(&table, &text, self.catalog, settings)?;
            if condition.volatility() != Volatility::Immutable || rebound != condition {
                return Err(SqlError::new(
                    SqlState::INVALID_OBJECT_DEFINITION,
                    "functions in index predicate must be marked IMMUTABLE",
                ));
            }
            more.predicate = Some(Predicate { text, condition });
        }
        if kind == IndexKind::Hash && columns.iter().any(|c| c.desc || c.nulls_first) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "access method \"hash\" does not support ASC/DESC options",
            ));
        }
        if create.unique {
            let columns: Vec<usize> = columns.iter().map(|c| c.column).collect();
            partition_hierarchy::check_key(&table, &columns, "UNIQUE")?;
        }
        let name = match &create.name {
            Some(name) => Some(names::table_name(name)?.1),
            None => None,
        };
        if matches!(create.using, Some(ast::IndexType::BRIN)) {
            let name = name.map_or_else(|| "the index".to_owned(), |name| format!("\"{name}\""));
            return Ok(Statement::DropAbsent(DropAbsent {
                command: "CREATE INDEX",
                notice: format!("{name} is not created: there is no access method \"brin\""),
            }));
        }
        Ok(Statement::CreateIndex(CreateIndex {
            name,
            concurrently: create.concurrently,
            if_not_exists: create.if_not_exists,
            only: index_only(self.text),
            table,
            kind,
            unique: create.unique,
            columns,
            more,
        }))
    }

    /// Returns the error for an expression that cannot be bound with types alone. If the reason is
    /// a user-defined function, the error says so.
    fn lone_error(
        &mut self,
        error: SqlError,
        table: &TableDef,
        text: &str,
        clause: Clause,
    ) -> SqlError {
        let refused = |error: &SqlError| error.sqlstate() == SqlState::FEATURE_NOT_SUPPORTED;
        match self.stored(table, text, clause) {
            Err(with_all) if refused(&with_all) => with_all,
            _ => error,
        }
    }

    fn index_columns(
        &mut self,
        table: &TableDef,
        list: &[ast::IndexColumn],
        kind: IndexKind,
        more: &mut IndexMore,
    ) -> Result<Vec<IndexColumn>, SqlError> {
        let mut columns = Vec::with_capacity(list.len());
        for item in list {
            let mut look = KeyOptions::default();
            let mut expr = &item.column.expr;
            if let ast::Expr::Collate {
                expr: of,
                collation,
            } = expr
            {
                look.collation = Some(collation_of(collation)?);
                expr = of;
            }
            let (column, ty) = match bare(expr) {
                ast::Expr::Identifier(ident) => {
                    let name = names::fold(ident);
                    let column = table.column(&name).ok_or_else(|| {
                        SqlError::new(
                            SqlState::UNDEFINED_COLUMN,
                            format!("column \"{name}\" does not exist"),
                        )
                    })?;
                    (column, table.columns[column].ty)
                }
                expression => {
                    let new = self.new_index_expression(table, expression, &more.expressions)?;
                    let ty = new.value.ty;
                    more.expressions.push(new);
                    (EXPRESSION + more.expressions.len() - 1, ty)
                }
            };
            if look.collation.is_some() {
                collatable(ty)?;
            }
            if let Some(class) = &item.operator_class {
                look.class = operator_class::check(class, kind, ty)?;
            }
            more.looks.push(look);
            let desc = item.column.options.asc == Some(false);
            columns.push(IndexColumn {
                column,
                desc,
                nulls_first: item.column.options.nulls_first.unwrap_or(desc),
            });
        }
        if more.looks.iter().all(|look| *look == KeyOptions::default()) {
            more.looks.clear();
        }
        Ok(columns)
    }

    /// Returns a new expression column of an index, with a name that none of `others` has.
    fn new_index_expression(
        &mut self,
        table: &TableDef,
        expression: &ast::Expr,
        others: &[IndexExpression],
    ) -> Result<IndexExpression, SqlError> {
        let expression = &unqualified(expression, (&table.schema, &table.name));
        let text = text_of(expression);
        let value = index_expression(table, &text, self.catalog);
        let value = value.map_err(|e| self.lone_error(e, table, &text, Clause::IndexExpression))?;
        let settings = Arc::clone(&self.cx.settings);
        let rebound = index_expression_with(table, &text, self.catalog, settings)?;
        if value.volatility() != Volatility::Immutable || rebound != value {
            return Err(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                "functions in index expression must be marked IMMUTABLE",
            ));
        }
        let named = Some(column_name(expression)).filter(|name| name != "?column?");
        let stem = named.unwrap_or_else(|| "expr".to_owned());
        let mut name = stem.clone();
        let mut number = 0;
        while others.iter().any(|other| other.name == name) {
            number += 1;
            name = format!("{stem}{number}");
        }
        Ok(IndexExpression { name, text, value })
    }

    pub(super) fn drop(
        &mut self,
        object_type: &ast::ObjectType,
        if_exists: bool,
        list: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<Statement, SqlError> {
        match object_type {
            ast::ObjectType::Table => self.drop_tables((if_exists, cascade), list, false),
            ast::ObjectType::MaterializedView => self.drop_tables((if_exists, cascade), list, true),
            ast::ObjectType::Index => self.drop_indexes((if_exists, cascade), list),
            ast::ObjectType::View => self.drop_views(if_exists, list, cascade),
            other => Err(SqlError::unsupported(format!("DROP {other}"))),
        }
    }

    fn drop_tables(
        &mut self,
        (if_exists, cascade): (bool, bool),
        list: &[ast::ObjectName],
        materialized: bool,
    ) -> Result<Statement, SqlError> {
        let what = match materialized {
            true => "materialized view",
            false => "table",
        };
        let wrong = |qualified: &str, hint: &str| {
            let message = match materialized {
                true => format!("\"{qualified}\" is not a materialized view"),
                false => format!("\"{qualified}\" is not a table"),
            };
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint))
        };
        let mut drop = DropTable {
            tables: Vec::new(),
            materialized,
            cascade,
            missing: Vec::new(),
        };
        for name in list {
            let (schema, name) = names::table_name(name)?;
            let qualified = names::qualified_name(schema.as_deref(), &name);
            self.check_schema(schema.as_deref(), if_exists)?;
            match self.catalog.table(schema.as_deref(), &name)? {
                Some(table) if table.materialized.is_some() != materialized => {
                    return match materialized {
                        true => wrong(&qualified, "Use DROP TABLE to remove a table."),
                        false => wrong(
                            &qualified,
                            "Use DROP MATERIALIZED VIEW to remove a materialized view.",
                        ),
                    };
                }
                Some(table) if drop.tables.iter().any(|t| t.id == table.id) => {}
                Some(table) => drop.tables.push(table),
                None if self.catalog.view(schema.as_deref(), &name)?.is_some() => {
                    return wrong(&qualified, "Use DROP VIEW to remove a view.");
                }
                None if if_exists => drop.missing.push(qualified),
                None => {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_TABLE,
                        format!("{what} \"{qualified}\" does not exist"),
                    ));
                }
            }
        }
        Ok(Statement::DropTable(drop))
    }

    fn drop_indexes(
        &mut self,
        (if_exists, cascade): (bool, bool),
        list: &[ast::ObjectName],
    ) -> Result<Statement, SqlError> {
        let mut drop = DropIndex {
            indexes: Vec::new(),
            cascade,
            concurrently: drops_concurrently(self.text),
            missing: Vec::new(),
        };
        for name in list {
            let (schema, name) = names::table_name(name)?;
            let qualified = names::qualified_name(schema.as_deref(), &name);
            self.check_schema(schema.as_deref(), if_exists)?;
            match self.catalog.table_of_index(schema.as_deref(), &name)? {
                Some(table) => drop.indexes.push((table, name)),
                None if if_exists => drop.missing.push(qualified),
                None => {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("index \"{qualified}\" does not exist"),
                    ));
                }
            }
        }
        Ok(Statement::DropIndex(drop))
    }

    pub(super) fn truncate(&mut self, truncate: &ast::Truncate) -> Result<Statement, SqlError> {
        let mut tables = Vec::with_capacity(truncate.table_names.len());
        for target in &truncate.table_names {
            let (schema, _) = names::table_name(&target.name)?;
            self.check_schema(schema.as_deref(), false)?;
            if let Some(view) = self.view(&target.name)? {
                let message = format!("\"{}\" is not a table", view.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            let table = self.table(&target.name)?;
            let position = match target.name.0.first() {
                Some(ast::ObjectNamePart::Identifier(ident)) => self.position(ident.span),
                _ => 0,
            };
            if table.materialized.is_some() {
                let message = format!("\"{}\" is not a table", table.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            if table.is_parent() && self.says_only(position) {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "cannot truncate only a partitioned table",
                )
                .hint(
                    "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions \
                     directly.",
                ));
            }
            if !tables.iter().any(|t: &Arc<TableDef>| t.id == table.id) {
                tables.push(table);
            }
        }
        let cascade = matches!(truncate.cascade, Some(ast::CascadeOption::Cascade));
        let (named, mut next) = (tables.len(), 0);
        while cascade && next < tables.len() {
            for child in &Arc::clone(&tables[next]).rules.referenced_by {
                if tables.iter().all(|t: &Arc<TableDef>| t.id != *child) {
                    tables.extend(self.catalog.table_by_id(*child)?);
                }
            }
            next += 1;
        }
        let restart = matches!(
            truncate.identity,
            Some(ast::TruncateIdentityOption::Restart)
        );
        let mut triggers = Vec::with_capacity(tables.len());
        for table in &tables {
            triggers.push(self.triggers(table, &|trigger| trigger.events.has(Event::Truncate))?);
        }
        Ok(Statement::Truncate(Truncate {
            tables,
            named,
            restart,
            triggers,
        }))
    }
}

fn key_constraint(
    text: &str,
    table: &TableDef,
    name: Option<&ast::Ident>,
    columns: &[ast::IndexColumn],
    what: &str,
) -> Result<KeyConstraint, SqlError> {
    let lookup = |name: &str| table.column(name);
    let key = key_columns(text, name, columns, &lookup)?;
    partition_hierarchy::check_key(table, &key.columns, what)?;
    Ok(key)
}

/// Returns a key constraint over columns that `lookup` finds by name.
fn key_columns(
    text: &str,
    name: Option<&ast::Ident>,
    list: &[ast::IndexColumn],
    lookup: &dyn Fn(&str) -> Option<usize>,
) -> Result<KeyConstraint, SqlError> {
    let mut columns = Vec::with_capacity(list.len());
    let mut last = 0;
    let found = |name: &str| {
        lookup(name).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" named in key does not exist"),
            )
        })
    };
    for item in list {
        let ast::Expr::Identifier(ident) = &item.column.expr else {
            return Err(SqlError::unsupported("a key on an expression"));
        };
        let start = ident.span.start;
        last = position_of(text, start.line, start.column);
        let column_name = names::fold(ident);
        let column = found(&column_name)?;
        if columns.contains(&column) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{column_name}\" appears twice in key constraint"),
            ));
        }
        columns.push(column);
    }
    Ok(KeyConstraint {
        name: name.map(names::fold),
        columns,
        deferrable: None,
        nulls_equal: false,
        options: Vec::new(),
        include: included(text, last)
            .iter()
            .map(|name| found(name))
            .collect::<Result<_, _>>()?,
    })
}
