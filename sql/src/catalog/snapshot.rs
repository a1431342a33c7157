//! The whole catalog at one version, in memory, shared by every session.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::def::{CatalogView, PUBLIC_SCHEMA, RoleDef, TableDef};
use super::sequence::SequenceDef;
use super::view::ViewDef;
use crate::error::{SqlError, SqlState};

/// Every definition at one catalog version.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    version: u64,
    tables: HashMap<String, Arc<TableDef>>,
    index_owner: HashMap<String, Arc<TableDef>>,
    by_oid: HashMap<u32, Arc<TableDef>>,
    sequences: HashMap<String, Arc<SequenceDef>>,
    views: HashMap<String, Arc<ViewDef>>,
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
                snapshot.index_owner.insert(index.name.clone(), owner);
                snapshot.by_oid.insert(index.id, Arc::clone(&table));
            }
            snapshot.by_oid.insert(table.id, Arc::clone(&table));
            snapshot.tables.insert(table.name.clone(), table);
        }
        for role in roles {
            snapshot.roles.insert(role.name.clone(), Arc::new(role));
        }
        snapshot
    }

    /// The same with these sequences.
    pub fn with_sequences(mut self, sequences: Vec<SequenceDef>) -> Snapshot {
        let named = |sequence: SequenceDef| (sequence.name.clone(), Arc::new(sequence));
        self.sequences = sequences.into_iter().map(named).collect();
        self
    }

    /// The same with these views.
    pub fn with_views(mut self, views: Vec<ViewDef>) -> Snapshot {
        let named = |view: ViewDef| (view.name.clone(), Arc::new(view));
        self.views = views.into_iter().map(named).collect();
        self
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
    pub fn relation_exists(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || self.index_owner.contains_key(name)
            || self.sequences.contains_key(name)
            || self.views.contains_key(name)
    }
}

impl CatalogView for Snapshot {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(in_public(schema)?
            .then(|| self.tables.get(name).cloned())
            .flatten())
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
        Ok(in_public(schema)?
            .then(|| self.index_owner.get(name).cloned())
            .flatten())
    }

    fn sequence(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        Ok(in_public(schema)?
            .then(|| self.sequences.get(name).cloned())
            .flatten())
    }

    fn sequence_by_id(&self, id: u32) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        let mut sequences = self.sequences();
        Ok(sequences.find(|sequence| sequence.id == id).cloned())
    }

    fn view(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<ViewDef>>, SqlError> {
        Ok(in_public(schema)?
            .then(|| self.views.get(name).cloned())
            .flatten())
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

/// Does `schema` reach the user's tables? A schema that is not there is an error.
fn in_public(schema: Option<&str>) -> Result<bool, SqlError> {
    match schema {
        None | Some(PUBLIC_SCHEMA) => Ok(true),
        Some("pg_catalog" | "information_schema") => Ok(false),
        Some(other) => Err(SqlError::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{other}\" does not exist"),
        )),
    }
}
