//! Relations: the rows of `pg_class`, and the comments on them.

use std::sync::Arc;

use super::privileges::{acl, owner};
use super::rows::Rows;
use super::sequences::SEQUENCE_COLUMNS;
use super::triggers::TRIGGER_CLASS;
use super::{Relation, RowInputs, class, namespace_oid, partition_bound};
use crate::catalog::{CatalogView, IndexDef, IndexKind, ObjectKind, Snapshot, TableDef, temporary};
use crate::types::composites::ROW_TYPE;
use crate::value::{Array, Value};

/// The oids of the access methods.
const HEAP: u32 = 2;
const BTREE: u32 = 403;
const HASH: u32 = 405;

/// Returns whether a table has triggers. As in PostgreSQL, foreign keys count: its own, and those
/// that reference it or a table of which it is a partition.
fn has_triggers(snapshot: &Snapshot, table: &Arc<TableDef>) -> bool {
    let rules = &table.rules;
    if !rules.foreign_keys.is_empty() || !rules.triggers.is_empty() {
        return true;
    }
    let above = |table: &Arc<TableDef>| {
        let parent = table.partition_of_table()?.parent;
        snapshot.table_by_id(parent).ok().flatten()
    };
    let mut all = std::iter::successors(Some(Arc::clone(table)), above);
    all.any(|table| !table.rules.referenced_by.is_empty())
}

pub(super) fn namespace(around: &RowInputs<'_>, schema: &str) -> Value {
    Value::Oid(namespace_oid(around.snapshot, schema).unwrap_or(0))
}

/// Returns the indexes that are visible to users.
pub fn visible(table: &TableDef) -> impl Iterator<Item = &IndexDef> {
    table.indexes.iter().filter(|index| !index.is_hidden())
}

/// Returns `relpersistence` of a table: `u` for unlogged tables.
fn persistence_of(table: &TableDef) -> Value {
    match table.rules.storage.unlogged {
        true => Value::text("u"),
        false => persistence(&table.schema),
    }
}

/// Returns `relpersistence`: `t` for temporary relations, `p` for others.
fn persistence(schema: &str) -> Value {
    Value::text(match temporary::is_temporary(schema) {
        true => "t",
        false => "p",
    })
}

/// Returns `reltuples` of a table: the number of rows when it was analyzed, or -1.
fn analyzed_rows(around: &RowInputs<'_>, table: &TableDef) -> Value {
    let source = around.cx.table_statistics.as_ref();
    let statistics = source.and_then(|source| source.statistics(table));
    Value::Float4(statistics.map_or(-1.0, |statistics| statistics.rows as f32))
}

