//! The order of inner joins.
//!
//! With few units, all trees over connected units are compared, bushy ones, too, by dynamic
//! programming over pairs of a connected set and a connected set beside it (algorithm DPccp of
//! Moerkotte and Neumann, "Analysis of Two Existing and One New Dynamic Programming Algorithm",
//! VLDB 2006). With many units, or where no condition connects them, the pair with the fewest
//! joined rows is joined first.

use std::collections::HashMap;

use super::cost::{CostModel, Method, SideEstimate, joined_rows};
use super::graph::JoinGraph;
use super::sides::JoinSides;
use super::units::UnitSet;
use crate::estimate::Estimator;

/// The number of sets and pairs of sets up to which all trees are compared.
const STEPS_MAX: usize = 3_000;

/// A tree of joins.
#[derive(Debug, PartialEq)]
pub enum JoinTree {
    /// A unit.
    Unit(usize),
    /// A join.
    Join(Box<TreeJoin>),
}

/// A join in a tree.
#[derive(Debug, PartialEq)]
pub struct TreeJoin {
    /// The side that drives.
    pub left: JoinTree,
    /// The other side.
    pub right: JoinTree,
    /// How matching rows are found.
    pub method: Method,
}

impl JoinTree {
    /// Returns the units of the tree.
    pub fn units(&self) -> UnitSet {
        match self {
            JoinTree::Unit(unit) => UnitSet::one(*unit),
            JoinTree::Join(join) => join.left.units().union(join.right.units()),
        }
    }
}

/// The best known way to join a set of units.
#[derive(Clone, Copy)]
struct Partial {
    estimate: SideEstimate,
    /// The sides of the last join; `None` for one unit.
    join: Option<(UnitSet, UnitSet, Method)>,
}

/// The search for the order of the joins of a graph.
struct Search<'a> {
    graph: &'a JoinGraph,
    estimator: &'a Estimator<'a>,
    model: &'a CostModel<'a>,
    neighbours: Vec<UnitSet>,
    best: HashMap<UnitSet, Partial>,
    /// The number of sets and pairs that were considered.
    steps: usize,
}

/// Two sets that may be joined next.
struct Candidate {
    sets: (UnitSet, UnitSet),
    /// Whether no condition connects them.
    apart: bool,
    /// The number of joined rows.
    rows: f64,
}

/// Returns the cheapest order of the joins of a graph.
pub fn best_order(graph: &JoinGraph, estimator: &Estimator<'_>, model: &CostModel<'_>) -> JoinTree {
    let mut search = Search {
        graph,
        estimator,
        model,
        neighbours: graph.neighbours(),
        best: HashMap::new(),
        steps: 0,
    };
    for (position, unit) in graph.units.iter().enumerate() {
        let partial = Partial {
            estimate: model.unit(unit, estimator),
            join: None,
        };
        search.best.insert(UnitSet::one(position), partial);
    }
    let all = UnitSet::before(graph.units.len() - 1).union(UnitSet::one(graph.units.len() - 1));
    search.compare_connected();
    if !search.best.contains_key(&all) {
        search.join_greedily();
    }
    search.tree(all)
}

