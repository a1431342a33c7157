//! The tables and views that one DDL statement changes. Each is taken once, gets the statement's
//! catalog version, and is stored at the end.

use std::sync::Arc;

use fencepost_sql::catalog::{
    CatalogView, GuardScope, Guards, Roots, RoutineDef, TableDef, ViewDef, guard_table,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::composites::ROW_TYPE;

use super::DdlCx;
use super::follow::check_followed;
use crate::exec::Cx;

/// Changed definitions that are not stored in the catalog yet.
pub struct Changes {
    /// The catalog version that the changed definitions get.
    pub version: u64,
    /// Whether tables keep their versions, so that existing plans stay valid.
    keeps_plans: bool,
    tables: Vec<TableDef>,
    /// The views that the statement changes.
    views: Vec<ViewDef>,
    /// The oids of dropped routines and views; several paths may try to drop the same one.
    dropped: Vec<u32>,
    /// The views with texts that were rewritten, because an object that they name was renamed.
    pub followed: Vec<u32>,
}

impl Changes {
    /// Waits for the lock on changes of the catalog, and begins the changes.
    pub async fn begin(cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<Changes, StatementStop> {
        let planned = ddl.snapshot.version();
        Ok(Changes::at(ddl.catalog.begin_change(cx.tx, planned).await?))
    }

    /// Begins as [`Changes::begin`] does, for changes that keep existing plans valid.
    pub async fn begin_unnoticed(
        cx: &mut Cx<'_>,
        ddl: &DdlCx<'_>,
    ) -> Result<Changes, StatementStop> {
        let mut changes = Changes::begin(cx, ddl).await?;
        changes.keeps_plans = true;
        Ok(changes)
    }

    /// Creates changes of another database, in a transaction that has already begun with this
    /// version.
    pub fn at(version: u64) -> Changes {
        Changes {
            version,
            keeps_plans: false,
            tables: Vec::new(),
            views: Vec::new(),
            dropped: Vec::new(),
            followed: Vec::new(),
        }
    }

    /// Takes a table that the statement names, and returns its definition for changes.
    pub async fn take(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TableDef,
    ) -> Result<&mut TableDef, StatementStop> {
        let position = match self.tables.iter().position(|t| t.id == table.id) {
            Some(position) => position,
            None => {
                if !guard_table(cx.tx, table, GuardScope::Commit).await? {
                    return Err(StatementStop::Stale);
                }
                check_settled(cx, table)?;
                let mut own = table.clone();
                if !self.keeps_plans {
                    own.version = self.version;
                }
                if own.is_parent() {
                    // A partitioned table has no rows and trees of its own; its leaves have them.
                    let indexes = own.indexes.iter_mut();
                    indexes.for_each(|index| index.roots = Roots::Each([].into()));
                }
                self.tables.push(own);
                self.tables.len() - 1
            }
        };
        Ok(&mut self.tables[position])
    }

    /// Returns a view for changes, including earlier changes of this statement. It is stored at the
    /// end, with the statement's version.
    pub fn view(&mut self, view: &ViewDef) -> &mut ViewDef {
        let taken = self.views.iter().position(|of| of.id == view.id);
        let position = taken.unwrap_or_else(|| {
            self.views.push(view.clone());
            self.views.len() - 1
        });
        &mut self.views[position]
    }

    /// Puts back a definition that was taken.
    pub fn put(&mut self, table: TableDef) {
        if let Some(taken) = self.tables.iter_mut().find(|t| t.id == table.id) {
            *taken = table;
        }
    }

    /// Records that a routine or view is dropped. Returns false if it was recorded before.
    pub fn drops(&mut self, id: u32) -> bool {
        let first = !self.dropped.contains(&id);
        if first {
            self.dropped.push(id);
        }
        first
    }

    /// Returns whether a routine or view has been dropped.
    pub fn has_dropped(&self, id: u32) -> bool {
        self.dropped.contains(&id)
    }

    /// Gives a new version to the routines with the type in their signatures, because their types
    /// follow its new definition.
    pub async fn touch_routines(
        &self,
        ty: u32,
        cx: &mut Cx<'_>,
        ddl: &DdlCx<'_>,
    ) -> Result<(), StatementStop> {
        for routine in ddl.snapshot.all_routines() {
            if routine.names_type(ty) && !self.has_dropped(routine.id) {
                let routine = RoutineDef {
                    version: self.version,
                    ..RoutineDef::clone(&routine)
                };
                ddl.catalog.replace_routine(cx.tx, &routine).await?;
            }
        }
        Ok(())
    }

    /// Removes a dropped table from the changes.
    pub fn forget(&mut self, id: u32) {
        self.tables.retain(|table| table.id != id);
    }

    /// Takes the table with this oid, to which another table leads.
    pub async fn by_id(
        &mut self,
        cx: &mut Cx<'_>,
        ddl: &DdlCx<'_>,
        id: u32,
    ) -> Result<&mut TableDef, StatementStop> {
        let Some(table) = ddl.snapshot.table_by_id(id)? else {
            return Err(SqlError::internal("a table that another leads to is gone").into());
        };
        self.take(cx, &Arc::clone(&table)).await
    }

    /// Stores the views that are changed and not dropped. A view without guards gets guards.
    async fn store_views(&mut self, cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), StatementStop> {
        for mut view in std::mem::take(&mut self.views) {
            if self.has_dropped(view.id) {
                continue;
            }
            view.version = self.version;
            if view.guards.are_none() {
                view.guards = Guards::create(cx.tx, view.id, view.version).await?;
            }
            ddl.catalog.replace_view(cx.tx, &view).await?;
        }
        Ok(())
    }

    /// Stores the changed definitions. Gives new versions to partitioned tables with changed
    /// partitions (HIERARCHY-2).
    pub async fn finish(mut self, cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), StatementStop> {
        for table in &mut self.tables {
            forget_links(table);
        }
        if self.keeps_plans {
            for table in &self.tables {
                ddl.catalog.redefine_table(cx.tx, table).await?;
            }
            return Ok(());
        }
        let mut at = 0;
        while let Some(table) = self.tables.get(at) {
            if let Some(of) = table.partition_of_table() {
                self.by_id(cx, ddl, of.parent).await?;
            }
            at += 1;
        }
        for table in &self.tables {
            ddl.catalog.replace_table(cx.tx, table).await?;
            self.touch_routines(table.id | ROW_TYPE, cx, ddl).await?;
        }
        self.store_views(cx, ddl).await?;
        check_followed(&self.followed, cx, ddl).await
    }
}

/// Removes the links from a partition's dropped indexes and constraints to those of its parent.
fn forget_links(table: &mut TableDef) {
    let Some(of) = table.hierarchy.as_mut().and_then(|place| place.of.as_mut()) else {
        return;
    };
    let keys = table.indexes.iter().map(|index| index.id);
    let checks = table.rules.checks.iter().map(|check| check.id);
    let foreign = table.rules.foreign_keys.iter().map(|key| key.id);
    let triggers = table.rules.triggers.iter().map(|trigger| trigger.id);
    let own: Vec<u32> = keys.chain(checks).chain(foreign).chain(triggers).collect();
    of.links.retain(|(id, _)| own.contains(id));
}

/// Returns error 55006 if the transaction still has deferred checks or triggers of the table.
pub fn check_settled(cx: &Cx<'_>, table: &TableDef) -> Result<(), SqlError> {
    let pending = cx.deferred.as_ref().is_some_and(|d| d.concerns(table.id));
    match pending {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::OBJECT_IN_USE,
            format!(
                "cannot ALTER TABLE \"{}\" because it has pending trigger events",
                table.name
            ),
        )),
    }
}