/// Adds the rows of `pg_class`.
pub fn classes(rows: &mut Rows, around: &RowInputs<'_>) {
    let snapshot = around.snapshot;
    let common = |oid: u32, name: &str, kind: &str, columns: usize| {
        [
            ("oid", Value::Oid(oid)),
            ("relname", Value::text(name)),
            ("relowner", owner(snapshot, ObjectKind::Table, oid)),
            ("relacl", acl(snapshot, ObjectKind::Table, oid)),
            ("reltuples", Value::Float4(-1.0)),
            ("relkind", Value::text(kind)),
            ("relnatts", Value::Int2(columns as i16)),
            ("relispopulated", Value::Bool(true)),
        ]
    };
    for relation in Relation::all() {
        let own = [
            ("relnamespace", namespace(around, relation.schema)),
            ("relpersistence", persistence(relation.schema)),
            ("relreplident", Value::text("n")),
            ("relhasrules", Value::Bool(relation.kind == "v")),
            ("relfilenode", Value::Oid(0)),
        ];
        let all = common(
            relation.oid,
            relation.name,
            relation.kind,
            relation.columns.len(),
        );
        rows.add(all.into_iter().chain(own));
    }
    for table in around.snapshot.tables() {
        let own = [
            ("reltype", Value::Oid(table.id | ROW_TYPE)),
            ("reltuples", analyzed_rows(around, &table)),
            ("relnamespace", namespace(around, &table.schema)),
            ("relpersistence", persistence_of(&table)),
            ("reloptions", options(&table.rules.storage.options)),
            (
                "relam",
                Value::Oid(if table.is_parent() { 0 } else { HEAP }),
            ),
            (
                "relfilenode",
                Value::Oid(if table.is_parent() { 0 } else { table.id }),
            ),
            ("relhasindex", Value::Bool(visible(&table).next().is_some())),
            ("relchecks", Value::Int2(table.rules.checks.len() as i16)),
            (
                "relhastriggers",
                Value::Bool(has_triggers(around.snapshot, &table)),
            ),
            ("relreplident", Value::text("d")),
            (
                "relispartition",
                Value::Bool(table.partition_of_table().is_some()),
            ),
            (
                "relhassubclass",
                Value::Bool(
                    table
                        .tree()
                        .is_some_and(|tree| !tree.top.members.is_empty()),
                ),
            ),
            (
                "relpartbound",
                partition_bound(around.snapshot, &table).map_or(Value::Null, Value::text),
            ),
        ];
        let query = table.materialized.as_deref();
        let own = own.into_iter().chain([
            ("relhasrules", Value::Bool(query.is_some())),
            (
                "relispopulated",
                Value::Bool(query.is_none_or(|query| query.populated)),
            ),
        ]);
        let kind = match query {
            Some(_) => "m",
            None if table.is_parent() => "p",
            None => "r",
        };
        let all = common(table.id, &table.name, kind, table.columns.len());
        rows.add(all.into_iter().chain(own));
        for index in visible(&table) {
            let own = [
                ("relnamespace", namespace(around, &table.schema)),
                ("relpersistence", persistence_of(&table)),
                ("reloptions", options(&index.more.options)),
                ("relam", Value::Oid(method(index))),
                ("relfilenode", Value::Oid(index.id)),
                ("relreplident", Value::text("n")),
                (
                    "relispartition",
                    Value::Bool(table.link(index.id).is_some()),
                ),
                ("relowner", owner(snapshot, ObjectKind::Table, table.id)),
            ];
            let all = common(
                index.id,
                &index.name,
                if table.is_parent() { "I" } else { "i" },
                index.columns.len() + index.more.include.len(),
            );
            rows.add(all.into_iter().chain(own));
        }
    }
    for ty in snapshot.types().all() {
        let Some(of) = ty.as_composite().map(|of| of.definition()) else {
            continue;
        };
        let own = [
            ("relnamespace", namespace(around, &ty.schema)),
            ("relpersistence", persistence(&ty.schema)),
            ("relreplident", Value::text("n")),
            ("reltype", Value::Oid(of.id)),
            ("relowner", owner(snapshot, ObjectKind::Type, of.id)),
        ];
        let all = common(of.relation, &of.name, "c", usize::from(of.places));
        rows.add(all.into_iter().chain(own));
    }
    for view in around.snapshot.views() {
        let own = [
            ("reltype", Value::Oid(view.id | ROW_TYPE)),
            ("relnamespace", namespace(around, &view.schema)),
            ("relpersistence", persistence(&view.schema)),
            ("relhasrules", Value::Bool(true)),
            (
                "relhastriggers",
                Value::Bool(!view.more.triggers.is_empty()),
            ),
            ("relreplident", Value::text("n")),
            ("reloptions", options(&view.more.options)),
        ];
        let all = common(view.id, &view.name, "v", view.columns.len());
        rows.add(all.into_iter().chain(own));
    }
    for sequence in around.snapshot.sequences() {
        let owner = sequence.owner.and_then(|owner| snapshot.relation(owner));
        let own = [
            ("relnamespace", namespace(around, &sequence.schema)),
            (
                "relpersistence",
                owner.map_or_else(|| persistence(&sequence.schema), |of| persistence_of(&of)),
            ),
            ("relfilenode", Value::Oid(sequence.id)),
            ("reltuples", Value::Float4(1.0)),
            ("relreplident", Value::text("n")),
        ];
        let all = common(sequence.id, &sequence.name, "S", SEQUENCE_COLUMNS.len());
        rows.add(all.into_iter().chain(own));
    }
}

/// Returns `reloptions`: the options of a view, or storage parameters.
fn options(of: &[(String, String)]) -> Value {
    let all: Vec<Value> = of
        .iter()
        .map(|(name, value)| Value::text(format!("{name}={value}")))
        .collect();
    match all.is_empty() {
        true => Value::Null,
        false => Array::of(all).into(),
    }
}

fn method(index: &IndexDef) -> u32 {
    match index.kind {
        IndexKind::BTree => BTREE,
        IndexKind::Hash => HASH,
    }
}

/// Adds the rows of `pg_description`.
pub fn descriptions(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables_and_views() {
        for (column, text) in &table.rules.comments {
            let number = column.map_or(0, |at| i32::from(table.columns[at].attnum));
            rows.add([
                ("objoid", Value::Oid(table.id)),
                ("classoid", Value::Oid(class::RELATION)),
                ("objsubid", Value::Int4(number)),
                ("description", Value::text(text)),
            ]);
        }
        for trigger in &table.rules.triggers {
            if let Some(text) = &trigger.comment {
                rows.add([
                    ("objoid", Value::Oid(trigger.id)),
                    ("classoid", Value::Oid(TRIGGER_CLASS)),
                    ("description", Value::text(text)),
                ]);
            }
        }
    }
}

/// Returns the comment on a table, or on a column of it by its number.
pub fn comment(snapshot: &Snapshot, table: u32, column: Option<i64>) -> Option<String> {
    let table = snapshot.relation(table).filter(|of| of.id == table)?;
    let mut all = table.rules.comments.iter();
    let wanted = |on: &Option<usize>| on.map(|at| i64::from(table.columns[at].attnum)) == column;
    all.find(|(on, _)| wanted(on)).map(|(_, text)| text.clone())
}
