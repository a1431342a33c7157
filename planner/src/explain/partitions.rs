//! The partitions that a plan accesses, as far as they are known before it runs.

use std::collections::BTreeSet;

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::Tree;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::eval;
use fencepost_sql::value::Value;
use fencepost_txn::{Machine, MachineId};

use crate::access::{Access, KeyTerm};
use crate::exec::{Fit, fit, leaves};
use crate::plan::{Scan, TablePlan};

/// The information that is available when a plan is explained.
pub struct ExplainContext<'a> {
    /// The parameters; empty if they are not bound yet.
    pub params: &'a [Value],
    /// Settings and clocks.
    pub eval: &'a EvalContext,
    /// The machine that runs EXPLAIN.
    pub machine: &'a Machine,
    /// The machines that run parts of the plan, if it is split.
    pub parts: Vec<MachineId>,
    /// Whether the analytical plan runs.
    pub bulk: bool,
}

impl ExplainContext<'_> {
    /// Returns the partitions that a scan reads, as properties with their texts.
    pub(super) fn of_scan(&self, scan: &Scan) -> Vec<(&'static str, String)> {
        if let Some(tree) = scan.table.def.tree() {
            return self.of_leaves(scan, tree);
        }
        let Some(by) = &scan.table.def.partitioning else {
            return Vec::new();
        };
        let partitioned = scan.table.index_def(scan.index).roots.are_partitioned();
        match first_values(&scan.access).filter(|_| partitioned) {
            Some(values) => self.of_values(&scan.table, &values),
            None => properties(by.count as usize, by.count, None),
        }
    }

    /// Returns the leaves of a partitioned table that a scan reads.
    fn of_leaves(&self, scan: &Scan, tree: &Tree) -> Vec<(&'static str, String)> {
        let value = |expr: &Expr| {
            let known = self.value(expr);
            known.ok_or_else(|| SqlError::internal("a value that is not known yet"))
        };
        let all = tree.leaves.len();
        let some = leaves(scan, tree, &value);
        let some = some.unwrap_or_else(|_| (0..).take(all).collect());
        let only = match some.as_slice() {
            [only] => Some(tree.leaves[*only as usize].name.clone()),
            _ => None,
        };
        properties(some.len(), all as u32, only)
    }

    /// Returns the partitions of rows with these values in the partition column.
    pub(super) fn of_values(
        &self,
        table: &TablePlan,
        values: &[&Expr],
    ) -> Vec<(&'static str, String)> {
        let Some(by) = &table.def.partitioning else {
            return Vec::new();
        };
        let mut partitions = BTreeSet::new();
        let mut scratch = Vec::new();
        for expr in values {
            let Some(value) = self.value(expr) else {
                // At most one partition for each value.
                let most = values.len().min(by.count as usize);
                return properties(most, by.count, None);
            };
            // An array stands for its elements, because no partition column is an array.
            let values = match value {
                Value::Array(array) if by.kind.element().is_none() => array.values,
                value => vec![value],
            };
            for value in values {
                if let Fit::Value(value) = fit(value, by.kind) {
                    partitions.insert(by.of_value(&value, &mut scratch));
                }
            }
        }
        let only = partitions.first().filter(|_| partitions.len() == 1);
        let place =
            only.map(
                |partition| match self.machine.primary_of(table.home_of(*partition)) {
                    Some(machine) => format!("{partition} ({machine})"),
                    None => partition.to_string(),
                },
            );
        properties(partitions.len(), by.count, place)
    }

    fn value(&self, expr: &Expr) -> Option<Value> {
        let mut reads = false;
        expr.for_each_column(&mut |_| reads = true);
        if reads {
            return None;
        }
        eval(expr, &[], self.params, self.eval).ok()
    }
}

/// Returns the values that the first key column may have; `None` if they are not known.
fn first_values(access: &Access) -> Option<Vec<&Expr>> {
    let firsts = match access {
        Access::Full => return None,
        Access::Points(terms) => vec![terms.first()],
        Access::Ranges(branches) => branches.iter().map(|b| b.prefix.first()).collect(),
    };
    let mut values = Vec::new();
    for first in firsts {
        match first? {
            KeyTerm::One(value) => values.push(value),
            KeyTerm::Any(list) => values.extend(list),
            KeyTerm::Members(_) => return None,
        }
    }
    Some(values)
}

fn properties(some: usize, all: u32, only: Option<String>) -> Vec<(&'static str, String)> {
    let mut found = vec![("Partitions", format!("{some} of {all}"))];
    found.extend(only.map(|only| ("Partition", only)));
    found
}
