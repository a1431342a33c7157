//! Late targets: targets that are evaluated only for the rows that a SELECT returns, after sort and
//! limit.
//!
//! ```text
//!   SELECT f(a), b FROM t ORDER BY c LIMIT 10
//!     becomes   SELECT f(a), b FROM (SELECT b, a FROM t ORDER BY c LIMIT 10)
//! ```
//!
//! Volatile targets are evaluated late wherever there is a sort or a limit, as in PostgreSQL. A
//! client that asks for one row draws one sequence value, or takes one lock. Subqueries and
//! user-defined functions are evaluated late if there are both a sort and a limit, because that
//! saves work.
//!
//! - LATE-1: a target that is a sort key, or that DISTINCT compares, is evaluated early.
//! - LATE-2: the targets of rows that OFFSET skips are evaluated, too.

use fencepost_sql::bound::{Expr, From, Leaf, LeafSource, Node, Select, Target, Volatility};

/// Returns `select`, or an equivalent SELECT that evaluates late targets late.
pub fn postpone(mut select: Select) -> Select {
    let mut ends = select.limit.iter().chain(&select.offset);
    let fixed = select.distinct
        || !select.distinct_on.is_empty()
        || select.locking.is_some()
        || select.places
        || ends.any(is_volatile);
    let (sorts, limited) = (!select.order_by.is_empty(), select.limit.is_some());
    if fixed || !(sorts || limited) {
        return select;
    }
    let late: Vec<bool> = (0..select.visible)
        .map(|target| {
            let expr = &select.targets[target].expr;
            let sorts_by = select.order_by.iter().any(|key| key.target == target);
            !sorts_by && (is_volatile(expr) || sorts && limited && is_dear(expr))
        })
        .collect();
    if !late.contains(&true) {
        return select;
    }
    let hidden = select.targets.split_off(select.visible);
    let visible = std::mem::take(&mut select.targets);
    let mut inner: Vec<Target> = Vec::new();
    let mut outer = Vec::with_capacity(visible.len());
    let mut places = Vec::with_capacity(visible.len() + hidden.len());
    for (mut target, late) in visible.into_iter().zip(late) {
        places.push(inner.len());
        match late {
            true => take_columns(&mut target.expr, &mut inner),
            false => {
                let column = Expr::column(target.expr.ty, inner.len());
                inner.push(target.clone());
                target.expr = column;
            }
        }
        outer.push(target);
    }
    let leaf = Leaf {
        alias: "rows".into(),
        column_names: inner.iter().map(|target| target.name.clone()).collect(),
        column_types: inner.iter().map(|target| target.expr.ty).collect(),
        first_slot: 0,
        source: LeafSource::Values(Vec::new()),
    };
    select.visible = inner.len();
    places.extend((0..hidden.len()).map(|nth| inner.len() + nth));
    for key in &mut select.order_by {
        key.target = places[key.target];
    }
    inner.extend(hidden);
    select.targets = inner;
    let offset = select.offset.clone();
    select.gives_skipped = offset.is_some();
    let source = LeafSource::Subquery(Box::new(select));
    Select {
        offset,
        ..Select::over(From::Leaf(Leaf { source, ..leaf }), outer)
    }
}

/// Makes `expr` read the outputs of `targets` in place of the columns that it reads.
fn take_columns(expr: &mut Expr, targets: &mut Vec<Target>) {
    if !matches!(expr.node, Node::Column(_)) {
        expr.for_each_part_mut(|part| take_columns(part, targets));
        return;
    }
    let known = targets.iter().position(|target| target.expr == *expr);
    let at = known.unwrap_or_else(|| {
        targets.push(Target {
            name: String::new(),
            expr: expr.clone(),
            origin: None,
        });
        targets.len() - 1
    });
    *expr = Expr::column(expr.ty, at);
}

fn is_volatile(expr: &Expr) -> bool {
    expr.volatility() == Volatility::Volatile
}

/// Returns whether the expression contains a subquery or a user-defined function.
fn is_dear(expr: &Expr) -> bool {
    let mut dear = matches!(expr.node, Node::Subquery(_) | Node::Routine(_));
    expr.for_each_part(|part| dear |= is_dear(part));
    dear
}
