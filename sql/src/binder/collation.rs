//! COLLATE. All collations that there are order by bytes, so none changes what a statement gives; which one is meant is kept with
//! columns and indexes.

use sqlparser::ast;

use super::{Binder, names};
use crate::catalog::{CATALOG_SCHEMA, Collation};
use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// The collation that a name is of: 42704 for one that PostgreSQL has not either, 0A000 for others.
pub(super) fn collation_of(name: &ast::ObjectName) -> Result<Collation, SqlError> {
    let (schema, called) = names::table_name(name)?;
    collation_called(schema.as_deref(), &called)
}

fn collation_called(schema: Option<&str>, name: &str) -> Result<Collation, SqlError> {
    let known = Collation::called(name).filter(|_| schema.is_none_or(|of| of == CATALOG_SCHEMA));
    match known {
        Some(known) => Ok(known),
        // Without quotes they are in lower case.
        None if matches!(name, "c" | "posix") => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
        )),
        None => Err(SqlError::unsupported(format!("collation \"{name}\""))),
    }
}

impl Binder<'_> {
    /// The collation of a column with its new type, which an ALTER TABLE may say.
    pub(super) fn type_collation(&self, column: &str, ty: Type) -> Result<Collation, SqlError> {
        let Some((schema, name)) = crate::parser::type_collation(self.text, column) else {
            return Ok(Collation::Default);
        };
        collatable(ty)?;
        collation_called(schema.as_deref(), &name)
    }
}

/// 42804 unless values of the type have a collation.
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
