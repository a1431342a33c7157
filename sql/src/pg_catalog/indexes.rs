//! `pg_index`: the indexes of tables and the order of their keys.

use super::RowInputs;
use super::attributes::DEFAULT_COLLATION;
use super::objects::visible;
use super::rows::{Rows, vector};
use crate::catalog::{Collation, IndexDef, IndexKind, TableDef};
use crate::types::TypeKind;
use crate::value::Value;

/// Adds the rows of `pg_index`.
pub fn indexes(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables() {
        for index in visible(&table) {
            let keys = index.columns.iter();
            let every = |of: &dyn Fn(usize) -> Value| vector((0..index.columns.len()).map(of));
            let option = |at: usize| {
                let key = index.columns[at];
                Value::Int2(i16::from(key.desc) | i16::from(key.nulls_first) << 1)
            };
            let ty = |at: usize| index.type_of(&table, index.columns[at].column);
            let is_text = |kind: TypeKind| kind.is_string() || kind.is_citext();
            let collation = |at: usize| match is_text(ty(at).kind) {
                true => Value::Oid(collation_of(&table, index, at)),
                false => Value::Oid(0),
            };
            let class = |at: usize| {
                let said = index.more.look(at).and_then(|look| look.class.as_deref());
                let said = said.and_then(|name| named_class(name, index.kind));
                Value::Oid(said.unwrap_or_else(|| class_of(ty(at).kind, index.kind)))
            };
            let include = index.more.include.iter().copied();
            let numbers = keys.clone().map(|key| key.column).chain(include);
            // The number of an expression is 0.
            let number = |at: usize| table.columns.get(at).map_or(0, |of| of.attnum);
            let numbers = numbers.map(|at| Value::Int2(number(at)));
            let expressions = index.more.expressions.iter();
            let expressions: Vec<&str> = expressions.map(|of| of.text.as_str()).collect();
            let predicate = index.more.predicate.as_ref();
            rows.add([
                ("indexrelid", Value::Oid(index.id)),
                ("indrelid", Value::Oid(table.id)),
                (
                    "indnatts",
                    Value::Int2((keys.len() + index.more.include.len()) as i16),
                ),
                ("indnkeyatts", Value::Int2(keys.len() as i16)),
                ("indisunique", Value::Bool(index.is_unique())),
                ("indnullsnotdistinct", Value::Bool(index.more.nulls_equal)),
                ("indisprimary", Value::Bool(index.primary)),
                ("indimmediate", Value::Bool(index.more.deferrable.is_none())),
                ("indisvalid", Value::Bool(table.is_whole(index))),
                ("indisready", Value::Bool(true)),
                ("indislive", Value::Bool(true)),
                ("indkey", vector(numbers)),
                (
                    "indpred",
                    predicate.map_or(Value::Null, |of| Value::text(format!("({})", of.text))),
                ),
                (
                    "indexprs",
                    match expressions.is_empty() {
                        true => Value::Null,
                        false => Value::text(expressions.join(", ")),
                    },
                ),
                ("indcollation", every(&collation)),
                ("indclass", every(&class)),
                ("indoption", every(&option)),
            ]);
        }
    }
}

/// Returns the operator class by which an index compares values of a type.
fn class_of(kind: TypeKind, index: IndexKind) -> u32 {
    use TypeKind as T;
    let (btree, hash) = match kind {
        T::Bool => (10003, 10048),
        T::Bytea => (10006, 10049),
        T::Char => (10007, 10008),
        T::Name => (10028, 10029),
        T::Int8 => (3124, 10021),
        T::Int2 => (1979, 10019),
        T::Int4 => (1978, 10020),
        T::Float4 => (10012, 10013),
        T::Float8 => (3123, 10014),
        T::Numeric => (3125, 10030),
        T::BpChar => (10004, 10005),
        T::Date => (3122, 10011),
        T::Timestamp => (3128, 10046),
        T::TimestampTz => (3127, 10040),
        T::Uuid => (10065, 10066),
        T::Oid => (1981, 10031),
        T::Inet | T::Cidr => (10015, 10016),
        T::MacAddr => (10024, 10025),
        T::Enum(_) => (10069, 10070),
        T::Composite(_) => (10034, 10035),
        _ => (3126, 10037),
    };
    match index {
        IndexKind::BTree => btree,
        IndexKind::Hash => hash,
    }
}

/// Returns the oid of a key column's collation: that of the index, or else that of the table's
/// column.
fn collation_of(table: &TableDef, index: &IndexDef, at: usize) -> u32 {
    let said = index.more.look(at).and_then(|look| look.collation);
    let column = table.columns.get(index.columns[at].column);
    let of_column = column.map(|column| column.more.collation);
    said.or(of_column).map_or(DEFAULT_COLLATION, Collation::oid)
}

/// Returns the oids of operator classes that are not the default of a type.
fn named_class(name: &str, index: IndexKind) -> Option<u32> {
    let (btree, hash) = match name {
        "text_pattern_ops" => (4217, 10056),
        "varchar_pattern_ops" => (4218, 10057),
        "bpchar_pattern_ops" => (4219, 10058),
        "varchar_ops" => (10044, 10045),
        "cidr_ops" => (10009, 10010),
        _ => return None,
    };
    Some(match index {
        IndexKind::BTree => btree,
        IndexKind::Hash => hash,
    })
}
