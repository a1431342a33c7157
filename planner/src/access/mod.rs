//! The choice of an access path: which index, which keys, which order.
//!
//! The choice reads no statistics. An index that fixes more leading columns is assumed to return
//! fewer rows. A whole unique key is preferred to everything else. A hash index serves only whole
//! keys. An index that gives the requested order wins a tie, and decides if no condition does. An
//! index with one tree for each partition gives an order if the partition column is known, or by
//! merging its trees.
//!
//! An OR can use an index if each of its branches can: the path then reads one set of ranges for
//! each branch.

mod candidate;
mod disjunction;
mod keys;
mod path;

use std::borrow::Cow;

use fencepost_sql::bound::{Expr, Node};
use fencepost_sql::catalog::TableDef;

use candidate::{Score, candidate, equality};
use disjunction::or_candidates;
pub use keys::{Access, KeyBounds, KeyTerm, are_plain};
pub use path::{OrderedBy, Path, Scope, WantedOrder};

use crate::conjuncts::conjuncts;
use crate::terms::Term;

/// Returns the best path to the rows of `table` under `terms`, which are those of the scope.
pub fn choose(table: &TableDef, terms: &[Term], wanted: &[WantedOrder], scope: &Scope<'_>) -> Path {
    let mut best: Option<(Score, Path)> = None;
    for (position, index) in table.indexes.iter().enumerate() {
        if !table.is_whole(index) {
            continue;
        }
        if let Some(predicate) = &index.more.predicate
            && !is_implied(&predicate.condition, terms, scope)
        {
            continue;
        }
        let mut all = Cow::Borrowed(terms);
        if !index.more.expressions.is_empty() {
            all.to_mut().extend(scope.expression_terms(index));
        }
        let by_terms = candidate(table, position, index, &all, wanted);
        let by_branches = or_candidates(table, position, &all, wanted, scope);
        for (score, path) in by_terms.into_iter().chain(by_branches) {
            if best.as_ref().is_none_or(|(top, _)| score > *top) {
                best = Some((score, path));
            }
        }
    }
    best.map_or_else(Path::full_primary, |(_, path)| path)
}

/// Returns whether the predicate of a partial index provably follows from `conditions`. Each part
/// of the predicate must be one of the conditions, or state that a column is not NULL that a
/// condition compares for equality.
fn is_implied(predicate: &Expr, terms: &[Term], scope: &Scope<'_>) -> bool {
    let mut parts = Vec::new();
    conjuncts(Some(predicate.clone()), &mut parts);
    parts.into_iter().all(|mut part| {
        if let Node::IsNull {
            negated: true,
            input,
        } = &part.node
            && let Node::Column(column) = input.node
            && equality(terms, column).is_some()
        {
            return true;
        }
        part.remap_columns(&mut |slot| slot + scope.own.0);
        scope.conditions.contains(&part)
    })
}
