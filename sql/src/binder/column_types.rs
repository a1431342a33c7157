//! Column definition lists: `FROM f() AS x (a int, b text)`.

use sqlparser::ast;

use super::{Binder, names};
use crate::error::SqlError;
use crate::types::Type;

impl Binder<'_> {
    /// Returns the column definition list of an alias; `None` if the alias gives no types.
    pub(super) fn column_definitions(
        &self,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Option<Vec<(String, Type)>>, SqlError> {
        let columns = alias.map_or(&[][..], |alias| &alias.columns);
        let mut definitions = Vec::new();
        for column in columns {
            if let Some(data_type) = &column.data_type {
                definitions.push((
                    names::fold(&column.name),
                    super::type_of(data_type, self.catalog)?,
                ));
            }
        }
        Ok((!definitions.is_empty() && definitions.len() == columns.len()).then_some(definitions))
    }
}
