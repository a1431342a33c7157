//! Groups of rows that come in the order of the keys: one group after the other.
//!
//! ```text
//! rows  1 1 1 2 2 3 │ 3 3 4 4 …
//!       group 1, group 2 have ended; group 3 may go on in the next rows
//! ```
//! A LIMIT ends the scan after its groups. Only the groups of a few rows are in memory at a time,
//! so they need no temporary file.

use fencepost_sql::bound::Grouping;
use fencepost_sql::stop::StatementStop;

use super::{Groups, bytes_of, result};
use crate::exec::batch::Batch;
use crate::exec::collected_memory::CollectedMemory;
use crate::exec::cx::Cx;
use crate::exec::join::push_comparable;

/// Whether rows of the last group may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastGroup {
    /// They may.
    GoesOn,
    /// No more rows follow.
    HasEnded,
}

impl Groups {
    /// Creates the table without groups, for rows in the order of the keys.
    pub fn in_order(grouping: &Grouping, cx: &Cx<'_>) -> Groups {
        Groups {
            memory: CollectedMemory::default(),
            ..Groups::new(grouping, cx)
        }
    }

    /// Removes the groups that have ended, and returns their rows with the results.
    ///
    /// # Errors
    /// Those of the aggregates; 53200 if the group that goes on exceeds the memory limit.
    pub async fn take_ended(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        last: LastGroup,
    ) -> Result<&Batch, StatementStop> {
        let aggregates = grouping.aggregates.len();
        let going_on = usize::from(last == LastGroup::GoesOn);
        let ended = self.rows.len().saturating_sub(going_on);
        let accumulators = self.accumulators.split_off(ended * aggregates);
        let of_ended = std::mem::replace(&mut self.accumulators, accumulators);
        for (i, accumulator) in of_ended.into_iter().enumerate() {
            cx.breathe().await?;
            let value = result(accumulator, &grouping.aggregates[i % aggregates], cx).await?;
            self.rows.row_mut(i / aggregates)[grouping.keys.len() + i % aggregates] = value;
        }
        self.page.clear();
        for i in 0..ended {
            let row = self.rows.row_mut(i).iter_mut();
            for (to, from) in self.page.push().iter_mut().zip(row) {
                *to = std::mem::take(from);
            }
        }
        self.rows.remove(0, ended);
        self.begin_again(grouping, cx)?;
        Ok(&self.page)
    }

    /// Gives the group that goes on, if there is one, the first number.
    fn begin_again(&mut self, grouping: &Grouping, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        self.by_key.clear();
        self.memory.restart();
        if self.rows.len() > 0 {
            self.key.clear();
            for key in &self.rows.row(0)[..grouping.keys.len()] {
                push_comparable(key, &mut self.key);
            }
            self.by_key.insert(self.key.clone(), 0);
            self.memory.add_rows(cx, &self.rows, 0)?;
            self.memory.add_bytes(cx, bytes_of(&self.accumulators))?;
        }
        Ok(())
    }
}
