//! The plans of the subqueries in a statement's expressions, by number.
//!
//! They belong to the statement as a whole: a subquery inside a subquery of an expression is also
//! in this list.

use std::sync::Arc;

use fencepost_sql::bound::{Expr, LeafSource, Node, Select, Statement};
use fencepost_sql::catalog::RoutineDef;

use crate::build::plan_select;
use crate::context::PlanContext;
use crate::outer_slots::{free_slots, has_outer_ctes};
use crate::plan::{SelectPlan, Source, TablePlan};
use crate::statement::Plan;
use crate::statement_snapshot::needs_statement_snapshot;

/// The data that a statement needs to run the subqueries in its expressions.
#[derive(Debug, Default)]
pub struct Subplans {
    /// The plans by number; `None` for a number that no expression uses any more.
    plans: Vec<Option<SelectPlan>>,
    /// For each plan the outer slots that it reads: those of its arguments, and those that a CTE
    /// around the subquery reads.
    free: Vec<Box<[usize]>>,
    /// The number of outer slots.
    pub outer_slots: usize,
    /// The data-modifying statements of WITH.
    pub changes: Vec<Change>,
    /// Whether the parts run with a statement snapshot: they see the tables as they were before the
    /// statement.
    pub needs_statement_snapshot: bool,
    /// The user-defined functions that the statement or its triggers may call.
    pub routines: Vec<Arc<RoutineDef>>,
}

/// A data-modifying statement of WITH.
#[derive(Debug)]
pub struct Change {
    /// The number under which its RETURNING rows are materialized.
    pub id: usize,
    /// Its plan.
    pub plan: Plan,
    /// Whether it runs after the main statement: no part reads its RETURNING rows, and the main
    /// statement changes the same table.
    pub last: bool,
}

impl Subplans {
    /// Plans the subqueries of `statement`, if it has any. The statement has `outer_slots` slots.
    pub fn of(statement: &Statement, outer_slots: usize, cx: PlanContext<'_>) -> Option<Subplans> {
        let mut queries: Vec<Option<Arc<Select>>> = Vec::new();
        statement.for_each_subquery(&mut |sub| {
            if queries.len() <= sub.id {
                queries.resize(sub.id + 1, None);
            }
            queries[sub.id] = Some(Arc::clone(&sub.query));
        });
        let mut any = outer_slots > 0;
        statement.for_each_leaf(&mut |leaf| match leaf.source.inner() {
            LeafSource::Cte(cte) => {
                any = true;
                if queries.len() <= cte.id {
                    queries.resize(cte.id + 1, None);
                }
                queries[cte.id] = Some(Arc::clone(&cte.query));
            }
            LeafSource::Recursive(_) => any = true,
            _ => {}
        });
        let mut routines: Vec<Arc<RoutineDef>> = Vec::new();
        statement.for_each_routine(&mut |call| {
            if routines.iter().all(|known| known.id != call.routine.id) {
                routines.push(Arc::clone(&call.routine));
            }
        });
        statement.for_each_trigger(&mut |routine| {
            if routines.iter().all(|known| known.id != routine.id) {
                routines.push(Arc::clone(routine));
            }
        });
        if !any && routines.is_empty() {
            return None;
        }
        let mut free = Vec::new();
        // Without such a CTE, the arguments of a subquery are all outer values that it reads.
        if has_outer_ctes(statement) {
            free.extend(queries.iter().map(|query| {
                let slots = query.as_ref().map(|query| free_slots(query));
                slots.unwrap_or_default().into()
            }));
        }
        let plan = |query: Option<Arc<Select>>| query.map(|q| plan_select(Select::clone(&q), cx));
        Some(Subplans {
            free,
            plans: queries.into_iter().map(plan).collect(),
            outer_slots,
            changes: Vec::new(),
            needs_statement_snapshot: needs_statement_snapshot(statement),
            routines,
        })
    }

    /// Returns the plan of a subquery.
    pub fn get(&self, id: usize) -> Option<&SelectPlan> {
        self.plans.get(id)?.as_ref()
    }

    /// Returns the outer slots that a subquery reads, including those of its arguments.
    pub fn free(&self, id: usize) -> &[usize] {
        self.free.get(id).map_or(&[], |slots| slots)
    }

    /// Returns all plans with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &SelectPlan)> {
        let plans = self.plans.iter().enumerate();
        plans.filter_map(|(id, plan)| Some((id, plan.as_ref()?)))
    }

    /// Returns all plans.
    pub fn all(&self) -> impl Iterator<Item = &SelectPlan> {
        self.plans.iter().flatten()
    }

    /// Calls `f` on each table that the plans use.
    pub fn for_each_table<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<TablePlan>)) {
        self.all().for_each(|plan| plan.for_each_table(f));
        self.changes
            .iter()
            .for_each(|change| change.plan.for_each_table(f));
    }
}

/// Returns whether one of the expressions contains a subquery.
pub fn any_deep<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> bool {
    exprs.into_iter().any(Expr::has_subquery)
}

/// Returns the expressions that must run before a scan of `source` opens: the subqueries in its
/// keys.
pub fn inits(source: &Source) -> Vec<Expr> {
    let mut found = Vec::new();
    collect(source, &mut found);
    found
}

fn collect(source: &Source, out: &mut Vec<Expr>) {
    match source {
        Source::Scan(scan) => scan.access.values().for_each(|expr| queries(expr, out)),
        Source::Filter { input, .. } | Source::Analytics { input, .. } => collect(input, out),
        Source::Join(join) => {
            collect(&join.left, out);
            collect(&join.right, out);
        }
        Source::Lateral { input, .. } => collect(input, out),
        Source::One
        | Source::Values { .. }
        | Source::Function { .. }
        | Source::System { .. }
        | Source::Set(_)
        | Source::Cte { .. }
        | Source::Recursive(_)
        | Source::Work { .. }
        | Source::Subquery { .. } => {}
    }
}

fn queries(expr: &Expr, out: &mut Vec<Expr>) {
    if matches!(expr.node, Node::Subquery(_)) {
        out.push(expr.clone());
        return;
    }
    expr.for_each_part(|part| queries(part, out));
}
