//! Views: named queries.
//!
//! The catalog stores the text of the query, with `*` expanded when the view was created. A view in
//! FROM is bound as a subquery. A plan depends on the tables of the view. To replace or drop a view
//! gives these tables new versions, so plans that use the view are rebuilt.

use std::cell::RefCell;
use std::sync::Arc;

use sqlparser::ast;

use super::alter_view::{check_options, check_updatable};
use super::ddl::check_column_type;
use super::needs::Need;
use super::path::PathView;
use super::scope::{ScopeColumn, ScopeLeaf};
use super::stars::{self, StarColumns};
use super::{Binder, ParamTypes, names};
use crate::bound::{ColumnOrigin, CreateView, DropView, NamedObject, Select, Statement};
use crate::catalog::{
    CatalogView, Object, ObjectKind, PUBLIC_SCHEMA, RoleDef, RoutineDef, Security, SequenceDef,
    TableDef, TypeDef, ViewDef,
};
use crate::error::{SqlError, SqlState};
use crate::parser::{spelled, view_options};
use crate::spelling::query_text;

impl Binder<'_> {
    /// Returns the view of this name; `None` if there is none.
    pub(super) fn view(&self, name: &ast::ObjectName) -> Result<Option<Arc<ViewDef>>, SqlError> {
        let (schema, name) = names::table_name(name)?;
        self.check_usage(schema.as_deref())?;
        let Some(view) = self.catalog.view(schema.as_deref(), &name)? else {
            return Ok(None);
        };
        if schema.is_none()
            && let Some(table) = self.catalog.table(None, &name)?
        {
            // The schema that comes first in the search path decides.
            let place = |schema: &String| self.path.iter().position(|of| of == schema);
            if place(&table.schema) < place(&view.schema) {
                return Ok(None);
            }
        }
        Ok(Some(view))
    }

    /// Returns the query of a view, and its scope entry.
    pub(super) fn expanded(
        &mut self,
        view: &ViewDef,
        alias: Option<String>,
        first_slot: usize,
    ) -> Result<(ScopeLeaf, Select), SqlError> {
        let mut select = self.query_of(view, ObjectKind::View)?;
        select.view = Some(view.id);
        let columns: Vec<ScopeColumn> = view
            .columns
            .iter()
            .zip(select.columns())
            .zip(1..)
            .map(|(((name, _), target), attnum)| ScopeColumn {
                name: name.clone(),
                ty: target.expr.ty,
                origin: Some(ColumnOrigin {
                    table: view.id,
                    attnum,
                }),
                hidden: false,
            })
            .collect();
        if columns.len() != view.columns.len() || select.visible != columns.len() {
            return Err(SqlError::internal(
                "a view has other columns than its query",
            ));
        }
        let leaf = ScopeLeaf {
            table_name: alias.as_ref().map(|_| view.name.clone()),
            alias: alias.unwrap_or_else(|| view.name.clone()),
            schema: Some(view.schema.clone()),
            first_slot,
            columns,
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: false,
        };
        Ok((leaf, select))
    }

    /// Binds the query of a view with the privileges of its owner, or of the invoker.
    pub(super) fn query_of(
        &mut self,
        view: &ViewDef,
        kind: ObjectKind,
    ) -> Result<Select, SqlError> {
        let query = crate::parser::parse_query(&view.text)?;
        self.within_view(view, kind, |binder| binder.query(&query))
    }

    /// Binds a part of a view with the privileges of its owner, or of the invoker. Its names are
    /// resolved in the schema of the view, and it sees no outer query.
    pub(super) fn within_view<T>(
        &mut self,
        view: &ViewDef,
        kind: ObjectKind,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        if kind == ObjectKind::View {
            self.params.name_view(view);
        }
        let path = [view.schema.clone(), PUBLIC_SCHEMA.to_owned()];
        let along = PathView {
            catalog: self.catalog,
            path: &path,
        };
        let around = (self.cx, self.depth);
        let mut binder = Binder::of(&view.text, (&along, &path), self.params, around);
        (binder.outer_slots, binder.subqueries) = (self.outer_slots, self.subqueries);
        binder.asker = self.asker;
        binder.role = match view.is_invoker() {
            true => self.asker,
            false => self
                .catalog
                .security()
                .map(|security| security.owner(Object::new(kind, view.id))),
        };
        if kind == ObjectKind::Table {
            // REFRESH MATERIALIZED VIEW runs as the owner of the view.
            binder.asker = binder.role;
        }
        let bound = bind(&mut binder)?;
        (self.outer_slots, self.subqueries) = (binder.outer_slots, binder.subqueries);
        let needs = std::mem::take(&mut binder.needs);
        self.needs.extend(needs);
        Ok(bound)
    }

    pub(super) fn create_view(&mut self, create: &ast::CreateView) -> Result<Statement, SqlError> {
        if create.materialized {
            return self.create_materialized_view(create);
        }
        let refused = if create.or_alter || create.if_not_exists || create.to.is_some() {
            "this form of CREATE VIEW"
        } else {
            ""
        };
        if !refused.is_empty() {
            return Err(SqlError::unsupported(refused));
        }
        let (schema, name) = names::table_name(&create.name)?;
        let mut schema = match create.temporary {
            true => self.schema_for_temporary(schema)?,
            false => self.schema_for(schema)?,
        };
        let defined = self.defining_query(
            create,
            "CREATE VIEW specifies more column names than columns",
        )?;
        if self.reads_temporary(&defined) {
            schema = self.cx.temporary_schema();
        }
        let options = view_options(self.text)?;
        if check_options(&options)? {
            check_updatable(&defined.text, &defined.select)?;
        }
        Ok(Statement::CreateView(CreateView {
            schema,
            name,
            or_replace: create.or_replace,
            columns: defined.columns,
            text: defined.text,
            tables: defined.tables,
            views: defined.views,
            types: defined.types,
            options,
        }))
    }

    /// Returns whether a query reads a temporary relation.
    pub(super) fn reads_temporary(&self, defined: &ViewDefinition) -> bool {
        let Some(own) = self.cx.temporary_in(self.catalog) else {
            return false;
        };
        let objects = self.catalog.objects_in(&own).into_iter();
        let mut ids = objects.map(|of| of.object.id);
        ids.any(|id| defined.tables.contains(&id) || defined.views.contains(&id))
    }

    /// Binds the defining query of a new view and collects its references; `too_many` is the error
    /// text for more column names than columns.
    pub(super) fn defining_query(
        &mut self,
        create: &ast::CreateView,
        too_many: &str,
    ) -> Result<ViewDefinition, SqlError> {
        let recording = RecordingCatalog {
            catalog: self.catalog,
            tables: RefCell::default(),
            views: RefCell::default(),
            types: RefCell::default(),
        };
        let mut none = ParamTypes::default();
        let around = (self.cx, self.depth);
        let mut binder = Binder::of(self.text, (&recording, self.path), &mut none, around);
        let mut query = ast::Query::clone(&create.query);
        stars::number(&mut query)?;
        binder.stars = Some(StarColumns::default());
        let select = binder.query(&query)?;
        if let Some(stars) = binder.stars.take() {
            stars.write_out(&mut query)?;
        }
        let needs = std::mem::take(&mut binder.needs);
        if !binder.changes.is_empty() {
            return Err(SqlError::unsupported(
                "a view whose query changes rows in WITH",
            ));
        }
        if !none.types().is_empty() {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                "there is no parameter $1",
            ));
        }
        let mut columns: Vec<(String, crate::types::Type)> = select
            .columns()
            .iter()
            .map(|target| (target.name.clone(), target.expr.ty))
            .collect();
        if create.columns.len() > columns.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, too_many));
        }
        for (column, given) in columns.iter_mut().zip(&create.columns) {
            column.0 = names::fold(&given.name);
        }
        for (i, (name, ty)) in columns.iter().enumerate() {
            check_column_type(name, *ty)?;
            if columns[..i].iter().any(|(other, _)| other == name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
        }
        Ok(ViewDefinition {
            columns,
            text: spelled(&query_text(&query)),
            tables: recording.tables.into_inner(),
            views: recording.views.into_inner(),
            types: recording.types.into_inner(),
            select,
            needs,
        })
    }

    pub(super) fn drop_views(
        &mut self,
        if_exists: bool,
        list: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<Statement, SqlError> {
        let mut drop = DropView {
            views: Vec::new(),
            missing: Vec::new(),
            cascade,
        };
        for name in list {
            let (schema, plain) = names::table_name(name)?;
            let qualified = names::qualified_name(schema.as_deref(), &plain);
            self.check_schema(schema.as_deref(), if_exists)?;
            match self.view(name)? {
                Some(view) => drop.views.push(view),
                None => match self.catalog.table(schema.as_deref(), &plain)? {
                    Some(table) => {
                        let hint = match table.materialized {
                            Some(_) => "Use DROP MATERIALIZED VIEW to remove a materialized view.",
                            None => "Use DROP TABLE to remove a table.",
                        };
                        let message = format!("\"{qualified}\" is not a view");
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
                    }
                    None if if_exists => drop.missing.push(qualified),
                    None => {
                        return Err(SqlError::new(
                            SqlState::UNDEFINED_TABLE,
                            format!("view \"{qualified}\" does not exist"),
                        ));
                    }
                },
            }
        }
        Ok(Statement::DropView(drop))
    }
}

