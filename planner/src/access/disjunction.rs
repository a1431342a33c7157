//! Paths for an OR of which each branch can use the same index.
//!
//! ```text
//! a = 1 AND (b < 3 OR b BETWEEN 7 AND 9)   index (a, b)   ranges (1, ..3) and (1, 7..=9)
//! ```
//!
//! A branch may use the conjuncts beside the OR, too, but it must use one of its own: otherwise the
//! OR adds nothing to a path by the other conjuncts. The scan reads the union of the ranges, in
//! index order.
//!
//! The bounds of all branches are evaluated when the scan opens. In `$1 <> 0 AND a < 9 / $1` the
//! first conjunct guards the second: the index serves such a branch only if its bounds cannot fail.

use fencepost_sql::bound::{Expr, Node};
use fencepost_sql::catalog::{IndexDef, IndexKind, TableDef};

use super::candidate::{Score, candidate, order_direction};
use super::keys::{Access, KeyBounds};
use super::path::{Path, Scope, WantedOrder};
use crate::conjuncts::conjuncts;
use crate::terms::{Term, TermKind, terms};

/// The most branches of an OR that become ranges.
const MAX_BRANCHES: usize = 1_000;

/// Returns a path through the index at `position` for each OR among the conditions that can use it.
/// `beside` are the terms of all conjuncts.
pub fn or_candidates<'a>(
    table: &'a TableDef,
    position: usize,
    beside: &'a [Term],
    wanted: &'a [WantedOrder],
    scope: &'a Scope<'_>,
) -> impl Iterator<Item = (Score, Path)> + 'a {
    let ors = scope.conditions.iter().enumerate();
    ors.filter_map(move |(conjunct, condition)| {
        let Node::Or(branches) = &condition.node else {
            return None;
        };
        let is_tree = table.indexes[position].kind == IndexKind::BTree;
        // Values of one column are a list, which the path by the other terms uses.
        let is_list = beside.iter().any(|term| term.conjunct == conjunct);
        if !is_tree || is_list || branches.len() > MAX_BRANCHES || condition.has_subquery() {
            return None;
        }
        let union = BranchUnion {
            table,
            position,
            beside,
            scope,
        };
        union.path(branches, conjunct, wanted)
    })
}

/// The union of the paths of branches through one index.
struct BranchUnion<'a> {
    table: &'a TableDef,
    position: usize,
    beside: &'a [Term],
    scope: &'a Scope<'a>,
}

/// The path of one branch.
struct BranchPath {
    score: Score,
    bounds: KeyBounds,
    /// The conjuncts beside the OR that the path covers.
    served: Vec<usize>,
    /// Whether the path covers the whole branch.
    whole: bool,
}

impl BranchUnion<'_> {
    fn index(&self) -> &IndexDef {
        &self.table.indexes[self.position]
    }

    fn path(
        &self,
        branches: &[Expr],
        conjunct: usize,
        wanted: &[WantedOrder],
    ) -> Option<(Score, Path)> {
        let paths = branches.iter().map(|branch| self.branch(branch));
        let paths = paths.collect::<Option<Vec<BranchPath>>>()?;
        let mut score = paths.iter().map(|path| path.score).min()?;
        // It is no point access, which takes its row locks in another way.
        score.whole_unique_key = false;
        let mut served = paths.first()?.served.clone();
        served.retain(|position| paths.iter().all(|path| path.served.contains(position)));
        if paths.iter().all(|path| path.whole) {
            served.push(conjunct);
        }
        let direction = self.direction(wanted);
        score.ordered = direction.is_some() && !wanted.is_empty();
        let branches = paths.into_iter().map(|path| path.bounds).collect();
        let path = Path {
            index: self.position,
            access: Access::Ranges(branches),
            backward: direction.unwrap_or(false),
            merged: false,
            ordered: direction.is_some(),
            served,
        };
        Some((score, path))
    }

    /// Returns the path of one branch; `None` if the index does not serve it.
    fn branch(&self, branch: &Expr) -> Option<BranchPath> {
        let outside = self.scope.conditions.len();
        let mut own = Vec::new();
        conjuncts(Some(branch.clone()), &mut own);
        let scope = Scope {
            conditions: &own,
            ..*self.scope
        };
        let mut found = terms(&own, scope.own, scope.known);
        found.extend(scope.expression_terms(self.index()));
        found.iter_mut().for_each(|term| term.conjunct += outside);
        found.extend_from_slice(self.beside);
        let (score, path) = candidate(self.table, self.position, self.index(), &found, &[])?;
        let bounds = match path.access {
            Access::Full => return None,
            Access::Points(prefix) => KeyBounds {
                prefix,
                lower: None,
                upper: None,
            },
            Access::Ranges(mut bounds) => bounds.pop()?,
        };
        let (inside, beside): (Vec<usize>, Vec<usize>) = path
            .served
            .into_iter()
            .partition(|position| *position >= outside);
        let whole = (0..own.len()).all(|position| inside.contains(&(outside + position)));
        let usable = !inside.is_empty() && (whole || bounds.values().all(cannot_fail));
        usable.then_some(BranchPath {
            score,
            bounds,
            served: beside,
            whole,
        })
    }

    /// Returns the direction in which the union of the ranges has the wanted order, as
    /// [`order_direction`] does.
    fn direction(&self, wanted: &[WantedOrder]) -> Option<bool> {
        if wanted.is_empty() {
            return Some(false);
        }
        let index = self.index();
        if index.roots.are_partitioned() {
            return None;
        }
        let constant = self.beside.iter().filter_map(|term| match term.kind {
            TermKind::Equal(_) => Some(term.column),
            _ => None,
        });
        let pinned: Vec<usize> = constant.collect();
        order_direction(self.table, (self.position, index), &pinned, wanted)
    }
}

/// Returns whether the evaluation of `expr` has a value in any case.
fn cannot_fail(expr: &Expr) -> bool {
    matches!(
        expr.node,
        Node::Const(_) | Node::Column(_) | Node::Param(_) | Node::Outer(_)
    )
}
