//! COLLATE. All supported collations order by bytes, so none changes a result. The collation is
//! stored with columns and indexes.

use sqlparser::ast;

use super::{Binder, names};
use crate::catalog::{CATALOG_SCHEMA, Collation};
use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// Returns the collation of this name; 42704 if PostgreSQL has none of that name either, 0A000 for
/// others.
pub(super) fn collation_of(name: &ast::ObjectName) -> Result<Collation, SqlError> {
    let (schema, called) = names::table_name(name)?;
    collation_called(schema.as_deref(), &called)
}

fn collation_called(schema: Option<&str>, name: &str) -> Result<Collation, SqlError> {
    let known = Collation::called(name).filter(|_| schema.is_none_or(|of| of == CATALOG_SCHEMA));
    match known {
        Some(known) => Ok(known),
        // Names without quotes have been folded to lower case.
        None if matches!(name, "c" | "posix") => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
        )),
        None => Err(SqlError::unsupported(format!("collation \"{name}\""))),
    }
}

impl Binder<'_> {
    /// Returns the collation of a column whose type ALTER TABLE changes, as the statement gives it.
    pub(super) fn type_collation(&self, column: &str, ty: Type) -> Result<Collation, SqlError> {
        let Some((schema, name)) = crate::parser::type_collation(self.text, column) else {
            return Ok(Collation::Default);
        };
        collatable(ty)?;
        collation_called(schema.as_deref(), &name)
    }
}

/// Checks that values of the type have a collation; 42804 otherwise.
pub(super) fn collatable(ty: Type) -> Result<(), SqlError> {
    let root = ty.plain();
    let kind = root.kind.element().unwrap_or(root.kind);
    let collatable = crate::pg_catalog::collation(kind) != 0;
    match collatable || kind == Type::UNKNOWN.kind {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("collations are not supported by type {ty}"),
        )),
    }
}
