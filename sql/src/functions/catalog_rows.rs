//! Set-returning functions about catalog objects.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::array::array;
use super::library::stable;
use super::rows::{RowsFunction, of_rows};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind::{AnyArray, AnyElement, Bool, Char, Int4, RegClass, Text};
use crate::value::{Array, Value};

#[rustfmt::skip]
pub(super) static ROWS: &[RowsFunction] = &[
    RowsFunction {
        function: stable("pg_partition_ancestors", &[RegClass], RegClass, |a, cx| {
            let mut all = Vec::new();
            for of in ancestors(oid(a), cx) {
                all.push(named(of, cx)?);
            }
            Ok(Array::of(all).into())
        }),
        columns: &[("relid", RegClass)],
    },
    RowsFunction {
        function: stable("pg_partition_tree", &[RegClass], Text, partition_tree),
        columns: &[("relid", RegClass), ("parentrelid", RegClass), ("isleaf", Bool),
            ("level", Int4)],
    },
    RowsFunction {
        function: stable("pg_options_to_table", &[AnyArray], Text,
            |_, _| Ok(Array::default().into())),
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

fn oid(args: &[Value]) -> u32 {
    let oid = args.first().and_then(Value::as_int);
    oid.and_then(|oid| u32::try_from(oid).ok()).unwrap_or(0)
}

fn named(of: u32, cx: &EvalContext) -> Result<Value, SqlError> {
    super::objects::named(&Value::Oid(of), RegClass, cx)
}

/// Returns a partition, or an index of one, and all of its ancestors up to the root; empty for any
/// other relation.
pub(super) fn ancestors(of: u32, cx: &EvalContext) -> Vec<u32> {
    let catalog = cx.catalog();
    let mut all = Vec::new();
    let mut next = Some(of);
    while let Some(at) = next {
        let Some(table) = catalog.relation(at) else {
            break;
        };
        if all.is_empty() && !table.is_parent() && table.partition_of_table().is_none() {
            break;
        }
        all.push(at);
        next = match table.id == at {
            true => table.partition_of_table().map(|of| of.parent),
            false => table.link(at),
        };
    }
    all
}

/// Returns the partitions of a partitioned table or index, level by level, beginning with itself.
fn partition_tree(args: &[Value], cx: &EvalContext) -> Result<Value, SqlError> {
    let catalog = cx.catalog();
    let top = oid(args);
    let mut rows = Vec::new();
    let mut level = match ancestors(top, cx).is_empty() {
        true => Vec::new(),
        false => vec![(top, ancestors(top, cx).get(1).copied())],
    };
    let mut depth = 0;
    while !level.is_empty() {
        let mut below = Vec::new();
        for (of, parent) in level {
            let Some(table) = catalog.relation(of) else {
                continue;
            };
            let parent = match parent {
                Some(parent) => named(parent, cx)?,
                None => Value::Null,
            };
            let leaf = Value::Bool(!table.is_parent());
            rows.extend([named(of, cx)?, parent, leaf, Value::Int4(depth)]);
            for child in catalog.tables() {
                let parents = child.partition_of_table().map(|of| of.parent);
                if parents != Some(table.id) {
                    continue;
                }
                let child = match table.id == of {
                    true => Some(child.id),
                    false => child.linked(of),
                };
                below.extend(child.map(|child| (child, Some(of))));
            }
        }
        level = below;
        depth += 1;
    }
    Ok(of_rows(4, rows))
}

/// The keywords of PostgreSQL: each line has a category, whether it can be a bare label, and words.
const KEYWORDS: &str = include_str!("keywords.txt");

/// The keywords that must be quoted as identifiers, at least in some positions.
static QUOTED: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let lines = KEYWORDS.lines();
    let lines = lines.filter(|line| !line.starts_with(['#', 'U']));
    lines.flat_map(|line| line.split(' ').skip(2)).collect()
});

/// Returns whether a name that is this word must be quoted.
pub fn is_quoted(word: &str) -> bool {
    QUOTED.contains(word)
}

/// Returns the rows of `pg_get_keywords`.
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

/// Returns each element and its number.
fn expanded(args: &[Value]) -> Result<Value, SqlError> {
    let array = array(args, 0)?;
    let rows = (1..).zip(&array.values);
    let rows = rows.flat_map(|(number, value)| [value.clone(), Value::Int4(number)]);
    Ok(of_rows(2, rows.collect()))
}
