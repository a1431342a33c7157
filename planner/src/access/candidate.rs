//! The access path through one index, and its rank among the paths through other indexes.

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::{IndexDef, IndexKind, TableDef};

use super::keys::{Access, KeyBounds, KeyTerm};
use super::path::{Path, WantedOrder};
use crate::terms::{Term, TermKind};

/// The rank of a candidate path. Fields are compared in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// Whether the path reaches at most one row for each key.
    pub whole_unique_key: bool,
    /// The number of leading key columns that are fixed.
    pub equal_columns: usize,
    /// The number of bounds of the next key column.
    pub bounds: usize,
    /// Whether the rows come in an order that the statement wants.
    pub ordered: bool,
    /// Whether the index is the primary index.
    pub is_primary: bool,
}

/// Returns the path through the index at `position` under `terms`, and its rank; `None` if the
/// index cannot serve them.
pub fn candidate(
    table: &TableDef,
    position: usize,
    index: &IndexDef,
    terms: &[Term],
    wanted: &[WantedOrder],
) -> Option<(Score, Path)> {
    let leading = Leading::of(index, terms);
    let whole = !index.columns.is_empty() && leading.terms.len() == index.columns.len();
    if index.kind == IndexKind::Hash && !whole {
        // A hash index can be scanned in full, in no order, only if it is the primary index.
        return (position == 0).then(|| (Score::of_full_primary(), Path::full_primary()));
    }
    if !whole || !index.unique {
        return Some(range_path(table, (position, index), leading, terms, wanted));
    }
    let score = Score {
        whole_unique_key: true,
        equal_columns: leading.terms.len(),
        bounds: 0,
        ordered: false,
        is_primary: position == 0,
    };
    let path = Path {
        index: position,
        ordered: !leading.several || wanted.is_empty(),
        access: Access::Points(leading.terms),
        backward: false,
        merged: false,
        served: leading.served,
    };
    Some((score, path))
}

/// The leading columns of an index that terms fix.
#[derive(Default)]
struct Leading {
    terms: Vec<KeyTerm>,
    /// The columns that have a single value.
    pinned: Vec<usize>,
    /// Whether one of the columns has several values; a path has at most one such column.
    several: bool,
    /// The conjuncts of the terms.
    served: Vec<usize>,
}

impl Leading {
    fn of(index: &IndexDef, terms: &[Term]) -> Leading {
        let mut leading = Leading::default();
        for key in &index.columns {
            let found = if leading.several {
                single_value(terms, key.column)
            } else {
                equality(terms, key.column)
            };
            let Some((term, key_term)) = found else {
                break;
            };
            match key_term {
                KeyTerm::One(_) => leading.pinned.push(key.column),
                KeyTerm::Any(_) | KeyTerm::Members(_) => leading.several = true,
            }
            leading.served.push(term.conjunct);
            leading.terms.push(key_term);
        }
        leading
    }
}

/// Returns the path by ranges of keys, or over the whole index if no term serves it.
fn range_path(
    table: &TableDef,
    (position, index): (usize, &IndexDef),
    leading: Leading,
    terms: &[Term],
    wanted: &[WantedOrder],
) -> (Score, Path) {
    let Leading {
        terms: prefix,
        pinned,
        several,
        mut served,
    } = leading;
    let equal_columns = prefix.len();
    let (lower, upper) = match index.columns.get(equal_columns) {
        Some(next) => bounds(terms, next.column, &mut served),
        None => (None, None),
    };
    let direction = (!several)
        .then(|| order_direction(table, (position, index), &pinned, wanted))
        .flatten();
    // A prefix of the key determines the hash partition. It does not determine the leaf of a
    // partitioned table (PARTITION BY).
    let scattered = index.roots.are_partitioned() && (prefix.is_empty() || table.is_parent());
    let bound_count = usize::from(lower.is_some()) + usize::from(upper.is_some());
    let score = Score {
        whole_unique_key: false,
        equal_columns,
        bounds: bound_count,
        ordered: direction.is_some() && !wanted.is_empty(),
        is_primary: position == 0,
    };
    let access = match equal_columns + bound_count {
        0 => Access::Full,
        _ => Access::Ranges(vec![KeyBounds {
            prefix,
            lower,
            upper,
        }]),
    };
    let path = Path {
        index: position,
        access,
        backward: direction.unwrap_or(false),
        merged: scattered && direction.is_some() && !wanted.is_empty(),
        ordered: direction.is_some(),
        served,
    };
    (score, path)
}

