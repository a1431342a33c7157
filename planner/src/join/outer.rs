//! Joins with a fixed order: outer joins, and trees with too many units.

use fencepost_sql::bound::{Expr, From, Join, JoinKind, LeafSource};

use super::assemble::{RightSide, assemble, closed};
use super::cost::Method;
use super::graph::{Unit, slots_of};
use super::nulls::rejects_nulls;
use super::sides::JoinSides;
use super::units::UnitSet;
use crate::build::{Builder, PlannedSource};
use crate::conjuncts::conjuncts;
use crate::slots::Slots;
use crate::terms::{reads_any, reads_only};

/// Turns an outer join into a join that produces fewer rows, if WHERE rejects the other rows. The
/// result is no right join.
pub fn simplify(mut join: Join, conditions: &[Expr]) -> Join {
    let rejects = |from: &From| {
        let slots = slots_of(from);
        conditions
            .iter()
            .any(|condition| rejects_nulls(condition, &slots))
    };
    let (left, right) = match join.kind {
        JoinKind::Inner => return join,
        _ => (rejects(&join.left), rejects(&join.right)),
    };
    join.kind = match (join.kind, left, right) {
        (JoinKind::Left, _, true) | (JoinKind::Right, true, _) | (_, true, true) => JoinKind::Inner,
        (JoinKind::Full, true, false) => JoinKind::Left,
        (JoinKind::Full, false, true) => JoinKind::Right,
        (kind, ..) => kind,
    };
    if join.kind == JoinKind::Right {
        std::mem::swap(&mut join.left, &mut join.right);
        join.kind = JoinKind::Left;
    }
    join
}

/// Conditions by the sides that they read.
struct Split {
    left: Vec<Expr>,
    right: Vec<Expr>,
    both: Vec<Expr>,
}

/// Plans a join whose left side drives.
pub fn plan_pair(builder: &Builder<'_>, join: Join, conditions: Vec<Expr>) -> PlannedSource {
    let Join {
        kind,
        left,
        right,
        on,
    } = join;
    let estimator = &builder.estimator;
    let slots = (slots_of(&left), slots_of(&right));
    let mut on_conditions = Vec::new();
    conjuncts(on, &mut on_conditions);
    let (split, rest) = distribute(kind, (&slots.0, &slots.1), on_conditions, conditions);
    let is_lateral = reads_left(&right, &slots.0);
    let unit = |from, slots: &Slots, conditions| Unit {
        from,
        slots: slots.clone(),
        conditions,
        reads: UnitSet::default(),
    };
    let left = unit(left, &slots.0, split.left);
    let right = unit(right, &slots.1, split.right);
    let method = if is_lateral {
        Method::Index
    } else {
        let is_key = |key: &Expr| builder.can_hash(key);
        let model = builder.cost_model(&is_key);
        let sides = JoinSides {
            left_slots: slots.0.clone(),
            right_slots: slots.1.clone(),
            between: split.both.clone(),
            right_unit: Some(&right).filter(|_| kind != JoinKind::Full),
        };
        let estimates = (model.unit(&left, estimator), model.unit(&right, estimator));
        // Every method returns the same rows.
        model.join(&sides, estimates, 0.0, estimator).0
    };
    let left = closed(builder.plan_from(left.from, left.conditions, Slots::NONE));
    let right = RightSide::Unit(right);
    PlannedSource {
        source: assemble(builder, (kind, method), (left, right), slots, split.both),
        rest,
        ordered: false,
    }
}

/// Returns whether a relation of `right` reads columns of the left side (LATERAL), so that its rows
/// differ for each left row.
fn reads_left(right: &From, left: &Slots) -> bool {
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
    (left, right): (&Slots, &Slots),
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
        if reads_only(&condition, right) && kind != JoinKind::Full {
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
