//! The order in which a query wants the rows of its only table: one that saves a sort, or one in
//! which the rows of a group follow each other.

use fencepost_sql::bound::{Expr, From, Grouping, LeafSource, Node, Select};
use fencepost_sql::catalog::{EXPRESSION, TableDef};

use crate::access::{OrderedBy, WantedOrder};
use crate::context::PlanContext;
use crate::estimate::Estimator;

/// The cost of a row that is read by an index, in rows that a scan by several threads reads.
const ROWS_BY_INDEX: f64 = 6.0;

/// Returns the order that would save the sort, without grouping or DISTINCT in between: columns of
/// the only table, or expressions of its indexes. An empty ORDER BY yields an empty order. With
/// GROUP BY and LIMIT, returns the order of the groups.
pub fn wanted_order(select: &Select, cx: PlanContext<'_>) -> Option<Vec<WantedOrder>> {
    let (table, first_slot) = only_table(&select.from)?;
    // Ties are detected by the sort operator.
    if select.with_ties || select.distinct || !select.windows.is_empty() {
        return None;
    }
    if let Some(grouping) = &select.grouping {
        let order = || group_order(select, grouping, (table, first_slot));
        return order().filter(|_| takes_few_groups(select, grouping, cx));
    }
    select
        .order_by
        .iter()
        .map(|key| {
            let expr = &select.targets[key.target].expr;
            let by = match expr.node {
                Node::Column(slot) => OrderedBy::Column(slot - first_slot),
                _ => expression_key(table, expr, first_slot)?,
            };
            Some(WantedOrder {
                by,
                desc: key.desc,
                nulls_first: key.nulls_first,
            })
        })
        .collect()
}

fn only_table(from: &From) -> Option<(&TableDef, usize)> {
    let From::Leaf(leaf) = from else {
        return None;
    };
    match &leaf.source {
        LeafSource::Table(table) => Some((table, leaf.first_slot)),
        _ => None,
    }
}

/// Returns whether LIMIT and OFFSET need few of all groups. Otherwise reading the rows in the order
/// of an index costs more than reading all of them.
fn takes_few_groups(select: &Select, grouping: &Grouping, cx: PlanContext<'_>) -> bool {
    let estimator = Estimator::of(cx, &select.from);
    let groups = estimator.groups(&grouping.keys, estimator.rows(&select.from, &[]));
    let ends = [&select.limit, &select.offset].into_iter().flatten();
    let needed: f64 = ends.filter_map(|end| estimator.number(end)).sum();
    needed * ROWS_BY_INDEX <= groups
}

/// Returns an order of the keys of all groups that begins with ORDER BY. Returns `None` if all
/// groups are needed, or are made on several machines.
fn group_order(
    select: &Select,
    grouping: &Grouping,
    (table, first_slot): (&TableDef, usize),
) -> Option<Vec<WantedOrder>> {
    let is_one = table.partitioning.is_none() && !table.is_parent();
    let ends_early = select.limit.is_some() && select.having.is_none();
    if !is_one || !ends_early || !grouping.sets.is_empty() || grouping.keys.is_empty() {
        return None;
    }
    let column = |key: usize| match grouping.keys.get(key)?.node {
        Node::Column(slot) => slot.checked_sub(first_slot),
        _ => None,
    };
    let mut keys = Vec::new();
    let mut order = Vec::new();
    for by in &select.order_by {
        let Node::Column(key) = select.targets[by.target].expr.node else {
            return None;
        };
        keys.push(key);
        order.push(WantedOrder {
            by: OrderedBy::Column(column(key)?),
            desc: by.desc,
            nulls_first: by.nulls_first,
        });
    }
    let (desc, nulls_first) = order
        .first()
        .map_or((false, false), |first| (first.desc, first.nulls_first));
    for key in (0..grouping.keys.len()).filter(|key| !keys.contains(key)) {
        order.push(WantedOrder {
            by: OrderedBy::Column(column(key)?),
            desc,
            nulls_first,
        });
    }
    Some(order)
}

/// Returns the index that has the expression as a key column. `expr` reads the leaf's slots.
fn expression_key(table: &TableDef, expr: &Expr, first_slot: usize) -> Option<OrderedBy> {
    table.indexes.iter().enumerate().find_map(|(index, def)| {
        let mut all = def.more.expressions.iter();
        let at = all.position(|of| {
            let mut value = of.value.clone();
            value.remap_columns(&mut |slot| slot + first_slot);
            value == *expr
        })?;
        Some(OrderedBy::Expression {
            index,
            column: EXPRESSION + at,
        })
    })
}
