//! The maintenance commands VACUUM, ANALYZE, REINDEX and CLUSTER, and LOCK TABLE: checks that the
//! named objects exist and have the right kind.

use std::sync::Arc;

use super::{Binder, names};
use crate::bound::{AnalyzedTable, AnalyzedTargets, Maintenance, Statement};
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind, TableDef, ViewDef, denied};
use crate::error::{SqlError, SqlState};
use crate::lock_mode::LockMode;
use crate::parser::{MaintenanceCommand, MaintenanceSyntax, MaintenanceTarget};
use crate::pg_catalog::Relation;
use crate::table_locks::TableLocks;

/// The kinds of object that a name can refer to.
enum NamedObject {
    /// A table or materialized view, with its columns and indexes.
    Table(Arc<TableDef>),
    /// A system catalog.
    System(&'static Relation),
    View(Arc<ViewDef>),
    Sequence,
    Index,
}

impl Binder<'_> {
    pub(super) fn maintenance(
        &mut self,
        syntax: &MaintenanceSyntax,
    ) -> Result<Statement, SqlError> {
        let all = syntax.targets.is_empty();
        let concurrent = syntax.concurrently;
        let maintenance = match syntax.command {
            MaintenanceCommand::Lock { mode, waits } => {
                return self.lock_tables(&syntax.targets, mode, waits);
            }
            MaintenanceCommand::Vacuum => Maintenance::Vacuum { analyzes: None },
            MaintenanceCommand::VacuumAnalyze => {
                let analyzes = Some(self.analyzed(syntax)?);
                return Ok(Statement::Maintenance(Maintenance::Vacuum { analyzes }));
            }
            MaintenanceCommand::Analyze => {
                let analyzed = self.analyzed(syntax)?;
                return Ok(Statement::Maintenance(Maintenance::Analyze(analyzed)));
            }
            MaintenanceCommand::Cluster => Maintenance::Cluster { alone: all },
            MaintenanceCommand::ReindexTable if concurrent => {
                Maintenance::reindex("REINDEX TABLE CONCURRENTLY")
            }
            MaintenanceCommand::ReindexIndex if concurrent => {
                Maintenance::reindex("REINDEX INDEX CONCURRENTLY")
            }
            MaintenanceCommand::ReindexTable | MaintenanceCommand::ReindexIndex => {
                Maintenance::Reindex { alone: None }
            }
            MaintenanceCommand::ReindexSchema => Maintenance::reindex("REINDEX SCHEMA"),
            MaintenanceCommand::ReindexDatabase => Maintenance::reindex("REINDEX DATABASE"),
        };
        for target in &syntax.targets {
            self.check_target(syntax.command, target)?;
        }
        Ok(Statement::Maintenance(maintenance))
    }

    /// Returns the tables to analyze. A role analyzes only tables that it owns, and gets a warning
    /// for others that it names.
    fn analyzed(&self, syntax: &MaintenanceSyntax) -> Result<AnalyzedTargets, SqlError> {
        let mut tables = Vec::new();
        for target in &syntax.targets {
            self.check_target(syntax.command, target)?;
            check_repeated(target)?;
            let NamedObject::Table(table) = self.target_relation(target)? else {
                continue;
            };
            if !self.owns_table(&table) {
                self.cx.warn(format!(
                    "skipping \"{}\" --- only table or database owner can analyze it",
                    target.name
                ));
                continue;
            }
            let leaves = table.leaves().iter().filter(|_| !target.only);
            for table in std::iter::once(&table).chain(leaves) {
                let parts = target.parts.iter();
                tables.push(AnalyzedTable {
                    table: Arc::clone(table),
                    columns: parts.filter_map(|part| table.column(part)).collect(),
                });
            }
        }
        if syntax.targets.is_empty() {
            return Ok(AnalyzedTargets::All);
        }
        Ok(AnalyzedTargets::Tables(tables))
    }

    fn owns_table(&self, table: &TableDef) -> bool {
        self.acting().is_none_or(|(role, security)| {
            security.owns(role, Object::new(ObjectKind::Table, table.id))
        })
    }

