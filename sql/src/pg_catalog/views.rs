//! `pg_tables` and `pg_indexes`.

use super::objects::shown;
use super::rows::Rows;
use super::{Around, Relation, index_definition, role_name};
use crate::catalog::SUPERUSER_OID;
use crate::value::Value;

/// `pg_tables`.
pub fn tables(rows: &mut Rows, around: &Around<'_>) {
    let owner = role_name(around.snapshot, SUPERUSER_OID).unwrap_or_default();
    let mut add = |schema: &str, name: &str, indexed: bool| {
        rows.add([
            ("schemaname", Value::text(schema)),
            ("tablename", Value::text(name)),
            ("tableowner", Value::text(&owner)),
            ("hasindexes", Value::Bool(indexed)),
        ]);
    };
    for relation in Relation::all().iter().filter(|r| r.kind == "r") {
        add(relation.schema, relation.name, false);
    }
    for table in around.snapshot.tables() {
        add(&table.schema, &table.name, shown(&table).next().is_some());
    }
}

/// `pg_indexes`.
pub fn indexes(rows: &mut Rows, around: &Around<'_>) {
    for table in around.snapshot.tables() {
        for index in shown(&table) {
            rows.add([
                ("schemaname", Value::text(&table.schema)),
                ("tablename", Value::text(&table.name)),
                ("indexname", Value::text(&index.name)),
                ("indexdef", Value::text(index_definition(&table, index))),
            ]);
        }
    }
}
