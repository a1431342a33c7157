//! Functions that give rows about objects of the catalog.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::array::array;
use super::library::stable;
use super::rows::{RowsFunction, of_rows};
use crate::error::SqlError;
use crate::types::TypeKind::{AnyArray, AnyElement, Bool, Char, Int4, RegClass, Text};
use crate::value::{Array, Value};

#[rustfmt::skip]
pub(super) static ROWS: &[RowsFunction] = &[
    // No table is a partition that has a definition of its own.
    RowsFunction {
        function: stable("pg_partition_ancestors", &[RegClass], RegClass, |_, _| Ok(Array::default().into())),
        columns: &[("relid", RegClass)],
    },
    RowsFunction {
        function: stable("pg_partition_tree", &[RegClass], Text, |_, _| Ok(Array::default().into())),
        columns: &[("relid", RegClass), ("parentrelid", RegClass), ("isleaf", Bool), ("level", Int4)],
    },
    RowsFunction {
        function: stable("pg_options_to_table", &[AnyArray], Text, |_, _| Ok(Array::default().into())),
        columns: &[("option_name", Text), ("option_value", Text)],
    },
    RowsFunction {
        function: stable("pg_get_keywords", &[], Text, |_, _| Ok(keywords())),
        columns: &[("word", Text), ("catcode", Char), ("barelabel", Bool), ("catdesc", Text), ("baredesc", Text)],
    },
    RowsFunction {
        function: stable("_pg_expandarray", &[AnyArray], Text, |a, _| expanded(a)),
        columns: &[("x", AnyElement), ("n", Int4)],
    },
];

/// Kinds, whether labels, and words.
const KEYWORDS: &str = include_str!("keywords.txt");

/// The words that are names only in quotes, or only in some places.
static QUOTED: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let lines = KEYWORDS.lines();
    let lines = lines.filter(|line| !line.starts_with(['#', 'U']));
    lines.flat_map(|line| line.split(' ').skip(2)).collect()
});

/// Does a name that is this word stand in quotes?
pub fn is_quoted(word: &str) -> bool {
    QUOTED.contains(word)
}

/// The words that SQL has a use for.
fn keywords() -> Value {
    let mut words = Vec::new();
    for line in KEYWORDS.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.split(' ');
        let (kind, label) = (parts.next().unwrap_or(""), parts.next() == Some("t"));
        words.extend(parts.map(|word| (word, kind, label)));
    }
    words.sort_unstable();
    let row = |(word, kind, label): (&str, &str, bool)| {
        let described = match kind {
            "U" => "unreserved",
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            _ => "reserved",
        };
        let of_label = if label {
            "can be bare label"
        } else {
            "requires AS"
        };
        [
            Value::text(word),
            Value::text(kind),
            Value::Bool(label),
            Value::text(described),
            Value::text(of_label),
        ]
    };
    of_rows(5, words.into_iter().flat_map(row).collect())
}

/// Each element with its number.
fn expanded(args: &[Value]) -> Result<Value, SqlError> {
    let array = array(args, 0)?;
    let rows = (1..).zip(&array.values);
    let rows = rows.flat_map(|(number, value)| [value.clone(), Value::Int4(number)]);
    Ok(of_rows(2, rows.collect()))
}
