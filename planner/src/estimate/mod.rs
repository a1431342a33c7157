//! Estimates of numbers of rows.
//!
//! ```text
//! rows of a relation   = rows of the table × selectivity of its conditions
//! rows of a join       = product of the rows of its sides × selectivity of its conditions
//! ```
//!
//! The selectivity of a condition is the fraction of rows for which it is true. It comes from the
//! statistics of ANALYZE, else from the unique indexes of the table, else from PostgreSQL's
//! defaults. Conditions on different columns count as independent.

mod relations;
mod scalar;
mod selectivity;

use std::sync::Arc;

use fencepost_sql::bound::{From, Leaf, LeafSource};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::table_statistics::{ColumnStatistics, TableStatistics};

use crate::context::PlanContext;
use crate::slots::{SlotRange, SlotSet};
pub use relations::access_rows;

/// The number of distinct values of a column without statistics, as in PostgreSQL.
const DISTINCT_DEFAULT: f64 = 200.0;

/// Estimates rows and selectivities of one from row.
#[derive(Clone)]
pub struct Estimator<'a> {
    cx: PlanContext<'a>,
    /// In the order of their slots.
    relations: Vec<Relation>,
}

/// A relation of the from row.
#[derive(Clone)]
struct Relation {
    slots: SlotRange,
    /// The number of rows without conditions.
    rows: f64,
    /// The table, with its statistics if it has been analyzed.
    table: Option<(Arc<TableDef>, Option<Arc<TableStatistics>>)>,
}

impl<'a> Estimator<'a> {
    /// Creates the estimator for the relations of `from`.
    pub fn of(cx: PlanContext<'a>, from: &From) -> Estimator<'a> {
        let mut estimator = Estimator {
            cx,
            relations: Vec::new(),
        };
        from.for_each_leaf(&mut |leaf| estimator.add(leaf));
        estimator.relations.sort_by_key(|relation| relation.slots);
        estimator
    }

    /// Creates the estimator for the relations of `from`, or one without relations if `from` joins
    /// none: the plan of a single relation needs no estimates.
    pub fn of_joins(cx: PlanContext<'a>, from: &From) -> Estimator<'a> {
        match from {
            From::Join(_) => Estimator::of(cx, from),
            From::Nothing | From::Leaf(_) => Estimator {
                cx,
                relations: Vec::new(),
            },
        }
    }

    /// Returns the surroundings of planning.
    pub fn context(&self) -> PlanContext<'a> {
        self.cx
    }

    fn add(&mut self, leaf: &Leaf) {
        let table = match &leaf.source {
            LeafSource::Table(table) => Some((Arc::clone(table), self.cx.statistics(table))),
            _ => None,
        };
        self.relations.push(Relation {
            slots: (leaf.first_slot, leaf.first_slot + leaf.width()),
            rows: relations::leaf_rows(self.cx, leaf),
            table,
        });
    }

    fn relation(&self, slot: usize) -> Option<&Relation> {
        let after = self.relations.partition_point(|of| of.slots.0 <= slot);
        let relation = self.relations.get(after.checked_sub(1)?)?;
        relation.slots.contains(slot).then_some(relation)
    }

    /// Returns the statistics of the column in a slot, if its table has been analyzed.
    fn column(&self, slot: usize) -> Option<&ColumnStatistics> {
        let relation = self.relation(slot)?;
        let (table, statistics) = relation.table.as_ref()?;
        let column = table.columns.get(slot - relation.slots.0)?;
        statistics.as_ref()?.column(column.attnum)
    }

    /// Returns the number of rows of the relation with these slots, without conditions.
    pub fn rows_of(&self, slots: SlotRange) -> f64 {
        let found = self.relations.binary_search_by_key(&slots, |of| of.slots);
        found.map_or(1.0, |at| self.relations[at].rows)
    }

    /// Estimates the number of distinct values in a slot.
    pub fn distinct(&self, slot: usize) -> f64 {
        let Some(relation) = self.relation(slot) else {
            return DISTINCT_DEFAULT;
        };
        if let Some(column) = self.column(slot) {
            return column.distinct_of(relation.rows);
        }
        let position = slot - relation.slots.0;
        let is_unique = relation.table.as_ref().is_some_and(|(table, _)| {
            let mut indexes = table.indexes.iter();
            indexes.any(|index| {
                let columns = &index.columns;
                index.unique && matches!(columns.as_slice(), [only] if only.column == position)
            })
        });
        let rows = relation.rows.max(1.0);
        if is_unique || relation.table.is_none() {
            rows
        } else {
            DISTINCT_DEFAULT.min(rows)
        }
    }
}
