//! Partitioned tables and partitions: `pg_partitioned_table`, `pg_inherits`, and deparsed partition
//! bounds.

use super::RowInputs;
use super::rows::{Rows, vector};
use crate::catalog::{
    Bound, CatalogView, Edge, Level, PartitionKey, PartitionOf, Snapshot, Strategy, TableDef,
};
use crate::functions::{quote_ident as quoted, quote_literal};
use crate::settings::Settings;
use crate::types::{TypeKind, text_out};
use crate::value::Value;

/// Adds the rows of `pg_partitioned_table`.
pub fn partitioned_tables(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables() {
        let Some(key) = table.partition_key() else {
            continue;
        };
        let strategy = match key.strategy {
            Strategy::Range => "r",
            Strategy::List => "l",
            Strategy::Hash => "h",
        };
        let default = table.tree().and_then(|tree| tree.top.default());
        let numbers = key
            .columns
            .iter()
            .map(|at| Value::Int2(table.columns[*at].attnum));
        rows.add([
            ("partrelid", Value::Oid(table.id)),
            ("partstrat", Value::text(strategy)),
            ("partnatts", Value::Int2(key.columns.len() as i16)),
            (
                "partdefid",
                Value::Oid(default.map_or(0, |member| member.table)),
            ),
            ("partattrs", vector(numbers)),
        ]);
    }
}

/// Adds the rows of `pg_inherits`: partitions, and the indexes that belong to indexes of the
/// parent.
pub fn inherits(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables() {
        let Some(of) = table.partition_of_table() else {
            continue;
        };
        let index = |id: &u32| table.indexes.iter().any(|index| index.id == *id);
        let links = of.links.iter().copied().filter(|(own, _)| index(own));
        for (own, parent) in std::iter::once((table.id, of.parent)).chain(links) {
            rows.add([
                ("inhrelid", Value::Oid(own)),
                ("inhparent", Value::Oid(parent)),
                ("inhseqno", Value::Int4(1)),
            ]);
        }
    }
}

/// Deparses a partition key, such as `RANGE (a, b)`.
pub fn partition_key(table: &TableDef) -> Option<String> {
    let key = table.partition_key()?;
    let columns = key
        .columns
        .iter()
        .map(|at| quoted(&table.columns[*at].name));
    let columns = columns.collect::<Vec<_>>().join(", ");
    Some(format!("{} ({columns})", key.strategy.name()))
}

/// Deparses the bound of a partition: `FOR VALUES …`.
pub fn partition_bound(snapshot: &Snapshot, table: &TableDef) -> Option<String> {
    let of = table.partition_of_table()?;
    let parent = snapshot.table_by_id(of.parent).ok()??;
    bound_text(&parent, &of.bound)
}

/// Deparses a bound of a partition of `parent`.
pub fn bound_text(parent: &TableDef, bound: &Bound) -> Option<String> {
    let key = parent.partition_key()?;
    Some(match bound {
        Bound::Default => "DEFAULT".to_owned(),
        Bound::Range { from, to } => format!(
            "FOR VALUES FROM {} TO {}",
            edges_text(parent, key, from),
            edges_text(parent, key, to)
        ),
        Bound::List(values) => {
            let kind = kind_of(parent, key, 0);
            let values = values.iter().map(|value| constant(value, kind, false));
            format!("FOR VALUES IN ({})", values.collect::<Vec<_>>().join(", "))
        }
        Bound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
    })
}

/// Deparses the values of a range bound, such as `(1, MINVALUE)`.
pub fn edges_text(parent: &TableDef, key: &PartitionKey, edges: &[Edge]) -> String {
    let edges = edges.iter().enumerate().map(|(at, edge)| match edge {
        Edge::Min => "MINVALUE".to_owned(),
        Edge::Max => "MAXVALUE".to_owned(),
        Edge::Value(value) => constant(value, kind_of(parent, key, at), false),
    });
    format!("({})", edges.collect::<Vec<_>>().join(", "))
}

fn kind_of(parent: &TableDef, key: &PartitionKey, at: usize) -> TypeKind {
    parent.columns[key.columns[at]].ty.kind
}

/// Deparses a constant. `typed` adds its type if that is not obvious.
fn constant(value: &Value, kind: TypeKind, typed: bool) -> String {
    let settings = Settings::new();
    let mut text = Vec::new();
    text_out(value, &crate::types::Type::of(kind), &settings, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    match (value, kind) {
        (Value::Null, _) if typed => format!("NULL::{}", kind.name()),
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Bool(value), _) => value.to_string(),
        (_, TypeKind::Int4) if digits => text,
        (_, TypeKind::Numeric) if digits && text.contains(['.', 'e', 'E']) => text,
        _ if typed => format!("{}::{}", quote_literal(&text), kind.name()),
        _ => quote_literal(&text),
    }
}

/// Returns the partition constraint, including the constraints of the tables above.
pub fn partition_constraint(snapshot: &Snapshot, table: &TableDef) -> Option<String> {
    let mut parts = Vec::new();
    conditions(snapshot, table, &mut parts)?;
    match parts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("({})", all.join(" AND "))),
    }
}

