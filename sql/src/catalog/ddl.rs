//! Definitions as the statements that make them again.
//!
//! A table comes with its constraints; other indexes and foreign keys have statements of their own, so that they can
//! be made once there are rows. Tables come in the order in which they were made: one that is kept together with others names one
//! that comes before it.
//!
//! Every name is in quotes, whatever it is.

use super::def::{IndexDef, IndexKind, TableDef};
use super::rules::ForeignKeyDef;

/// A statement that makes something of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ddl {
    /// The table's name.
    pub table: String,
    /// Whether it makes the table itself, and not an index of it.
    pub is_table: bool,
    /// Its text.
    pub statement: String,
}

/// What makes all these tables, empty, and then their indexes.
pub fn statements<'a>(tables: impl IntoIterator<Item = &'a TableDef>) -> Vec<Ddl> {
    let mut tables: Vec<&TableDef> = tables.into_iter().collect();
    tables.sort_by_key(|table| table.id);
    let group = |table: &TableDef| table.partitioning.map(|by| by.group);
    let made = tables.iter().enumerate().map(|(at, table)| {
        let mut before = tables[..at].iter();
        let with = before.find(|before| group(table).is_some() && group(before) == group(table));
        Ddl {
            table: table.name.clone(),
            is_table: true,
            statement: create_table(table, with.copied()),
        }
    });
    let indexes = tables.iter().flat_map(|table| {
        let own = table.indexes.iter();
        let own = own.filter(|index| !index.constraint && !index.is_hidden());
        own.map(|index| Ddl {
            table: table.name.clone(),
            is_table: false,
            statement: create_index(table, index),
        })
    });
    let keys = tables.iter().flat_map(|table| {
        let own = table.rules.foreign_keys.iter();
        own.filter_map(|key| {
            let parent = tables.iter().find(|parent| parent.id == key.parent)?;
            Some(Ddl {
                table: table.name.clone(),
                is_table: false,
                statement: add_foreign_key(table, key, parent),
            })
        })
    });
    made.chain(indexes).chain(keys).collect()
}

fn add_foreign_key(table: &TableDef, key: &ForeignKeyDef, parent: &TableDef) -> String {
    let columns = |table: &TableDef, columns: &[usize]| {
        list(columns.iter().map(|position| column(table, *position)))
    };
    let mut text = format!(
        "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({})",
        name(table),
        quoted(&key.name),
        columns(table, &key.columns),
        name(parent),
        columns(parent, &key.parent_columns)
    );
    if key.full {
        text += " MATCH FULL";
    }
    for (when, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
        if let Some(action) = action.written() {
            text += &format!(" ON {when} {action}");
        }
    }
    if key.deferrable {
        text += " DEFERRABLE";
    }
    if key.deferred {
        text += " INITIALLY DEFERRED";
    }
    text
}

fn create_table(table: &TableDef, with: Option<&TableDef>) -> String {
    let columns = table.columns.iter().map(|column| {
        let mut text = format!("{} {}", quoted(&column.name), column.ty);
        if column.not_null {
            text += " NOT NULL";
        }
        if let Some(default) = &column.default {
            text += " DEFAULT ";
            text += default;
        }
        if let Some(generated) = &column.more.generated {
            text += &format!(" GENERATED ALWAYS AS ({generated}) STORED");
        }
        text
    });
    let constraints = table.indexes.iter().filter(|index| index.constraint);
    let constraints = constraints.map(|index| {
        let kind = match index.primary {
            true => "PRIMARY KEY",
            false => "UNIQUE",
        };
        let columns = index.columns.iter().map(|key| column(table, key.column));
        format!(
            "CONSTRAINT {} {kind} ({})",
            quoted(&index.name),
            list(columns)
        )
    });
    let checks = table.rules.checks.iter();
    let checks =
        checks.map(|check| format!("CONSTRAINT {} CHECK ({})", quoted(&check.name), check.text));
    let mut text = format!(
        "CREATE TABLE {} ({})",
        name(table),
        list(columns.chain(constraints).chain(checks))
    );
    let mut options = Vec::new();
    if let Some(by) = table.partitioning {
        text += " PARTITION BY HASH (";
        text += &column(table, by.column);
        text += ")";
        options.push(format!("partitions = {}", by.count));
        options.extend(with.map(|with| format!("colocate_with = {}", name(with))));
    }
    let key = table.primary_key();
    if key.is_some_and(|key| key.kind == IndexKind::Hash) {
        options.push("index = hash".to_owned());
    }
    if !options.is_empty() {
        text += &format!(" WITH ({})", list(options.into_iter()));
    }
    text
}

fn create_index(table: &TableDef, index: &IndexDef) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let using = match index.kind {
        IndexKind::BTree => "btree",
        IndexKind::Hash => "hash",
    };
    let columns = index.columns.iter().map(|key| {
        let mut text = column(table, key.column);
        if key.desc {
            text += " DESC";
        }
        // Where NULLs are unless it is said.
        if key.nulls_first != key.desc {
            text += if key.nulls_first {
                " NULLS FIRST"
            } else {
                " NULLS LAST"
            };
        }
        text
    });
    let mut text = format!(
        "CREATE {unique}INDEX {} ON {} USING {using} ({})",
        quoted(&index.name),
        name(table),
        list(columns)
    );
    if !index.more.include.is_empty() {
        let include = index.more.include.iter().map(|c| column(table, *c));
        text += &format!(" INCLUDE ({})", list(include));
    }
    if let Some(predicate) = &index.more.predicate {
        text += &format!(" WHERE {}", predicate.text);
    }
    text
}

/// With its schema.
fn name(table: &TableDef) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}

fn column(table: &TableDef, at: usize) -> String {
    quoted(&table.columns[at].name)
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
