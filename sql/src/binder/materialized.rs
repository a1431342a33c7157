//! Materialized views: tables that contain the result of a query
//! ([`crate::catalog::Materialized`]).

use sqlparser::ast;

use super::path::PathView;
use super::system_columns::check_column_name;
use super::{Binder, ParamTypes, names};
use crate::bound::{CreateTable, LikeProperties, OnCommit, Refresh, RefreshView, Statement};
use crate::catalog::{
    ColumnDef, ColumnMore, EXPRESSION, IndexDef, IndexKind, Materialized, Object, ObjectKind,
    PUBLIC_SCHEMA, Storage, TableDef, ViewDef,
};
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident;
use crate::parser::{self, RefreshSyntax};

impl Binder<'_> {
    pub(super) fn create_materialized_view(
        &mut self,
        create: &ast::CreateView,
    ) -> Result<Statement, SqlError> {
        if create.or_replace || create.temporary || create.or_alter || create.to.is_some() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "a materialized view can neither be replaced nor be temporary",
            ));
        }
        super::ddl::check_storage_options(&create.options)?;
        let (schema, name) = names::table_name(&create.name)?;
        let schema = self.schema_for(schema)?;
        let defined = self.defining_query(create, "too many column names were specified")?;
        if self.reads_temporary(&defined) {
            let message = "materialized views must not use temporary tables or views";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let with_data = parser::data_clause(self.text).unwrap_or(true);
        if with_data {
            self.needs.extend(defined.needs);
        }
        let mut names = defined.columns.iter();
        names.try_for_each(|(name, _)| check_column_name(name))?;
        let columns = defined.columns.into_iter().zip(1..);
        let columns = columns.map(|((name, ty), attnum)| ColumnDef {
            name,
            ty,
            not_null: false,
            default: None,
            attnum,
            more: ColumnMore::default(),
        });
        Ok(Statement::CreateTable(CreateTable {
            schema,
            name,
            if_not_exists: create.if_not_exists,
            columns: columns.collect(),
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            sequences: Vec::new(),
            index_kind: IndexKind::BTree,
            source: Some(Box::new(defined.select)),
            with_data,
            on_commit: OnCommit::PreserveRows,
            materialized: Some(Box::new(Materialized {
                text: defined.text,
                tables: defined.tables,
                views: defined.views,
                types: defined.types,
                populated: with_data,
            })),
            partition_by: None,
            partition_key: None,
            partition_of: None,
            alike: LikeProperties::default(),
            storage: Storage {
                options: parser::storage_options(self.text)?,
                unlogged: false,
            },
        }))
    }

    /// Binds REFRESH MATERIALIZED VIEW.
    pub(super) fn refresh(&mut self, syntax: &RefreshSyntax) -> Result<Statement, SqlError> {
        if syntax.concurrently && !syntax.with_data {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "CONCURRENTLY and WITH NO DATA options cannot be used together",
            ));
        }
        let schema = syntax.schema.as_deref();
        let refused = |state: SqlState, what: &str| {
            let message = format!("\"{}\" is not a {what}", syntax.name);
            Err(SqlError::new(state, message))
        };
        if self.catalog.view(schema, &syntax.name)?.is_some() {
            return refused(SqlState::WRONG_OBJECT_TYPE, "table or materialized view");
        }
        let table = self.table_called(schema, &syntax.name)?;
        let Some(view) = table.as_view() else {
            return refused(SqlState::FEATURE_NOT_SUPPORTED, "materialized view");
        };
        let how = match (syntax.concurrently, syntax.with_data) {
            (_, false) => Refresh::Empty,
            (true, _) => Refresh::Concurrently(Box::new(self.changes_of(&table, &view)?)),
            (false, _) => Refresh::Anew(Box::new(self.query_of(&view, ObjectKind::Table)?)),
        };
        Ok(Statement::RefreshView(RefreshView { table, how }))
    }

    /// Returns the statements of a concurrent refresh. The first deletes the rows that the query no
    /// longer returns; the second inserts the missing ones. The columns of a unique index identify
    /// the rows.
    fn changes_of(&mut self, table: &TableDef, view: &ViewDef) -> Result<[Statement; 2], SqlError> {
        let populated = |of: &Materialized| of.populated;
        if !table.materialized.as_deref().is_some_and(populated) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "CONCURRENTLY cannot be used when the materialized view is not populated",
            ));
        }
        let tells = |index: &&IndexDef| {
            let by_columns = index.columns.iter().all(|key| key.column < EXPRESSION);
            index.unique && !index.is_hidden() && !index.is_partial() && by_columns
        };
        let Some(key) = table.indexes.iter().find(tells) else {
            let (schema, name) = (&table.schema, &table.name);
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot refresh materialized view \"{schema}.{name}\" concurrently"),
            )
            .hint(
                "Create a unique index with no WHERE clause on one or more columns of the \
                 materialized view.",
            ));
        };
        let quoted = |at: usize| quote_ident(&table.columns[at].name);
        let all: Vec<String> = (0..table.columns.len()).map(quoted).collect();
        let of = |alias: &str| {
            let columns: Vec<String> = all.iter().map(|name| format!("{alias}.{name}")).collect();
            columns.join(", ")
        };
        let keys = key.columns.iter().map(|key| quoted(key.column));
        let keys: Vec<String> = keys.map(|key| format!("mv.{key} = new.{key}")).collect();
        let same = format!(
            "{} AND ROW({}) IS NOT DISTINCT FROM ROW({})",
            keys.join(" AND "),
            of("mv"),
            of("new")
        );
        let name = format!(
            "{}.{}",
            quote_ident(&table.schema),
            quote_ident(&table.name)
        );
        let given = format!("({}) AS new ({})", view.text, all.join(", "));
        let delete = format!(
            "DELETE FROM {name} AS mv WHERE NOT EXISTS (SELECT 1 FROM {given} WHERE {same})"
        );
        let insert = format!(
            "INSERT INTO {name} SELECT {} FROM {given} WHERE NOT EXISTS (SELECT 1 FROM {name} \
             AS mv WHERE {same})",
            of("new")
        );
        Ok([
            self.own_change(&delete, view)?,
            self.own_change(&insert, view)?,
        ])
    }

    /// Binds a statement that changes a materialized view with the privileges of its owner.
    fn own_change(&mut self, text: &str, view: &ViewDef) -> Result<Statement, SqlError> {
        let Some(parsed) = parser::parse(text)?.pop() else {
            return Err(SqlError::internal("no statement to refresh with"));
        };
        let path = [view.schema.clone(), PUBLIC_SCHEMA.to_owned()];
        let along = PathView {
            catalog: self.catalog,
            path: &path,
        };
        let mut none = ParamTypes::default();
        let mut binder = Binder::of(text, (&along, &path), &mut none, (self.cx, self.depth));
        binder.refreshes = true;
        let object = Object::new(ObjectKind::Table, view.id);
        let security = self.catalog.security();
        binder.role = security.map(|security| security.owner(object));
        binder.asker = binder.role;
        let bound = binder.statement(parsed.statement())?;
        self.needs.extend(binder.needs);
        Ok(bound)
    }
}
