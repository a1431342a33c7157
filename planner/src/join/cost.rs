//! The cost of joins: nanoseconds of one core, for comparing the ways to run a join.
//!
//! The constants are rough values for an optimized build. Their ratios decide, not their size. No
//! benchmark calibrates them yet.

use fencepost_sql::bound::{Expr, From, LeafSource};
use fencepost_sql::catalog::TableDef;

use super::equality::EqualColumns;
use super::graph::{JoinGraph, Unit};
use super::sides::{IsKey, JoinSides};
use super::units::UnitSet;
use crate::access::{Access, Path, Scope, choose};
use crate::context::JoinMethods;
use crate::estimate::Estimator;
use crate::slots::{SlotRange, Slots};
use crate::terms::{reads_any, terms};

/// Reading a row in the order of the primary index.
pub const SCAN_ROW: f64 = 100.0;
/// Reading a row that an index entry refers to.
pub const INDEX_ROW: f64 = 300.0;
/// Finding the first entry of a range, or a key.
pub const LOOKUP: f64 = 500.0;
/// Storing a row in a hash table.
pub const HASH_BUILD: f64 = 400.0;
/// Looking up a row in a hash table.
pub const HASH_PROBE: f64 = 200.0;
/// Comparing a pair of rows in a nested loop.
const PAIR: f64 = 80.0;
/// Producing a joined row.
const JOINED_ROW: f64 = 80.0;
/// The factor that favours index lookups: they keep the read set small, and with it the number of
/// transactions that conflict.
const FAVOURED: f64 = 0.75;
/// A method that the settings disallow.
const DISALLOWED: f64 = 1e15;

/// How a join finds matching rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The right side is a unit, which is opened again for each left row.
    Index,
    /// The right side is kept in a hash table.
    Hash,
    /// The right side is kept in memory and compared with each left row.
    Loop,
}

/// The estimates of one side of a join.
#[derive(Clone, Copy, Debug)]
pub struct SideEstimate {
    /// The number of its rows.
    pub rows: f64,
    /// The cost of producing them.
    pub cost: f64,
}

/// The rules by which the joins of a graph are compared.
pub struct CostModel<'a> {
    /// The methods that the settings allow.
    pub methods: JoinMethods,
    /// Whether a hash table is used wherever it can be.
    pub prefers_hash: bool,
    /// Decides which expressions a hash table can serve.
    pub is_key: IsKey<'a>,
}

impl CostModel<'_> {
    /// Estimates a unit without the other units.
    pub fn unit(&self, unit: &Unit, estimator: &Estimator<'_>) -> SideEstimate {
        let rows = estimator.rows(&unit.from, &unit.conditions);
        let mut cost = 0.0;
        unit.from.for_each_leaf(&mut |leaf| {
            let own = (leaf.first_slot, leaf.first_slot + leaf.width());
            let all = estimator.rows_of(own);
            cost += match &leaf.source {
                LeafSource::Table(table) => {
                    let scope = Scope {
                        conditions: &unit.conditions,
                        own,
                        known: Slots::NONE,
                    };
                    let found = terms(scope.conditions, own, Slots::NONE);
                    let path = choose(table, &found, &[], &scope);
                    access_cost(&path, all, scope.conditions, estimator)
                }
                _ => all * SCAN_ROW,
            };
        });
        SideEstimate { rows, cost }
    }

    /// Returns the cheapest method for a join with these conditions between its sides, and the cost
    /// of the join with its sides. `rows` is the number of joined rows.
    pub fn join(
        &self,
        sides: &JoinSides<'_>,
        (left, right): (SideEstimate, SideEstimate),
        rows: f64,
        estimator: &Estimator<'_>,
    ) -> (Method, f64) {
        let joined = rows * JOINED_ROW;
        let hashes = sides.has_keys(self.is_key);
        let disallowed = |allowed| if allowed { 0.0 } else { DISALLOWED };
        let mut best = if hashes {
            let cost = right.rows * HASH_BUILD + left.rows * HASH_PROBE;
            let cost = left.cost + right.cost + cost + joined;
            (Method::Hash, cost + disallowed(self.methods.hash))
        } else {
            let cost = left.rows * right.rows * PAIR;
            (Method::Loop, left.cost + right.cost + cost + joined)
        };
        if let Some(unit) = sides.right_unit
            && !(hashes && self.prefers_hash)
            && let Some(cost) = self.lookup(unit, sides, estimator)
        {
            let cost = left.cost + left.rows * cost * FAVOURED + joined;
            let cost = cost + disallowed(self.methods.nested_loop || !hashes);
            if cost < best.1 {
                best = (Method::Index, cost);
            }
        }
        best
    }

    /// Returns the cost of the rows of `unit` for one left row, if an index serves a condition
    /// between the sides.
    fn lookup(&self, unit: &Unit, sides: &JoinSides<'_>, estimator: &Estimator<'_>) -> Option<f64> {
        let (own, table) = unit.table()?;
        let conditions: Vec<Expr> = unit
            .conditions
            .iter()
            .chain(&sides.between)
            .cloned()
            .collect();
        let scope = Scope {
            conditions: &conditions,
            own,
            known: &sides.left_slots,
        };
        let found = terms(&conditions, own, &sides.left_slots);
        let path = choose(table, &found, &[], &scope);
        let mut served = path.served.iter().map(|served| &conditions[*served]);
        served
            .any(|condition| reads_any(condition, &sides.left_slots))
            .then(|| access_cost(&path, estimator.rows_of(own), &conditions, estimator))
    }
}

