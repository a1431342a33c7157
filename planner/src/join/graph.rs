//! The graph of inner joins: its units, and the conditions between them.
//!
//! Equalities between columns form classes: all columns of a class have the same value in each
//! joined row. At a join one equality of a class between the sides is enough, and any will do.

use fencepost_sql::bound::{Expr, From, Join, JoinKind, LeafSource, Volatility};

use super::equality::{EqualColumns, equal_columns, equal_constants};
use super::units::UnitSet;
use crate::conjuncts::{conjuncts, implied};
use crate::slots::Slots;
use crate::terms::{reads_any, reads_only};

/// The maximum number of units of a graph.
pub const UNITS_MAX: usize = UnitSet::MAX;

/// Inner joins that may run in any order.
pub struct JoinGraph {
    /// The relations and outer joins that are joined.
    pub units: Vec<Unit>,
    /// The conditions that read several units, except those of the classes.
    pub conditions: Vec<JoinCondition>,
    /// The classes of equal columns.
    pub classes: Vec<EqualColumns>,
}

/// A relation or an outer join.
pub struct Unit {
    /// The relation, or the outer join.
    pub from: From,
    /// Its slots.
    pub slots: Slots,
    /// The conditions that read only this unit.
    pub conditions: Vec<Expr>,
    /// The units whose columns it reads (LATERAL).
    pub reads: UnitSet,
}

/// A condition on several units.
pub struct JoinCondition {
    /// The condition.
    pub expr: Expr,
    /// The units that it reads.
    pub units: UnitSet,
}

/// Returns the number of units of a tree of inner joins.
pub fn count_units(join: &Join) -> usize {
    let units = |from: &From| match from {
        From::Join(join) if join.kind == JoinKind::Inner => count_units(join),
        _ => 1,
    };
    units(&join.left) + units(&join.right)
}

impl JoinGraph {
    /// Returns the graph of a tree of inner joins under WHERE conditions, and the conditions that
    /// only a filter above the joins can evaluate.
    pub fn of(from: From, conditions: Vec<Expr>) -> (JoinGraph, Vec<Expr>) {
        let mut graph = JoinGraph {
            units: Vec::new(),
            conditions: Vec::new(),
            classes: Vec::new(),
        };
        let mut all = Vec::new();
        graph.add_units(from, &mut all);
        all.extend(conditions);
        graph.find_lateral_reads();
        let rest = graph.add_conditions(all);
        (graph, rest)
    }

    fn add_units(&mut self, from: From, conditions: &mut Vec<Expr>) {
        match from {
            From::Join(join) if join.kind == JoinKind::Inner => {
                conjuncts(join.on, conditions);
                self.add_units(join.left, conditions);
                self.add_units(join.right, conditions);
            }
            from => self.units.push(Unit {
                slots: slots_of(&from),
                from,
                conditions: Vec::new(),
                reads: UnitSet::default(),
            }),
        }
    }

    fn find_lateral_reads(&mut self) {
        for unit in 0..self.units.len() {
            let mut reads = UnitSet::default();
            self.units[unit].from.for_each_leaf(&mut |leaf| {
                if let LeafSource::Lateral(lateral) = &leaf.source {
                    for (_, arg) in &lateral.args {
                        reads = reads.union(self.units_of(arg));
                    }
                }
            });
            self.units[unit].reads = reads.without(UnitSet::one(unit));
        }
    }

    /// Returns the units that an expression reads.
    fn units_of(&self, expr: &Expr) -> UnitSet {
        let mut units = UnitSet::default();
        for (position, unit) in self.units.iter().enumerate() {
            if reads_any(expr, &unit.slots) {
                units = units.union(UnitSet::one(position));
            }
        }
        units
    }

    /// Distributes conditions over the units and the joins. Returns the others.
    fn add_conditions(&mut self, conditions: Vec<Expr>) -> Vec<Expr> {
        let mut rest = Vec::new();
        for expr in conditions {
            let units = self.units_of(&expr);
            if !self.covers(&expr) {
                rest.push(expr);
            } else if units.is_empty() && expr.volatility() == Volatility::Volatile {
                // It is evaluated for each joined row.
                rest.push(expr);
            } else if units.is_empty() {
                self.units[0].conditions.push(expr);
            } else if let Some(only) = units.only() {
                self.units[only].conditions.push(expr);
            } else {
                for unit in units.members() {
                    let unit = &mut self.units[unit];
                    unit.conditions.extend(implied(&expr, &unit.slots));
                }
                self.conditions.push(JoinCondition { expr, units });
            }
        }
        self.classes = equal_columns(self);
        for (unit, condition) in equal_constants(self) {
            self.units[unit].conditions.push(condition);
        }
        rest
    }

    /// Returns whether an expression reads only slots of the units.
    fn covers(&self, expr: &Expr) -> bool {
        let mut slots = Slots::default();
        for unit in &self.units {
            slots = slots.union(&unit.slots);
        }
        reads_only(expr, &slots)
    }

    /// Returns the slots of a set of units.
    pub fn slots(&self, units: UnitSet) -> Slots {
        let mut slots = Slots::default();
        for unit in units.members() {
            slots = slots.union(&self.units[unit].slots);
        }
        slots
    }

    /// Returns the conditions that a join of two sets of units evaluates: those that read both, and
    /// one equality for each class with columns in both.
    pub fn conditions_between(&self, left: UnitSet, right: UnitSet) -> Vec<Expr> {
        let both = left.union(right);
        let mut between = Vec::new();
        for condition in &self.conditions {
            let units = condition.units;
            if units.is_within(both) && !units.is_within(left) && !units.is_within(right) {
                between.push(condition.expr.clone());
            }
        }
        let classes = self.classes.iter();
        between.extend(classes.filter_map(|class| class.equality_between(left, right)));
        between
    }

    /// Returns for each unit the units that a condition, a class or LATERAL connects with it.
    pub fn neighbours(&self) -> Vec<UnitSet> {
        let mut neighbours = vec![UnitSet::default(); self.units.len()];
        let mut connect = |units: UnitSet| {
            for unit in units.members() {
                neighbours[unit] = neighbours[unit].union(units.without(UnitSet::one(unit)));
            }
        };
        self.conditions
            .iter()
            .for_each(|condition| connect(condition.units));
        self.classes.iter().for_each(|class| connect(class.units()));
        for (position, unit) in self.units.iter().enumerate() {
            connect(UnitSet::one(position).union(unit.reads));
        }
        neighbours
    }
}

/// Returns the slots of the relations of `from`.
pub fn slots_of(from: &From) -> Slots {
    let mut slots = Slots::default();
    from.for_each_leaf(&mut |leaf| slots.add((leaf.first_slot, leaf.first_slot + leaf.width())));
    slots
}
