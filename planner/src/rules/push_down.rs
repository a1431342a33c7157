//! Tests conditions on a subquery in FROM inside it, where an index may serve them.
//!
//! ```text
//! SELECT … FROM (SELECT k, count(*) AS n FROM t GROUP BY k) s WHERE s.k = 5 AND s.n > 2
//!   becomes   (SELECT k, count(*) AS n FROM t WHERE k = 5 GROUP BY k HAVING count(*) > 2) s
//! ```
//! | the condition reads | it moves to |
//! |---|---|
//! | targets of a query without groups | WHERE |
//! | keys of a GROUP BY without sets | WHERE |
//! | other targets of a query with groups | HAVING |
//! | with window calls: expressions of each PARTITION BY | WHERE or HAVING |
//! | columns of UNION, INTERSECT | both queries |
//! | columns of EXCEPT | the left query |
//!
//! Invariants
//! - PUSH-1: a condition is tested before an outer join only on the side whose rows the join does
//!   not replace by NULLs; one of ON only on the other side.
//! - PUSH-2: the conditions of the subquery are tested first. Volatile conditions and targets, and
//!   those with subqueries, stay.

use fencepost_sql::bound::{
    Expr, From, JoinKind, Leaf, LeafSource, Node, Select, SetOp, SetOperation, Volatility,
};

use crate::conjuncts::{conjunction, conjuncts};
use crate::terms::reads_only;

/// Moves conditions of WHERE and ON into the subqueries of FROM.
pub fn push_down_conditions(select: &mut Select) {
    if select.locking.is_some() {
        return;
    }
    push_down(&mut select.from, &mut select.filter);
}

/// Moves conditions of WHERE, which is `filter`, and of ON into the subqueries of `from`.
pub fn push_down(from: &mut From, filter: &mut Option<Expr>) {
    push_some(filter, &mut |condition| push(from, condition));
    push_from_joins(from);
}

/// Removes the conjuncts of `condition` for which `push` returns true.
fn push_some(condition: &mut Option<Expr>, push: &mut dyn FnMut(&Expr) -> bool) {
    let mut all = Vec::new();
    conjuncts(condition.take(), &mut all);
    all.retain(|conjunct| {
        let movable = conjunct.has_columns() && is_plain(conjunct);
        !(movable && push(conjunct))
    });
    *condition = conjunction(all);
}

/// Moves conditions of ON.
fn push_from_joins(from: &mut From) {
    let From::Join(join) = from else {
        return;
    };
    push_from_joins(&mut join.left);
    push_from_joins(&mut join.right);
    let (left, right) = (&mut join.left, &mut join.right);
    push_some(&mut join.on, &mut |condition| match join.kind {
        JoinKind::Inner => push(left, condition) || push(right, condition),
        JoinKind::Left => push(right, condition),
        JoinKind::Right => push(left, condition),
        JoinKind::Full => false,
    });
}

/// Moves a condition on the rows of `from` into a subquery. Returns false if it must be tested
/// here.
fn push(from: &mut From, condition: &Expr) -> bool {
    match from {
        From::Nothing => false,
        From::Leaf(leaf) => push_into_leaf(leaf, condition),
        From::Join(join) => match join.kind {
            JoinKind::Inner => push(&mut join.left, condition) || push(&mut join.right, condition),
            JoinKind::Left => push(&mut join.left, condition),
            JoinKind::Right => push(&mut join.right, condition),
            JoinKind::Full => false,
        },
    }
}

fn push_into_leaf(leaf: &mut Leaf, condition: &Expr) -> bool {
    let own = (leaf.first_slot, leaf.first_slot + leaf.width());
    if !reads_only(condition, own) {
        return false;
    }
    let mut condition = condition.clone();
    condition.remap_columns(&mut |slot| slot - leaf.first_slot);
    match &mut leaf.source {
        LeafSource::Subquery(query) => push_into_query(query, &condition),
        LeafSource::Set(set) => push_into_set(set, &condition),
        LeafSource::Table(_)
        | LeafSource::Function { .. }
        | LeafSource::System(_)
        | LeafSource::Values(_)
        | LeafSource::Cte(_)
        | LeafSource::Recursive(_)
        | LeafSource::Work(_)
        | LeafSource::Lateral(_) => false,
    }
}

fn push_into_set(set: &mut SetOperation, condition: &Expr) -> bool {
    let left = push_into_query(&mut set.left, condition);
    match set.op {
        SetOp::Union => push_into_query(&mut set.right, condition) && left,
        SetOp::Intersect => {
            push_into_query(&mut set.right, condition);
            left
        }
        SetOp::Except => left,
    }
}

/// Adds a condition on the columns of a query to it. Returns false if it must be tested outside.
fn push_into_query(query: &mut Select, condition: &Expr) -> bool {
    let is_limited = query.limit.is_some() || query.offset.is_some() || query.locking.is_some();
    if is_limited || !reads_movable_targets(query, condition) {
        return false;
    }
    let targets = &query.targets;
    let mut inner = condition.clone();
    inner.replace_columns(&|slot| targets.get(slot).map(|target| target.expr.clone()));
    let Some(grouping) = &query.grouping else {
        and_last(&mut query.filter, inner);
        return true;
    };
    let keys = (0, grouping.keys.len());
    let plain_keys = grouping.sets.is_empty() && grouping.keys.iter().all(is_plain);
    if plain_keys && inner.has_columns() && reads_only(&inner, keys) {
        inner.replace_columns(&|slot| grouping.keys.get(slot).cloned());
        and_last(&mut query.filter, inner);
    } else {
        and_last(&mut query.having, inner);
    }
    true
}

/// Returns whether a condition may be tested before the query's window calls and DISTINCT ON, on
/// the values that its targets compute.
fn reads_movable_targets(query: &Select, condition: &Expr) -> bool {
    let mut is_movable = true;
    condition.for_each_column(&mut |slot| {
        let target = query.columns().get(slot);
        is_movable &= target.is_some_and(|target| {
            let mut calls = query.windows.iter();
            let on = &query.distinct_on;
            is_plain(&target.expr)
                && calls.all(|call| call.partition_by.contains(&target.expr))
                && (on.is_empty() || on.contains(&slot))
        });
    });
    is_movable
}

/// Returns whether an expression may be evaluated elsewhere, and as often as needed.
fn is_plain(expr: &Expr) -> bool {
    !expr.has_subquery() && expr.volatility() != Volatility::Volatile
}

/// Adds a condition behind another one.
fn and_last(condition: &mut Option<Expr>, last: Expr) {
    let mut all = Vec::new();
    match condition.take() {
        Some(Expr {
            node: Node::And(parts),
            ..
        }) => all = parts,
        Some(other) => all.push(other),
        None => {}
    }
    all.push(last);
    *condition = conjunction(all);
}
