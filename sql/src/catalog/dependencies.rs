//! The objects that a plan depends on besides its tables and routines (CAT-5).

use std::sync::Arc;

use fencepost_txn::Transaction;

use super::guard::{Guards, Hold, guard_type};
use super::store::Catalog;
use super::user_type::TypeDef;
use super::view::ViewDef;
use crate::lock_mode::LockMode;
use crate::stop::Halt;
use crate::table_locks::TableUse;

/// The types, views and sequences that a statement names, as it was bound with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependencies {
    types: Vec<Arc<TypeDef>>,
    views: Vec<ViewVersion>,
    /// The locks that the statement takes of views and sequences, each once.
    uses: Vec<TableUse>,
    /// The statement depends on an object without guards: its plan holds for this version of the catalog alone.
    version: Option<u64>,
}

/// The version of a view, and where it is found.
#[derive(Clone, Debug, PartialEq)]
struct ViewVersion {
    id: u32,
    version: u64,
    guards: Guards,
}

impl Dependencies {
    /// Adds a type that users made.
    pub fn add_type(&mut self, ty: Arc<TypeDef>) {
        if !self.types.iter().any(|of| of.id == ty.id) {
            self.types.push(ty);
        }
    }

    /// Adds a view; false if it has no guards, so that only the catalog's version tells whether it is the same.
    pub fn add_view(&mut self, view: &ViewDef) -> bool {
        self.add_use(view.id, LockMode::AccessShare);
        if view.guards.are_none() {
            return false;
        }
        if !self.views.iter().any(|of| of.id == view.id) {
            self.views.push(ViewVersion {
                id: view.id,
                version: view.version,
                guards: view.guards.clone(),
            });
        }
        true
    }

    /// Adds the sequence with an oid, which the statement draws from.
    pub fn add_sequence(&mut self, id: u32) {
        self.add_use(id, LockMode::RowExclusive);
    }

    fn add_use(&mut self, table: u32, mode: LockMode) {
        if self.uses.iter().all(|used| used.table != table) {
            self.uses.push(TableUse { table, mode });
        }
    }

    /// The locks that the statement takes of views and sequences.
    pub fn uses(&self) -> &[TableUse] {
        &self.uses
    }

    /// The same of a plan that holds for a version of the catalog alone.
    pub fn watching(mut self, version: u64) -> Dependencies {
        self.version = Some(version);
        self
    }

    /// The types that users made.
    pub fn types(&self) -> &[Arc<TypeDef>] {
        &self.types
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
            && self.views.is_empty()
            && self.uses.is_empty()
            && self.version.is_none()
    }

    /// Puts the version of each object into the read set. Returns false where one is not as the statement was bound with.
    pub async fn hold(
        &self,
        tx: &mut Transaction,
        catalog: Option<&Catalog>,
        hold: Hold,
    ) -> Result<bool, Halt> {
        if let (Some(version), Some(catalog)) = (self.version, catalog)
            && !catalog.is_still(tx, version, hold).await?
        {
            return Ok(false);
        }
        for ty in &self.types {
            if !guard_type(tx, ty, hold).await? {
                return Ok(false);
            }
        }
        for view in &self.views {
            if !view.guards.hold(tx, view.id, view.version, hold).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
