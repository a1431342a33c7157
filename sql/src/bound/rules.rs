//! The rules for written rows, besides their types and keys.

use std::sync::Arc;

use super::dml::Assignment;
use super::expr::Expr;
use super::trigger::Trigger;
use crate::catalog::{RoutineDef, TableDef};
use crate::types::Domain;

/// The bound rules for the rows of one table. Expressions read the row, slot = column position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowRules {
    /// The CHECK constraints, in the order of evaluation.
    pub checks: Vec<RowCheck>,
    /// The columns, by position, whose domains have constraints.
    pub domains: Vec<(usize, Domain)>,
    /// The values of the generated columns.
    pub generated: Vec<Assignment>,
    /// The triggers that may fire, in their order.
    pub triggers: Vec<Trigger>,
    /// The check options of the views through which the rows are written, in the order of
    /// evaluation.
    pub views: Vec<ViewCheck>,
    /// For a partitioned table: the rules of its leaf partitions.
    pub leaves: Vec<RowRules>,
    /// For a partition: the root of its partition hierarchy, which must route its rows to it.
    pub within: Option<Arc<TableDef>>,
    /// Whether CHECKs or generated columns call user-defined functions.
    pub calls: bool,
}

impl RowRules {
    /// Calls `f` on each user-defined function that a CHECK or a generated column calls, including
    /// those of leaf partitions.
    pub fn for_each_routine<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<RoutineDef>)) {
        for rules in std::iter::once(self)
            .chain(&self.leaves)
            .filter(|of| of.calls)
        {
            let checks = rules.checks.iter().map(|check| &check.condition);
            let generated = rules.generated.iter().map(|of| &of.value);
            for expr in checks.chain(generated) {
                expr.for_each_routine(&mut |call| f(&call.routine));
            }
        }
    }

    /// Returns all triggers that may fire, including those of leaf partitions.
    pub fn all_triggers(&self) -> impl Iterator<Item = &Trigger> {
        let leaves = self.leaves.iter().flat_map(|leaf| &leaf.triggers);
        self.triggers.iter().chain(leaves)
    }
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCheck {
    /// Its name.
    pub name: String,
    /// The condition.
    pub condition: Expr,
}

/// A WITH CHECK OPTION.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewCheck {
    /// The name of the view.
    pub view: String,
    /// The condition that the row must satisfy.
    pub condition: Expr,
}

/// All rules that may apply to a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Integrity {
    /// The rules of the table that the statement changes.
    pub rules: RowRules,
    /// The tables that foreign keys connect with the changed table, in both directions, which comes
    /// first. Empty if no foreign key is affected.
    pub related: Vec<RelatedTable>,
    /// The functions that triggers, CHECKs and generated columns of these tables call.
    pub routines: Vec<Arc<RoutineDef>>,
}

/// A table that a foreign key connects with the changed table.
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedTable {
    /// The table.
    pub table: Arc<TableDef>,
    /// The rules of its rows.
    pub rules: RowRules,
    /// The default of each column, if a foreign-key action may set it.
    pub defaults: Vec<Expr>,
}
