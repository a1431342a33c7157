//! The whole catalog at one version, in memory, shared by every session.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::def::{CatalogView, PUBLIC_SCHEMA, RoleDef, TableDef};
use super::sequence::SequenceDef;
use super::view::ViewDef;
use crate::error::SqlError;

/// Every definition at one catalog version.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    version: u64,
    tables: HashMap<String, Arc<TableDef>>,
    index_owner: HashMap<String, Arc<TableDef>>,
    by_oid: HashMap<u32, Arc<TableDef>>,
    sequences: HashMap<String, Arc<SequenceDef>>,
    views: HashMap<String, Arc<ViewDef>>,
    schemas: HashMap<String, u32>,
    roles: HashMap<String, Arc<RoleDef>>,
}

impl Snapshot {
    /// A snapshot of these definitions.
    pub fn new(version: u64, tables: Vec<TableDef>, roles: Vec<RoleDef>) -> Snapshot {
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
        for role in roles {
            snapshot.roles.insert(role.name.clone(), Arc::new(role));
        }
        snapshot
    }

    /// The same with these sequences.
    pub fn with_sequences(mut self, sequences: Vec<SequenceDef>) -> Snapshot {
        let named =
            |sequence: SequenceDef| (key(&sequence.schema, &sequence.name), Arc::new(sequence));
        self.sequences = sequences.into_iter().map(named).collect();
        self
    }

    /// The same with these views.
    pub fn with_views(mut self, views: Vec<ViewDef>) -> Snapshot {
        let named = |view: ViewDef| (key(&view.schema, &view.name), Arc::new(view));
        self.views = views.into_iter().map(named).collect();
        self
    }

    /// The same with these schemas besides `public`: names and oids.
    pub fn with_schemas(mut self, schemas: Vec<(String, u32)>) -> Snapshot {
        self.schemas = schemas.into_iter().collect();
        self
    }

    /// The oid of a schema that was made.
    pub fn schema(&self, name: &str) -> Option<u32> {
        self.schemas.get(name).copied()
    }

    /// The schema that a name of one reaches, if users have relations in it.
    fn reached<'a>(&self, schema: Option<&'a str>) -> Option<&'a str> {
        match schema {
            None => Some(PUBLIC_SCHEMA),
            Some(name) => self.schema_exists(name).then_some(name),
        }
    }

    /// Every view.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.views.values()
    }

    /// Every sequence.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceDef>> {
        self.sequences.values()
    }

    /// The catalog version of this snapshot.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Every schema but those of the system, with its oid.
    pub fn schemas(&self) -> Vec<(String, u32)> {
        let own = self.schemas.iter().map(|(name, oid)| (name.clone(), *oid));
        let mut all: Vec<_> = own.collect();
        all.sort();
        all
    }

    /// Every table, by name.
    pub fn tables(&self) -> Vec<Arc<TableDef>> {
        let mut tables: Vec<_> = self.tables.values().cloned().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        tables
    }

    /// The table of an oid, or that of the index that has it.
    pub fn relation(&self, oid: u32) -> Option<Arc<TableDef>> {
        self.by_oid.get(&oid).cloned()
    }

    /// Every role, by name.
    pub fn roles(&self) -> Vec<Arc<RoleDef>> {
        let mut roles: Vec<_> = self.roles.values().cloned().collect();
        roles.sort_by(|a, b| a.name.cmp(&b.name));
        roles
    }

    /// Is `name` taken by a table, an index, a sequence or a view? They share one name space.
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
        name == PUBLIC_SCHEMA || self.schemas.contains_key(name)
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
        let reading = self.views().filter(|view| view.tables.contains(&id));
        let mut views: Vec<Arc<ViewDef>> = reading.cloned().collect();
        views.sort_by_key(|view| view.id);
        views
    }

    fn role(&self, name: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(self.roles.get(name).cloned())
    }
}

/// What a relation is found under.
fn key(schema: &str, name: &str) -> String {
    match schema {
        PUBLIC_SCHEMA => name.to_owned(),
        other => format!("{other}\0{name}"),
    }
}
