//! Decorrelation of EXISTS with an equality that no index serves: it becomes a condition over the
//! rows of a subquery that runs once.
//!
//! ```text
//! EXISTS (SELECT … FROM u WHERE u.x = t.y AND u.z > t.w AND …)
//!   becomes   ((t.y = x AND z > t.w) ANY (SELECT u.x, u.z FROM u WHERE …)) IS TRUE
//! ```
//!
//! Without the rewrite the subquery would read all of `u` for each row. A hash table finds the rows
//! of `u` with the same `x`. If an index serves `u.x`, the query is left unchanged.

use std::sync::Arc;

use fencepost_sql::bound::{
    BoolTest, CompareOp, CopySource, Expr, From, InsertSource, Leaf, LeafSource, Node, Select,
    Statement, Subquery, SubqueryKind, Target, Volatility,
};
use fencepost_sql::types::Type;

use crate::conjuncts::{conjunction, conjuncts};
use crate::outer_slots::free_slots;
use crate::rules::rewrite;

/// Decorrelates every eligible EXISTS of the statement, whose outer slots from `slots` on are free.
pub fn decorrelate(statement: &mut Statement, slots: &mut usize) {
    match statement {
        Statement::Select(select) => in_select(select, slots),
        Statement::Insert(insert) => {
            if let InsertSource::Select { select, .. } = &mut insert.source {
                in_select(select, slots);
            }
        }
        Statement::Update(update) => update.filter.iter_mut().for_each(|e| in_expr(e, slots)),
        Statement::Delete(delete) => delete.filter.iter_mut().for_each(|e| in_expr(e, slots)),
        Statement::Copy(copy) => {
            if let CopySource::Query(select) = &mut copy.source {
                in_select(select, slots);
            }
        }
        Statement::With(changes) => decorrelate(&mut changes.main, slots),
        _ => {}
    }
}

fn in_select(select: &mut Select, slots: &mut usize) {
    select
        .from
        .for_each_leaf_mut(&mut |leaf| in_leaf(leaf, slots));
    select.filter.iter_mut().for_each(|e| in_expr(e, slots));
    select.having.iter_mut().for_each(|e| in_expr(e, slots));
    let targets = select.targets.iter_mut();
    targets.for_each(|target| in_expr(&mut target.expr, slots));
}

fn in_leaf(leaf: &mut Leaf, slots: &mut usize) {
    let source = match &mut leaf.source {
        LeafSource::Lateral(lateral) => &mut lateral.source,
        other => other,
    };
    match source {
        LeafSource::Subquery(select) => in_select(select, slots),
        LeafSource::Set(set) => {
            in_select(&mut set.left, slots);
            in_select(&mut set.right, slots);
        }
        _ => {}
    }
}

fn in_expr(expr: &mut Expr, slots: &mut usize) {
    expr.for_each_part_mut(|part| in_expr(part, slots));
    if let Node::Subquery(sub) = &mut expr.node {
        let query = Arc::make_mut(&mut sub.query);
        rewrite(query);
        in_select(query, slots);
        if let Some(changed) = among(sub, slots) {
            expr.node = Node::BoolTest {
                test: BoolTest::True,
                negated: false,
                input: Box::new(Expr::new(Type::BOOL, Node::Subquery(Box::new(changed)))),
            };
        }
    }
}

