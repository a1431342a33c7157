//! The choice of an access path: which index, which keys, which order.
//!
//! There are no statistics: an index that pins more leading columns is taken to give fewer rows.
//! A whole unique key beats everything; a hash index serves whole keys only; an index that gives
//! the order asked for wins a tie, and decides where no condition does. An index with a tree for each
//! partition gives an order where the partition column is given, or by merging its trees.

use std::borrow::Cow;

use fencepost_sql::bound::{Expr, Node};
use fencepost_sql::catalog::{EXPRESSION, IndexDef, IndexKind, TableDef};

use crate::plan::{Access, KeyTerm};
use crate::terms::{SlotRange, Term, TermKind, expression_terms};

/// One column of the order a statement wants from a scan.
#[derive(Clone, Copy, Debug)]
pub struct WantedOrder {
    /// By what.
    pub by: OrderedBy,
    /// Descending.
    pub desc: bool,
    /// NULLs first.
    pub nulls_first: bool,
}

/// What an order is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// A column, by position in the table.
    Column(usize),
    /// An expression that an index has for a key column.
    Expression {
        /// The index, by position.
        index: usize,
        /// The key column.
        column: usize,
    },
}

impl OrderedBy {
    /// The key column of an index that it may be.
    fn key_of(self, position: usize) -> Option<usize> {
        match self {
            OrderedBy::Column(column) => Some(column),
            OrderedBy::Expression { index, column } => (index == position).then_some(column),
        }
    }
}

/// The chosen path.
#[derive(Debug)]
pub struct Path {
    /// The index, by position in `TableDef::indexes`.
    pub index: usize,
    /// How its keys are found.
    pub access: Access,
    /// Walk from the end.
    pub backward: bool,
    /// Merge the trees of all partitions.
    pub merged: bool,
    /// The rows come in the wanted order.
    pub ordered: bool,
    /// The conjuncts that the path does.
    pub served: Vec<usize>,
}

/// The best path to the rows of `table` under `terms`.
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

/// Do all rows that pass `conditions` pass the condition of a partial index, as far as can be seen: each of its parts is
/// one of theirs, or says that a column is not NULL that equals something.
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

/// Compared from the first field on.
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
        // A hash index gives every row, in no order, only as the primary one.
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
    // The beginning of a key tells the partition, but for those that are tables of their own.
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

/// The term that pins `column`: one value before several, and several only once a path.
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

/// The first lower and the first upper bound on `column`.
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

/// Does the index, with `pinned` columns constant, give the wanted order? `Some(true)` walks from
/// the end.
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
            // Once every key column has been wanted the rest of the order cannot matter.
            let rest_done = keys.clone().next().is_none();
            if rest_done {
                return backward;
            }
        }
    }
    Some(backward.unwrap_or(false))
}
