//! Ordered-set aggregates (WITHIN GROUP) over the sorted rows of a group.

use std::cmp::Ordering;

use super::retained::RetainedRows;
use crate::bound::{Aggregate, OrderedSet};
use crate::error::{SqlError, SqlState};
use crate::functions::interval::{minus, plus, times};
use crate::functions::{compare, mismatch, sort_compare};
use crate::value::Value;

/// Returns the result over the rows of a group, which are sorted in the order of these indexes.
pub(super) fn result(
    kind: OrderedSet,
    aggregate: &Aggregate,
    rows: &RetainedRows,
    order: &[u32],
) -> Result<Value, SqlError> {
    if kind.is_hypothetical() {
        return hypothetical(kind, aggregate, rows, order);
    }
    let keys = order.iter().map(|row| rows.keys(*row));
    let values: Vec<&Value> = keys
        .filter(|keys| !keys.iter().any(Value::is_null))
        .flatten()
        .collect();
    match (kind, rows.direct().first()) {
        (OrderedSet::Mode, _) => Ok(mode(&values)),
        (_, None | Some(Value::Null)) => Ok(Value::Null),
        (_, Some(Value::Array(fractions))) => {
            let mut fractions = fractions.clone();
            for fraction in &mut fractions.values {
                *fraction = percentile(kind, fraction, &values)?;
            }
            Ok(match values.is_empty() && !fractions.values.is_empty() {
                true => Value::Null,
                false => Value::Array(fractions),
            })
        }
        (_, Some(fraction)) => percentile(kind, fraction, &values),
    }
}

/// Returns the value at a fraction of the sorted values. `percentile_cont` interpolates between two
/// neighbors.
fn percentile(kind: OrderedSet, fraction: &Value, values: &[&Value]) -> Result<Value, SqlError> {
    let fraction = match fraction {
        Value::Null => return Ok(Value::Null),
        Value::Float8(fraction) => *fraction,
        _ => return Err(mismatch("a percentile")),
    };
    if !(0.0..=1.0).contains(&fraction) {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("percentile value {fraction} is not between 0 and 1"),
        ));
    }
    if values.is_empty() {
        return Ok(Value::Null);
    }
    if kind == OrderedSet::PercentileDisc {
        let number = (fraction * values.len() as f64).ceil() as usize;
        return Ok(values[number.max(1) - 1].clone());
    }
    let place = fraction * (values.len() - 1) as f64;
    let (below, above) = (place.floor(), place.ceil());
    let (low, high) = (values[below as usize], values[above as usize]);
    if below == above {
        return Ok(low.clone());
    }
    match (low, high) {
        (Value::Float8(low), Value::Float8(high)) => {
            Ok(Value::Float8(low + (place - below) * (high - low)))
        }
        (Value::Interval(low), Value::Interval(high)) => {
            let part = times(&minus(high, low)?, place - below)?;
            Ok(Value::Interval(plus(&part, low)?))
        }
        _ => Err(mismatch("a percentile")),
    }
}

/// Returns the most frequent value; the first of several.
fn mode(values: &[&Value]) -> Value {
    let mut best = (0, &Value::Null);
    for same in values.chunk_by(|a, b| compare(a, b) == Ordering::Equal) {
        if same.len() > best.0 {
            best = (same.len(), same[0]);
        }
    }
    best.1.clone()
}

/// Returns the result of a hypothetical-set aggregate: the rank of a row among the existing rows.
fn hypothetical(
    kind: OrderedSet,
    aggregate: &Aggregate,
    rows: &RetainedRows,
    order: &[u32],
) -> Result<Value, SqlError> {
    let beside = |a: &[Value], b: &[Value]| {
        let keys = a.iter().zip(b).zip(&aggregate.order_by);
        keys.fold(
            Ordering::Equal,
            |so_far, ((a, b), (_, desc, nulls_first))| {
                so_far.then_with(|| sort_compare(a, b, *desc, *nulls_first))
            },
        )
    };
    let beside_direct = |row: &u32| beside(rows.keys(*row), rows.direct());
    let all = order.len() as f64;
    let before = order.partition_point(|row| beside_direct(row) == Ordering::Less);
    Ok(match kind {
        OrderedSet::PercentRank if order.is_empty() => Value::Float8(0.0),
        OrderedSet::PercentRank => Value::Float8(before as f64 / all),
        OrderedSet::CumeDist => {
            let upto = order.partition_point(|row| beside_direct(row) != Ordering::Greater);
            Value::Float8((upto as f64 + 1.0) / (all + 1.0))
        }
        OrderedSet::DenseRank => {
            let is_same = |a: &u32, b: &u32| beside(rows.keys(*a), rows.keys(*b)).is_eq();
            let ranks = order[..before].chunk_by(is_same);
            Value::Int8(ranks.count() as i64 + 1)
        }
        _ => Value::Int8(before as i64 + 1),
    })
}