/// Returns EXISTS rewritten as a condition over the rows of a query; `None` if it is not eligible.
fn among(sub: &Subquery, slots: &mut usize) -> Option<Subquery> {
    let query = &sub.query;
    let plain = sub.kind == SubqueryKind::Exists
        && !sub.args.is_empty()
        && !sub.volatile
        && query.grouping.is_none()
        && query.windows.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locking.is_none();
    if !plain {
        return None;
    }
    let mut conditions = Vec::new();
    conjuncts(query.filter.clone(), &mut conditions);
    let (mut tests, own): (Vec<Expr>, Vec<Expr>) = conditions
        .into_iter()
        .partition(|condition| sub.args.iter().any(|(slot, _)| uses(condition, *slot) > 0));
    let mut has_key = false;
    for test in &mut tests {
        if test.has_subquery() || test.volatility() == Volatility::Volatile {
            return None;
        }
        if let Some(value) = turn_to_key(test, sub) {
            if index_has(&query.from, value) {
                return None;
            }
            has_key = true;
        }
    }
    if !has_key {
        return None;
    }
    let mut changed = Select::clone(query);
    changed.filter = conjunction(own);
    changed.distinct = false;
    changed.distinct_on = Vec::new();
    changed.order_by = Vec::new();
    changed.targets = Vec::new();
    changed.visible = 0;
    // The query must not depend on the outer row any more: it runs once.
    if !free_slots(&changed).is_empty() {
        return None;
    }
    let mut columns = Vec::new();
    for test in &mut tests {
        take_columns(test, &mut changed, &mut columns, slots);
        take_args(test, &sub.args);
    }
    Some(Subquery {
        kind: SubqueryKind::Any {
            all: false,
            test: Box::new(conjunction(tests)?),
            columns,
        },
        args: Vec::new(),
        query: Arc::new(changed),
        ..sub.clone()
    })
}

/// Turns an equality of a value of the subquery's row and an argument so that the argument is on
/// its left. Returns the value; `None` if the condition is no such equality.
fn turn_to_key<'a>(test: &'a mut Expr, sub: &Subquery) -> Option<&'a Expr> {
    let Node::Compare {
        op: CompareOp::Eq,
        left,
        right,
        ..
    } = &mut test.node
    else {
        return None;
    };
    let is_arg = |expr: &Expr| {
        let mut args = sub.args.iter();
        args.any(|(slot, _)| expr.node == Node::Outer(*slot))
    };
    let is_own = |expr: &Expr| {
        let mut args = sub.args.iter();
        expr.has_columns() && args.all(|(slot, _)| uses(expr, *slot) == 0)
    };
    if is_arg(right) && is_own(left) {
        std::mem::swap(left, right);
    }
    (is_arg(left) && is_own(right)).then_some(&**right)
}

/// Replaces the columns of the subquery's row by outer slots that receive them. The query returns
/// these columns.
fn take_columns(test: &mut Expr, query: &mut Select, columns: &mut Vec<usize>, slots: &mut usize) {
    if let Node::Column(_) = test.node {
        let known = query.targets.iter();
        let known = known
            .zip(&*columns)
            .find(|(target, _)| target.expr == *test);
        let slot = match known {
            Some((_, slot)) => *slot,
            None => {
                let slot = *slots;
                *slots += 1;
                columns.push(slot);
                query.targets.push(Target {
                    name: String::new(),
                    expr: test.clone(),
                    origin: None,
                });
                query.visible += 1;
                slot
            }
        };
        test.node = Node::Outer(slot);
        return;
    }
    test.for_each_part_mut(|part| take_columns(part, query, columns, slots));
}

/// Replaces the arguments of a subquery by their expressions over the outer row.
fn take_args(test: &mut Expr, args: &[(usize, Expr)]) {
    if let Node::Outer(slot) = test.node {
        if let Some((_, arg)) = args.iter().find(|(of, _)| *of == slot) {
            *test = arg.clone();
        }
        return;
    }
    test.for_each_part_mut(|part| take_args(part, args));
}

/// Counts how often an expression reads an outer slot.
fn uses(expr: &Expr, slot: usize) -> usize {
    let mut count = usize::from(expr.node == Node::Outer(slot));
    expr.for_each_part(|part| count += uses(part, slot));
    count
}

/// Returns whether `value` is a column that is the leading column of an index.
fn index_has(from: &From, value: &Expr) -> bool {
    let mut found = false;
    value.for_each_column(&mut |slot| {
        from.for_each_leaf(&mut |leaf| {
            let column = slot.checked_sub(leaf.first_slot);
            if let (LeafSource::Table(table), Some(column)) = (&leaf.source, column) {
                let mut indexes = table.indexes.iter();
                found |= column < leaf.width()
                    && indexes.any(|index| {
                        let first = index.columns.first();
                        first.is_some_and(|first| first.column == column)
                    });
            }
        });
    });
    found
}