impl Search<'_> {
    /// Compares all trees over connected units, until the limit of pairs.
    fn compare_connected(&mut self) {
        for unit in (0..self.graph.units.len()).rev() {
            if self.is_exhausted() {
                return;
            }
            let one = UnitSet::one(unit);
            self.extend_with_complements(one);
            self.extend_connected(one, one.union(UnitSet::before(unit)));
        }
    }

    /// Enumerates the connected sets that contain `set` and none of `excluded` beside it
    /// (EnumerateCsgRec).
    fn extend_connected(&mut self, set: UnitSet, excluded: UnitSet) {
        let beside = self.neighbours_of(set).without(excluded);
        for more in beside.subsets() {
            if self.is_exhausted() {
                return;
            }
            self.steps += 1;
            self.extend_with_complements(set.union(more));
        }
        for more in beside.subsets() {
            if self.is_exhausted() {
                return;
            }
            self.extend_connected(set.union(more), excluded.union(beside));
        }
    }

    /// Joins a connected set with all connected sets beside it (EmitCsg).
    fn extend_with_complements(&mut self, set: UnitSet) {
        let first = set.members().next().unwrap_or_default();
        let excluded = set.union(UnitSet::before(first));
        let beside = self.neighbours_of(set).without(excluded);
        let members: Vec<usize> = beside.members().collect();
        for unit in members.into_iter().rev() {
            let one = UnitSet::one(unit);
            self.join(set, one);
            let lower = UnitSet::before(unit).common(beside);
            self.extend_complement(set, one, excluded.union(lower));
        }
    }

    /// Enumerates the connected sets that contain `complement`, and joins them with `set`
    /// (EnumerateCmpRec).
    fn extend_complement(&mut self, set: UnitSet, complement: UnitSet, excluded: UnitSet) {
        let beside = self
            .neighbours_of(complement)
            .without(excluded.union(complement));
        for more in beside.subsets() {
            if self.is_exhausted() {
                return;
            }
            self.join(set, complement.union(more));
        }
        for more in beside.subsets() {
            if self.is_exhausted() {
                return;
            }
            self.extend_complement(set, complement.union(more), excluded.union(beside));
        }
    }

    fn is_exhausted(&self) -> bool {
        self.steps > STEPS_MAX
    }

    fn neighbours_of(&self, set: UnitSet) -> UnitSet {
        let each = set.members().map(|unit| self.neighbours[unit]);
        each.fold(UnitSet::default(), UnitSet::union).without(set)
    }

    /// Joins two sets in both directions, and keeps the way if it is the cheapest one for both
    /// together.
    fn join(&mut self, a: UnitSet, b: UnitSet) {
        self.steps += 1;
        for (left, right) in [(a, b), (b, a)] {
            if let Some(partial) = self.joined(left, right) {
                let both = left.union(right);
                let known = self.best.get(&both);
                if known.is_none_or(|known| partial.estimate.cost < known.estimate.cost) {
                    self.best.insert(both, partial);
                }
            }
        }
    }

    /// Returns the cheapest join of two sets with `left` driving; `None` if a side is not joined
    /// yet, or reads columns that are not known to it (LATERAL).
    fn joined(&self, left: UnitSet, right: UnitSet) -> Option<Partial> {
        let (of_left, of_right) = (self.best.get(&left)?, self.best.get(&right)?);
        if !self.reads_of(left).is_empty() || !self.reads_of(right).is_within(left) {
            return None;
        }
        let both = left.union(right);
        let estimates = (of_left.estimate, of_right.estimate);
        let rows = match self.best.get(&both) {
            Some(known) => known.estimate.rows,
            None => {
                let sides = (estimates.0.rows, estimates.1.rows);
                joined_rows(self.graph, self.estimator, (left, right), sides)
            }
        };
        let right_unit = right.only().map(|unit| &self.graph.units[unit]);
        if !self.reads_of(right).is_empty() {
            // The rows of a LATERAL unit differ for each left row.
            let cost = estimates.0.cost + estimates.0.rows * estimates.1.cost;
            return Some(Partial {
                estimate: SideEstimate { rows, cost },
                join: Some((left, right, Method::Index)),
            });
        }
        let sides = JoinSides {
            left_slots: self.graph.slots(left),
            right_slots: self.graph.slots(right),
            between: self.graph.conditions_between(left, right),
            right_unit,
        };
        let (method, cost) = self.model.join(&sides, estimates, rows, self.estimator);
        Some(Partial {
            estimate: SideEstimate { rows, cost },
            join: Some((left, right, method)),
        })
    }

    /// Returns the units outside a set that LATERAL units in it read.
    fn reads_of(&self, set: UnitSet) -> UnitSet {
        let reads = set.members().map(|unit| self.graph.units[unit].reads);
        reads.fold(UnitSet::default(), UnitSet::union).without(set)
    }

    /// Joins the pair with the fewest rows, again and again. Pairs without a condition between them
    /// come last.
    fn join_greedily(&mut self) {
        let mut sets: Vec<UnitSet> = Vec::new();
        let mut candidates: Vec<Candidate> = Vec::new();
        for set in (0..self.graph.units.len()).map(UnitSet::one) {
            candidates.extend(sets.iter().filter_map(|other| self.candidate(*other, set)));
            sets.push(set);
        }
        while let Some(next) = candidates
            .iter()
            .min_by(|a, b| a.apart.cmp(&b.apart).then(a.rows.total_cmp(&b.rows)))
        {
            let (a, b) = next.sets;
            self.join(a, b);
            let both = a.union(b);
            candidates.retain(|of| !of.sets.0.meets(both) && !of.sets.1.meets(both));
            sets.retain(|set| !set.meets(both));
            candidates.extend(sets.iter().filter_map(|other| self.candidate(*other, both)));
            sets.push(both);
        }
    }

    /// Returns two sets as a candidate, if they can be joined.
    fn candidate(&self, a: UnitSet, b: UnitSet) -> Option<Candidate> {
        let partial = self.joined(a, b).or_else(|| self.joined(b, a))?;
        Some(Candidate {
            sets: (a, b),
            apart: !self.neighbours_of(a).meets(b),
            rows: partial.estimate.rows,
        })
    }

    /// Returns the tree of the best way to join a set. Without one, joins the units as they are
    /// written: LATERAL units read only earlier ones.
    fn tree(&self, set: UnitSet) -> JoinTree {
        if let Some(only) = set.only() {
            return JoinTree::Unit(only);
        }
        if let Some((left, right, method)) = self.best.get(&set).and_then(|best| best.join) {
            return JoinTree::Join(Box::new(TreeJoin {
                left: self.tree(left),
                right: self.tree(right),
                method,
            }));
        }
        let mut members = set.members().map(JoinTree::Unit);
        let first = members.next().unwrap_or(JoinTree::Unit(0));
        members.fold(first, |left, right| {
            let is_lateral = !self.reads_of(right.units()).is_empty();
            let method = if is_lateral {
                Method::Index
            } else {
                Method::Loop
            };
            JoinTree::Join(Box::new(TreeJoin {
                left,
                right,
                method,
            }))
        })
    }
}
