//! Definitions as SQL, as PostgreSQL writes them.

use crate::catalog::{IndexDef, IndexKind, TableDef};
use crate::functions::quote_ident as quoted;

/// A key column of an index, from 0, without its order.
pub fn index_column(table: &TableDef, index: &IndexDef, at: usize) -> Option<String> {
    let key = index.columns.get(at)?;
    Some(quoted(&table.columns[key.column].name))
}

/// CREATE INDEX.
pub fn index_definition(table: &TableDef, index: &IndexDef) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let using = match index.kind {
        IndexKind::BTree => "btree",
        IndexKind::Hash => "hash",
    };
    let columns = index.columns.iter().map(|key| {
        let mut text = quoted(&table.columns[key.column].name);
        if key.desc {
            text += " DESC";
        }
        // Where NULLs are unless it is said.
        match (key.nulls_first, key.desc) {
            (true, false) => text += " NULLS FIRST",
            (false, true) => text += " NULLS LAST",
            _ => {}
        }
        text
    });
    format!(
        "CREATE {unique}INDEX {} ON {}.{} USING {using} ({})",
        quoted(&index.name),
        quoted(&table.schema),
        quoted(&table.name),
        columns.collect::<Vec<_>>().join(", ")
    )
}

/// The constraint that an index came with.
pub fn constraint_definition(table: &TableDef, index: &IndexDef) -> String {
    let kind = if index.primary {
        "PRIMARY KEY"
    } else {
        "UNIQUE"
    };
    let columns = (0..index.columns.len()).filter_map(|at| index_column(table, index, at));
    format!("{kind} ({})", columns.collect::<Vec<_>>().join(", "))
}
