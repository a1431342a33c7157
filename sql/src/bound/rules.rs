//! What a statement that writes rows has to see to, besides their types and keys.

use std::sync::Arc;

use super::dml::Assignment;
use super::expr::Expr;
use super::trigger::Trigger;
use crate::catalog::{RoutineDef, TableDef};
use crate::types::Domain;

/// The rules of one table's rows, bound. Expressions read the row, slot = column position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowRules {
    /// CHECK constraints, in the order in which they are looked at.
    pub checks: Vec<RowCheck>,
    /// The domains with rules that columns are of, by position.
    pub domains: Vec<(usize, Domain)>,
    /// What generated columns become.
    pub generated: Vec<Assignment>,
    /// The triggers that may run, in their order.
    pub triggers: Vec<Trigger>,
    /// What views that the rows are written through ask of them, in this order.
    pub views: Vec<ViewCheck>,
    /// Of a partitioned table: those of its leaves.
    pub leaves: Vec<RowRules>,
    /// Of a partition: the partitioned table above all others, which has to lead its rows to it.
    pub within: Option<Arc<TableDef>>,
    /// CHECKs or generated columns call functions of users.
    pub calls: bool,
}

impl RowRules {
    /// Calls `f` on each function of users that a CHECK or a generated column calls, also those of leaves.
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

    /// All triggers that may run, also those of leaves.
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

/// What WITH CHECK OPTION asks of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewCheck {
    /// The name of the view.
    pub view: String,
    /// What has to hold.
    pub condition: Expr,
}

/// All rules that a statement may meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Integrity {
    /// Those of the table that it changes.
    pub rules: RowRules,
    /// The tables that foreign keys lead to from there, forth and back, the changed one first; none where no
    /// foreign key has to do with the statement.
    pub related: Vec<Related>,
    /// The functions that triggers, CHECKs and generated columns of these tables run.
    pub routines: Vec<Arc<RoutineDef>>,
}

/// A table that a foreign key leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// The table.
    pub table: Arc<TableDef>,
    /// Its rules.
    pub rules: RowRules,
    /// The default of each column, where a foreign key may set them.
    pub defaults: Vec<Expr>,
}
