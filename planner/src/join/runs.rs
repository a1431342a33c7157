//! The cost of EXISTS: whether its query runs for each outer row or once.
//!
//! ```text
//! for each outer row   start ─▶ look up the key in an index ─▶ rows, until one matches
//! once                 read all rows ─▶ hash table;  for each outer row: look up the key
//! ```

use fencepost_sql::bound::{Expr, Node, Select};

use super::cost::{HASH_BUILD, HASH_PROBE, INDEX_ROW, LOOKUP, SCAN_ROW};
use crate::context::PlanContext;
use crate::estimate::Estimator;

/// Starting a query, in nanoseconds.
const START: f64 = 600.0;
/// The number of outer rows up to which an index serves each of them, as for a table of unknown
/// size: the read set stays small.
const OUTER_ROWS: f64 = 1_000.0;
/// Keeping a row of a query in memory, in bytes, without its columns.
const ROW_BYTES: f64 = 128.0;

/// The runs of a correlated query that an index serves.
pub struct Runs<'a> {
    /// The number of outer rows.
    pub outer_rows: f64,
    /// The conditions of the query that read no outer row.
    pub own: &'a [Expr],
    /// The conditions between its rows and an outer row.
    pub tests: &'a [Expr],
    /// The expressions of its row that such conditions compare for equality.
    pub keys: &'a [Expr],
}

/// Returns whether it is cheaper to run a query once, under its own conditions, than for each outer
/// row. It is not for few outer rows, nor if the query's rows are estimated to exceed the memory
/// for a hash table.
pub fn prefers_one_run(query: &Select, runs: &Runs<'_>, cx: PlanContext<'_>) -> bool {
    let Some(cx) = cx.inside() else {
        return false;
    };
    let estimator = Estimator::of(cx, &query.from);
    let rows = estimator.rows(&query.from, runs.own);
    let memory = cx.eval().settings.work_memory.hash_bytes();
    if runs.outer_rows <= OUTER_ROWS || rows * ROW_BYTES > memory as f64 {
        return false;
    }
    let mut read = 0.0;
    query.from.for_each_leaf(&mut |leaf| {
        read += estimator.rows_of((leaf.first_slot, leaf.first_slot + leaf.width()));
    });
    let once = read * SCAN_ROW + rows * HASH_BUILD + runs.outer_rows * 2.0 * HASH_PROBE;
    let tested = runs.tested_rows(read, &estimator);
    once < runs.outer_rows * (START + LOOKUP + tested * INDEX_ROW)
}

impl Runs<'_> {
    /// Estimates the number of rows that a run reads until one matches: at most all with its key.
    fn tested_rows(&self, rows: f64, estimator: &Estimator<'_>) -> f64 {
        let with_key = self.keys.iter().fold(rows, |rows, key| match key.node {
            Node::Column(slot) => rows / estimator.distinct(slot),
            _ => rows,
        });
        let is_key = |test: &Expr| match &test.node {
            Node::Compare { right, .. } => self.keys.contains(right),
            _ => false,
        };
        let others = self.tests.iter().filter(|test| !is_key(test));
        let conditions: Vec<Expr> = others.chain(self.own).cloned().collect();
        let until_match = 1.0 / estimator.selectivity(&conditions).max(f64::EPSILON);
        until_match.min(with_key).max(1.0)
    }
}
