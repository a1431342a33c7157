//! The objects on which a plan depends, besides its tables and routines (CAT-5).

use std::sync::Arc;

use fencepost_txn::Transaction;

use super::guard::{GuardScope, Guards, guard_type};
use super::store::Catalog;
use super::user_type::TypeDef;
use super::view::ViewDef;
use crate::lock_mode::LockMode;
use crate::stop::StatementStop;
use crate::table_locks::TableUse;

/// The types, views and sequences to which a statement refers, in the versions with which it was
/// bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependencies {
    types: Vec<Arc<TypeDef>>,
    views: Vec<ViewVersion>,
    /// The locks that the statement takes on views and sequences, each once.
    uses: Vec<TableUse>,
    /// The catalog version for which the plan is valid, if the statement depends on an object
    /// without guards.
    version: Option<u64>,
}

/// The version of a view, and its guards.
#[derive(Clone, Debug, PartialEq)]
struct ViewVersion {
    id: u32,
    version: u64,
    guards: Guards,
}

impl Dependencies {
    /// Adds a user-defined type.
    pub fn add_type(&mut self, ty: Arc<TypeDef>) {
        if !self.types.iter().any(|of| of.id == ty.id) {
            self.types.push(ty);
        }
    }

    /// Adds a view. Returns false if it has no guards, so that only the catalog version detects a
    /// change of it.
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

    /// Adds the sequence with this oid, from which the statement takes values.
    pub fn add_sequence(&mut self, id: u32) {
        self.add_use(id, LockMode::RowExclusive);
    }

    fn add_use(&mut self, table: u32, mode: LockMode) {
        if self.uses.iter().all(|used| used.table != table) {
            self.uses.push(TableUse { table, mode });
        }
    }

    /// Returns the locks that the statement takes on views and sequences.
    pub fn uses(&self) -> &[TableUse] {
        &self.uses
    }

    /// Returns the dependencies of a plan that is valid for this catalog version only.
    pub fn watching(mut self, version: u64) -> Dependencies {
        self.version = Some(version);
        self
    }

    /// Returns the user-defined types.
    pub fn types(&self) -> &[Arc<TypeDef>] {
        &self.types
    }

    /// Returns whether there are no dependencies.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
            && self.views.is_empty()
            && self.uses.is_empty()
            && self.version.is_none()
    }

    /// Adds the version of each object to the read set. Returns false if an object has changed
    /// since the statement was bound.
    pub async fn hold(
        &self,
        tx: &mut Transaction,
        catalog: Option<&Catalog>,
        hold: GuardScope,
    ) -> Result<bool, StatementStop> {
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
