//! Whether a plan has to do with the state of the session that runs it, such as that of `random()`, or what
//! `set_config` sets.

use fencepost_sql::bound::{Expr, Grouping, TableFunction, Target, Volatility};

use crate::plan::{Access, JoinMethod, KeyTerm, Scan, SelectPlan, Source};
use crate::statement::Plan;
use crate::write::InsertSource;

impl Plan {
    /// Does it call a function that may give something else at each call, or change the session?
    pub fn is_volatile(&self) -> bool {
        // What triggers do is not looked at.
        if self.is_write() && !self.routines().is_empty() {
            return true;
        }
        match self {
            Plan::Row(plan) | Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
                select(plan)
            }
            Plan::Insert(insert) => {
                let source = match &insert.source {
                    InsertSource::Values(rows) => rows.iter().any(any),
                    InsertSource::Select { plan, row, .. } => select(plan) || any(row),
                };
                let update = insert.update.as_ref().is_some_and(|update| {
                    any(update.assignments.iter().map(|a| &a.value)) || any(&update.filter)
                });
                source || update || targets(&insert.returning)
            }
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                let mut action = false;
                change.action.for_each_expr(&mut |own| action |= expr(own));
                action
                    || source(&change.source)
                    || any(&change.filter)
                    || targets(&change.returning)
            }
            Plan::CopyIn(_) => true,
        }
    }
}

fn expr(expr: &Expr) -> bool {
    expr.volatility() == Volatility::Volatile
}

fn any<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> bool {
    exprs.into_iter().any(expr)
}

fn targets(targets: &[Target]) -> bool {
    any(targets.iter().map(|target| &target.expr))
}

fn select(plan: &SelectPlan) -> bool {
    source(&plan.source)
        || any(&plan.filter)
        || plan.grouping.as_ref().is_some_and(grouping)
        || any(&plan.having)
        || plan.windows.iter().any(|call| {
            let mut found = false;
            call.for_each_expr(&mut |of_call| found |= expr(of_call));
            found
        })
        || targets(&plan.targets)
        || any(&plan.limit)
        || any(&plan.offset)
}

fn grouping(grouping: &Grouping) -> bool {
    any(&grouping.keys)
        || grouping.aggregates.iter().any(|aggregate| {
            let order = aggregate.order_by.iter().map(|(key, ..)| key);
            any(&aggregate.args) || any(&aggregate.filter) || any(order)
        })
}

fn source(from: &Source) -> bool {
    match from {
        Source::One | Source::System { .. } | Source::Work { .. } => false,
        Source::Cte { cte, .. } => cte.volatile,
        Source::Set(set) => select(&set.left) || select(&set.right),
        Source::Recursive(plan) => select(&plan.base) || select(&plan.step),
        Source::Lateral { input, .. } | Source::Analytics { input, .. } => source(input),
        Source::Scan(scan) => any(&scan.filter) || access(scan),
        Source::Values { rows, .. } => rows.iter().any(any),
        Source::Function { function, args, .. } => {
            let changing = [TableFunction::TxidStatus, TableFunction::Sequence];
            changing.contains(function) || any(args)
        }
        Source::Subquery { plan, .. } => select(plan),
        Source::Filter { input, filter } => source(input) || expr(filter),
        Source::Join(join) => {
            let keys = match &join.method {
                JoinMethod::Hash {
                    left_keys,
                    right_keys,
                } => any(left_keys) || any(right_keys),
                JoinMethod::Index | JoinMethod::Loop => false,
            };
            keys || source(&join.left) || source(&join.right) || any(&join.on)
        }
    }
}

fn access(scan: &Scan) -> bool {
    let term = |term: &KeyTerm| match term {
        KeyTerm::One(value) | KeyTerm::Members(value) => expr(value),
        KeyTerm::Any(values) => any(values),
    };
    match &scan.access {
        Access::Full => false,
        Access::Points(terms) => terms.iter().any(term),
        Access::Ranges {
            prefix,
            lower,
            upper,
        } => {
            let bounds = lower.iter().chain(upper).map(|(value, _)| value);
            prefix.iter().any(term) || any(bounds)
        }
    }
}
