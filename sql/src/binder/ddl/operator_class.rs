//! Operator classes: `CREATE INDEX … (name varchar_pattern_ops)`.
//!
//! Each type has one order, which is that of PostgreSQL's default operator class. Strings are
//! compared by their bytes, as the `pattern` classes require. So a class is checked but changes
//! nothing; a class other than the default is stored for dumps.

use sqlparser::ast::ObjectName;

use super::super::names;
use crate::catalog::{CATALOG_SCHEMA, IndexKind};
use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};

/// The known operator classes, each with the type that it accepts.
const CLASSES: [(&str, TypeKind); 31] = [
    ("bool_ops", TypeKind::Bool),
    ("bpchar_ops", TypeKind::BpChar),
    ("bpchar_pattern_ops", TypeKind::BpChar),
    ("bytea_ops", TypeKind::Bytea),
    ("char_ops", TypeKind::Char),
    ("date_ops", TypeKind::Date),
    ("float4_ops", TypeKind::Float4),
    ("float8_ops", TypeKind::Float8),
    ("cidr_ops", TypeKind::Inet),
    ("inet_ops", TypeKind::Inet),
    ("macaddr_ops", TypeKind::MacAddr),
    ("int2_ops", TypeKind::Int2),
    ("int4_ops", TypeKind::Int4),
    ("int8_ops", TypeKind::Int8),
    ("interval_ops", TypeKind::Interval),
    ("jsonb_ops", TypeKind::Jsonb),
    ("name_ops", TypeKind::Name),
    ("numeric_ops", TypeKind::Numeric),
    ("oid_ops", TypeKind::Oid),
    ("text_ops", TypeKind::Text),
    ("text_pattern_ops", TypeKind::Text),
    ("time_ops", TypeKind::Time),
    ("timestamp_ops", TypeKind::Timestamp),
    ("timestamptz_ops", TypeKind::TimestampTz),
    ("timetz_ops", TypeKind::TimeTz),
    ("uuid_ops", TypeKind::Uuid),
    ("varchar_ops", TypeKind::Text),
    ("varchar_pattern_ops", TypeKind::Text),
    ("enum_ops", TypeKind::Any),
    ("record_ops", TypeKind::Record),
    ("array_ops", TypeKind::AnyArray),
];

/// The classes that are not the default class of a type.
const OTHERS: [&str; 5] = [
    "bpchar_pattern_ops",
    "cidr_ops",
    "text_pattern_ops",
    "varchar_ops",
    "varchar_pattern_ops",
];

/// Returns the class if it is not the default class of the type.
///
/// # Errors
///
/// 42704 if the class does not exist, 42804 if it does not accept the type of the column.
pub(super) fn check(
    name: &ObjectName,
    kind: IndexKind,
    column: Type,
) -> Result<Option<String>, SqlError> {
    let (schema, plain) = names::table_name(name)?;
    let of_system = schema.as_deref().is_none_or(|s| s == CATALOG_SCHEMA);
    let mut all = CLASSES.iter();
    let found = all.find(|(class, _)| of_system && *class == plain);
    let Some((_, accepted)) = found else {
        let method = match kind {
            IndexKind::BTree => "btree",
            IndexKind::Hash => "hash",
        };
        return Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!(
                "operator class \"{}\" does not exist for access method \"{method}\"",
                names::qualified_name(schema.as_deref(), &plain)
            ),
        ));
    };
    let fits = match (accepted, column.kind) {
        (TypeKind::Any, TypeKind::Enum(_)) | (TypeKind::AnyArray, TypeKind::Array(_)) => true,
        (TypeKind::Record, TypeKind::Composite(_)) => true,
        (TypeKind::Text, TypeKind::VarChar) | (TypeKind::Inet, TypeKind::Cidr) => true,
        (accepted, of) => *accepted == of,
    };
    match fits {
        true => Ok(OTHERS.contains(&plain.as_str()).then_some(plain)),
        false => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "operator class \"{plain}\" does not accept data type {}",
                column.kind
            ),
        )),
    }
}
