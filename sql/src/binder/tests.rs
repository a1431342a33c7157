//! Statements bound.

use std::sync::Arc;

use crate::catalog::{CatalogView, RoleDef, TableDef};
use crate::error::SqlError;

/// A catalog without tables.
pub(crate) struct NoTables;

impl CatalogView for NoTables {
    fn table(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn table_of_index(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn role(&self, _: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(None)
    }
}
