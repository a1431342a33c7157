//! Storage parameters: they are stored in the catalog, and have no effect.

use fencepost_sql::bound::StorageChange;
use fencepost_sql::catalog::{TableDef, set_options};
use fencepost_sql::error::SqlError;

/// Stores the storage parameters of a table, or of one of its indexes.
pub fn keep(
    table: &mut TableDef,
    index: Option<&str>,
    what: &[StorageChange],
) -> Result<(), SqlError> {
    for what in what {
        let options = match index {
            None => &mut table.rules.storage.options,
            Some(index) => {
                let mut all = table.indexes.iter_mut();
                let found = all.find(|of| of.name == index);
                let lost = || SqlError::internal("an index without its table");
                &mut found.ok_or_else(lost)?.more.options
            }
        };
        match what {
            StorageChange::Set(said) => set_options(options, said),
            StorageChange::Reset(names) => options.retain(|(name, _)| !names.contains(name)),
            StorageChange::Unlogged(unlogged) => table.rules.storage.unlogged = *unlogged,
        }
    }
    Ok(())
}