    fn check_target(
        &self,
        command: MaintenanceCommand,
        target: &MaintenanceTarget,
    ) -> Result<(), SqlError> {
        let name = &target.name;
        let wrong = |what: &str| {
            let message = format!("\"{name}\" is not {what}");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        };
        match command {
            MaintenanceCommand::ReindexDatabase if *name == self.cx.database => {
                return match self.acting() {
                    Some((role, security)) => security.check_owner(role, security.database(), name),
                    None => Ok(()),
                };
            }
            MaintenanceCommand::ReindexDatabase => {
                let message = "can only reindex the currently open database";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            MaintenanceCommand::ReindexSchema => {
                self.check_schema(Some(name), false)?;
                return self.check_owns_schema(name);
            }
            _ => {}
        }
        let found = self.target_relation(target)?;
        if matches!(
            command,
            MaintenanceCommand::ReindexTable
                | MaintenanceCommand::ReindexIndex
                | MaintenanceCommand::Cluster
        ) {
            self.check_owns(&found, target)?;
        }
        match (command, found) {
            (MaintenanceCommand::ReindexIndex, NamedObject::Index) => Ok(()),
            (MaintenanceCommand::ReindexIndex, _) => wrong("an index"),
            (_, NamedObject::System(_)) => Ok(()),
            (
                MaintenanceCommand::ReindexTable | MaintenanceCommand::Cluster,
                NamedObject::View(_) | NamedObject::Sequence | NamedObject::Index,
            ) => wrong("a table or materialized view"),
            (MaintenanceCommand::Cluster, NamedObject::Table(table)) => {
                match target.parts.first() {
                    Some(index) if table.index(index).is_none() => Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("index \"{index}\" for table \"{name}\" does not exist"),
                    )),
                    _ => Ok(()),
                }
            }
            (_, NamedObject::Table(table)) => {
                let missing = target
                    .parts
                    .iter()
                    .find(|part| table.column(part).is_none());
                match missing {
                    Some(column) => Err(names::no_column_of(column, name)),
                    None => Ok(()),
                }
            }
            (MaintenanceCommand::Vacuum | MaintenanceCommand::VacuumAnalyze, _) => {
                self.cx.warn(format!(
                    "skipping \"{name}\" --- cannot vacuum non-tables or special system tables"
                ));
                Ok(())
            }
            (_, _) => {
                self.cx.warn(format!(
                    "skipping \"{name}\" --- cannot analyze non-tables or special system tables"
                ));
                Ok(())
            }
        }
    }

    /// Checks that the role owns the table, or the table of the index; 42501 otherwise.
    fn check_owns(&self, found: &NamedObject, target: &MaintenanceTarget) -> Result<(), SqlError> {
        let Some((role, security)) = self.acting() else {
            return Ok(());
        };
        let name = target.name.as_str();
        match found {
            NamedObject::Table(table) => {
                let object = Object::new(ObjectKind::Table, table.id);
                security.check_owner(role, object, name)
            }
            NamedObject::Index => {
                let schema = target.schema.as_deref();
                let table = self.catalog.table_of_index(schema, name)?;
                let object = table.map(|table| Object::new(ObjectKind::Table, table.id));
                match object.is_none_or(|object| security.owns(role, object)) {
                    true => Ok(()),
                    false => Err(denied(format!("must be owner of index {name}"))),
                }
            }
            NamedObject::View(_) | NamedObject::System(_) | NamedObject::Sequence => Ok(()),
        }
    }

    /// Checks that the role owns a schema; 42501 otherwise.
    fn check_owns_schema(&self, name: &str) -> Result<(), SqlError> {
        match (self.acting(), self.catalog.schema_oid(name)) {
            (Some((role, security)), Some(id)) => {
                security.check_owner(role, Object::new(ObjectKind::Schema, id), name)
            }
            _ => Ok(()),
        }
    }

    /// Binds LOCK TABLE. It also locks the partitions of a table, unless ONLY is given, and the
    /// relations that a view reads.
    fn lock_tables(
        &mut self,
        targets: &[MaintenanceTarget],
        mode: LockMode,
        waits: bool,
    ) -> Result<Statement, SqlError> {
        let mut tables = Vec::new();
        for target in targets {
            let name = &target.name;
            match self.target_relation(target)? {
                NamedObject::Table(table) => {
                    self.need_lock(Object::new(ObjectKind::Table, table.id), name, mode);
                    tables.push((table.id, name.clone()));
                    let leaves = table.leaves().iter().filter(|_| !target.only);
                    tables.extend(leaves.map(|leaf| (leaf.id, leaf.name.clone())));
                }
                NamedObject::View(view) => {
                    self.need_lock(Object::new(ObjectKind::View, view.id), name, mode);
                    tables.push((view.id, name.clone()));
                    for table in &view.tables {
                        let read = self.catalog.table_by_id(*table)?;
                        tables.extend(read.map(|read| (read.id, read.name.clone())));
                    }
                }
                NamedObject::System(relation) => tables.push((relation.oid, name.clone())),
                NamedObject::Sequence | NamedObject::Index => {
                    let what = format!("cannot lock relation \"{name}\"");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what)
                        .detail("This operation is not supported for this kind of relation."));
                }
            }
        }
        Ok(Statement::LockTables(TableLocks {
            tables,
            mode,
            waits,
        }))
    }

    /// Requires one of the privileges that allow a lock of this mode.
    fn need_lock(&mut self, object: Object, name: &str, mode: LockMode) {
        use Privileges as P;
        let any: &[Privileges] = match mode {
            LockMode::AccessShare => &[P::SELECT],
            LockMode::RowExclusive => &[P::UPDATE, P::DELETE, P::TRUNCATE, P::INSERT],
            _ => &[P::UPDATE, P::DELETE, P::TRUNCATE],
        };
        self.need_one_of(object, name, any);
    }

    fn target_relation(&self, target: &MaintenanceTarget) -> Result<NamedObject, SqlError> {
        let (schema, name) = (target.schema.as_deref(), target.name.as_str());
        self.check_schema(schema, false)?;
        if let Some(table) = self.catalog.table(schema, name)? {
            return Ok(NamedObject::Table(table));
        }
        if let Some(view) = self.catalog.view(schema, name)? {
            return Ok(NamedObject::View(view));
        }
        if self.catalog.table_of_index(schema, name)?.is_some() {
            return Ok(NamedObject::Index);
        }
        if self.catalog.sequence(schema, name)?.is_some() {
            return Ok(NamedObject::Sequence);
        }
        match Relation::named(schema, name) {
            Some(relation) => Ok(NamedObject::System(relation)),
            None => Err(names::no_relation(schema, name)),
        }
    }
}

/// Checks that ANALYZE names no column of a table twice; 42701 otherwise.
fn check_repeated(target: &MaintenanceTarget) -> Result<(), SqlError> {
    for (position, column) in target.parts.iter().enumerate() {
        if target.parts[..position].contains(column) {
            let name = &target.name;
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{column}\" of relation \"{name}\" appears more than once"),
            ));
        }
    }
    Ok(())
}
