//! Joins: which side drives, and how matching rows are found.
//!
//! Slots are absolute, so the sides of a join can be swapped without changing expressions. A right
//! join is a left join with its sides swapped.

use fencepost_sql::bound::{CompareClass, CompareOp, Expr, From, Join, JoinKind, LeafSource, Node};

use crate::access::{Scope, choose};
use crate::analytics::key_column;
use crate::build::{Builder, PlannedSource, estimate};
use crate::conjuncts::{conjunction, conjuncts};
use crate::plan::{self, JoinMethod, OuterSlot, Source};
use crate::subplans::any_deep;
use crate::terms::{SlotRange, Term, reads_any, reads_only, terms};

/// Conditions by the sides that they read.
struct Split {
    left: Vec<Expr>,
    right: Vec<Expr>,
    both: Vec<Expr>,
}

/// The join method.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    Index,
    Hash,
    Loop,
}

/// Plans `join` under the WHERE conditions that reach it.
pub fn plan_join(builder: &Builder<'_>, join: Join, conditions: Vec<Expr>) -> PlannedSource {
    let Join {
        mut kind,
        mut left,
        mut right,
        on,
    } = join;
    if kind == JoinKind::Right {
        std::mem::swap(&mut left, &mut right);
        kind = JoinKind::Left;
    }
    let mut on_conditions = Vec::new();
    conjuncts(on, &mut on_conditions);
    let (mut split, rest) =
        distribute(kind, slots(&left), slots(&right), on_conditions, conditions);
    if reads_left(&right, slots(&left)) {
        let source = assemble(builder, kind, left, right, split, Method::Index);
        return PlannedSource {
            source,
            rest,
            ordered: false,
        };
    }
    let forward = best(builder, kind, (&left, &right), &split);
    let mut method = forward.0;
    if kind == JoinKind::Inner {
        let turned = Split {
            left: split.right.clone(),
            right: split.left.clone(),
            both: split.both.clone(),
        };
        let backward = best(builder, kind, (&right, &left), &turned);
        if backward.1 < forward.1 {
            std::mem::swap(&mut left, &mut right);
            split = turned;
            method = backward.0;
        }
    }
    PlannedSource {
        source: assemble(builder, kind, left, right, split, method),
        rest,
        ordered: false,
    }
}

/// Returns whether a relation of `right` reads columns of the left side (LATERAL), so that its rows
/// differ for each left row.
fn reads_left(right: &From, left: SlotRange) -> bool {
    let mut found = false;
    right.for_each_leaf(&mut |leaf| {
        if let LeafSource::Lateral(lateral) = &leaf.source {
            found |= lateral.args.iter().any(|(_, arg)| reads_any(arg, left));
        }
    });
    found
}

/// Distributes conditions to the sides of the join where that changes no result. The second part of
/// the result stays above the join.
fn distribute(
    kind: JoinKind,
    left: SlotRange,
    right: SlotRange,
    on: Vec<Expr>,
    filter: Vec<Expr>,
) -> (Split, Vec<Expr>) {
    let mut split = Split {
        left: Vec::new(),
        right: Vec::new(),
        both: Vec::new(),
    };
    let mut rest = Vec::new();
    let (from_on, above) = match kind {
        JoinKind::Inner => (on.into_iter().chain(filter).collect(), Vec::new()),
        _ => (on, filter),
    };
    for condition in from_on {
        let only_right = reads_only(&condition, right);
        if only_right && kind != JoinKind::Full {
            split.right.push(condition);
        } else if reads_only(&condition, left) && kind == JoinKind::Inner {
            split.left.push(condition);
        } else {
            split.both.push(condition);
        }
    }
    for condition in above {
        if kind == JoinKind::Left && reads_only(&condition, left) {
            split.left.push(condition);
        } else {
            rest.push(condition);
        }
    }
    (split, rest)
}

/// Returns the cheapest method with `left` driving, and its cost.
fn best(
    builder: &Builder<'_>,
    kind: JoinKind,
    (left, right): (&From, &From),
    split: &Split,
) -> (Method, f64) {
    let left_rows = estimate(left, &split.left, (0, 0));
    let right_rows = estimate(right, &split.right, (0, 0));
    let sides = (slots(left), slots(right));
    // With equality keys a hash join is never much worse than a nested loop, and the estimates may
    // be far off.
    let hashes = split
        .both
        .iter()
        .any(|c| builder.key_pair(c, sides).is_some());
    let mut found = match hashes {
        true => (Method::Hash, left_rows + 2.0 * right_rows),
        false => (Method::Loop, left_rows * right_rows + right_rows),
    };
    if kind != JoinKind::Full
        && !(hashes && builder.hashes)
        && let Some(rows) = index_rows(right, split, sides)
    {
        // Reading only the needed rows also keeps the read set small, so an index is slightly
        // favoured.
        let cost = left_rows * (0.5 + 2.0 * rows);
        if cost < found.1 {
            found = (Method::Index, cost);
        }
    }
    found
}

