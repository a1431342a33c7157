//! Storage options of ALTER TABLE and ALTER INDEX: checks that the named objects exist, and keeps
//! the parameters that the catalog stores.

use super::super::{Binder, names};
use crate::bound::{AlterAction, AlterTable, Statement, StorageChange};
use crate::catalog::{TableDef, temporary};
use crate::error::{SqlError, SqlState};
use crate::parser::{StorageActionPart, StorageActionSyntax, StorageObjectKind};

impl Binder<'_> {
    pub(in super::super) fn alter_keeping(
        &mut self,
        syntax: &StorageActionSyntax,
    ) -> Result<Statement, SqlError> {
        let (schema, name) = &syntax.name;
        let schema = schema.as_deref();
        let table = match syntax.of {
            StorageObjectKind::Index => self.catalog.table_of_index(schema, name)?,
            StorageObjectKind::Table | StorageObjectKind::Materialized => {
                self.catalog.table(schema, name)?
            }
        };
        let materialized = syntax.of == StorageObjectKind::Materialized;
        match &table {
            None if !syntax.if_exists => return Err(names::no_relation(schema, name)),
            Some(table) if materialized && table.materialized.is_none() => {
                let message = format!("\"{name}\" is not a materialized view");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => {}
        }
        let mut what = Vec::new();
        if let Some(table) = &table {
            for part in &syntax.parts {
                match part {
                    StorageActionPart::Column(column) if table.column(column).is_none() => {
                        return Err(names::no_column_of(column, &table.name));
                    }
                    StorageActionPart::Index(index) if table.index(index).is_none() => {
                        return Err(SqlError::new(
                            SqlState::UNDEFINED_OBJECT,
                            format!(
                                "index \"{index}\" for table \"{}\" does not exist",
                                table.name
                            ),
                        ));
                    }
                    StorageActionPart::Set(options)
                        if table.is_parent() && syntax.of == StorageObjectKind::Table =>
                    {
                        check_unpartitioned(options)?;
                    }
                    StorageActionPart::Set(options) => {
                        what.push(StorageChange::Set(options.clone()))
                    }
                    StorageActionPart::Reset(names) => {
                        what.push(StorageChange::Reset(names.clone()))
                    }
                    StorageActionPart::Unlogged(unlogged) => {
                        self.check_persistence(table, *unlogged)?;
                        what.push(StorageChange::Unlogged(*unlogged));
                    }
                    _ => {}
                }
            }
        }
        let index = syntax.of == StorageObjectKind::Index;
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized,
            name: name.clone(),
            table,
            only: false,
            actions: vec![AlterAction::Keep {
                index: index.then(|| name.clone()),
                what,
            }],
        }))
    }

    /// Refuses a change of persistence if a foreign key would connect a logged and an unlogged
    /// table.
    fn check_persistence(&self, table: &TableDef, unlogged: bool) -> Result<(), SqlError> {
        let (to, is) = match unlogged {
            true => ("unlogged", "logged"),
            false => ("logged", "unlogged"),
        };
        let invalid =
            |message: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        let name = &table.name;
        if temporary::is_temporary(&table.schema) {
            return invalid(format!(
                "cannot change logged status of table \"{name}\" because it is temporary"
            ));
        }
        if table.rules.storage.unlogged == unlogged {
            return Ok(());
        }
        let keys = table.rules.foreign_keys.iter().map(|key| key.parent);
        let related: Vec<u32> = match unlogged {
            true => table.rules.referenced_by.clone(),
            false => keys.collect(),
        };
        for id in related.into_iter().filter(|id| *id != table.id) {
            if let Some(other) = self.catalog.table_by_id(id)?
                && other.rules.storage.unlogged != unlogged
            {
                return invalid(format!(
                    "could not change table \"{name}\" to {to} because it \
                     references {is} table \"{}\"",
                    other.name
                ));
            }
        }
        Ok(())
    }
}

/// Refuses storage parameters of a partitioned table, which has no rows of its own, with 22023.
pub(super) fn check_unpartitioned(options: &[(String, String)]) -> Result<(), SqlError> {
    match options.first() {
        None => Ok(()),
        Some((name, _)) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized parameter \"{name}\""),
        )),
    }
}
