//! VACUUM, ANALYZE, REINDEX, CLUSTER and LOCK TABLE: that what they name is there, and is what it should be.

use super::{Binder, names};
use crate::bound::{Maintenance, Statement};
use crate::error::{SqlError, SqlState};
use crate::parser::{Upkeep, UpkeepSyntax, UpkeepTarget};
use crate::pg_catalog::Relation;

/// What a name turned out to be.
enum Found {
    /// A table or materialized view, with its columns and indexes.
    Table(std::sync::Arc<crate::catalog::TableDef>),
    /// Something of the catalog.
    System,
    View,
    Sequence,
    Index,
}

impl Binder<'_> {
    pub(super) fn upkeep(&self, syntax: &UpkeepSyntax) -> Result<Statement, SqlError> {
        for target in &syntax.targets {
            self.check_target(syntax.upkeep, target)?;
        }
        let all = syntax.targets.is_empty();
        let concurrent = syntax.concurrently;
        Ok(Statement::Maintenance(match syntax.upkeep {
            Upkeep::Vacuum => Maintenance::Vacuum,
            Upkeep::Analyze => Maintenance::Analyze,
            Upkeep::Lock => Maintenance::Lock,
            Upkeep::Cluster => Maintenance::Cluster { alone: all },
            Upkeep::ReindexTable if concurrent => {
                Maintenance::reindex("REINDEX TABLE CONCURRENTLY")
            }
            Upkeep::ReindexIndex if concurrent => {
                Maintenance::reindex("REINDEX INDEX CONCURRENTLY")
            }
            Upkeep::ReindexTable | Upkeep::ReindexIndex => Maintenance::Reindex { alone: None },
            Upkeep::ReindexSchema => Maintenance::reindex("REINDEX SCHEMA"),
            Upkeep::ReindexDatabase => Maintenance::reindex("REINDEX DATABASE"),
        }))
    }

    fn check_target(&self, upkeep: Upkeep, target: &UpkeepTarget) -> Result<(), SqlError> {
        let name = &target.name;
        let wrong = |what: &str| {
            let message = format!("\"{name}\" is not {what}");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        };
        match upkeep {
            Upkeep::ReindexDatabase if *name == self.cx.database => return Ok(()),
            Upkeep::ReindexDatabase => {
                let message = "can only reindex the currently open database";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Upkeep::ReindexSchema => return self.check_schema(Some(name), false),
            _ => {}
        }
        let found = self.relation_for_upkeep(target)?;
        match (upkeep, found) {
            (Upkeep::ReindexIndex, Found::Index) => Ok(()),
            (Upkeep::ReindexIndex, _) => wrong("an index"),
            (Upkeep::Lock, Found::Sequence | Found::Index) => {
                let what = format!("cannot lock relation \"{name}\"");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what)
                    .detail("This operation is not supported for this kind of relation."))
            }
            (Upkeep::Lock, _) | (_, Found::System) => Ok(()),
            (Upkeep::ReindexTable, Found::View | Found::Sequence | Found::Index) => {
                wrong("a table or materialized view")
            }
            (Upkeep::Cluster, Found::View | Found::Sequence | Found::Index) => {
                wrong("a table or materialized view")
            }
            (Upkeep::Cluster, Found::Table(table)) => match target.parts.first() {
                Some(index) if table.index(index).is_none() => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("index \"{index}\" for table \"{name}\" does not exist"),
                )),
                _ => Ok(()),
            },
            (_, Found::Table(table)) => {
                let missing = target
                    .parts
                    .iter()
                    .find(|part| table.column(part).is_none());
                match missing {
                    Some(column) => Err(names::no_column_of(column, name)),
                    None => Ok(()),
                }
            }
            (Upkeep::Vacuum, _) => {
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

    fn relation_for_upkeep(&self, target: &UpkeepTarget) -> Result<Found, SqlError> {
        let (schema, name) = (target.schema.as_deref(), target.name.as_str());
        self.check_schema(schema, false)?;
        if let Some(table) = self.catalog.table(schema, name)? {
            return Ok(Found::Table(table));
        }
        if self.catalog.view(schema, name)?.is_some() {
            return Ok(Found::View);
        }
        if self.catalog.table_of_index(schema, name)?.is_some() {
            return Ok(Found::Index);
        }
        if self.catalog.sequence(schema, name)?.is_some() {
            return Ok(Found::Sequence);
        }
        match Relation::named(schema, name) {
            Some(_) => Ok(Found::System),
            None => Err(names::no_relation(schema, name)),
        }
    }
}