impl Score {
    fn of_full_primary() -> Score {
        Score {
            whole_unique_key: false,
            equal_columns: 0,
            bounds: 0,
            ordered: false,
            is_primary: true,
        }
    }
}

/// Returns the term that fixes `column`. A single value is preferred to several values.
pub fn equality(terms: &[Term], column: usize) -> Option<(&Term, KeyTerm)> {
    single_value(terms, column).or_else(|| {
        let mut on_column = terms.iter().filter(|term| term.column == column);
        on_column.find_map(|term| match &term.kind {
            TermKind::Any(values) => Some((term, KeyTerm::Any(values.clone()))),
            TermKind::Members(condition) => Some((term, KeyTerm::Members(condition.clone()))),
            TermKind::Equal(_) | TermKind::Lower(..) | TermKind::Upper(..) => None,
        })
    })
}

/// Returns the term that fixes `column` to a single value.
fn single_value(terms: &[Term], column: usize) -> Option<(&Term, KeyTerm)> {
    let mut on_column = terms.iter().filter(|term| term.column == column);
    on_column.find_map(|term| match &term.kind {
        TermKind::Equal(value) => Some((term, KeyTerm::One(value.clone()))),
        TermKind::Any(_) | TermKind::Members(_) | TermKind::Lower(..) | TermKind::Upper(..) => None,
    })
}

type Bound = Option<(Expr, bool)>;

/// Returns the first lower and the first upper bound on `column`.
fn bounds(terms: &[Term], column: usize, served: &mut Vec<usize>) -> (Bound, Bound) {
    let mut lower = None;
    let mut upper = None;
    for term in terms.iter().filter(|t| t.column == column) {
        match &term.kind {
            TermKind::Lower(value, included) if lower.is_none() => {
                lower = Some((value.clone(), *included));
                served.push(term.conjunct);
            }
            TermKind::Upper(value, included) if upper.is_none() => {
                upper = Some((value.clone(), *included));
                served.push(term.conjunct);
            }
            _ => {}
        }
    }
    (lower, upper)
}

/// Returns whether the index gives the wanted order while the `pinned` columns are constant.
/// `Some(true)` means a backward scan; `None` means that the order differs.
pub fn order_direction(
    table: &TableDef,
    (position, index): (usize, &IndexDef),
    pinned: &[usize],
    wanted: &[WantedOrder],
) -> Option<bool> {
    let not_null = |column: usize| table.columns.get(column).is_some_and(|c| c.not_null);
    let mut keys = index.columns.iter().filter(|k| !pinned.contains(&k.column));
    let mut backward = None;
    for want in wanted {
        let column = want.by.key_of(position)?;
        if pinned.contains(&column) {
            continue;
        }
        let key = keys.next()?;
        if key.column != column {
            return None;
        }
        let reversed = key.desc != want.desc;
        if *backward.get_or_insert(reversed) != reversed {
            return None;
        }
        let nulls_agree = (key.nulls_first != reversed) == want.nulls_first;
        if !nulls_agree && !not_null(key.column) {
            return None;
        }
        if index.unique && index.columns.iter().all(|k| not_null(k.column)) {
            // Once the order covers every key column of a unique index, further order columns
            // cannot matter.
            let rest_done = keys.clone().next().is_none();
            if rest_done {
                return backward;
            }
        }
    }
    Some(backward.unwrap_or(false))
}
