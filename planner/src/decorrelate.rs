//! Decorrelation of EXISTS with an equality that no index serves: it becomes a membership test over
//! a subquery that runs once.
//!
//! ```text
//! EXISTS (SELECT … FROM u WHERE u.x = t.y AND …)
//!   becomes   (t.y = ANY (SELECT u.x FROM u WHERE …)) IS TRUE
//! ```
//!
//! Without the rewrite the subquery would read all of `u` for each row. If an index serves `u.x`,
//! the query is left unchanged.

use std::sync::Arc;

use fencepost_sql::bound::{
    BoolTest, CompareOp, CopySource, Expr, From, InsertSource, Leaf, LeafSource, Node, Select,
    Statement, Subquery, SubqueryKind, Target,
};
use fencepost_sql::types::Type;

use crate::conjuncts::{conjunction, conjuncts};

/// Decorrelates every eligible EXISTS of the statement.
pub fn decorrelate(statement: &mut Statement) {
    match statement {
        Statement::Select(select) => in_select(select),
        Statement::Insert(insert) => {
            if let InsertSource::Select { select, .. } = &mut insert.source {
                in_select(select);
            }
        }
        Statement::Update(update) => update.filter.iter_mut().for_each(in_expr),
        Statement::Delete(delete) => delete.filter.iter_mut().for_each(in_expr),
        Statement::Copy(copy) => {
            if let CopySource::Query(select) = &mut copy.source {
                in_select(select);
            }
        }
        Statement::With(changes) => decorrelate(&mut changes.main),
        _ => {}
    }
}

fn in_select(select: &mut Select) {
    select.from.for_each_leaf_mut(&mut in_leaf);
    select.filter.iter_mut().for_each(in_expr);
    select.having.iter_mut().for_each(in_expr);
    let targets = select.targets.iter_mut();
    targets.for_each(|target| in_expr(&mut target.expr));
}

fn in_leaf(leaf: &mut Leaf) {
    let source = match &mut leaf.source {
        LeafSource::Lateral(lateral) => &mut lateral.source,
        other => other,
    };
    match source {
        LeafSource::Subquery(select) => in_select(select),
        LeafSource::Set(set) => {
            in_select(&mut set.left);
            in_select(&mut set.right);
        }
        _ => {}
    }
}

fn in_expr(expr: &mut Expr) {
    expr.for_each_part_mut(in_expr);
    if let Node::Subquery(sub) = &mut expr.node {
        in_select(Arc::make_mut(&mut sub.query));
        if let Some(changed) = among(sub) {
            expr.node = Node::BoolTest {
                test: BoolTest::True,
                negated: false,
                input: Box::new(Expr::new(Type::BOOL, Node::Subquery(Box::new(changed)))),
            };
        }
    }
}

/// Returns EXISTS rewritten as a membership test; `None` if it is not eligible.
fn among(sub: &Subquery) -> Option<Subquery> {
    let [(slot, arg)] = sub.args.as_slice() else {
        return None;
    };
    let query = &sub.query;
    let plain = sub.kind == SubqueryKind::Exists
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
    let at = conditions.iter().position(|c| uses(c, *slot) > 0)?;
    let condition = conditions.remove(at);
    let Node::Compare {
        op: CompareOp::Eq,
        class,
        left,
        right,
    } = condition.node
    else {
        return None;
    };
    let is_slot = |expr: &Expr| expr.node == Node::Outer(*slot);
    let (value, outer) = match (is_slot(&left), is_slot(&right)) {
        (false, true) => (*left, *right),
        (true, false) => (*right, *left),
        _ => return None,
    };
    if !value.has_columns() || value.has_subquery() || index_has(&query.from, &value) {
        return None;
    }
    let mut changed = Select::clone(query);
    changed.filter = conjunction(conditions);
    changed.distinct = false;
    changed.distinct_on = Vec::new();
    changed.order_by = Vec::new();
    changed.visible = 1;
    changed.targets = vec![Target {
        name: String::new(),
        expr: value,
        origin: None,
    }];
    let mut left = 0;
    changed.for_each_query(&mut |query| query.for_each_expr(&mut |e| left += uses(e, *slot)));
    if left > 0 {
        return None;
    }
    let test = Node::Compare {
        op: CompareOp::Eq,
        class,
        left: Box::new(arg.clone()),
        right: Box::new(outer),
    };
    Some(Subquery {
        kind: SubqueryKind::Any {
            all: false,
            test: Box::new(Expr::new(Type::BOOL, test)),
            columns: vec![*slot],
        },
        args: Vec::new(),
        query: Arc::new(changed),
        ..sub.clone()
    })
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
