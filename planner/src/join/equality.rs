//! Classes of columns that equalities make equal, and the conditions that follow from them.

use fencepost_sql::bound::{CompareClass, CompareOp, Expr, Node, Volatility};
use fencepost_sql::types::{Type, TypeKind};

use super::graph::JoinGraph;
use super::units::UnitSet;
use crate::slots::SlotSet;

/// Columns that are equal in each joined row.
pub struct EqualColumns {
    /// The columns.
    members: Vec<Member>,
    /// The class of the comparisons.
    class: CompareClass,
    /// Whether a condition makes the columns equal to a constant.
    pub is_fixed: bool,
}

/// A column of a class.
#[derive(Clone, Copy)]
pub struct Member {
    /// The unit that fills its slot.
    pub unit: usize,
    /// The slot.
    pub slot: usize,
    ty: Type,
}

impl EqualColumns {
    /// Returns the units with columns of the class.
    pub fn units(&self) -> UnitSet {
        let units = self.members.iter().map(|member| UnitSet::one(member.unit));
        units.fold(UnitSet::default(), UnitSet::union)
    }

    /// Returns the columns of these units.
    pub fn members_in(&self, units: UnitSet) -> impl Iterator<Item = &Member> {
        let members = self.members.iter();
        members.filter(move |member| UnitSet::one(member.unit).is_within(units))
    }

    /// Returns an equality of a column of `left` with one of `right`; `None` if one of them has no
    /// column, or if all columns are equal to a constant anyway.
    pub fn equality_between(&self, left: UnitSet, right: UnitSet) -> Option<Expr> {
        if self.is_fixed {
            return None;
        }
        let left = self.members_in(left).next()?;
        let right = self.members_in(right).next()?;
        Some(self.equality(left, right.column()))
    }

    /// Returns the equalities of columns of one unit, with the unit. They follow from equalities
    /// with columns of other units.
    fn equalities_within_units(&self) -> Vec<(usize, Expr)> {
        let mut equalities = Vec::new();
        for unit in self.units().members() {
            let mut members = self.members_in(UnitSet::one(unit));
            if let Some(first) = members.next() {
                equalities.extend(members.map(|m| (unit, self.equality(first, m.column()))));
            }
        }
        equalities
    }

    fn equality(&self, member: &Member, other: Expr) -> Expr {
        let node = Node::Compare {
            op: CompareOp::Eq,
            class: self.class,
            left: Box::new(member.column()),
            right: Box::new(other),
        };
        Expr::new(Type::BOOL, node)
    }
}

impl Member {
    fn column(&self) -> Expr {
        Expr::column(self.ty, self.slot)
    }
}

/// Takes the equalities between columns of one type out of the graph's conditions. Returns their
/// classes.
pub fn equal_columns(graph: &mut JoinGraph) -> Vec<EqualColumns> {
    let mut classes: Vec<EqualColumns> = Vec::new();
    let units: Vec<_> = graph.units.iter().map(|unit| unit.slots.clone()).collect();
    let member = |expr: &Expr| {
        let slot = match expr.node {
            Node::Column(slot) => slot,
            _ => return None,
        };
        let unit = units.iter().position(|slots| slots.contains(slot))?;
        Some(Member {
            unit,
            slot,
            ty: expr.ty,
        })
    };
    graph.conditions.retain(|condition| {
        let Some((class, left, right)) = equality(&condition.expr) else {
            return true;
        };
        let (Some(left), Some(right)) = (member(left), member(right)) else {
            return true;
        };
        if left.ty.kind != right.ty.kind {
            return true;
        }
        join_classes(&mut classes, class, [left, right]);
        false
    });
    for class in &classes {
        for (unit, condition) in class.equalities_within_units() {
            graph.units[unit].conditions.push(condition);
        }
    }
    classes
}

/// Makes two columns members of one class.
fn join_classes(classes: &mut Vec<EqualColumns>, class: CompareClass, pair: [Member; 2]) {
    let mut joined = EqualColumns {
        members: pair.to_vec(),
        class,
        is_fixed: false,
    };
    let apart = |other: &EqualColumns| {
        let slots = other.members.iter().map(|member| member.slot);
        other.class != class
            || !slots
                .into_iter()
                .any(|slot| pair.iter().any(|m| m.slot == slot))
    };
    let (others, met): (Vec<_>, Vec<_>) = std::mem::take(classes).into_iter().partition(apart);
    for other in met {
        for member in other.members {
            if joined.members.iter().all(|known| known.slot != member.slot) {
                joined.members.push(member);
            }
        }
    }
    *classes = others;
    classes.push(joined);
}

/// Returns the conditions that follow from an equality of a member of a class with a constant: the
/// other members are equal to it, too. Marks these classes as fixed.
pub fn equal_constants(graph: &mut JoinGraph) -> Vec<(usize, Expr)> {
    let mut derived = Vec::new();
    for class in &mut graph.classes {
        for unit in class.units().members() {
            for condition in &graph.units[unit].conditions {
                let Some((slot, value)) = constant_of(condition) else {
                    continue;
                };
                let Some(from) = class.members.iter().find(|member| member.slot == slot) else {
                    continue;
                };
                if std::mem::replace(&mut class.is_fixed, true) {
                    continue;
                }
                let from = from.slot;
                for member in class.members.iter().filter(|member| member.slot != from) {
                    derived.push((member.unit, class.equality(member, value.clone())));
                }
            }
        }
    }
    derived
}

/// Returns the slot and the value of an equality of a column with a constant of its type.
fn constant_of(condition: &Expr) -> Option<(usize, &Expr)> {
    let (_, left, right) = equality(condition)?;
    let (slot, column, value) = match (&left.node, &right.node) {
        (Node::Column(slot), _) if !right.has_columns() => (*slot, left, right),
        (_, Node::Column(slot)) if !left.has_columns() => (*slot, right, left),
        _ => return None,
    };
    let is_constant = value.volatility() < Volatility::Volatile && !value.has_subquery();
    (is_constant && value.ty.kind == column.ty.kind).then_some((slot, value))
}

/// Returns the class and the sides of an equality.
fn equality(condition: &Expr) -> Option<(CompareClass, &Expr, &Expr)> {
    match &condition.node {
        Node::Compare {
            op: CompareOp::Eq,
            class: class @ (CompareClass::Int | CompareClass::Same),
            left,
            right,
        } if has_one_equality(left.ty.kind) => Some((*class, left, right)),
        _ => None,
    }
}

/// Returns whether equal values of a type are interchangeable in comparisons with others.
fn has_one_equality(kind: TypeKind) -> bool {
    !kind.is_row()
}
