//! The names of types: they are unique in a schema, also among the row types of relations.

use fencepost_sql::catalog::CatalogView;
use fencepost_sql::error::{SqlError, SqlState};

use super::DdlCx;

/// Returns error 42710 if a type with this name exists, or a relation, which has a row type of the
/// same name.
pub fn check_free(schema: &str, name: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let types = ddl.snapshot.types();
    let of_relation = ddl.snapshot.table(Some(schema), name)?.is_some()
        || ddl.snapshot.view(Some(schema), name)?.is_some();
    match types.named(schema, name).is_some() || of_relation {
        false => Ok(()),
        true => Err(taken(name)),
    }
}

/// Returns an error if a type has the name of a new relation: 42P07 for a composite type, otherwise
/// 42710.
pub fn check_not_type(schema: &str, name: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    match ddl.snapshot.types().named(schema, name) {
        None => Ok(()),
        Some(ty) if ty.as_composite().is_some() => Err(SqlError::new(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists"),
        )),
        Some(_) => Err(taken(name).hint(
            "A relation has an associated type of the same name, \
             so you must use a name that doesn't conflict with any existing type.",
        )),
    }
}

fn taken(name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_OBJECT,
        format!("type \"{name}\" already exists"),
    )
}
