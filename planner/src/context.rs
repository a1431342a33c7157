//! The surroundings of planning: the session's settings, the statistics of tables, and parameter
//! values.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use fencepost_sql::catalog::TableDef;
use fencepost_sql::context::EvalContext;
use fencepost_sql::table_statistics::TableStatistics;
use fencepost_sql::value::Value;

/// The surroundings of planning. A plan is right under any surroundings; they determine how fast it
/// is.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// The context of the session.
    eval: &'a EvalContext,
    /// The values of the first parameters, for estimates only; empty if they are unknown.
    params: &'a [Value],
    /// The estimates of WITH queries, if they are kept.
    with_queries: Option<&'a WithQueryRows>,
    /// The number of queries around the query that is estimated.
    depth: usize,
}

/// The estimated numbers of rows of the WITH queries of a statement, by their numbers. Several
/// relations may read a query, and other queries in turn read theirs: each is estimated once.
#[derive(Debug, Default)]
pub struct WithQueryRows {
    rows: RefCell<HashMap<usize, f64>>,
}

/// The depth of nested queries beyond which a query is not estimated. It bounds the stack.
const DEPTH_MAX: usize = 8;

/// The join methods that the settings `enable_…` allow. The planner uses a disallowed method only
/// where there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinMethods {
    /// `enable_hashjoin`
    pub hash: bool,
    /// `enable_nestloop`
    pub nested_loop: bool,
}

impl<'a> PlanContext<'a> {
    /// Creates the surroundings of a statement whose parameter values are unknown.
    pub fn of(eval: &'a EvalContext) -> PlanContext<'a> {
        PlanContext {
            eval,
            params: &[],
            with_queries: None,
            depth: 0,
        }
    }

    /// Returns the surroundings with values for the first parameters. The plan stays right for
    /// other values.
    pub fn with_params(self, params: &'a [Value]) -> PlanContext<'a> {
        PlanContext { params, ..self }
    }

    /// Returns the surroundings with a place for the estimates of WITH queries.
    pub fn with_queries(self, rows: &'a WithQueryRows) -> PlanContext<'a> {
        PlanContext {
            with_queries: Some(rows),
            ..self
        }
    }

    /// Returns the surroundings of a query inside of the estimated one; `None` if it is too deep.
    pub fn inside(self) -> Option<PlanContext<'a>> {
        let depth = self.depth + 1;
        (depth <= DEPTH_MAX).then_some(PlanContext { depth, ..self })
    }

    /// Returns the estimate of the WITH query with a number, and makes it with `estimate` the
    /// first time.
    pub fn rows_of_with_query(&self, id: usize, estimate: impl FnOnce() -> f64) -> f64 {
        let Some(known) = self.with_queries else {
            return estimate();
        };
        if let Some(rows) = known.rows.borrow().get(&id) {
            return *rows;
        }
        let rows = estimate();
        known.rows.borrow_mut().insert(id, rows);
        rows
    }

    /// Returns the context of the session.
    pub fn eval(&self) -> &'a EvalContext {
        self.eval
    }

    /// Returns the values of the first parameters.
    pub fn params(&self) -> &'a [Value] {
        self.params
    }

    /// Returns the join methods that the settings allow.
    pub fn join_methods(&self) -> JoinMethods {
        let is_on = |name| {
            self.eval
                .settings
                .get(name)
                .is_none_or(|value| value == "on")
        };
        JoinMethods {
            hash: is_on("enable_hashjoin"),
            nested_loop: is_on("enable_nestloop"),
        }
    }

    /// Returns the number of rows of a table; `None` if it is unknown.
    pub fn rows(&self, table: &TableDef) -> Option<f64> {
        self.eval.table_statistics.as_ref()?.rows(table)
    }

    /// Returns the statistics of a table, if it has been analyzed.
    pub fn statistics(&self, table: &TableDef) -> Option<Arc<TableStatistics>> {
        self.eval.table_statistics.as_ref()?.statistics(table)
    }
}
