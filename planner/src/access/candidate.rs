//! The access path through one index, and its rank among the paths through other indexes.

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::{IndexDef, IndexKind, TableDef};

use super::path::{Path, WantedOrder};
use crate::plan::{Access, KeyBounds, KeyTerm};
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

/// Returns the path through the index at `position` under `terms`, and its rank; `None` if the index
/// cannot serve them.
pub fn candidate(
    table: &TableDef,
    position: usize,
    index: &IndexDef,
    terms: &[Term],
    wanted: &[WantedOrder],
) -> Option<(Score, Path)> {
    let mut served = Vec::new();
    let mut prefix = Vec::new();
    let mut pinned = Vec::new();
    let mut several = false;
    for key in &index.columns {
        let Some((term, key_term)) = equality(terms, key.column, several) else {
            break;
        };
        several |= matches!(key_term, KeyTerm::Any(_) | KeyTerm::Members(_));
        if matches!(key_term, KeyTerm::One(_)) {
            pinned.push(key.column);
        }
        served.push(term.conjunct);
        prefix.push(key_term);
    }
    let whole = !index.columns.is_empty() && prefix.len() == index.columns.len();
    if index.kind == IndexKind::Hash && !whole {
        // A hash index can be scanned in full, in no order, only if it is the primary index.
        return (position == 0).then(|| (Score::of_full(true, false), Path::full_primary()));
    }
    let equal_columns = prefix.len();
    if whole && index.unique {
        let score = Score {
            whole_unique_key: true,
            equal_columns,
            bounds: 0,
            ordered: false,
            is_primary: position == 0,
        };
        let access = Access::Points(prefix);
        let path = Path {
            index: position,
            ordered: !several || wanted.is_empty(),
            access,
            backward: false,
            merged: false,
            served,
        };
        return Some((score, path));
    }
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
    let access = if equal_columns + bound_count == 0 {
        Access::Full
    } else {
        Access::Ranges(vec![KeyBounds {
            prefix,
            lower,
            upper,
        }])
    };
    let path = Path {
        index: position,
        access,
        backward: direction.unwrap_or(false),
        merged: scattered && direction.is_some() && !wanted.is_empty(),
        ordered: direction.is_some(),
        served,
    };
    Some((score, path))
}

impl Score {
    fn of_full(is_primary: bool, ordered: bool) -> Score {
        Score {
            whole_unique_key: false,
            equal_columns: 0,
            bounds: 0,
            ordered,
            is_primary,
        }
    }
}

/// Returns the term that fixes `column`. A single value is preferred to several values, and only
/// one column of a path may have several (`several`: one already has).
pub fn equality(terms: &[Term], column: usize, several: bool) -> Option<(&Term, KeyTerm)> {
    let on_column = || terms.iter().filter(move |t| t.column == column);
    for term in on_column() {
        if let TermKind::Equal(value) = &term.kind {
            return Some((term, KeyTerm::One(value.clone())));
        }
    }
    if several {
        return None;
    }
    on_column().find_map(|term| match &term.kind {
        TermKind::Any(values) => Some((term, KeyTerm::Any(values.clone()))),
        TermKind::Members(condition) => Some((term, KeyTerm::Members(condition.clone()))),
        _ => None,
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
