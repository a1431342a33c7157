//! A snapshot: the catalog of one database in one version, in memory, shared by all sessions of the
//! database.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::about::{DefaultAcl, Object, ObjectAttributes, ObjectKind};
use super::database::DatabaseDef;
use super::def::{CatalogView, PUBLIC_SCHEMA, RoleDef, SETTINGS_OF_ALL, TableDef};
use super::extension::ExtensionDef;
use super::partition_hierarchy::compose;
use super::routine::RoutineDef;
use super::security::{Security, predefined};
use super::sequence::SequenceDef;
use super::user_type::{TypeDef, TypeSet, row_type_def};
use super::view::ViewDef;
use crate::bound::NamedObject;
use crate::error::SqlError;
use crate::order::StableSort;
use crate::pg_catalog::{Constraint, PUBLIC_NAMESPACE, class, namespace_name, relation_name};
use crate::types::TypeKind;
use crate::types::composites::{ROW_ARRAY, ROW_TYPE};

/// All definitions of one catalog version.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    version: u64,
    /// The oid of the database of these definitions.
    database: u32,
    /// All databases, in the order of their names.
    databases: Vec<Arc<DatabaseDef>>,
    tables: HashMap<String, Arc<TableDef>>,
    index_owner: HashMap<String, Arc<TableDef>>,
    by_oid: HashMap<u32, Arc<TableDef>>,
    sequences: HashMap<String, Arc<SequenceDef>>,
    views: HashMap<String, Arc<ViewDef>>,
    schemas: HashMap<String, u32>,
    first_public_dropped: bool,
    types: TypeSet,
    roles: HashMap<String, Arc<RoleDef>>,
    security: Security,
    /// The routines by schema and name; overloaded ones are in the order of their creation.
    routines: HashMap<String, Vec<Arc<RoutineDef>>>,
    extensions: Vec<Arc<ExtensionDef>>,
}

impl Snapshot {
    /// Returns a snapshot of these definitions.
    pub fn new(version: u64, mut tables: Vec<TableDef>, roles: Vec<RoleDef>) -> Snapshot {
        compose(&mut tables);
        let mut snapshot = Snapshot {
            version,
            tables: HashMap::with_capacity(tables.len()),
            ..Snapshot::default()
        };
        for table in tables {
            let table = Arc::new(table);
            for index in table.indexes.iter().filter(|i| !i.is_hidden()) {
                let owner = Arc::clone(&table);
                let name = key(&table.schema, &index.name);
                snapshot.index_owner.insert(name, owner);
                snapshot.by_oid.insert(index.id, Arc::clone(&table));
            }
            snapshot.by_oid.insert(table.id, Arc::clone(&table));
            let name = key(&table.schema, &table.name);
            snapshot.tables.insert(name, table);
        }
        for role in predefined().chain(roles) {
            snapshot.roles.insert(role.name.clone(), Arc::new(role));
        }
        snapshot.security.set_roles(snapshot.roles.values());
        snapshot
    }