/// Collects the parts of the partition constraint; returns `None` if the table is not a partition.
fn conditions(snapshot: &Snapshot, table: &TableDef, parts: &mut Vec<String>) -> Option<()> {
    let of = table.partition_of_table()?;
    let parent = snapshot.table_by_id(of.parent).ok()??;
    conditions(snapshot, &parent, parts);
    let level = &parent.tree()?.top;
    parts.extend(own_conditions(&parent, level, of));
    Some(())
}

fn own_conditions(parent: &TableDef, level: &Level, of: &PartitionOf) -> Vec<String> {
    let key = &level.key;
    match &of.bound {
        Bound::Default => {
            let others = level
                .members
                .iter()
                .filter(|member| member.bound != Bound::Default);
            let bounds: Vec<&Bound> = others.map(|member| &member.bound).collect();
            not_any(parent, key, &bounds)
        }
        bound => of_bound(parent, key, bound, true),
    }
}

fn not_any(parent: &TableDef, key: &PartitionKey, bounds: &[&Bound]) -> Vec<String> {
    if bounds.is_empty() {
        return Vec::new();
    }
    if key.strategy == Strategy::List {
        let mut all: Vec<Value> = Vec::new();
        for bound in bounds {
            if let Bound::List(values) = bound {
                all.extend(values.iter().cloned());
            }
        }
        let conditions = of_bound(parent, key, &Bound::List(all), true);
        return vec![format!("(NOT {})", joined(conditions))];
    }
    let mut conditions: Vec<String> = key
        .columns
        .iter()
        .map(|at| format!("({} IS NOT NULL)", quoted(&parent.columns[*at].name)))
        .collect();
    let ranges = bounds
        .iter()
        .map(|bound| joined(of_bound(parent, key, bound, false)));
    let ranges: Vec<String> = ranges.collect();
    conditions.push(match ranges.as_slice() {
        [one] => one.clone(),
        all => format!("({})", all.join(" OR ")),
    });
    vec![format!("(NOT {})", joined(conditions))]
}

fn joined(conditions: Vec<String>) -> String {
    match conditions.as_slice() {
        [] => "true".to_owned(),
        [one] => one.clone(),
        all => format!("({})", all.join(" AND ")),
    }
}

fn of_bound(parent: &TableDef, key: &PartitionKey, bound: &Bound, with_nulls: bool) -> Vec<String> {
    let name = |at: usize| quoted(&parent.columns[key.columns[at]].name);
    match bound {
        Bound::Default => Vec::new(),
        Bound::Hash { modulus, remainder } => {
            let columns: Vec<String> = (0..key.columns.len()).map(name).collect();
            vec![format!(
                "satisfies_hash_partition('{}'::oid, {modulus}, {remainder}, {})",
                parent.id,
                columns.join(", ")
            )]
        }
        Bound::List(values) => {
            let kind = kind_of(parent, key, 0);
            let some: Vec<String> = values
                .iter()
                .filter(|value| !value.is_null())
                .map(|value| constant(value, kind, true))
                .collect();
            let has_null = some.len() < values.len();
            let equal = match some.as_slice() {
                [] => None,
                [one] => Some(format!("({} = {one})", name(0))),
                all => Some(format!("({} = ANY (ARRAY[{}]))", name(0), all.join(", "))),
            };
            match (has_null, equal) {
                (true, None) => vec![format!("({} IS NULL)", name(0))],
                (true, Some(equal)) => vec![format!("(({} IS NULL) OR {equal})", name(0))],
                (false, equal) => {
                    let mut all = vec![format!("({} IS NOT NULL)", name(0))];
                    all.extend(equal);
                    all
                }
            }
        }
        Bound::Range { from, to } => {
            let mut all = Vec::new();
            if with_nulls {
                let some = (0..key.columns.len()).map(|at| format!("({} IS NOT NULL)", name(at)));
                all.extend(some);
            }
            // The common prefix of both bounds.
            let text = |at: usize, value: &Value| constant(value, kind_of(parent, key, at), true);
            let mut same = 0;
            while let (Some(Edge::Value(a)), Some(Edge::Value(b))) = (from.get(same), to.get(same))
                && a == b
            {
                all.push(format!("({} = {})", name(same), text(same, a)));
                same += 1;
            }
            let end = |edges: &[Edge], strict: &str, last: &str| {
                let mut ors: Vec<String> = Vec::new();
                let mut equal: Vec<String> = Vec::new();
                for (at, edge) in edges.iter().enumerate().skip(same) {
                    let Edge::Value(value) = edge else { break };
                    let value = text(at, value);
                    let is_last = !matches!(edges.get(at + 1), Some(Edge::Value(_)));
                    let operator = match (is_last, edges.get(at + 1)) {
                        (true, None) => last,
                        // MINVALUE or MAXVALUE follows.
                        (true, Some(Edge::Max)) if strict == "<" => "<=",
                        (true, Some(Edge::Min)) if strict == ">" => ">=",
                        _ => strict,
                    };
                    let mut part = equal.clone();
                    part.push(format!("({} {operator} {value})", name(at)));
                    ors.push(joined(part));
                    equal.push(format!("({} = {value})", name(at)));
                }
                match ors.as_slice() {
                    [] => None,
                    [one] => Some(one.clone()),
                    all => Some(format!("({})", all.join(" OR "))),
                }
            };
            all.extend(end(from, ">", ">="));
            all.extend(end(to, "<", "<"));
            all
        }
    }
}
