//! The expressions of a SELECT over its from row.

use fencepost_sql::bound::{Expr, From, LeafSource, Select};

/// Calls `f` on each expression over the from row, except WHERE.
pub fn for_each_row_expr(select: &mut Select, f: &mut dyn FnMut(&mut Expr)) {
    for_each_join_expr(&mut select.from, f);
    let Some(grouping) = &mut select.grouping else {
        let calls = select.windows.iter_mut();
        calls.for_each(|call| call.for_each_expr_mut(f));
        let targets = select.targets.iter_mut();
        return targets.for_each(|target| f(&mut target.expr));
    };
    grouping.keys.iter_mut().for_each(&mut *f);
    for aggregate in &mut grouping.aggregates {
        aggregate.args.iter_mut().for_each(&mut *f);
        aggregate.filter.iter_mut().for_each(&mut *f);
        let order = aggregate.order_by.iter_mut();
        order.for_each(|(key, ..)| f(key));
    }
}

/// Calls `f` on each expression in `from` over its row: conditions of joins, and arguments of
/// lateral relations.
pub fn for_each_join_expr(from: &mut From, f: &mut dyn FnMut(&mut Expr)) {
    match from {
        From::Nothing => {}
        From::Leaf(leaf) => {
            if let LeafSource::Lateral(lateral) = &mut leaf.source {
                lateral.args.iter_mut().for_each(|(_, arg)| f(arg));
            }
        }
        From::Join(join) => {
            for_each_join_expr(&mut join.left, f);
            for_each_join_expr(&mut join.right, f);
            join.on.iter_mut().for_each(f);
        }
    }
}
