//! The choice of an access path: which index, which keys, which order.
//!
//! There are no statistics. An index that fixes more leading columns is assumed to return fewer
//! rows. A whole unique key is preferred to everything else. A hash index serves only whole keys.
//! An index that gives the requested order wins a tie, and decides if no condition does. An index
//! with one tree for each partition gives an order if the partition column is known, or by merging
//! its trees.

use std::borrow::Cow;

use fencepost_sql::bound::{Expr, Node};
use fencepost_sql::catalog::{EXPRESSION, IndexDef, IndexKind, TableDef};

use crate::plan::{Access, KeyTerm};
use crate::terms::{SlotRange, Term, TermKind, expression_terms};

/// One column of the order that a statement wants from a scan.
#[derive(Clone, Copy, Debug)]
pub struct WantedOrder {
    /// The column or expression to order by.
    pub by: OrderedBy,
    /// Whether the order is descending.
    pub desc: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// The subject of an order: a column or an indexed expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// A column, by position in the table.
    Column(usize),
    /// An expression that is a key column of an index.
    Expression {
        /// The index, by position.
        index: usize,
        /// The key column of the index.
        column: usize,
    },
}

impl OrderedBy {
    /// Returns the key column of the index at `position` that this order can use.
    fn key_of(self, position: usize) -> Option<usize> {
        match self {
            OrderedBy::Column(column) => Some(column),
            OrderedBy::Expression { index, column } => (index == position).then_some(column),
        }
    }
}

/// The chosen access path.
#[derive(Debug)]
pub struct Path {
    /// The index, by position in `TableDef::indexes`.
    pub index: usize,
    /// How the path reaches its rows.
    pub access: Access,
    /// Whether the scan runs backward, from the end of the index.
    pub backward: bool,
    /// Whether the trees of all partitions are merged.
    pub merged: bool,
    /// Whether the rows come in the wanted order.
    pub ordered: bool,
    /// The conjuncts that the path covers.
    pub served: Vec<usize>,
}

/// Returns the best path to the rows of `table` under `terms`.
pub fn choose(
    table: &TableDef,
    terms: &[Term],
    wanted: &[WantedOrder],
    (conditions, first_slot, known): (&[Expr], usize, SlotRange),
) -> Path {
    let mut best: Option<(Score, Path)> = None;
    for (position, index) in table.indexes.iter().enumerate() {
        if !table.is_whole(index) {
            continue;
        }
        if let Some(predicate) = &index.more.predicate
            && !is_implied(&predicate.condition, terms, conditions, first_slot)
        {
            continue;
        }
        let mut all = Cow::Borrowed(terms);
        for (at, expression) in index.more.expressions.iter().enumerate() {
            let own = (first_slot, first_slot + table.columns.len());
            let (value, column) = (&expression.value, EXPRESSION + at);
            all.to_mut()
                .extend(expression_terms(conditions, (own, known), value, column));
        }
        let Some((score, path)) = candidate(table, position, index, &all, wanted) else {
            continue;
        };
        if best.as_ref().is_none_or(|(top, _)| score > *top) {
            best = Some((score, path));
        }
    }
    best.map_or_else(full_primary, |(_, path)| path)
}

/// Returns whether the predicate of a partial index provably follows from `conditions`. Each part
/// of the predicate must be one of the conditions, or state that a column is not NULL that a
/// condition compares for equality.
fn is_implied(predicate: &Expr, terms: &[Term], conditions: &[Expr], first_slot: usize) -> bool {
    let parts = match &predicate.node {
        Node::And(parts) => parts.as_slice(),
        _ => std::slice::from_ref(predicate),
    };
    parts.iter().all(|part| {
        if let Node::IsNull {
            negated: true,
            input,
        } = &part.node
            && let Node::Column(column) = input.node
            && equality(terms, column, false).is_some()
        {
            return true;
        }
        let mut part = part.clone();
        part.remap_columns(&mut |slot| slot + first_slot);
        conditions.contains(&part)
    })
}

fn full_primary() -> Path {
    Path {
        index: 0,
        access: Access::Full,
        backward: false,
        merged: false,
        ordered: false,
        served: Vec::new(),
    }
}

/// The rank of a candidate path. Fields are compared in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    whole_unique_key: bool,
    equal_columns: usize,
    bounds: usize,
    ordered: bool,
    is_primary: bool,
}

fn candidate(
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
        return (position == 0).then(|| (Score::of_full(true, false), full_primary()));
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
        Access::Ranges {
            prefix,
            lower,
            upper,
        }
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
fn equality(terms: &[Term], column: usize, several: bool) -> Option<(&Term, KeyTerm)> {
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
fn order_direction(
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
