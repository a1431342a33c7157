//! The leaf partitions of a partitioned table whose rows are written. Each has its own constraints
//! and indexes.

use std::sync::Arc;

use fencepost_sql::bound::RowRules;
use fencepost_sql::catalog::{TableDef, Tree};
use fencepost_sql::error::SqlError;
use fencepost_sql::settings::Settings;
use fencepost_sql::value::Value;

use crate::plan::TablePlan;
use crate::write::{no_partition, outside_partition};

/// The leaf partitions of a partitioned table.
#[derive(Debug)]
pub struct Leaves {
    tree: Arc<Tree>,
    plans: Vec<Arc<TablePlan>>,
}

impl Leaves {
    /// Creates the leaf plans of `def` with the constraints of each leaf, as far as they are
    /// needed. Returns `None` if the table is not partitioned.
    pub fn of(def: &TableDef, rules: Vec<RowRules>) -> Option<Leaves> {
        let tree = Arc::clone(def.tree()?);
        let mut rules = rules.into_iter();
        let plan = |leaf| Arc::new(TablePlan::written(leaf, rules.next().unwrap_or_default()));
        let plans = tree.leaves.iter().map(plan).collect();
        Some(Leaves { tree, plans })
    }

    /// Returns the leaf that a row of `whole` belongs to. `whole` is the partitioned table of these
    /// leaves.
    pub fn leaf_of(
        &self,
        whole: &TablePlan,
        row: &[Value],
        settings: &Settings,
    ) -> Result<usize, SqlError> {
        let leaf = match self.tree.leaf_of(&|column| &row[column]) {
            Ok(leaf) => leaf as usize,
            Err(level) => return Err(no_partition(&whole.def, level, row, settings)),
        };
        match whole.rules.within {
            Some(_) if !is_within(whole, self.plans[leaf].def.id, row) => {
                Err(outside_partition(&whole.def, row, settings))
            }
            _ => Ok(leaf),
        }
    }

    /// Returns the plans of all leaves.
    pub fn plans(&self) -> &[Arc<TablePlan>] {
        &self.plans
    }

    /// Returns the plan of one leaf.
    pub fn plan(&self, leaf: usize) -> &Arc<TablePlan> {
        &self.plans[leaf]
    }

    /// Returns the position of the leaf's own index that corresponds to the index of `whole` at
    /// this position.
    pub fn index_in(
        &self,
        whole: &TablePlan,
        index: usize,
        leaf: usize,
    ) -> Result<usize, SqlError> {
        let roots = whole.index_def(index).roots.all();
        let mut own = self.plans[leaf].def.indexes.iter();
        let at = own.position(|own| Some(&own.roots.of(0)) == roots.get(leaf));
        at.ok_or_else(|| SqlError::internal("a partition lacks an index"))
    }
}

/// Returns whether the top partitioned table routes the row to this leaf (HIERARCHY-3).
pub fn is_within(table: &TablePlan, leaf: u32, row: &[Value]) -> bool {
    let top = table.rules.within.as_ref();
    top.and_then(|top| top.tree()).is_none_or(|tree| {
        let found = tree.leaf_of(&|column| &row[column]).ok();
        found.is_some_and(|at| tree.leaves[at as usize].id == leaf)
    })
}
