//! The statements that recreate tables, indexes, partitions and foreign keys.

use std::sync::Arc;

use super::{Ddl, DdlKind, list, qualified, quoted, type_text};
use crate::catalog::{
    CheckDef, Collation, ForeignKeyDef, Identity, IndexDef, IndexKind, SequenceDef, Snapshot,
    TableDef,
};
use crate::pg_catalog::{bound_text, look, with_options};

/// Returns statements for a table and its identity columns.
pub(super) fn table(snapshot: &Snapshot, all: &[Arc<TableDef>], table: &TableDef) -> Vec<Ddl> {
    let group = |table: &TableDef| table.partitioning.map(|by| by.group);
    let mut before = all.iter().take_while(|before| before.id < table.id);
    let with = before.find(|before| group(table).is_some() && group(before) == group(table));
    let kind = match table.is_parent() {
        true => DdlKind::PartitionedTable,
        false => DdlKind::Table,
    };
    let mut made = vec![of(kind, table, create_table(snapshot, table, with))];
    made.extend(identities(snapshot, table));
    made
}

/// Returns statements for the identity columns, with their sequences.
fn identities(snapshot: &Snapshot, table: &TableDef) -> Vec<Ddl> {
    let columns = table.columns.iter();
    let identities = columns.filter_map(|column| {
        let (identity, id) = (column.more.identity?, column.more.sequence?);
        let sequence = snapshot.sequences().find(|sequence| sequence.id == id)?;
        let always = match identity {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        };
        let text = format!(
            "ALTER TABLE {} ALTER COLUMN {} ADD GENERATED {always} \
             AS IDENTITY (SEQUENCE NAME {} {})",
            name(table),
            quoted(&column.name),
            qualified(&sequence.schema, &sequence.name),
            values(sequence)
        );
        Some(of(DdlKind::Identity, table, text))
    });
    identities.collect()
}

/// Returns the options of a sequence.
pub(super) fn values(of: &SequenceDef) -> String {
    format!(
        "START WITH {} INCREMENT BY {} MINVALUE {} MAXVALUE {} CACHE {}{}",
        of.start,
        of.increment,
        of.min,
        of.max,
        of.cache,
        if of.cycle { " CYCLE" } else { "" }
    )
}

/// Returns statements for the indexes without constraints of the tables that `which` selects.
pub(super) fn indexes(tables: &[Arc<TableDef>], which: impl Fn(&TableDef) -> bool) -> Vec<Ddl> {
    let mut all = Vec::new();
    for table in tables.iter().filter(|table| which(table)) {
        let own = table.indexes.iter();
        let own = own.filter(|index| !index.constraint && !index.is_hidden());
        all.extend(own.map(|index| of(DdlKind::Index, table, create_index(table, index))));
    }
    all
}

/// Returns statements that attach partitions.
pub(super) fn attachments(tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let attached = tables.iter().filter_map(|table| attach(table, tables));
    attached.collect()
}

/// Returns statements for the foreign keys that are not inherited, and for CHECKs that are NOT
/// VALID.
pub(super) fn foreign_keys(tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let mut all = Vec::new();
    for table in tables {
        let own = table.rules.foreign_keys.iter();
        let own = own.filter(|key| table.link(key.id).is_none());
        all.extend(own.filter_map(|key| {
            let parent = tables.iter().find(|parent| parent.id == key.parent)?;
            let text = add_foreign_key(table, key, parent);
            Some(of(DdlKind::ForeignKey, table, text))
        }));
        let unlooked = table.rules.checks.iter().filter(|check| !check.valid);
        all.extend(unlooked.map(|check| {
            let (name, check) = (name(table), check_text(check));
            let text = format!("ALTER TABLE {name} ADD {check} NOT VALID");
            of(DdlKind::ForeignKey, table, text)
        }));
    }
    all
}

fn of(kind: DdlKind, table: &TableDef, statement: String) -> Ddl {
    Ddl::new(kind, &table.schema, &table.name, statement)
}

/// Returns the statement that attaches a partition to an existing table.
fn attach(table: &TableDef, tables: &[Arc<TableDef>]) -> Option<Ddl> {
    let part = table.partition_of_table()?;
    let parent = tables.iter().find(|parent| parent.id == part.parent)?;
    let bound = bound_text(parent, &part.bound)?;
    let (parent, partition) = (name(parent), name(table));
    let text = format!("ALTER TABLE {parent} ATTACH PARTITION {partition} {bound}");
    Some(of(DdlKind::Partition, table, text))
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
        if when == "DELETE" && !key.delete_columns.is_empty() {
            text += &format!(" ({})", columns(table, &key.listed_on_delete()));
        }
    }
    if key.deferrable {
        text += " DEFERRABLE";
    }
    if key.deferred {
        text += " INITIALLY DEFERRED";
    }
    if !key.valid {
        text += " NOT VALID";
    }
    text
}

fn create_table(snapshot: &Snapshot, table: &TableDef, with: Option<&Arc<TableDef>>) -> String {
    let columns = table.columns.iter().map(|column| {
        let ty = type_text(snapshot, column.declared());
        let mut text = format!("{} {ty}", quoted(&column.name));
        if column.more.collation != Collation::Default {
            text += &format!(" COLLATE {}", quoted(column.more.collation.name()));
        }
        if column.not_null {
            text += " NOT NULL";
        }
        if let Some(default) = &column.default
            && column.more.identity.is_none()
        {
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
            "CONSTRAINT {} {kind}{} ({}){}{}",
            quoted(&index.name),
            index.more.of_nulls(),
            list(columns),
            with_options(&index.more.options),
            index.more.deferrability()
        )
    });
    // CHECKs that are NOT VALID are added after the rows are loaded.
    let checks = table.rules.checks.iter().filter(|check| check.valid);
    let mut text = format!(
        "CREATE {}TABLE {} ({})",
        if table.rules.storage.unlogged {
            "UNLOGGED "
        } else {
            ""
        },
        name(table),
        list(columns.chain(constraints).chain(checks.map(check_text)))
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
    let kept = with_options(&table.rules.storage.options);
    let kept = kept
        .strip_prefix(" WITH (")
        .and_then(|of| of.strip_suffix(')'));
    options.extend(kept.map(str::to_owned));
    if !options.is_empty() {
        text += &format!(" WITH ({})", list(options.into_iter()));
    }
    text
}

fn check_text(check: &CheckDef) -> String {
    let inherit = if check.no_inherit { " NO INHERIT" } else { "" };
    format!(
        "CONSTRAINT {} CHECK ({}){inherit}",
        quoted(&check.name),
        check.text
    )
}

fn create_index(table: &TableDef, index: &IndexDef) -> String {
    let unique = if index.is_unique() { "UNIQUE " } else { "" };
    let using = match index.kind {
        IndexKind::BTree => "btree",
        IndexKind::Hash => "hash",
    };
    let columns = index.columns.iter().enumerate().map(|(at, key)| {
        let mut text = match index.expression(key.column) {
            Some(expression) => format!("({})", expression.text),
            None => column(table, key.column),
        };
        text += &look(table, index, at);
        if key.desc {
            text += " DESC";
        }
        // NULLs come last in ascending order by default, and first in descending order.
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
    text += index.more.of_nulls();
    text += &with_options(&index.more.options);
    if let Some(predicate) = &index.more.predicate {
        text += &format!(" WHERE {}", predicate.text);
    }
    text
}

/// Returns the name of the table with its schema.
fn name(table: &TableDef) -> String {
    qualified(&table.schema, &table.name)
}

fn column(table: &TableDef, at: usize) -> String {
    quoted(&table.columns[at].name)
}
