//! Merges a subquery in FROM that only filters and computes into its query.
//!
//! ```text
//! SELECT s.y FROM (SELECT a + 1 AS y FROM t WHERE b > 0) s JOIN u ON u.y = s.y
//!   becomes   SELECT a + 1 FROM t JOIN u ON b > 0 AND u.y = a + 1
//! ```
//! The relations of the subquery then take part in the order of the joins, and their indexes serve
//! conditions of the whole query.
//!
//! Invariants
//! - PULL-1: the condition of the subquery is tested before those of the query, which may fail for
//!   other rows.
//! - PULL-2: below an outer join, a missing row has NULL in all columns. So the query reads only
//!   plain columns of such a subquery, and its condition becomes one of that join.

use fencepost_sql::bound::{Expr, From, JoinKind, Leaf, LeafSource, Node, Select, Volatility};

use super::row_exprs::{for_each_join_expr, for_each_row_expr};
use crate::conjuncts::conjunction;

/// Merges all subqueries in FROM that can be.
pub fn pull_up_subqueries(select: &mut Select) {
    // The locks of a query belong to its own relations, and so does the place of a cursor.
    if select.locking.is_some() || select.places {
        return;
    }
    while let Some(first_slot) = eligible(select) {
        merge(select, first_slot);
    }
}

/// The place of a relation in a tree of joins.
#[derive(Clone, Copy)]
struct Place {
    /// Whether an outer join may replace its row by NULLs.
    is_nullable: bool,
    /// Whether a join or WHERE can test its condition.
    has_filter: bool,
}

/// Returns the first slot of a subquery that can be merged.
fn eligible(select: &mut Select) -> Option<usize> {
    let mut found = Vec::new();
    let top = Place {
        is_nullable: false,
        has_filter: true,
    };
    candidates(&select.from, top, &mut found);
    for (first_slot, is_nullable) in found {
        if !is_nullable || reads_plain_columns(select, first_slot) {
            return Some(first_slot);
        }
    }
    None
}

/// Collects the subqueries that can be merged: the first slot, and whether the row is nullable.
fn candidates(from: &From, place: Place, found: &mut Vec<(usize, bool)>) {
    match from {
        From::Nothing => {}
        From::Leaf(leaf) => {
            if let LeafSource::Subquery(query) = &leaf.source
                && is_simple(query)
                && (place.has_filter || query.filter.is_none())
            {
                found.push((leaf.first_slot, place.is_nullable));
            }
        }
        From::Join(join) => {
            let inner = Place {
                has_filter: true,
                ..place
            };
            let outer = Place {
                is_nullable: true,
                has_filter: true,
            };
            let full = Place {
                is_nullable: true,
                has_filter: false,
            };
            let (left, right) = match join.kind {
                JoinKind::Inner => (inner, inner),
                JoinKind::Left => (place, outer),
                JoinKind::Right => (outer, place),
                JoinKind::Full => (full, full),
            };
            candidates(&join.left, left, found);
            candidates(&join.right, right, found);
        }
    }
}

/// Returns whether a query only filters and computes.
fn is_simple(query: &Select) -> bool {
    let plain = |expr: &Expr| !expr.has_subquery() && expr.volatility() != Volatility::Volatile;
    !matches!(query.from, From::Nothing)
        && query.grouping.is_none()
        && query.windows.is_empty()
        && !query.distinct
        && query.distinct_on.is_empty()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locking.is_none()
        && query
            .filter
            .iter()
            .all(|filter| filter.volatility() != Volatility::Volatile)
        && query.targets.iter().all(|target| plain(&target.expr))
}

/// Returns whether the query reads only columns of the subquery that are columns of its relations.
fn reads_plain_columns(select: &mut Select, first_slot: usize) -> bool {
    let mut is_computed = Vec::new();
    select.from.for_each_leaf(&mut |leaf| {
        if let LeafSource::Subquery(query) = &leaf.source
            && leaf.first_slot == first_slot
        {
            let targets = query.columns().iter();
            is_computed = targets
                .map(|target| !matches!(target.expr.node, Node::Column(_)))
                .collect();
        }
    });
    let mut found = false;
    let mut note = |expr: &mut Expr| {
        expr.for_each_column(&mut |slot| {
            let at = slot.checked_sub(first_slot);
            found |= at.and_then(|at| is_computed.get(at)) == Some(&true);
        });
    };
    select.filter.iter_mut().for_each(&mut note);
    for_each_row_expr(select, &mut note);
    !found
}

/// The new places of the slots of a from row.
#[derive(Default)]
struct Slots {
    /// The old first slot, the width and the new first slot of each relation.
    moved: Vec<(usize, usize, usize)>,
}

