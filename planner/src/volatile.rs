//! Whether a plan depends on the state of the session that runs it, such as that of `random()`, or
//! on settings that `set_config` changes.

use fencepost_sql::bound::{Expr, Grouping, TableFunction, Target, Volatility};

use crate::plan::{JoinMethod, SelectPlan, Source};
use crate::statement::Plan;
use crate::write::InsertSource;

/// A search of a plan's expressions for one that the predicate accepts.
struct Search(fn(&Expr) -> bool);

impl Plan {
    /// Returns whether it calls a volatile function: one that may return another value at each
    /// call, or change the session.
    pub fn is_volatile(&self) -> bool {
        Search(|expr| expr.volatility() == Volatility::Volatile).finds_in(self)
    }

    /// Returns whether it does the same on the same data, given the same sequence values, and
    /// leaves nothing but sequence values behind after a rollback.
    pub fn is_repeatable(&self) -> bool {
        !Search(|expr| expr.volatility_beside_draws() == Volatility::Volatile).finds_in(self)
    }
}

impl Search {
    fn finds_in(&self, plan: &Plan) -> bool {
        // The bodies of triggers are not examined.
        if plan.is_write() && !plan.routines().is_empty() {
            return true;
        }
        match plan {
            Plan::Row(plan) | Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
                self.select(plan)
            }
            Plan::Insert(insert) => {
                let source = match &insert.source {
                    InsertSource::Values(rows) => rows.iter().any(|row| self.any(row)),
                    InsertSource::Select { plan, row, .. } => self.select(plan) || self.any(row),
                };
                let update = insert.update.as_ref().is_some_and(|update| {
                    self.any(update.assignments.iter().map(|a| &a.value))
                        || self.any(&update.filter)
                });
                source || update || self.targets(&insert.returning)
            }
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                let mut action = false;
                change
                    .action
                    .for_each_expr(&mut |own| action |= self.expr(own));
                action
                    || self.source(&change.source)
                    || self.any(&change.filter)
                    || self.targets(&change.returning)
            }
            Plan::CopyIn(_) => true,
        }
    }

    fn expr(&self, expr: &Expr) -> bool {
        (self.0)(expr)
    }

    fn any<'a>(&self, exprs: impl IntoIterator<Item = &'a Expr>) -> bool {
        exprs.into_iter().any(|expr| self.expr(expr))
    }

    fn targets(&self, targets: &[Target]) -> bool {
        self.any(targets.iter().map(|target| &target.expr))
    }

    fn select(&self, plan: &SelectPlan) -> bool {
        self.source(&plan.source)
            || self.any(&plan.filter)
            || plan
                .grouping
                .as_ref()
                .is_some_and(|grouping| self.grouping(grouping))
            || self.any(&plan.having)
            || plan.windows.iter().any(|call| {
                let mut found = false;
                call.for_each_expr(&mut |of_call| found |= self.expr(of_call));
                found
            })
            || self.targets(&plan.targets)
            || self.any(&plan.limit)
            || self.any(&plan.offset)
    }

    fn grouping(&self, grouping: &Grouping) -> bool {
        self.any(&grouping.keys)
            || grouping.aggregates.iter().any(|aggregate| {
                let order = aggregate.order_by.iter().map(|(key, ..)| key);
                self.any(&aggregate.args) || self.any(&aggregate.filter) || self.any(order)
            })
    }

    fn source(&self, from: &Source) -> bool {
        match from {
            Source::One | Source::System { .. } | Source::Work { .. } => false,
            Source::Cte { cte, .. } => cte.volatile,
            Source::Set(set) => self.select(&set.left) || self.select(&set.right),
            Source::Recursive(plan) => self.select(&plan.base) || self.select(&plan.step),
            Source::Lateral { input, .. } | Source::Analytics { input, .. } => self.source(input),
            Source::Scan(scan) => self.any(&scan.filter) || self.any(scan.access.values()),
            Source::Values { rows, .. } => rows.iter().any(|row| self.any(row)),
            Source::Function { function, args, .. } => {
                let changing = [TableFunction::TxidStatus, TableFunction::Sequence];
                changing.contains(function) || self.any(args)
            }
            Source::Subquery { plan, .. } => self.select(plan),
            Source::Filter { input, filter } => self.source(input) || self.expr(filter),
            Source::Join(join) => {
                let keys = match &join.method {
                    JoinMethod::Hash {
                        left_keys,
                        right_keys,
                    } => self.any(left_keys) || self.any(right_keys),
                    JoinMethod::Index | JoinMethod::Loop => false,
                };
                keys || self.source(&join.left) || self.source(&join.right) || self.any(&join.on)
            }
        }
    }
}
