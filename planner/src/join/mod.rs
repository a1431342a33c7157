//! Joins: the order in which relations are joined, and how matching rows are found.
//!
//! ```text
//! From ──graph──▶ units, conditions ──enumerate──▶ tree of units ──assemble──▶ Source
//!                                     estimate, cost
//! ```
//!
//! Inner joins that follow each other are one *graph*: they may run in any order. Its units are
//! relations and outer joins. Slots are absolute, so the sides of a join can be swapped without
//! changing expressions. A right join is a left join with its sides swapped.

mod assemble;
mod cost;
mod enumerate;
mod equality;
mod graph;
mod nulls;
mod outer;
mod runs;
mod sides;
mod units;

use fencepost_sql::bound::{Expr, From, Join, JoinKind};

use crate::analytics::key_column;
use crate::build::{Builder, PlannedSource};
use cost::CostModel;
use enumerate::best_order;
use graph::{JoinGraph, UNITS_MAX};
pub use runs::{Runs, prefers_one_run};
use sides::IsKey;

/// Plans `join` under the WHERE conditions that reach it.
pub fn plan_join(builder: &Builder<'_>, join: Join, conditions: Vec<Expr>) -> PlannedSource {
    let join = outer::simplify(join, &conditions);
    match join.kind {
        JoinKind::Inner if graph::count_units(&join) <= UNITS_MAX => {
            plan_inner(builder, From::Join(Box::new(join)), conditions)
        }
        _ => outer::plan_pair(builder, join, conditions),
    }
}

/// Plans a tree of inner joins, in the cheapest order.
fn plan_inner(builder: &Builder<'_>, from: From, conditions: Vec<Expr>) -> PlannedSource {
    let (mut graph, rest) = JoinGraph::of(from, conditions);
    let is_key = |key: &Expr| builder.can_hash(key);
    let order = best_order(&graph, &builder.estimator, &builder.cost_model(&is_key));
    PlannedSource {
        source: assemble::source(builder, &mut graph, &order),
        rest,
        ordered: false,
    }
}

impl Builder<'_> {
    /// Returns whether a hash table can serve an expression as a key.
    fn can_hash(&self, key: &Expr) -> bool {
        !self.hashes || key_column(key).is_some()
    }

    /// Returns the rules by which joins are compared.
    fn cost_model<'a>(&self, is_key: IsKey<'a>) -> CostModel<'a> {
        CostModel {
            methods: self.estimator.context().join_methods(),
            prefers_hash: self.hashes,
            is_key,
        }
    }
}
