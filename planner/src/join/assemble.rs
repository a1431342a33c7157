//! The sources of joins in a chosen order, by chosen methods.

use fencepost_sql::bound::{Expr, From, JoinKind};

use super::cost::Method;
use super::enumerate::{JoinTree, TreeJoin};
use super::graph::{JoinGraph, Unit};
use super::sides::key_pair;
use crate::build::{Builder, PlannedSource};
use crate::conjuncts::conjunction;
use crate::plan::{Join, JoinMethod, OuterSlot, Source};
use crate::slots::{SlotSet, Slots};
use crate::subplans::any_deep;

/// Returns the source of a tree. Takes its units out of the graph.
pub fn source(builder: &Builder<'_>, graph: &mut JoinGraph, tree: &JoinTree) -> Source {
    match tree {
        JoinTree::Unit(unit) => {
            let unit = take_unit(graph, *unit);
            closed(builder.plan_from(unit.from, unit.conditions, Slots::NONE))
        }
        JoinTree::Join(join) => joined(builder, graph, join),
    }
}

fn joined(builder: &Builder<'_>, graph: &mut JoinGraph, join: &TreeJoin) -> Source {
    let (left_units, right_units) = (join.left.units(), join.right.units());
    let between = graph.conditions_between(left_units, right_units);
    let slots = (graph.slots(left_units), graph.slots(right_units));
    let left = source(builder, graph, &join.left);
    let right = match &join.right {
        JoinTree::Unit(unit) => RightSide::Unit(take_unit(graph, *unit)),
        tree => RightSide::Planned(source(builder, graph, tree)),
    };
    assemble(
        builder,
        (JoinKind::Inner, join.method),
        (left, right),
        slots,
        between,
    )
}

fn take_unit(graph: &mut JoinGraph, unit: usize) -> Unit {
    let unit = &mut graph.units[unit];
    Unit {
        from: std::mem::replace(&mut unit.from, From::Nothing),
        slots: unit.slots.clone(),
        conditions: std::mem::take(&mut unit.conditions),
        reads: unit.reads,
    }
}

/// The right side of a join.
pub enum RightSide {
    /// A planned source.
    Planned(Source),
    /// A unit that is not planned yet.
    Unit(Unit),
}

/// Returns the source of one join with these conditions between its sides.
pub fn assemble(
    builder: &Builder<'_>,
    (kind, method): (JoinKind, Method),
    (left, right): (Source, RightSide),
    (left_slots, right_slots): (Slots, Slots),
    mut between: Vec<Expr>,
) -> Source {
    let carried = builder.pointers.iter().filter_map(|pointer| {
        let from_left = left_slots.contains(pointer.first_slot);
        (from_left || right_slots.contains(pointer.first_slot)).then_some(OuterSlot {
            from_left,
            slot: pointer.pointer_slot,
        })
    });
    let carried = carried.collect();
    let (right, method) = match (method, right) {
        (Method::Index, RightSide::Unit(unit)) if matches!(unit.from, From::Leaf(_)) => {
            let conditions = unit.conditions.into_iter().chain(between).collect();
            let planned = builder.plan_from(unit.from, conditions, &left_slots);
            between = planned.rest;
            (planned.source, JoinMethod::Index)
        }
        (Method::Index, right) => (planned(builder, right), JoinMethod::Index),
        (Method::Hash, right) => {
            let method = hash_method(builder, &mut between, (&left_slots, &right_slots));
            (planned(builder, right), method)
        }
        (Method::Loop, right) => (planned(builder, right), JoinMethod::Loop),
    };
    Source::Join(Box::new(Join {
        kind,
        method,
        left,
        right,
        left_slots: left_slots.only(&builder.needed),
        right_slots: right_slots.only(&builder.needed),
        deep: any_deep(&between),
        on: conjunction(between),
        carried,
    }))
}

/// Takes the equalities that a hash table serves out of `conditions`.
fn hash_method(
    builder: &Builder<'_>,
    conditions: &mut Vec<Expr>,
    sides: (&Slots, &Slots),
) -> JoinMethod {
    let mut left_keys = Vec::new();
    let mut right_keys = Vec::new();
    let is_key = |key: &Expr| builder.can_hash(key);
    conditions.retain(|condition| match key_pair(condition, sides, &is_key) {
        Some((left, right)) => {
            left_keys.push(left.clone());
            right_keys.push(right.clone());
            false
        }
        None => true,
    });
    JoinMethod::Hash {
        left_keys,
        right_keys,
    }
}

fn planned(builder: &Builder<'_>, right: RightSide) -> Source {
    match right {
        RightSide::Planned(source) => source,
        RightSide::Unit(unit) => closed(builder.plan_from(unit.from, unit.conditions, Slots::NONE)),
    }
}

/// Wraps a source with its remaining conditions as a filter.
pub fn closed(planned: PlannedSource) -> Source {
    match conjunction(planned.rest) {
        None => planned.source,
        Some(filter) => Source::Filter {
            input: Box::new(planned.source),
            filter,
        },
    }
}