/// Estimates the cost of an access to a table of `all` rows.
fn access_cost(path: &Path, all: f64, conditions: &[Expr], estimator: &Estimator<'_>) -> f64 {
    match &path.access {
        Access::Full => all * SCAN_ROW,
        Access::Points(_) | Access::Ranges(_) => {
            let served: Vec<Expr> = path
                .served
                .iter()
                .map(|of| conditions[*of].clone())
                .collect();
            let reached = (all * estimator.selectivity(&served)).max(1.0);
            let row = match path.index {
                0 => SCAN_ROW,
                _ => INDEX_ROW,
            };
            LOOKUP + reached * row
        }
    }
}

impl Unit {
    /// Returns the slots and the definition of the table, if the unit is a table.
    pub fn table(&self) -> Option<(SlotRange, &TableDef)> {
        let From::Leaf(leaf) = &self.from else {
            return None;
        };
        match &leaf.source {
            LeafSource::Table(table) => {
                let own = (leaf.first_slot, leaf.first_slot + leaf.width());
                Some((own, table))
            }
            _ => None,
        }
    }
}

/// Estimates the rows of joins of sets of units.
pub fn joined_rows(
    graph: &JoinGraph,
    estimator: &Estimator<'_>,
    (left, right): (UnitSet, UnitSet),
    (left_rows, right_rows): (f64, f64),
) -> f64 {
    let both = left.union(right);
    let mut selectivity = 1.0;
    for condition in &graph.conditions {
        let units = condition.units;
        if units.is_within(both) && !units.is_within(left) && !units.is_within(right) {
            selectivity *= estimator.selectivity(std::slice::from_ref(&condition.expr));
        }
    }
    let mut equalities = Vec::new();
    for class in graph.classes.iter().filter(|class| !class.is_fixed) {
        // Columns of a class that are joined already have the values of the one with the fewest.
        let fewest = |units| {
            let members = class.members_in(units).map(|member| member.slot);
            members.min_by(|a, b| estimator.distinct(*a).total_cmp(&estimator.distinct(*b)))
        };
        if let (Some(left), Some(right)) = (fewest(left), fewest(right)) {
            equalities.push((class, estimator.equal_columns(left, right)));
        }
    }
    let independent: f64 = equalities.iter().map(|(_, of)| of).product();
    selectivity *= independent.max(by_unique_key(graph, estimator, both, &equalities));
    (left_rows * right_rows * selectivity).max(1.0)
}

/// Returns the selectivity of equalities that fix all columns of a unique index: each row of one
/// side meets at most one row of the table. Returns 0 if there is no such index.
fn by_unique_key(
    graph: &JoinGraph,
    estimator: &Estimator<'_>,
    units: UnitSet,
    equalities: &[(&EqualColumns, f64)],
) -> f64 {
    let mut best: f64 = 0.0;
    for unit in units.members() {
        let Some((own, table)) = graph.units[unit].table() else {
            continue;
        };
        let unique = table
            .indexes
            .iter()
            .filter(|index| index.unique && index.columns.len() > 1);
        for index in unique {
            let is_fixed = |column: usize| {
                let mut classes = equalities.iter();
                classes.any(|(class, _)| {
                    let mut members = class.members_in(UnitSet::one(unit));
                    members.any(|member| member.slot == own.0 + column)
                })
            };
            if index.columns.iter().all(|key| is_fixed(key.column)) {
                let others = equalities.iter().filter(|(class, _)| {
                    let mut members = class.members_in(UnitSet::one(unit));
                    !members.any(|member| {
                        index
                            .columns
                            .iter()
                            .any(|key| own.0 + key.column == member.slot)
                    })
                });
                let others: f64 = others.map(|(_, of)| of).product();
                best = best.max(others / estimator.rows_of(own));
            }
        }
    }
    best
}
