//! Columns: their types, their defaults, and the rows of `pg_attribute` and `pg_attrdef`.

use super::objects::visible;
use super::privileges::column_acl;
use super::rows::Rows;
use super::sequences::SEQUENCE_COLUMNS;
use super::{Relation, RowInputs};
use crate::catalog::{Collation, ColumnDef, Identity, ObjectKind};
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// The oid of the collation `default`.
pub(super) const DEFAULT_COLLATION: u32 = 100;

/// Returns whether values of a type are passed by value, their alignment, and their storage.
pub fn shape(ty: Type) -> (bool, &'static str, &'static str) {
    match ty.kind.size() {
        1 => (true, "c", "p"),
        2 => (true, "s", "p"),
        4 => (true, "i", "p"),
        8 => (true, "d", "p"),
        16 => (false, "c", "p"),
        64 => (false, "c", "p"),
        _ if ty.kind == TypeKind::Numeric => (false, "i", "m"),
        _ => (false, "i", "x"),
    }
}

/// Returns the collation of a type.
pub fn collation(kind: TypeKind) -> u32 {
    match kind {
        TypeKind::Text | TypeKind::Citext(_) | TypeKind::VarChar | TypeKind::BpChar => {
            DEFAULT_COLLATION
        }
        // The collation C.
        TypeKind::Name => 950,
        _ => 0,
    }
}

/// Returns the columns of `pg_attribute` that depend on the type.
fn column(name: &str, declared: Type, number: i16) -> [(&'static str, Value); 12] {
    let ty = declared.plain();
    let (by_value, align, storage) = shape(ty);
    [
        ("attname", Value::text(name)),
        ("atttypid", Value::Oid(declared.oid())),
        ("attstattarget", Value::Int4(-1)),
        ("attlen", Value::Int2(ty.kind.size())),
        ("attnum", Value::Int2(number)),
        ("attcacheoff", Value::Int4(-1)),
        ("atttypmod", Value::Int4(declared.typmod)),
        ("attbyval", Value::Bool(by_value)),
        ("attalign", Value::text(align)),
        ("attstorage", Value::text(storage)),
        ("attcollation", Value::Oid(collation(ty.kind))),
        ("attisdropped", Value::Bool(false)),
    ]
}

/// The value for columns of relations that are not partitions.
const IS_LOCAL: (&str, Value) = ("attislocal", Value::Bool(true));

/// Adds the rows of `pg_attribute`.
pub fn attributes(rows: &mut Rows, around: &RowInputs<'_>) {
    for relation in Relation::all() {
        for (number, (name, ty)) in (1..).zip(&relation.columns) {
            let own = [("attrelid", Value::Oid(relation.oid)), IS_LOCAL];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
    for table in around.snapshot.tables() {
        for of in &table.columns {
            let is_partition = table.partition_of_table().is_some();
            let own = [
                ("attrelid", Value::Oid(table.id)),
                ("attislocal", Value::Bool(!is_partition)),
                ("attinhcount", Value::Int4(i32::from(is_partition))),
                ("attnotnull", Value::Bool(of.not_null)),
                ("atthasdef", Value::Bool(expression(of).is_some())),
                (
                    "attidentity",
                    Value::text(match of.more.identity {
                        Some(Identity::Always) => "a",
                        Some(Identity::ByDefault) => "d",
                        None => "",
                    }),
                ),
                (
                    "attgenerated",
                    Value::text(if of.more.generated.is_some() { "s" } else { "" }),
                ),
            ];
            let said = (of.more.collation != Collation::Default)
                .then(|| ("attcollation", Value::Oid(of.more.collation.oid())));
            let acl = column_acl(around.snapshot, ObjectKind::Table, table.id, of.attnum);
            let own = own.into_iter().chain([("attacl", acl)]).chain(said);
            let column = column(&of.name, of.declared(), of.attnum);
            rows.add(column.into_iter().chain(own));
        }
        for index in visible(&table) {
            let keys = index.columns.iter().map(|key| key.column);
            let all = keys.chain(index.more.include.iter().copied());
            for (number, at) in (1..).zip(all) {
                let (name, ty) = (index.name_of(&table, at), index.type_of(&table, at));
                let own = [("attrelid", Value::Oid(index.id)), IS_LOCAL];
                rows.add(column(name, ty, number).into_iter().chain(own));
            }
        }
    }
    for ty in around.snapshot.types().all() {
        let Some(of) = ty.as_composite().map(|of| of.definition()) else {
            continue;
        };
        for field in &of.fields {
            let own = [("attrelid", Value::Oid(of.relation)), IS_LOCAL];
            let number = i16::try_from(field.place).unwrap_or(i16::MAX - 1) + 1;
            rows.add(column(&field.name, field.ty, number).into_iter().chain(own));
        }
    }
    for view in around.snapshot.views() {
        let has_default = |number: i16| {
            let mut defaults = view.more.defaults.iter();
            defaults.any(|(at, _)| i16::try_from(at + 1) == Ok(number))
        };
        for (number, (name, ty)) in (1..).zip(&view.columns) {
            let own = [
                ("attrelid", Value::Oid(view.id)),
                IS_LOCAL,
                ("atthasdef", Value::Bool(has_default(number))),
                (
                    "attacl",
                    column_acl(around.snapshot, ObjectKind::View, view.id, number),
                ),
            ];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
    for sequence in around.snapshot.sequences() {
        for (number, (name, ty)) in (1..).zip(&SEQUENCE_COLUMNS) {
            let own = [
                ("attrelid", Value::Oid(sequence.id)),
                IS_LOCAL,
                ("attnotnull", Value::Bool(true)),
            ];
            rows.add(column(name, *ty, number).into_iter().chain(own));
        }
    }
}

/// Returns the default of a column or its generation expression; `None` for an identity column. A
/// plain string literal gets the type of the column.
pub fn expression(column: &ColumnDef) -> Option<String> {
    if let Some(generated) = &column.more.generated {
        return Some(format!("({generated})"));
    }
    let default = column.default.as_ref();
    let default = default.filter(|_| column.more.identity.is_none());
    let default = default.filter(|text| !text.eq_ignore_ascii_case("null"))?;
    Some(typed_text(default, column.ty))
}

/// Returns the text of a default, with the type if it is a plain string literal.
pub fn typed_text(default: &str, ty: Type) -> String {
    let inside = default
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    match inside {
        Some(inside) if !inside.replace("''", "").contains('\'') => {
            let kind = ty.plain().kind;
            let name = match kind {
                // `character` alone means a length of one.
                TypeKind::BpChar => "bpchar",
                kind => kind.name(),
            };
            format!("{default}::{name}")
        }
        _ => default.to_owned(),
    }
}

/// Adds the rows of `pg_attrdef`. The expressions are stored as they were written.
pub fn defaults(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables_and_views() {
        for column in &table.columns {
            let Some(default) = expression(column) else {
                continue;
            };
            rows.add([
                ("oid", Value::Oid(part_oid(table.id, column.attnum))),
                ("adrelid", Value::Oid(table.id)),
                ("adnum", Value::Int2(column.attnum)),
                ("adbin", Value::text(default)),
            ]);
        }
    }
}

/// Returns a unique oid, derived from the table's, for a part of a table without an oid of its own.
pub(super) fn part_oid(table: u32, number: i16) -> u32 {
    const COLUMNS_MAX: u32 = 1600;
    table
        .wrapping_mul(COLUMNS_MAX)
        .wrapping_add(u32::from(number.unsigned_abs()))
}
