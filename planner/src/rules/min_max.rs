//! Reads `min` and `max` of a column at the ends of an index.
//!
//! ```text
//! SELECT min(a), max(a) FROM t WHERE b = 1          (index on (b, a))
//!   becomes   SELECT min(x), max(y)
//!             FROM (SELECT a AS x FROM t WHERE b = 1 AND a IS NOT NULL ORDER BY a LIMIT 1),
//!                  (SELECT a AS y FROM t WHERE b = 1 AND a IS NOT NULL ORDER BY a DESC LIMIT 1)
//! ```
//! Both subqueries have a row, or neither has one.

use fencepost_sql::bound::{
    Aggregate, AggregateKind, CompareOp, Expr, From, Join, JoinKind, Leaf, LeafSource, Node,
    OrderKey, Select, Target, Volatility,
};
use fencepost_sql::catalog::{IndexKind, TableDef};
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use crate::conjuncts::conjuncts;

/// Replaces the table by its first and last row in the order of an index.
pub fn read_extremes_by_index(select: &mut Select) {
    let Some((slot, ends)) = extremes(select) else {
        return;
    };
    let From::Leaf(leaf) = &select.from else {
        return;
    };
    let LeafSource::Table(table) = &leaf.source else {
        return;
    };
    let Some(column) = slot.checked_sub(leaf.first_slot) else {
        return;
    };
    let mut conditions = Vec::new();
    conjuncts(select.filter.clone(), &mut conditions);
    if !has_index(table, leaf.first_slot, column, &conditions) {
        return;
    }
    let sides: Vec<From> = ends
        .iter()
        .zip(0..)
        .map(|(kind, first_slot)| From::Leaf(end_of(leaf, select, (slot, *kind), first_slot)))
        .collect();
    let joined = sides.into_iter().reduce(|left, right| {
        From::Join(Box::new(Join {
            kind: JoinKind::Inner,
            left,
            right,
            on: None,
        }))
    });
    let (Some(from), Some(grouping)) = (joined, &mut select.grouping) else {
        return;
    };
    for aggregate in &mut grouping.aggregates {
        let place = ends.iter().position(|kind| *kind == aggregate.kind);
        let to = place.unwrap_or_default();
        let args = aggregate.args.iter_mut();
        args.for_each(|arg| arg.remap_columns(&mut |_| to));
    }
    select.from = from;
    select.filter = None;
}

/// Returns the column of which a query computes only extremes, and which: `min`, `max` or both.
fn extremes(select: &Select) -> Option<(usize, Vec<AggregateKind>)> {
    let grouping = select.grouping.as_ref()?;
    let first = grouping.aggregates.first()?;
    let slot = column_of(first)?;
    let plain = |aggregate: &Aggregate| {
        matches!(aggregate.kind, AggregateKind::Min | AggregateKind::Max)
            && aggregate.filter.is_none()
            && aggregate.order_by.is_empty()
            && column_of(aggregate) == Some(slot)
    };
    let is_able = grouping.keys.is_empty()
        && grouping.sets.is_empty()
        && grouping.aggregates.iter().all(plain)
        && select.locking.is_none();
    let all = grouping.aggregates.iter();
    let uses = |kind| all.clone().any(|aggregate| aggregate.kind == kind);
    let ends = [AggregateKind::Min, AggregateKind::Max].into_iter();
    is_able.then(|| (slot, ends.filter(|kind| uses(*kind)).collect()))
}

fn column_of(aggregate: &Aggregate) -> Option<usize> {
    match aggregate.args.as_slice() {
        [
            Expr {
                node: Node::Column(slot),
                ..
            },
        ] => Some(*slot),
        _ => None,
    }
}

/// Returns whether an index has the order of `column` among the rows that pass the conditions: they
/// fix the columns of the key before it, or bound the column itself.
fn has_index(table: &TableDef, first_slot: usize, column: usize, conditions: &[Expr]) -> bool {
    let mut fixed = Vec::new();
    for condition in conditions {
        let Some((op, of)) = comparison(condition, first_slot) else {
            return false;
        };
        if op == CompareOp::Eq {
            fixed.push(of);
        } else if of != column || op == CompareOp::Ne {
            return false;
        }
    }
    table.indexes.iter().any(|index| {
        let keys = index.columns.iter().map(|key| key.column);
        let mut rest = keys.clone().skip(fixed.len());
        index.kind != IndexKind::Hash
            && index.more.predicate.is_none()
            && rest.next() == Some(column)
            && keys.take(fixed.len()).all(|key| fixed.contains(&key))
    })
}

/// Returns the operator and the column of a comparison with a value that reads no column.
fn comparison(condition: &Expr, first_slot: usize) -> Option<(CompareOp, usize)> {
    let Node::Compare {
        op, left, right, ..
    } = &condition.node
    else {
        return None;
    };
    let is_value = |expr: &Expr| {
        !expr.has_columns() && !expr.has_subquery() && expr.volatility() != Volatility::Volatile
    };
    let slot = match (&left.node, &right.node) {
        (Node::Column(slot), _) if is_value(right) => slot,
        (_, Node::Column(slot)) if is_value(left) => slot,
        _ => return None,
    };
    Some((*op, slot.checked_sub(first_slot)?))
}

/// Returns the relation of the one row at the end of the index where the extreme is.
fn end_of(
    leaf: &Leaf,
    select: &Select,
    (slot, kind): (usize, AggregateKind),
    first_slot: usize,
) -> Leaf {
    let column = slot - leaf.first_slot;
    let ty = leaf.column_types[column];
    let value = Expr::new(ty, Node::Column(slot));
    let mut query = Select::over(
        From::Leaf(leaf.clone()),
        vec![Target {
            name: leaf.column_names[column].clone(),
            expr: value.clone(),
            origin: None,
        }],
    );
    let known = Node::IsNull {
        negated: true,
        input: Box::new(value),
    };
    let known = Expr::new(Type::BOOL, known);
    query.filter = match select.filter.clone() {
        Some(filter) => Some(Expr::new(Type::BOOL, Node::And(vec![filter, known]))),
        None => Some(known),
    };
    let desc = kind == AggregateKind::Max;
    query.order_by = vec![OrderKey {
        target: 0,
        desc,
        nulls_first: desc,
    }];
    query.limit = Some(Expr::constant(Type::of(TypeKind::Int8), Value::Int8(1)));
    Leaf {
        source: LeafSource::Subquery(Box::new(query)),
        alias: leaf.alias.clone(),
        column_names: vec![leaf.column_names[column].clone()],
        column_types: vec![ty],
        first_slot,
    }
}