    /// Returns the snapshot with its own database and the list of all databases.
    pub fn with_databases(mut self, database: u32, databases: Vec<DatabaseDef>) -> Snapshot {
        self.database = database;
        self.security.set_database(database);
        self.databases = databases.into_iter().map(Arc::new).collect();
        self.databases.order_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// Returns the oid of the database of these definitions.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Returns all databases, in the order of their names.
    pub fn databases(&self) -> &[Arc<DatabaseDef>] {
        &self.databases
    }

    /// Returns the database with this oid.
    pub fn database_by_id(&self, id: u32) -> Option<&Arc<DatabaseDef>> {
        self.databases.iter().find(|database| database.id == id)
    }

    /// Returns the snapshot with these sequences.
    pub fn with_sequences(mut self, sequences: Vec<SequenceDef>) -> Snapshot {
        let named =
            |sequence: SequenceDef| (key(&sequence.schema, &sequence.name), Arc::new(sequence));
        self.sequences = sequences.into_iter().map(named).collect();
        self
    }

    /// Returns the snapshot with these views.
    pub fn with_views(mut self, views: Vec<ViewDef>) -> Snapshot {
        let named = |view: ViewDef| (key(&view.schema, &view.name), Arc::new(view));
        self.views = views.into_iter().map(named).collect();
        self
    }

    /// Returns the snapshot with these routines.
    pub fn with_routines(mut self, mut routines: Vec<RoutineDef>) -> Snapshot {
        routines.order_by_key(|routine| routine.id);
        for routine in routines {
            self.security.set_routine_owner(routine.id, routine.owner);
            let name = key(&routine.schema, &routine.name);
            let named = self.routines.entry(name).or_default();
            named.push(Arc::new(routine));
        }
        self
    }

    /// Returns the snapshot with these extensions and the built-in one.
    pub fn with_extensions(mut self, mut extensions: Vec<ExtensionDef>) -> Snapshot {
        extensions.order_by_key(|extension| extension.id);
        let all = ExtensionDef::plpgsql().into_iter().chain(extensions);
        self.extensions = all.map(Arc::new).collect();
        self
    }

    /// Returns all extensions, in the order of their creation.
    pub fn extensions(&self) -> &[Arc<ExtensionDef>] {
        &self.extensions
    }

    /// Returns the extension of this name.
    pub fn extension(&self, name: &str) -> Option<&Arc<ExtensionDef>> {
        self.extensions.iter().find(|of| of.name == name)
    }

    /// Returns the extension with this oid.
    pub fn extension_by_id(&self, id: u32) -> Option<&Arc<ExtensionDef>> {
        self.extensions.iter().find(|of| of.id == id)
    }

    /// Returns the extension to which an object belongs.
    pub fn extension_of(&self, object: Object) -> Option<&Arc<ExtensionDef>> {
        self.extensions.iter().find(|of| of.has(object))
    }

    /// Returns the snapshot with these owners, privileges and comments.
    pub fn with_security(
        mut self,
        abouts: Vec<ObjectAttributes>,
        defaults: Vec<DefaultAcl>,
    ) -> Snapshot {
        self.security.set_abouts(abouts);
        self.security.set_defaults(defaults);
        self
    }

    /// Returns the roles, owners and privileges.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// Returns all routines, in the order of their creation.
    pub fn all_routines(&self) -> Vec<Arc<RoutineDef>> {
        let mut all: Vec<_> = self.routines.values().flatten().cloned().collect();
        all.order_by_key(|routine| routine.id);
        all
    }

    /// Returns the snapshot with these types.
    pub fn with_types(mut self, types: TypeSet) -> Snapshot {
        self.types = types;
        self
    }

    /// Returns the user-defined types.
    pub fn types(&self) -> &TypeSet {
        &self.types
    }

    /// Returns the type as [`Self::type_by_id`] does, if a plan may depend on it. `None` for the
    /// row type of a view without guards.
    pub fn guarded_type(&self, id: u32) -> Option<Arc<TypeDef>> {
        if id & (ROW_TYPE | ROW_ARRAY) == 0 {
            return self.types.with_oid(id).cloned();
        }
        let relation = id & !(ROW_TYPE | ROW_ARRAY);
        if let Some(table) = self.by_oid.get(&relation) {
            return Some(Arc::new(row_type_def(table)));
        }
        let mut views = self.views().filter(|view| !view.guards.are_none());
        let view = views.find(|view| view.id == relation)?;
        Some(Arc::new(view.row_type_def()))
    }

    /// Returns the type with this oid or with this array type: a user-defined type, or the row type
    /// of a table or view.
    pub fn type_by_id(&self, id: u32) -> Option<Arc<TypeDef>> {
        self.guarded_type(id).or_else(|| {
            let relation = id & !(ROW_TYPE | ROW_ARRAY);
            let mut views = self.views().filter(|_| id != relation);
            let view = views.find(|view| view.id == relation)?;
            Some(Arc::new(view.row_type_def()))
        })
    }

    /// Returns the type with this oid, including built-in types, array types and row types.
    pub fn type_kind(&self, oid: u32) -> Option<TypeKind> {
        self.types.kind(oid).or_else(|| {
            let ty = self.type_by_id(oid)?;
            match ty.id == oid {
                true => Some(ty.kind()),
                false => ty.kind().array(),
            }
        })
    }

    /// Returns the snapshot with these schemas, given as names and oids. `public` exists from the
    /// beginning; an entry with its oid means that it was dropped.
    pub fn with_schemas(mut self, schemas: Vec<(String, u32)>) -> Snapshot {
        self.first_public_dropped = schemas.iter().any(|(_, id)| *id == PUBLIC_NAMESPACE);
        let made = schemas
            .into_iter()
            .filter(|(_, id)| *id != PUBLIC_NAMESPACE);
        self.schemas = made.collect();
        self
    }

    /// Returns the oid of a schema; `None` for system schemas.
    pub fn schema(&self, name: &str) -> Option<u32> {
        let first = self.has_first_public() && name == PUBLIC_SCHEMA;
        let made = self.schemas.get(name).copied();
        made.or_else(|| first.then_some(PUBLIC_NAMESPACE))
    }

    /// Returns whether the original schema `public` still exists.
    pub fn has_first_public(&self) -> bool {
        !self.first_public_dropped
    }

    /// Returns the schema that a schema name refers to, if users can have relations in it.
    fn reached<'a>(&self, schema: Option<&'a str>) -> Option<&'a str> {
        match schema {
            None => Some(PUBLIC_SCHEMA),
            Some(name) => self.schema_exists(name).then_some(name),
        }
    }

    /// Returns the tables, and the views in the form of tables.
    pub fn tables_and_views(&self) -> Vec<Arc<TableDef>> {
        let mut all = self.tables();
        all.extend(self.views().map(|view| Arc::new(view.as_table())));
        all
    }

    /// Returns all views.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.views.values()
    }

    /// Returns all views, and all materialized views in the form of views, in the order of their
    /// creation.
    pub fn queries(&self) -> Vec<Arc<ViewDef>> {
        let materialized = self.tables.values().filter_map(|table| table.as_view());
        let mut all: Vec<_> = materialized.map(Arc::new).collect();
        all.extend(self.views().cloned());
        all.order_by_key(|view| view.id);
        all
    }

    /// Returns all sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceDef>> {
        self.sequences.values()
    }

    /// Returns the catalog version of this snapshot.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns all created schemas, with their oids.
    pub fn schemas(&self) -> Vec<(String, u32)> {
        let own = self.schemas.iter().map(|(name, oid)| (name.clone(), *oid));
        let mut all: Vec<_> = own.collect();
        all.order_by(Ord::cmp);
        all
    }

    /// Returns all tables, in the order of their names.
    pub fn tables(&self) -> Vec<Arc<TableDef>> {
        let mut tables: Vec<_> = self.tables.values().cloned().collect();
        tables.order_by(|a, b| a.name.cmp(&b.name));
        tables
    }

    /// Returns the table with this oid, or the table of the index with this oid.
    pub fn relation(&self, oid: u32) -> Option<Arc<TableDef>> {
        self.by_oid.get(&oid).cloned()
    }

    /// Returns the schema and name of the table, view or sequence with this oid.
    pub fn place_of_relation(&self, id: u32) -> Option<(String, String)> {
        if let Some(table) = self.by_oid.get(&id).filter(|table| table.id == id) {
            return Some((table.schema.clone(), table.name.clone()));
        }
        if let Some(view) = self.views().find(|view| view.id == id) {
            return Some((view.schema.clone(), view.name.clone()));
        }
        let mut sequences = self.sequences();
        let found = sequences.find(|sequence| sequence.id == id)?;
        Some((found.schema.clone(), found.name.clone()))
    }

    /// Returns the table, view or sequence with this oid.
    pub fn object_of_relation(&self, id: u32) -> Option<Object> {
        let kind = if self.by_oid.get(&id).is_some_and(|table| table.id == id) {
            ObjectKind::Table
        } else if self.views().any(|view| view.id == id) {
            ObjectKind::View
        } else if self.sequences().any(|sequence| sequence.id == id) {
            ObjectKind::Sequence
        } else {
            return None;
        };
        Some(Object::new(kind, id))
    }

    /// Returns the column names of a table or view, in order.
    pub fn column_names(&self, relation: u32) -> Vec<String> {
        if let Some(table) = self.by_oid.get(&relation) {
            return table.columns.iter().map(|c| c.name.clone()).collect();
        }
        let mut views = self.views();
        let view = views.find(|view| view.id == relation);
        let columns = view.map_or(&[][..], |view| &view.columns);
        columns.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the object of a system catalog with this oid.
    pub fn object_of(&self, of_class: u32, id: u32) -> Option<Object> {
        let kind = match of_class {
            class::RELATION => return self.object_of_relation(id),
            class::SCHEMA => ObjectKind::Schema,
            class::TYPE => ObjectKind::Type,
            class::ROUTINE => self.routine_by_id(id)?.kind.into(),
            class::DATABASE => ObjectKind::Database,
            class::CONSTRAINT => ObjectKind::Constraint,
            class::ROLE => ObjectKind::Role,
            class::EXTENSION => ObjectKind::Extension,
            _ => return None,
        };
        Some(Object::new(kind, id))
    }

    /// Returns the schema of an object; `None` if it is in no schema.
    pub fn schema_of(&self, object: Object) -> Option<String> {
        match object.kind {
            ObjectKind::Table => self.by_oid.get(&object.id).map(|of| of.schema.clone()),
            ObjectKind::View => {
                let mut all = self.views();
                all.find(|of| of.id == object.id)
                    .map(|of| of.schema.clone())
            }
            ObjectKind::Sequence => {
                let mut all = self.sequences();
                all.find(|of| of.id == object.id)
                    .map(|of| of.schema.clone())
            }
            ObjectKind::Function | ObjectKind::Procedure => {
                self.routine_by_id(object.id).map(|of| of.schema.clone())
            }
            ObjectKind::Type => self.types.with_oid(object.id).map(|of| of.schema.clone()),
            ObjectKind::Extension => self.extension_by_id(object.id).map(|of| of.schema.clone()),
            _ => None,
        }
    }

    /// Returns the objects whose stored owner is this role. Objects without a stored owner are
    /// omitted.
    pub fn owned_by(&self, role: u32) -> Vec<Object> {
        let abouts = self.security.abouts().into_iter();
        let said = abouts.filter(|about| about.owner == Some(role));
        let said = said.filter_map(|about| self.object_of(about.class, about.id));
        let routines = self.all_routines().into_iter();
        let routines = routines.filter(|routine| routine.owner == role);
        let routines = routines.map(|routine| Object::new(routine.kind.into(), routine.id));
        said.chain(routines).collect()
    }

    /// Returns the description of an object in messages.
    pub fn object_description(&self, object: Object) -> String {
        let name = match object.kind {
            ObjectKind::Schema => namespace_name(self, object.id),
            ObjectKind::Function | ObjectKind::Procedure => {
                self.routine_by_id(object.id).map(|of| of.signature())
            }
            ObjectKind::Type => self.types.with_oid(object.id).map(|of| of.name.clone()),
            ObjectKind::Database => self.database_by_id(object.id).map(|of| of.name.clone()),
            ObjectKind::Extension => self.extension_by_id(object.id).map(|of| of.name.clone()),
            _ => {
                let mut name = relation_name(self, object.id);
                name.take().map(|(schema, name)| match &*schema {
                    PUBLIC_SCHEMA => name,
                    schema => format!("{schema}.{name}"),
                })
            }
        };
        let table = self.by_oid.get(&object.id);
        let kind = match (object.kind, table) {
            (ObjectKind::Table, Some(table)) => table.kind_name(),
            (kind, _) => kind.name(),
        };
        format!("{kind} {}", name.unwrap_or_default())
    }

    /// Returns whether the system catalog `class` has an object with this oid.
    pub fn has_object(&self, class: u32, id: u32) -> bool {
        match class {
            class::RELATION => {
                self.object_of_relation(id).is_some() || self.by_oid.contains_key(&id)
            }
            class::SCHEMA => {
                (id == PUBLIC_NAMESPACE && self.has_first_public())
                    || self.schemas.values().any(|schema| *schema == id)
            }
            class::TYPE => self.types.with_oid(id).is_some(),
            class::ROUTINE => self.routine_by_id(id).is_some(),
            class::CONSTRAINT => self.tables.values().any(|table| {
                let mut all = Constraint::all(table);
                all.any(|constraint| constraint.id() == id)
            }),
            class::ROLE => self.security.role(id).is_some(),
            class::DATABASE => self.database_by_id(id).is_some(),
            class::EXTENSION => self.extension_by_id(id).is_some(),
            _ => true,
        }
    }

    /// Returns the settings with which the sessions of all roles start.
    pub fn settings_of_all_roles(&self) -> impl Iterator<Item = &(String, String)> {
        let kept = self.roles.values().flat_map(|role| &role.settings);
        let kept = kept.filter(|of| of.database == SETTINGS_OF_ALL);
        kept.flat_map(|of| &of.settings)
    }

    /// Returns all roles, in the order of their names.
    pub fn roles(&self) -> Vec<Arc<RoleDef>> {
        let mut roles: Vec<_> = self.roles.values().cloned().collect();
        roles.order_by(|a, b| a.name.cmp(&b.name));
        roles
    }

    /// Returns whether a table, an index, a sequence or a view has this name. They share one
    /// namespace.
    pub fn relation_exists(&self, schema: &str, name: &str) -> bool {
        let name = &key(schema, name);
        self.tables.contains_key(name)
            || self.index_owner.contains_key(name)
            || self.sequences.contains_key(name)
            || self.views.contains_key(name)
    }
}

