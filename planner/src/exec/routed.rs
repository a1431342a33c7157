//! Scans of partitioned tables: partition pruning when the scan opens.
//!
//! Each leaf is a partition of the scan, and its tree is that of the leaf's own index. Conditions
//! on the routing columns are evaluated when the scan opens. They may compare with constants,
//! parameters, or columns of an outer row.

use std::sync::Arc;

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::{ColumnConstraint, TableDef, Tree};
use fencepost_sql::error::SqlError;
use fencepost_sql::value::Value;

use super::cx::Cx;
use super::range::{Fit, KeyRange, Keys, disjoint, elements, fit, prefixes, range};
use crate::access::{Access, KeyTerm};
use crate::plan::Scan;
use crate::terms::{Term, TermKind, is_array};

/// A condition on a routing column of a partitioned table.
#[derive(Debug)]
pub struct Prune {
    /// The column, by position in the table.
    column: usize,
    /// The condition.
    by: PruneBy,
}

#[derive(Debug)]
enum PruneBy {
    Term(KeyTerm),
    Bounds(Option<(Expr, bool)>, Option<(Expr, bool)>),
}

impl Prune {
    /// Returns the conditions of `terms` on the routing columns of `table`.
    pub fn of(table: &TableDef, terms: &[Term]) -> Vec<Prune> {
        if !table.is_parent() {
            return Vec::new();
        }
        let columns = table.routing_columns().iter();
        columns
            .filter_map(|column| Prune::by(*column, terms))
            .collect()
    }

    fn by(column: usize, terms: &[Term]) -> Option<Prune> {
        let on_column = || terms.iter().filter(move |term| term.column == column);
        let plain = |exprs: &[Expr]| exprs.iter().all(|expr| !expr.has_subquery());
        let equal = on_column().find_map(|term| match &term.kind {
            TermKind::Equal(value) if !value.has_subquery() => Some(KeyTerm::One(value.clone())),
            _ => None,
        });
        let any = || {
            on_column().find_map(|term| match &term.kind {
                TermKind::Any(values) if plain(values) => Some(KeyTerm::Any(values.clone())),
                _ => None,
            })
        };
        if let Some(term) = equal.or_else(any) {
            let by = PruneBy::Term(term);
            return Some(Prune { column, by });
        }
        let (mut lower, mut upper) = (None, None);
        for term in on_column() {
            match &term.kind {
                TermKind::Lower(value, included) if lower.is_none() && !value.has_subquery() => {
                    lower = Some((value.clone(), *included));
                }
                TermKind::Upper(value, included) if upper.is_none() && !value.has_subquery() => {
                    upper = Some((value.clone(), *included));
                }
                _ => {}
            }
        }
        let bounded = lower.is_some() || upper.is_some();
        bounded.then_some(Prune {
            column,
            by: PruneBy::Bounds(lower, upper),
        })
    }

    fn known(
        &self,
        table: &TableDef,
        value: &dyn Fn(&Expr) -> Result<Value, SqlError>,
    ) -> Result<ColumnConstraint, SqlError> {
        let kind = table.columns[self.column].ty.kind;
        match &self.by {
            PruneBy::Term(term) => {
                let values = match term {
                    KeyTerm::One(expr) => vec![value(expr)?],
                    KeyTerm::Any(list) if is_array(list) => elements(value(&list[0])?),
                    KeyTerm::Any(list) => list.iter().map(value).collect::<Result<_, _>>()?,
                    KeyTerm::Members(_) => return Ok(ColumnConstraint::Nothing),
                };
                let fitted = values
                    .into_iter()
                    .filter_map(|value| match fit(value, kind) {
                        Fit::Value(value) => Some(value),
                        _ => None,
                    });
                Ok(ColumnConstraint::Among(fitted.collect()))
            }
            PruneBy::Bounds(lower, upper) => {
                let (mut low, mut high) = (None, None);
                if let Some((expr, included)) = lower {
                    match fit(value(expr)?, kind) {
                        Fit::Value(value) => low = Some((value, *included)),
                        Fit::Below => {}
                        Fit::Above | Fit::Null => return Ok(ColumnConstraint::Among(Vec::new())),
                    }
                }
                if let Some((expr, included)) = upper {
                    match fit(value(expr)?, kind) {
                        Fit::Value(value) => high = Some((value, *included)),
                        Fit::Above => {}
                        Fit::Below | Fit::Null => return Ok(ColumnConstraint::Among(Vec::new())),
                    }
                }
                Ok(ColumnConstraint::Between(low, high))
            }
        }
    }
}

/// Returns the leaves that a scan of a partitioned table must read. `value` evaluates the
/// expressions of the conditions.
pub fn leaves(
    scan: &Scan,
    tree: &Tree,
    value: &dyn Fn(&Expr) -> Result<Value, SqlError>,
) -> Result<Vec<u32>, SqlError> {
    let mut known = Vec::with_capacity(scan.prune.len());
    for prune in &scan.prune {
        known.push((prune.column, prune.known(&scan.table.def, value)?));
    }
    Ok(tree.leaves_with(&|column| {
        let mut of = known.iter();
        let of = of.find(|(known, _)| *known == column);
        of.map_or(ColumnConstraint::Nothing, |(_, known)| known.clone())
    }))
}

/// Returns the one leaf that can have a row with a whole unique key: such a key has all routing
/// columns (HIERARCHY-3).
#[cold]
pub fn leaf(scan: &Scan, tree: &Tree, cx: &Cx<'_>, row: &[Value]) -> Result<Option<u32>, SqlError> {
    let leaves = leaves(scan, tree, &|expr| cx.value_here(expr, row))?;
    match leaves.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(*only)),
        _ => Err(SqlError::internal(
            "a unique key does not tell the partition",
        )),
    }
}

/// Returns the keys that a scan of a partitioned table reads.
pub fn routed_keys(scan: &Scan, tree: &Tree, cx: &Cx<'_>, row: &[Value]) -> Result<Keys, SqlError> {
    let leaves: Arc<[u32]> = leaves(scan, tree, &|expr| cx.value_here(expr, row))?.into();
    match &scan.access {
        Access::Full => Ok(Keys::Ranges(over(scan, &leaves, KeyRange::all()))),
        Access::Points(terms) => {
            let mut points = Vec::new();
            for key in prefixes(scan, terms, cx, row)? {
                for leaf in leaves.iter() {
                    let mut key = key.clone();
                    key.partition = *leaf;
                    points.push(key);
                }
            }
            Ok(Keys::Points(points))
        }
        Access::Ranges(branches) => {
            let mut ranges = Vec::new();
            for bounds in branches {
                for key in prefixes(scan, &bounds.prefix, cx, row)? {
                    let range = range(scan, bounds, key, cx, row)?;
                    let each = range.into_iter();
                    ranges.extend(each.flat_map(|range| over(scan, &leaves, range)));
                }
            }
            Ok(Keys::Ranges(disjoint(ranges, branches)))
        }
    }
}

/// Returns the range for each of these leaves, or one merged range.
fn over(scan: &Scan, leaves: &Arc<[u32]>, range: KeyRange) -> Vec<KeyRange> {
    if scan.merged && leaves.len() > 1 {
        return vec![range.among(Arc::clone(leaves))];
    }
    let each = leaves.iter().map(|leaf| range.clone().of_partition(*leaf));
    each.collect()
}
