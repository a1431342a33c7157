//! Identifiers and qualified names.

use std::sync::Arc;

use sqlparser::ast::{self, Ident, ObjectName, ObjectNamePart};

use super::Binder;
use crate::catalog::{TableDef, temporary};
use crate::error::{SqlError, SqlState};
use crate::system::SystemTable;
use crate::walk::{Visitor, Walk};

/// Returns an identifier as PostgreSQL stores it: folded to lower case unless quoted, and truncated
/// to 63 bytes.
pub(super) fn fold(ident: &Ident) -> String {
    const NAME_BYTES_MAX: usize = 63;
    let mut name = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    };
    if name.len() > NAME_BYTES_MAX {
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    }
    name
}

/// Returns the identifiers of a qualified name.
pub(super) fn parts(name: &ObjectName) -> Result<Vec<&Ident>, SqlError> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(ident),
            ObjectNamePart::Function(_) => Err(SqlError::unsupported("a name made by a function")),
        })
        .collect()
}

/// Returns the schema and the name of a relation.
pub(super) fn table_name(name: &ObjectName) -> Result<(Option<String>, String), SqlError> {
    match parts(name)?.as_slice() {
        [table] => Ok((None, fold(table))),
        [schema, table] => Ok((Some(fold(schema)), fold(table))),
        [_, schema, table] => Ok((Some(fold(schema)), fold(table))),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("improper qualified name (too many dotted names): {name}"),
        )),
    }
}

/// Returns the name as messages display it.
pub(super) fn qualified_name(schema: Option<&str>, name: &str) -> String {
    match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    }
}

/// Returns the error 42P01 for a relation that does not exist.
pub(super) fn no_relation(schema: Option<&str>, name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_TABLE,
        format!(
            "relation \"{}\" does not exist",
            qualified_name(schema, name)
        ),
    )
}

/// Returns the system table of this name.
pub(super) fn system_table(name: &ObjectName) -> Option<SystemTable> {
    let (schema, table) = table_name(name).ok()?;
    SystemTable::named(schema.as_deref(), &table)
}

/// A visitor that reports relation names with another database.
struct OneDatabase<'a>(&'a str);

impl Visitor for OneDatabase<'_> {
    fn relation(&mut self, name: &ObjectName) -> Result<(), SqlError> {
        let [ObjectNamePart::Identifier(database), schema, table] = name.0.as_slice() else {
            return Ok(());
        };
        if fold(database) == self.0 {
            return Ok(());
        }
        let rest = [schema, table].map(|part| part.as_ident().map(fold).unwrap_or_default());
        let [schema, table] = rest;
        let database = fold(database);
        let message = format!(
            "cross-database references are not implemented: \"{database}.{schema}.{table}\""
        );
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }
}

impl Binder<'_> {
    /// Refuses a statement that names a relation of another database, with 0A000.
    pub(super) fn check_databases(&self, statement: &ast::Statement) -> Result<(), SqlError> {
        Walk(&mut OneDatabase(&self.cx.database)).statement(statement)
    }

    /// Returns the table of this name; 42P01 if it does not exist.
    pub(super) fn table(&self, name: &ObjectName) -> Result<Arc<TableDef>, SqlError> {
        let (schema, table) = table_name(name)?;
        let position = match name.0.first() {
            Some(ObjectNamePart::Identifier(ident)) => self.position(ident.span),
            _ => 0,
        };
        let found = self.table_called(schema.as_deref(), &table);
        let found = found.map_err(|e| e.or_at(position))?;
        Ok(match found.is_parent() && self.says_only(position) {
            true => Arc::new(found.without_partitions()),
            false => found,
        })
    }

    /// Returns the table of this name for a statement that changes its rows.
    pub(super) fn changed_table(&self, name: &ObjectName) -> Result<Arc<TableDef>, SqlError> {
        let table = self.table(name)?;
        if !self.refreshes {
            table.check_changeable()?;
        }
        Ok(table)
    }

    /// Returns whether ONLY precedes the name at this position.
    pub(super) fn says_only(&self, position: u32) -> bool {
        let before: String = self
            .text
            .chars()
            .take(position.saturating_sub(1) as usize)
            .collect();
        let before = before.trim_end().trim_end_matches('(').trim_end();
        let word = before
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next();
        word.is_some_and(|word| word.eq_ignore_ascii_case("only"))
    }

    /// Returns the table with this schema and name; 42P01 if it does not exist.
    pub(super) fn table_called(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Arc<TableDef>, SqlError> {
        self.check_usage(schema)?;
        if let Some(table) = self.catalog.table(schema, name)? {
            if temporary::is_temporary(&table.schema) && table.schema != self.cx.temporary_schema()
            {
                let message = "cannot access temporary tables of other sessions";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            return Ok(table);
        }
        match self.catalog.view(schema, name)? {
            Some(_) => Err(SqlError::unsupported("this on a view")),
            None => Err(no_relation(schema, name)),
        }
    }

    /// Returns the position of a column of a table; 42703 if it does not exist.
    pub(super) fn column_of(&self, table: &TableDef, ident: &Ident) -> Result<usize, SqlError> {
        let name = fold(ident);
        table
            .column(&name)
            .ok_or_else(|| no_column_of(&name, &table.name).or_at(self.position(ident.span)))
    }
}

/// Returns the error 42703 for a column that a known table does not have.
pub(super) fn no_column_of(column: &str, table: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{column}\" of relation \"{table}\" does not exist"),
    )
}