/// The defining query of a new view.
pub(super) struct ViewDefinition {
    pub(super) columns: Vec<(String, crate::types::Type)>,
    pub(super) text: String,
    pub(super) tables: Vec<u32>,
    pub(super) views: Vec<u32>,
    pub(super) types: Vec<u32>,
    pub(super) select: Select,
    /// The privileges that running the query requires.
    pub(super) needs: Vec<Need>,
}

/// A catalog that records the relations and types that name resolution finds.
struct RecordingCatalog<'a> {
    catalog: &'a dyn CatalogView,
    tables: RefCell<Vec<u32>>,
    views: RefCell<Vec<u32>>,
    types: RefCell<Vec<u32>>,
}

fn note(list: &RefCell<Vec<u32>>, id: u32) {
    let mut list = list.borrow_mut();
    if !list.contains(&id) {
        list.push(id);
    }
}

impl CatalogView for RecordingCatalog<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        let found = self.catalog.table(schema, name)?;
        found.iter().for_each(|table| note(&self.tables, table.id));
        Ok(found)
    }

    fn schema_exists(&self, name: &str) -> bool {
        self.catalog.schema_exists(name)
    }

    fn table_by_id(&self, id: u32) -> Result<Option<Arc<TableDef>>, SqlError> {
        self.catalog.table_by_id(id)
    }

    fn table_of_index(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>, SqlError> {
        self.catalog.table_of_index(schema, name)
    }

    fn sequence(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        self.catalog.sequence(schema, name)
    }

    fn sequence_by_id(&self, id: u32) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        self.catalog.sequence_by_id(id)
    }

    fn view(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<ViewDef>>, SqlError> {
        let found = self.catalog.view(schema, name)?;
        found.iter().for_each(|view| note(&self.views, view.id));
        Ok(found)
    }

    fn routines(&self, schema: Option<&str>, name: &str) -> Vec<Arc<RoutineDef>> {
        self.catalog.routines(schema, name)
    }

    fn routine_by_id(&self, id: u32) -> Option<Arc<RoutineDef>> {
        self.catalog.routine_by_id(id)
    }

    fn user_type(&self, schema: Option<&str>, name: &str) -> Option<Arc<TypeDef>> {
        let found = self.catalog.user_type(schema, name);
        found.iter().for_each(|ty| note(&self.types, ty.id));
        found
    }

    fn user_type_by_id(&self, id: u32) -> Option<Arc<TypeDef>> {
        self.catalog.user_type_by_id(id)
    }

    fn role(&self, name: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        self.catalog.role(name)
    }

    fn schema_oid(&self, name: &str) -> Option<u32> {
        self.catalog.schema_oid(name)
    }

    fn objects_in(&self, schema: &str) -> Vec<NamedObject> {
        self.catalog.objects_in(schema)
    }

    fn security(&self) -> Option<&Security> {
        self.catalog.security()
    }
}
