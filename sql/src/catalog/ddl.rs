//! Definitions as the statements that make them again.
//!
//! A table comes with its constraints; other indexes and foreign keys have statements of their own, so that they can
//! be made once there are rows. Tables come in the order in which they were made: one that is kept together with others names one
//! that comes before it.
//!
//! A partition is made as a table of its own, so that it can be filled; partitioned tables come behind all tables with rows,
//! and then their partitions are attached.
//!
//! Every name is in quotes, whatever it is. A type that users made comes with the first table that has it.

use super::def::{IndexDef, IndexKind, TableDef};
use super::rules::ForeignKeyDef;
use crate::pg_catalog::bound_text;
use crate::types::TypeKind;

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
    let mut types = Vec::new();
    let with_rows = |table: &&TableDef| !table.is_parent();
    let mut made = Vec::new();
    for (at, table) in tables
        .iter()
        .enumerate()
        .filter(|(_, table)| with_rows(table))
    {
        let mut before = tables[..at].iter();
        let with = before.find(|before| group(table).is_some() && group(before) == group(table));
        made.push(Ddl {
            table: table.name.clone(),
            is_table: true,
            statement: create_types(table, &mut types) + &create_table(table, with.copied()),
        });
    }
    let indexes = |of: &dyn Fn(&&TableDef) -> bool| {
        let mut all = Vec::new();
        for table in tables.iter().copied().filter(|table| of(table)) {
            let own = table.indexes.iter();
            let own = own.filter(|index| !index.constraint && !index.is_hidden());
            all.extend(own.map(|index| Ddl {
                table: table.name.clone(),
                is_table: false,
                statement: create_index(table, index),
            }));
        }
        all
    };
    made.extend(indexes(&with_rows));
    let parents = tables.iter().filter(|table| table.is_parent());
    made.extend(parents.map(|table| Ddl {
        table: table.name.clone(),
        is_table: false,
        statement: create_types(table, &mut types) + &create_table(table, None),
    }));
    made.extend(tables.iter().filter_map(|table| attach(table, &tables)));
    made.extend(indexes(&|table: &&TableDef| table.is_parent()));
    let keys = tables.iter().flat_map(|table| {
        let own = table.rules.foreign_keys.iter();
        let own = own.filter(|key| table.link(key.id).is_none());
        own.filter_map(|key| {
            let parent = tables.iter().find(|parent| parent.id == key.parent)?;
            Some(Ddl {
                table: table.name.clone(),
                is_table: false,
                statement: add_foreign_key(table, key, parent),
            })
        })
    });
    made.extend(keys);
    made
}

/// What makes a partition of a table that is there.
fn attach(table: &TableDef, tables: &[&TableDef]) -> Option<Ddl> {
    let of = table.partition_of_table()?;
    let parent = tables.iter().find(|parent| parent.id == of.parent)?;
    let bound = bound_text(parent, &of.bound)?;
    Some(Ddl {
        table: table.name.clone(),
        is_table: false,
        statement: format!(
            "ALTER TABLE {} ATTACH PARTITION {} {bound}",
            name(parent),
            name(table)
        ),
    })
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

/// What makes the types of the columns that no table before had, whose oids are in `made`.
fn create_types(table: &TableDef, made: &mut Vec<u32>) -> String {
    let mut text = String::new();
    for column in &table.columns {
        let kind = column.ty.kind;
        let TypeKind::Enum(of) = kind.element().unwrap_or(kind) else {
            continue;
        };
        let definition = of.definition();
        if !made.contains(&definition.id) {
            made.push(definition.id);
            let labels = of
                .values()
                .map(|value| format!("'{}'", value.name().replace('\'', "''")));
            text += &format!(
                "CREATE TYPE {} AS ENUM ({}); ",
                definition.shown,
                list(labels)
            );
        }
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
    if let Some(key) = table.partition_key() {
        let columns = key.columns.iter().map(|at| column(table, *at));
        text += &format!(" PARTITION BY {} ({})", key.strategy.name(), list(columns));
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
        let mut text = match index.expression(key.column) {
            Some(expression) => format!("({})", expression.text),
            None => column(table, key.column),
        };
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