/// Returns the number of rows that an index on `right` returns for one left row, if one serves a
/// join condition.
fn index_rows(right: &From, split: &Split, sides: (SlotRange, SlotRange)) -> Option<f64> {
    let From::Leaf(leaf) = right else {
        return None;
    };
    let LeafSource::Table(table) = &leaf.source else {
        return None;
    };
    let conditions: Vec<Expr> = split.right.iter().chain(&split.both).cloned().collect();
    let found: Vec<Term> = terms(&conditions, sides.1, sides.0);
    let scope = Scope {
        conditions: &conditions,
        own: sides.1,
        known: sides.0,
    };
    let path = choose(table, &found, &[], &scope);
    let joins = path
        .served
        .iter()
        .any(|c| reads_any(&conditions[*c], sides.0));
    joins.then(|| estimate(right, &conditions, sides.0))
}

fn assemble(
    builder: &Builder<'_>,
    kind: JoinKind,
    left: From,
    right: From,
    split: Split,
    method: Method,
) -> Source {
    let sides = (slots(&left), slots(&right));
    let carried = builder.pointers.iter().filter_map(|pointer| {
        let within = |side: SlotRange| side.0 <= pointer.first_slot && pointer.first_slot < side.1;
        (within(sides.0) || within(sides.1)).then_some(OuterSlot {
            from_left: within(sides.0),
            slot: pointer.pointer_slot,
        })
    });
    let carried = carried.collect();
    let left = closed(builder.plan_from(left, split.left, (0, 0)));
    let mut both = split.both;
    let (right, method) = match method {
        Method::Index if !matches!(right, From::Leaf(_)) => {
            let right = closed(builder.plan_from(right, split.right, (0, 0)));
            (right, JoinMethod::Index)
        }
        Method::Index => {
            let conditions = split.right.into_iter().chain(both).collect();
            let planned = builder.plan_from(right, conditions, sides.0);
            both = planned.rest;
            (planned.source, JoinMethod::Index)
        }
        Method::Hash => {
            let mut left_keys = Vec::new();
            let mut right_keys = Vec::new();
            both.retain(|condition| match builder.key_pair(condition, sides) {
                Some((left, right)) => {
                    left_keys.push(left.clone());
                    right_keys.push(right.clone());
                    false
                }
                None => true,
            });
            let right = closed(builder.plan_from(right, split.right, (0, 0)));
            let method = JoinMethod::Hash {
                left_keys,
                right_keys,
            };
            (right, method)
        }
        Method::Loop => {
            let right = closed(builder.plan_from(right, split.right, (0, 0)));
            (right, JoinMethod::Loop)
        }
    };
    Source::Join(Box::new(plan::Join {
        kind,
        method,
        left,
        right,
        left_slots: sides.0,
        right_slots: sides.1,
        deep: any_deep(&both),
        on: conjunction(both),
        carried,
    }))
}

/// Wraps a side of a join with its remaining conditions as a filter.
fn closed(planned: PlannedSource) -> Source {
    match conjunction(planned.rest) {
        None => planned.source,
        Some(filter) => Source::Filter {
            input: Box::new(planned.source),
            filter,
        },
    }
}

impl Builder<'_> {
    /// Returns the two sides of an equality that a hash table can serve.
    fn key_pair<'e>(
        &self,
        condition: &'e Expr,
        sides: (SlotRange, SlotRange),
    ) -> Option<(&'e Expr, &'e Expr)> {
        let serves = |key| !self.hashes || key_column(key).is_some();
        key_pair(condition, sides).filter(|(left, right)| serves(left) && serves(right))
    }
}

/// Returns the two sides of an equality between the left and the right source.
fn key_pair(condition: &Expr, sides: (SlotRange, SlotRange)) -> Option<(&Expr, &Expr)> {
    let Node::Compare {
        op: CompareOp::Eq,
        class: CompareClass::Int | CompareClass::Same,
        left,
        right,
    } = &condition.node
    else {
        return None;
    };
    if condition.has_subquery() {
        return None;
    }
    let fits = |a: &Expr, b: &Expr| {
        reads_any(a, sides.0)
            && reads_only(a, sides.0)
            && reads_any(b, sides.1)
            && reads_only(b, sides.1)
    };
    if fits(left, right) {
        Some((left, right))
    } else if fits(right, left) {
        Some((right, left))
    } else {
        None
    }
}

fn slots(from: &From) -> SlotRange {
    (from.first_slot(), from.first_slot() + from.width())
}
