//! `pg_tables`, `pg_indexes`, `pg_views`, `pg_matviews` and `pg_sequences`.

use super::definitions::view_definition;
use super::objects::visible;
use super::privileges::owner_name;
use super::rows::{Rows, object};
use super::{Relation, RowInputs, index_definition, reader};
use crate::catalog::ObjectKind;
use crate::value::Value;

/// Adds the rows of `pg_tables`.
pub fn tables(rows: &mut Rows, around: &RowInputs<'_>) {
    let mut add = |id: u32, schema: &str, name: &str, indexed: bool| {
        rows.add([
            ("schemaname", Value::text(schema)),
            ("tablename", Value::text(name)),
            (
                "tableowner",
                owner_name(around.snapshot, ObjectKind::Table, id),
            ),
            ("hasindexes", Value::Bool(indexed)),
        ]);
    };
    for relation in Relation::all().iter().filter(|r| r.kind == "r") {
        add(relation.oid, relation.schema, relation.name, false);
    }
    let mut all = around.snapshot.tables();
    all.retain(|table| table.materialized.is_none());
    for table in all {
        let indexed = visible(&table).next().is_some();
        add(table.id, &table.schema, &table.name, indexed);
    }
}

/// Adds the rows of `pg_indexes`.
pub fn indexes(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    for table in around.snapshot.tables() {
        for index in visible(&table) {
            rows.add([
                ("schemaname", Value::text(&table.schema)),
                ("tablename", Value::text(&table.name)),
                ("indexname", Value::text(&index.name)),
                (
                    "indexdef",
                    Value::text(index_definition(&reader, &table, index)),
                ),
            ]);
        }
    }
}

/// Adds the rows of `pg_views`.
pub fn views(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    for view in around.snapshot.views() {
        rows.add([
            ("schemaname", Value::text(&view.schema)),
            ("viewname", Value::text(&view.name)),
            (
                "viewowner",
                owner_name(around.snapshot, ObjectKind::View, view.id),
            ),
            ("definition", Value::text(view_definition(&reader, view))),
        ]);
    }
}

/// Adds the rows of `pg_matviews`.
pub fn materialized(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    for table in around.snapshot.tables() {
        let (Some(query), Some(view)) = (table.materialized.as_deref(), table.as_view()) else {
            continue;
        };
        rows.add([
            ("schemaname", Value::text(&table.schema)),
            ("matviewname", Value::text(&table.name)),
            (
                "matviewowner",
                owner_name(around.snapshot, ObjectKind::Table, table.id),
            ),
            ("hasindexes", Value::Bool(visible(&table).next().is_some())),
            ("ispopulated", Value::Bool(query.populated)),
            ("definition", Value::text(view_definition(&reader, &view))),
        ]);
    }
}

/// Adds the rows of `pg_sequences`, without the last values.
pub fn sequences(rows: &mut Rows, around: &RowInputs<'_>) {
    for sequence in around.snapshot.sequences() {
        let kind = sequence.kind;
        rows.add([
            ("schemaname", Value::text(&sequence.schema)),
            ("sequencename", Value::text(&sequence.name)),
            (
                "sequenceowner",
                owner_name(around.snapshot, ObjectKind::Sequence, sequence.id),
            ),
            ("data_type", object(kind.oid(), kind.name())),
            ("start_value", Value::Int8(sequence.start)),
            ("min_value", Value::Int8(sequence.min)),
            ("max_value", Value::Int8(sequence.max)),
            ("increment_by", Value::Int8(sequence.increment)),
            ("cycle", Value::Bool(sequence.cycle)),
            ("cache_size", Value::Int8(sequence.cache)),
            ("last_value", Value::Null),
        ]);
    }
}
