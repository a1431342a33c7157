//! The binary form of a table's place in a partition hierarchy.

use super::super::partition_hierarchy::{
    Bound, Edge, HierarchyPosition, PartitionKey, PartitionOf, Strategy,
};
use super::bytes::{Reader, Writer};
use crate::catalog::Snapshot;
use crate::row::RowLayout;
use crate::types::TypeKind;
use crate::value::Value;

const STRATEGIES: [Strategy; 3] = [Strategy::Range, Strategy::List, Strategy::Hash];

const MIN: u8 = 0;
const VALUE: u8 = 1;
const MAX: u8 = 2;

const DEFAULT: u8 = 0;
const RANGE: u8 = 1;
const LIST: u8 = 2;
const HASH: u8 = 3;

pub fn encode_hierarchy(hierarchy: &HierarchyPosition, out: &mut Writer) {
    out.flag(hierarchy.key.is_some());
    if let Some(key) = &hierarchy.key {
        let all = STRATEGIES.iter().zip(0u8..);
        let mut own = all.filter(|(strategy, _)| **strategy == key.strategy);
        out.0.push(own.next().map_or(0, |(_, byte)| byte));
        out.list(key.columns.iter().map(|c| *c as u32));
    }
    out.flag(hierarchy.of.is_some());
    let Some(of) = &hierarchy.of else { return };
    out.u32(of.parent);
    match &of.bound {
        Bound::Default => out.0.push(DEFAULT),
        Bound::Range { from, to } => {
            out.0.push(RANGE);
            encode_edges(from, out);
            encode_edges(to, out);
        }
        Bound::List(values) => {
            out.0.push(LIST);
            out.u32(values.len() as u32);
            values.iter().for_each(|value| encode_value(value, out));
        }
        Bound::Hash { modulus, remainder } => {
            out.0.push(HASH);
            out.u32(*modulus);
            out.u32(*remainder);
        }
    }
    out.list(of.links.iter().map(|(own, _)| *own));
    out.list(of.links.iter().map(|(_, of)| *of));
}

fn encode_edges(edges: &[Edge], out: &mut Writer) {
    out.u32(edges.len() as u32);
    for edge in edges {
        match edge {
            Edge::Min => out.0.push(MIN),
            Edge::Max => out.0.push(MAX),
            Edge::Value(value) => {
                out.0.push(VALUE);
                encode_value(value, out);
            }
        }
    }
}

fn encode_value(value: &Value, out: &mut Writer) {
    let kind = kind_of(value);
    out.flag(kind.is_some());
    let Some(kind) = kind else { return };
    let mut words = Vec::new();
    let layout = RowLayout::of_types([kind]);
    if layout
        .encode(std::slice::from_ref(value), &mut words)
        .is_err()
    {
        // Such a value was refused when the bound was created.
        words.clear();
    }
    out.u32(kind.oid());
    out.u32(words.len() as u32);
    words.iter().for_each(|word| out.u64(*word));
}

/// Returns the type as which a bound value is stored; `None` for NULL.
fn kind_of(value: &Value) -> Option<TypeKind> {
    Some(match value {
        Value::Bool(_) => TypeKind::Bool,
        Value::Int2(_) => TypeKind::Int2,
        Value::Int4(_) => TypeKind::Int4,
        Value::Int8(_) => TypeKind::Int8,
        Value::Float4(_) => TypeKind::Float4,
        Value::Float8(_) => TypeKind::Float8,
        Value::Numeric(_) => TypeKind::Numeric,
        Value::Text(_) => TypeKind::Text,
        Value::Bytea(_) => TypeKind::Bytea,
        Value::Date(_) => TypeKind::Date,
        Value::Timestamp(_) => TypeKind::Timestamp,
        Value::TimestampTz(_) => TypeKind::TimestampTz,
        Value::Time(_) => TypeKind::Time,
        Value::TimeTz(_) => TypeKind::TimeTz,
        Value::Interval(_) => TypeKind::Interval,
        Value::Uuid(_) => TypeKind::Uuid,
        Value::Oid(_) => TypeKind::Oid,
        _ => return None,
    })
}

/// Returns whether bounds may contain values of the type.
pub fn can_be_in_bounds(kind: TypeKind) -> bool {
    use TypeKind as T;
    matches!(
        kind,
        T::Bool
            | T::Int2
            | T::Int4
            | T::Int8
            | T::Float4
            | T::Float8
            | T::Numeric
            | T::Text
            | T::VarChar
            | T::BpChar
            | T::Bytea
            | T::Date
            | T::Timestamp
            | T::TimestampTz
            | T::Time
            | T::TimeTz
            | T::Interval
            | T::Uuid
            | T::Oid
    )
}

/// Reads the place in a partition hierarchy of a table with `width` columns.
pub fn read_hierarchy(
    input: &mut Reader<'_>,
    width: usize,
    around: &Snapshot,
) -> Option<HierarchyPosition> {
    let mut hierarchy = HierarchyPosition::default();
    if input.flag()? {
        let strategy = *STRATEGIES.get(usize::from(input.u8()?))?;
        let columns = input.positions()?;
        if columns.is_empty() || columns.iter().any(|column| *column >= width) {
            return None;
        }
        hierarchy.key = Some(PartitionKey { strategy, columns });
    }
    if !input.flag()? {
        return Some(hierarchy);
    }
    let parent = input.u32()?;
    let bound = match input.u8()? {
        DEFAULT => Bound::Default,
        RANGE => Bound::Range {
            from: read_edges(input, around)?,
            to: read_edges(input, around)?,
        },
        LIST => {
            let count = input.u32()?;
            let values = (0..count).map(|_| read_value(input, around));
            Bound::List(values.collect::<Option<_>>()?)
        }
        HASH => Bound::Hash {
            modulus: Some(input.u32()?).filter(|modulus| *modulus > 0)?,
            remainder: input.u32()?,
        },
        _ => return None,
    };
    let own = input.list()?;
    let of = input.list()?;
    if own.len() != of.len() {
        return None;
    }
    hierarchy.of = Some(PartitionOf {
        parent,
        bound,
        links: own.into_iter().zip(of).collect(),
    });
    Some(hierarchy)
}

fn read_edges(input: &mut Reader<'_>, around: &Snapshot) -> Option<Vec<Edge>> {
    let count = input.u32()?;
    let edges = (0..count).map(|_| {
        Some(match input.u8()? {
            MIN => Edge::Min,
            MAX => Edge::Max,
            VALUE => Edge::Value(read_value(input, around)?),
            _ => return None,
        })
    });
    edges.collect()
}

fn read_value(input: &mut Reader<'_>, around: &Snapshot) -> Option<Value> {
    if !input.flag()? {
        return Some(Value::Null);
    }
    let kind = around.types().kind(input.u32()?)?;
    let words: Option<Vec<u64>> = (0..input.u32()?).map(|_| input.u64()).collect();
    let layout = RowLayout::of_types([kind]);
    let words = words?;
    let row = layout.reader(&words).ok()?;
    row.get(0).ok()
}