impl CatalogView for Snapshot {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        let schema = self.reached(schema);
        Ok(schema.and_then(|schema| self.tables.get(&key(schema, name)).cloned()))
    }

    fn schema_exists(&self, name: &str) -> bool {
        self.schema(name).is_some()
    }

    fn table_by_id(&self, id: u32) -> Result<Option<Arc<TableDef>>, SqlError> {
        let table = self.by_oid.get(&id);
        Ok(table.filter(|table| table.id == id).cloned())
    }

    fn table_of_index(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>, SqlError> {
        let schema = self.reached(schema);
        Ok(schema.and_then(|schema| self.index_owner.get(&key(schema, name)).cloned()))
    }

    fn sequence(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        let schema = self.reached(schema);
        Ok(schema.and_then(|schema| self.sequences.get(&key(schema, name)).cloned()))
    }

    fn sequence_by_id(&self, id: u32) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        let mut sequences = self.sequences();
        Ok(sequences.find(|sequence| sequence.id == id).cloned())
    }

    fn view(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<ViewDef>>, SqlError> {
        let schema = self.reached(schema);
        Ok(schema.and_then(|schema| self.views.get(&key(schema, name)).cloned()))
    }

    fn views_of(&self, id: u32) -> Vec<Arc<ViewDef>> {
        let mut views = self.queries();
        views.retain(|view| view.tables.contains(&id));
        views
    }

    fn routines(&self, schema: Option<&str>, name: &str) -> Vec<Arc<RoutineDef>> {
        let named = self
            .reached(schema)
            .and_then(|schema| self.routines.get(&key(schema, name)));
        named.cloned().unwrap_or_default()
    }

    fn routine_by_id(&self, id: u32) -> Option<Arc<RoutineDef>> {
        let mut all = self.routines.values().flatten();
        all.find(|routine| routine.id == id).cloned()
    }

    fn user_type(&self, schema: Option<&str>, name: &str) -> Option<Arc<TypeDef>> {
        self.types.named(self.reached(schema)?, name)
    }

    fn user_type_by_id(&self, id: u32) -> Option<Arc<TypeDef>> {
        self.guarded_type(id)
    }

    fn role(&self, name: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(self.roles.get(name).cloned())
    }

    fn database_named(&self, name: &str) -> Option<Arc<DatabaseDef>> {
        self.databases.iter().find(|of| of.name == name).cloned()
    }

    fn schema_oid(&self, name: &str) -> Option<u32> {
        self.schema(name)
    }

    fn objects_in(&self, schema: &str) -> Vec<NamedObject> {
        let named = |kind, id, name: &str| NamedObject {
            object: Object::new(kind, id),
            name: name.to_owned(),
        };
        let tables = self.tables.values().filter(|of| of.schema == schema);
        let tables = tables.map(|of| named(ObjectKind::Table, of.id, &of.name));
        let views = self.views.values().filter(|of| of.schema == schema);
        let views = views.map(|of| named(ObjectKind::View, of.id, &of.name));
        let sequences = self.sequences.values().filter(|of| of.schema == schema);
        let sequences = sequences.map(|of| named(ObjectKind::Sequence, of.id, &of.name));
        let routines = self.routines.values().flatten();
        let routines = routines.filter(|of| of.schema == schema);
        let routines = routines.map(|of| named(of.kind.into(), of.id, &of.name));
        let mut all: Vec<_> = tables.chain(views).chain(sequences).collect();
        all.extend(routines);
        all.order_by_key(|of| of.object.id);
        all
    }

    fn extension_named(&self, name: &str) -> Option<Arc<ExtensionDef>> {
        self.extension(name).cloned()
    }

    fn security(&self) -> Option<&Security> {
        Some(&self.security)
    }
}

/// Returns the key by which relations are found.
fn key(schema: &str, name: &str) -> String {
    match schema {
        PUBLIC_SCHEMA => name.to_owned(),
        other => format!("{other}\0{name}"),
    }
}