impl Slots {
    /// Moves a relation to the slots from `to` on. Returns the slot behind it.
    fn move_leaf(&mut self, leaf: &mut Leaf, to: usize) -> usize {
        self.moved.push((leaf.first_slot, leaf.width(), to));
        leaf.first_slot = to;
        to + leaf.width()
    }

    /// Returns the new place of a slot, if its relation has moved.
    fn of(&self, slot: usize) -> Option<usize> {
        let mut moved = self.moved.iter();
        let (from, _, to) = moved.find(|(from, width, _)| (*from..from + width).contains(&slot))?;
        Some(slot - from + to)
    }
}

/// Merges the subquery with this first slot.
fn merge(select: &mut Select, first_slot: usize) {
    let before = select.from.width();
    let mut merged = None;
    let (mut outer, mut inner) = (Slots::default(), Slots::default());
    let mut width = 0;
    select.from.for_each_leaf_mut(&mut |leaf| {
        if leaf.first_slot == first_slot
            && let LeafSource::Subquery(query) = &mut leaf.source
        {
            query
                .from
                .for_each_leaf_mut(&mut |leaf| width = inner.move_leaf(leaf, width));
            let columns = leaf.column_types.len();
            let source = std::mem::replace(&mut leaf.source, LeafSource::Values(Vec::new()));
            // No relation has this slot: it marks the place of the subquery.
            leaf.first_slot = usize::MAX;
            merged = Some((source, columns));
        } else {
            width = outer.move_leaf(leaf, width);
        }
    });
    let Some((LeafSource::Subquery(mut query), columns)) = merged else {
        return;
    };
    let to_new = |slot: usize| inner.of(slot).unwrap_or(slot);
    let mut move_inner = |expr: &mut Expr| expr.remap_columns(&mut |slot| to_new(slot));
    for_each_join_expr(&mut query.from, &mut move_inner);
    query.filter.iter_mut().for_each(&mut move_inner);
    let targets = query.targets.iter_mut();
    targets.for_each(|target| move_inner(&mut target.expr));
    let value = |slot: usize| {
        if let Some(at) = slot.checked_sub(first_slot).filter(|at| *at < columns) {
            return query.targets.get(at).map(|target| target.expr.clone());
        }
        None
    };
    let place = |slot: usize| match outer.of(slot) {
        Some(place) => place,
        // The values of window calls are behind the from row.
        None => slot - before + width,
    };
    let mut move_outer = |expr: &mut Expr| replace(expr, &value, &place);
    select.filter.iter_mut().for_each(&mut move_outer);
    for_each_row_expr(select, &mut move_outer);
    let mut from = Some(query.from);
    if let Some(filter) = insert(&mut select.from, &mut from, query.filter) {
        and_first(&mut select.filter, filter);
    }
}

/// Replaces each column by its value in the subquery, or by its new place.
fn replace(expr: &mut Expr, value: &dyn Fn(usize) -> Option<Expr>, place: &dyn Fn(usize) -> usize) {
    if let Node::Column(slot) = &mut expr.node {
        match value(*slot) {
            Some(value) => *expr = value,
            None => *slot = place(*slot),
        }
        return;
    }
    expr.for_each_part_mut(|part| replace(part, value, place));
}

/// Puts the relations of the subquery in its place. Returns its condition, unless a join tests it.
fn insert(from: &mut From, merged: &mut Option<From>, filter: Option<Expr>) -> Option<Expr> {
    match from {
        From::Nothing => filter,
        From::Leaf(leaf) => {
            if leaf.first_slot == usize::MAX
                && let Some(merged) = merged.take()
            {
                *from = merged;
            }
            filter
        }
        From::Join(join) => {
            let mut filter = insert(&mut join.left, merged, filter);
            let is_left = merged.is_none();
            if !is_left {
                filter = insert(&mut join.right, merged, filter);
            }
            if merged.is_some() {
                return filter;
            }
            let filter = filter?;
            match (join.kind, is_left) {
                (JoinKind::Left, true) | (JoinKind::Right, false) | (JoinKind::Full, _) => {
                    return Some(filter);
                }
                (JoinKind::Inner, _) | (JoinKind::Left, false) | (JoinKind::Right, true) => {
                    and_first(&mut join.on, filter);
                }
            }
            None
        }
    }
}

/// Adds a condition before another one.
fn and_first(condition: &mut Option<Expr>, first: Expr) {
    let all = std::iter::once(first).chain(condition.take());
    *condition = conjunction(all.collect());
}
