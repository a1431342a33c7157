//! The first groups of an order by a key: rows of groups behind them are not accumulated.
//!
//! ```text
//! SELECT k, count(*) FROM t GROUP BY k ORDER BY k LIMIT 3
//!   groups so far  9 4 7 2 8 5 6 …   the third key is 5: groups behind it are removed,
//!                                    and the scan passes on no more of their rows
//! ```

use fencepost_sql::bound::{Grouping, Node};
use fencepost_sql::functions::{SortDirection, sort_compare};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::{Groups, bytes_of};
use crate::exec::batch::Batch;
use crate::exec::cx::Cx;
use crate::exec::join::push_comparable;
use crate::plan::SelectPlan;

/// The number of groups that collect before those behind the first ones are removed.
const SLACK: usize = 64;

/// The groups that a query returns at most.
#[derive(Clone, Copy, Debug)]
pub struct FirstGroups {
    /// The key by which they are ordered first, by position in the grouping.
    key: usize,
    direction: SortDirection,
    count: usize,
    /// The number of groups at which groups are removed next.
    removed_at: usize,
}

impl FirstGroups {
    /// Returns the groups of a plan that returns the first `count` rows. Returns `None` if other
    /// groups matter, too.
    pub fn of(plan: &SelectPlan, count: u64) -> Option<FirstGroups> {
        let count = usize::try_from(count).ok()?;
        let first = plan.sort.first()?;
        let is_plain = plan.having.is_none()
            && plan.windows.is_empty()
            && !plan.distinct
            && !plan.with_ties
            && plan.lock.is_none();
        let Node::Column(key) = plan.targets[first.target].expr.node else {
            return None;
        };
        let keys = plan
            .grouping
            .as_ref()
            .map_or(0, |grouping| grouping.keys.len());
        (is_plain && count > 0 && key < keys).then_some(FirstGroups {
            key,
            direction: SortDirection {
                desc: first.desc,
                nulls_first: first.nulls_first,
            },
            count,
            removed_at: count.saturating_mul(2).saturating_add(SLACK),
        })
    }

    /// Returns the key by which they are ordered, by position in the grouping.
    pub fn key(&self) -> usize {
        self.key
    }

    /// Returns the direction of that order.
    pub fn direction(&self) -> SortDirection {
        self.direction
    }
}

impl Groups {
    /// Returns the key behind which no group is among the first ones, if it is time to remove such
    /// groups.
    pub fn last_of_first(&self, first: &FirstGroups) -> Option<Value> {
        let groups = self.rows.len();
        if groups < first.removed_at || self.spill.is_some() {
            return None;
        }
        let key = |group: u32| &self.rows.row(group as usize)[first.key];
        let SortDirection { desc, nulls_first } = first.direction;
        let mut order: Vec<u32> = (0..groups as u32).collect();
        let compare = |a: &u32, b: &u32| sort_compare(key(*a), key(*b), desc, nulls_first);
        let (_, last, _) = order.select_nth_unstable_by(first.count - 1, compare);
        Some(key(*last).clone()).filter(|last| !last.is_null())
    }

    /// Removes the groups whose key is behind `last`. The caller passes on none of their rows any
    /// more.
    ///
    /// # Errors
    /// 53200 if the other groups exceed the memory limit.
    pub fn remove_behind(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        first: &mut FirstGroups,
        last: &Value,
    ) -> Result<(), StatementStop> {
        let SortDirection { desc, nulls_first } = first.direction;
        let aggregates = grouping.aggregates.len();
        let accumulators = std::mem::take(&mut self.accumulators);
        let mut accumulators = accumulators.into_iter();
        let mut rows = Batch::new(self.rows.width());
        self.by_key.clear();
        for group in 0..self.rows.len() {
            let row = self.rows.row_mut(group);
            let own = accumulators.by_ref().take(aggregates);
            if sort_compare(&row[first.key], last, desc, nulls_first).is_gt() {
                own.for_each(drop);
                continue;
            }
            self.accumulators.extend(own);
            self.key.clear();
            for key in &row[..grouping.keys.len()] {
                push_comparable(key, &mut self.key);
            }
            self.by_key.insert(self.key.clone(), rows.len() as u32);
            for (to, from) in rows.push().iter_mut().zip(row) {
                *to = std::mem::take(from);
            }
        }
        self.rows = rows;
        first.removed_at = self.rows.len().saturating_mul(2).saturating_add(SLACK);
        self.memory.restart();
        self.memory.add_rows(cx, &self.rows, 0)?;
        self.memory.add_bytes(cx, bytes_of(&self.accumulators))?;
        Ok(())
    }
}
