//! `pg_type`.

use std::sync::LazyLock;

use super::rows::{Rows, object};
use super::{PG_CATALOG_NAMESPACE, RowInputs};
use crate::catalog::SUPERUSER_OID;
use crate::types::TypeKind;
use crate::value::Value;

/// The words of a row of `types.txt`.
struct Row(Vec<&'static str>);

const OID: usize = 0;
const NAME: usize = 1;
const ELEMENT: usize = 8;
const ARRAY: usize = 9;
/// The positions of pairs of a function's oid and name, and their columns.
const FUNCTIONS: [(usize, &str); 6] = [
    (10, "typinput"),
    (12, "typoutput"),
    (14, "typreceive"),
    (16, "typsend"),
    (18, "typmodin"),
    (20, "typmodout"),
];
const WORDS: usize = 26;

static TYPES: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let lines = include_str!("types.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| Row(line.split(' ').collect()));
    rows.filter(|row| row.0.len() == WORDS).collect()
});

impl Row {
    fn number<T: std::str::FromStr + Default>(&self, at: usize) -> T {
        self.0[at].parse().unwrap_or_default()
    }

    fn flag(&self, at: usize) -> Value {
        Value::Bool(self.0[at] == "t")
    }

    fn text(&self, at: usize) -> Value {
        Value::text(self.0[at])
    }
}

/// Returns the oid of the type with a catalog name.
pub fn by_name(name: &str) -> Option<u32> {
    let mut rows = TYPES.iter();
    rows.find(|row| row.0[NAME] == name)
        .map(|row| row.number(OID))
}

/// Returns the SQL name of a type; for an array, the element type's name with brackets.
pub fn sql_name(oid: u32) -> Option<String> {
    let row = TYPES.iter().find(|row| row.number::<u32>(OID) == oid)?;
    let element: u32 = row.number(ELEMENT);
    if element != 0 && row.0[NAME].starts_with('_') {
        return sql_name(element).map(|name| name + "[]");
    }
    let name = TypeKind::from_oid(oid).map(TypeKind::name);
    Some(name.unwrap_or(row.0[NAME]).to_owned())
}

/// Returns the oid of the array type of a type.
#[cfg(test)]
pub fn array_of(oid: u32) -> u32 {
    let mut rows = TYPES.iter();
    let row = rows.find(|row| row.number::<u32>(OID) == oid);
    row.map_or(0, |row| row.number(ARRAY))
}

/// Returns the text and binary output functions of a built-in type.
pub fn output_of(oid: u32) -> (Value, Value) {
    let row = TYPES.iter().find(|row| row.number::<u32>(OID) == oid);
    row.map_or((Value::Null, Value::Null), |row| {
        let function = |(at, _)| object(row.number(at), row.0[at + 1]);
        (function(FUNCTIONS[1]), function(FUNCTIONS[3]))
    })
}

/// Adds the rows of `pg_type`.
pub fn types(rows: &mut Rows, around: &RowInputs<'_>) {
    super::user_types::types(rows, around);
    for row in TYPES.iter() {
        let own = [
            ("oid", Value::Oid(row.number(OID))),
            ("typname", row.text(NAME)),
            ("typnamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("typowner", Value::Oid(SUPERUSER_OID)),
            ("typlen", Value::Int2(row.number(2))),
            ("typbyval", row.flag(3)),
            ("typtype", row.text(4)),
            ("typcategory", row.text(5)),
            ("typispreferred", row.flag(6)),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", row.text(7)),
            ("typelem", Value::Oid(row.number(ELEMENT))),
            ("typarray", Value::Oid(row.number(ARRAY))),
            ("typalign", row.text(22)),
            ("typstorage", row.text(23)),
            ("typtypmod", Value::Int4(-1)),
            ("typcollation", Value::Oid(row.number(24))),
        ];
        let functions =
            FUNCTIONS.map(|(at, column)| (column, object(row.number(at), row.0[at + 1])));
        rows.add(own.into_iter().chain(functions));
    }
}
