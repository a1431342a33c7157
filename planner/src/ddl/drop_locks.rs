//! The dependent relations that a DROP locks: views, owned sequences, and tables that lose a
//! foreign key.
//!
//! ```text
//! named relations ──► with CASCADE the views over them, directly or not ──► owned sequences
//! ```

use fencepost_sql::bound::{DropOwned, RoleRef};
use fencepost_sql::catalog::{CatalogView, ObjectKind, Snapshot};
use fencepost_sql::context::EvalContext;

/// The oids of the relations that a DROP locks.
#[derive(Debug, Default)]
pub(super) struct DropLocks {
    /// The tables, views and sequences that are dropped; the named ones come first.
    pub going: Vec<u32>,
    /// The tables that stay and lose a foreign key.
    pub keyless: Vec<u32>,
}

impl DropLocks {
    /// Returns the relations that a DROP of `named` relations locks.
    pub fn of(
        named: impl IntoIterator<Item = u32>,
        cascade: bool,
        catalog: &Snapshot,
    ) -> DropLocks {
        let mut dropped = DropLocks {
            going: named.into_iter().collect(),
            keyless: Vec::new(),
        };
        if cascade {
            dropped.add_readers(catalog);
            dropped.keyless = dropped.referencing(catalog);
        }
        let owned = catalog.sequences().filter(|sequence| {
            let owner = sequence.owner;
            owner.is_some_and(|owner| dropped.going.contains(&owner))
        });
        let owned: Vec<u32> = owned.map(|sequence| sequence.id).collect();
        dropped.going.extend(owned);
        dropped
    }

    /// Returns the relations that DROP SCHEMA … CASCADE locks.
    pub fn with_schemas(names: &[String], catalog: &Snapshot) -> DropLocks {
        let is_in = |schema: &String| names.contains(schema);
        let tables = catalog.tables().into_iter();
        let tables = tables.filter(|table| is_in(&table.schema));
        let views = catalog.views().filter(|view| is_in(&view.schema));
        let sequences = catalog.sequences().filter(|of| is_in(&of.schema));
        let named = tables.map(|table| table.id);
        let named = named.chain(views.map(|view| view.id));
        let named = named.chain(sequences.map(|sequence| sequence.id));
        DropLocks::of(named, true, catalog)
    }

    /// Returns the relations that DROP OWNED locks.
    pub fn owned(statement: &DropOwned, catalog: &Snapshot, eval: &EvalContext) -> DropLocks {
        let mut named = Vec::new();
        let mut schemas = Vec::new();
        for role in &statement.roles {
            let role = match role {
                RoleRef::Named(name) => catalog.role(name),
                RoleRef::Own => catalog.role(&eval.current_user()),
            };
            let Ok(Some(role)) = role else {
                continue;
            };
            let owned = catalog.owned_by(role.id);
            for object in owned {
                match object.kind {
                    ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence => {
                        named.push(object.id);
                    }
                    ObjectKind::Schema => schemas.push(object.id),
                    _ => {}
                }
            }
        }
        let names = catalog.schemas().into_iter();
        let names = names.filter(|(_, id)| schemas.contains(id));
        let names: Vec<String> = names.map(|(name, _)| name).collect();
        let within = DropLocks::with_schemas(&names, catalog);
        named.extend(within.going);
        DropLocks::of(named, statement.cascade, catalog)
    }

    /// Adds the views over dropped relations, and the views over these.
    fn add_readers(&mut self, catalog: &Snapshot) {
        let tables = catalog.tables();
        loop {
            let goes = |id: &u32| self.going.contains(id);
            let reads = |tables: &[u32], views: &[u32]| tables.iter().chain(views).any(goes);
            let views = catalog.views();
            let views = views.filter(|view| !goes(&view.id) && reads(&view.tables, &view.views));
            let kept = tables.iter().filter(|table| {
                let of = table.materialized.as_ref();
                !goes(&table.id) && of.is_some_and(|of| reads(&of.tables, &of.views))
            });
            let more: Vec<u32> = views
                .map(|view| view.id)
                .chain(kept.map(|t| t.id))
                .collect();
            if more.is_empty() {
                return;
            }
            self.going.extend(more);
        }
    }

    /// Returns the tables that stay and reference a dropped table, or a table that has a dropped
    /// table as a partition.
    fn referencing(&self, catalog: &Snapshot) -> Vec<u32> {
        let mut referenced = self.going.clone();
        let mut at = 0;
        while let Some(id) = referenced.get(at) {
            let table = catalog.table_by_id(*id).ok().flatten();
            let above = table.and_then(|table| Some(table.partition_of_table()?.parent));
            referenced.extend(above);
            at += 1;
        }
        let tables = catalog.tables().into_iter().filter(|table| {
            let mut keys = table.rules.foreign_keys.iter();
            !self.going.contains(&table.id) && keys.any(|key| referenced.contains(&key.parent))
        });
        tables.map(|table| table.id).collect()
    }
}
