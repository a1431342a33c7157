//! The numbers of rows of relations, of queries, and of accesses through an index.

use fencepost_sql::bound::{Expr, From, JoinKind, Leaf, LeafSource, Node, Select, SetOp};

use super::Estimator;
use crate::access::{Access, KeyTerm};
use crate::conjuncts::{conjuncts, implied};
use crate::context::PlanContext;
use crate::slots::Slots;
use crate::terms::{is_array, reads_only};

/// The number of rows of a table of unknown size. A smaller table that was never analyzed counts as
/// this large, too: its plan may be kept while it grows.
const ROWS_LEAST: f64 = 1_000.0;
/// The number of rows of a function in FROM, as in PostgreSQL.
const FUNCTION_ROWS: f64 = 1_000.0;
/// The number of rows of a query that is nested too deep to be estimated.
const QUERY_ROWS: f64 = 1_000.0;
/// The number of rows of the work table of a recursive query.
const WORK_ROWS: f64 = 100.0;
/// The number of rows of a system table.
const SYSTEM_ROWS: f64 = 500.0;
/// PostgreSQL's estimate of the length of an array of unknown size.
const ARRAY_ELEMENTS: f64 = 10.0;

/// Estimates the number of rows of a relation without conditions.
pub(super) fn leaf_rows(cx: PlanContext<'_>, leaf: &Leaf) -> f64 {
    source_rows(cx, &leaf.source)
}

fn source_rows(cx: PlanContext<'_>, source: &LeafSource) -> f64 {
    match source {
        LeafSource::Table(table) => {
            let statistics = cx.statistics(table);
            let analyzed = statistics.as_ref().map(|statistics| statistics.rows);
            let rows = cx.rows(table).or(analyzed).unwrap_or(ROWS_LEAST);
            // The distinct values of an analyzed table are those of its own size.
            rows.max(if analyzed.is_some() { 1.0 } else { ROWS_LEAST })
        }
        LeafSource::Subquery(query) => select_rows(cx, query),
        LeafSource::Function { .. } => FUNCTION_ROWS,
        LeafSource::System(_) => SYSTEM_ROWS,
        LeafSource::Values(rows) => rows.len() as f64,
        LeafSource::Set(set) => {
            let (left, right) = (select_rows(cx, &set.left), select_rows(cx, &set.right));
            match set.op {
                SetOp::Union => left + right,
                SetOp::Intersect => left.min(right),
                SetOp::Except => left,
            }
        }
        LeafSource::Cte(cte) => cx.rows_of_with_query(cte.id, || select_rows(cx, &cte.query)),
        LeafSource::Recursive(recursive) => 10.0 * select_rows(cx, &recursive.base),
        LeafSource::Work(_) => WORK_ROWS,
        LeafSource::Lateral(lateral) => source_rows(cx, &lateral.source),
    }
}

/// Estimates the number of rows that a query returns.
fn select_rows(cx: PlanContext<'_>, select: &Select) -> f64 {
    let Some(cx) = cx.inside() else {
        return QUERY_ROWS;
    };
    let estimator = Estimator::of(cx, &select.from);
    let mut conditions = Vec::new();
    conjuncts(select.filter.clone(), &mut conditions);
    let mut of_relations = Vec::new();
    select.from.for_each_leaf(&mut |leaf| {
        let mut slots = Slots::default();
        slots.add((leaf.first_slot, leaf.first_slot + leaf.width()));
        let on_several = conditions.iter().filter(|c| !reads_only(c, &slots));
        of_relations.extend(on_several.filter_map(|c| implied(c, &slots)));
    });
    conditions.extend(of_relations);
    let mut rows = estimator.rows(&select.from, &conditions);
    if let Some(grouping) = &select.grouping {
        rows = match grouping.sets.len() {
            0 => estimator.groups(&grouping.keys, rows),
            sets => estimator.groups(&grouping.keys, rows) * sets as f64,
        };
    }
    if select.distinct {
        let targets = &select.targets[..select.visible];
        let keys: Vec<Expr> = targets.iter().map(|target| target.expr.clone()).collect();
        // The targets of a grouped query read its groups, which the estimator does not know.
        if select.grouping.is_none() {
            rows = estimator.groups(&keys, rows);
        }
    }
    if let Some(limit) = select
        .limit
        .as_ref()
        .and_then(|limit| estimator.number(limit))
    {
        rows = rows.min(limit);
    }
    rows.max(1.0)
}

impl Estimator<'_> {
    /// Estimates the number of rows of `from` under `conditions`.
    pub fn rows(&self, from: &From, conditions: &[Expr]) -> f64 {
        (self.unconditioned(from) * self.selectivity(conditions)).max(1.0)
    }

    /// Estimates the number of rows of `from` under the conditions of its joins.
    fn unconditioned(&self, from: &From) -> f64 {
        match from {
            From::Nothing => 1.0,
            From::Leaf(leaf) => self.rows_of((leaf.first_slot, leaf.first_slot + leaf.width())),
            From::Join(join) => {
                let left = self.unconditioned(&join.left);
                let right = self.unconditioned(&join.right);
                let mut on = Vec::new();
                conjuncts(join.on.clone(), &mut on);
                let pairs = left * right * self.selectivity(&on);
                match join.kind {
                    JoinKind::Inner => pairs,
                    JoinKind::Left => pairs.max(left),
                    JoinKind::Right => pairs.max(right),
                    JoinKind::Full => pairs.max(left).max(right),
                }
            }
        }
    }

    /// Estimates the number of groups of `rows` rows with these keys.
    pub fn groups(&self, keys: &[Expr], rows: f64) -> f64 {
        let mut groups = 1.0;
        for key in keys {
            // A key has at most as many values as the columns that it reads together.
            key.for_each_column(&mut |slot| groups *= self.distinct(slot).min(rows.max(1.0)));
        }
        groups.clamp(1.0, rows.max(1.0))
    }

    /// Returns the value of a constant or known parameter as a number.
    pub fn number(&self, expr: &Expr) -> Option<f64> {
        match &expr.node {
            Node::Cast { input, .. } => self.number(input),
            _ => Some(self.constant(expr)?.as_int()? as f64),
        }
    }
}

/// Estimates the number of rows that an access reaches in a table of `table_rows` rows, by rules of
/// thumb.
pub fn access_rows(access: &Access, table_rows: f64) -> f64 {
    let choices = |terms: &[KeyTerm]| -> f64 {
        let lists = terms.iter().map(|t| match t {
            KeyTerm::One(_) => 1.0,
            KeyTerm::Any(list) if is_array(list) => ARRAY_ELEMENTS,
            KeyTerm::Any(list) => list.len() as f64,
            KeyTerm::Members(_) => 10.0,
        });
        lists.product()
    };
    match access {
        Access::Full => table_rows,
        Access::Points(terms) => choices(terms),
        Access::Ranges(branches) => {
            let rows = branches.iter().map(|bounds| {
                let equal = 0.005_f64.powi(bounds.prefix.len() as i32).max(1e-4);
                let bounded = match (&bounds.lower, &bounds.upper) {
                    (Some(_), Some(_)) => 0.03,
                    (None, None) => 1.0,
                    _ => 0.3,
                };
                (table_rows * equal * bounded * choices(&bounds.prefix)).max(1.0)
            });
            rows.sum::<f64>().min(table_rows)
        }
    }
}
