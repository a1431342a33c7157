//! The execution of WITH RECURSIVE.
//!
//! The rows of each iteration are returned, and are the work table of the next iteration. An
//! iteration without rows is the last one. A reader that needs no more rows ends the query early,
//! even if it would not terminate by itself.

use std::sync::Arc;

use fencepost_sql::stop::StatementStop;
use foldhash::HashSet;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::select::SelectState;
use super::set::key_of;
use crate::plan::RecursivePlan;

/// The state of a recursive query.
pub struct RecursiveState {
    first_round: bool,
    current: SelectState,
    rows: Batch,
    /// The rows of the current iteration.
    round: Batch,
    /// For UNION: all rows returned so far.
    seen: HashSet<Vec<u8>>,
    /// The memory of `seen`.
    gathered: CollectedMemory,
    /// The memory of `round`.
    gathered_round: CollectedMemory,
    key: Vec<u8>,
}

impl RecursiveState {
    /// Creates the state before the first row.
    pub fn new(plan: &RecursivePlan) -> RecursiveState {
        RecursiveState {
            first_round: true,
            current: SelectState::new(&plan.base),
            rows: Batch::new(plan.base.targets.len()),
            round: Batch::new(plan.base.visible),
            seen: HashSet::default(),
            gathered: CollectedMemory::default(),
            gathered_round: CollectedMemory::default(),
            key: Vec::new(),
        }
    }

    /// Adds up to `max` rows to `out`. Returns false when no more rows follow.
    pub async fn next(
        &mut self,
        plan: &RecursivePlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let select = if self.first_round {
            &plan.base
        } else {
            &plan.step
        };
        self.rows.clear();
        let more = self.current.next(select, cx, &mut self.rows, max).await?;
        let from = self.round.len();
        for i in 0..self.rows.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let row = &self.rows.row(i)[..plan.base.visible];
            if !plan.all {
                key_of(row, &mut self.key);
                if self.seen.contains(&self.key) {
                    continue;
                }
                self.gathered.add_entry(cx, self.key.len())?;
                self.seen.insert(self.key.clone());
            }
            self.round.push().clone_from_slice(row);
            out.push()[plan.first_slot..][..row.len()].clone_from_slice(row);
        }
        self.gathered_round.add_rows(cx, &self.round, from)?;
        if more {
            return Ok(true);
        }
        if self.round.len() == 0 {
            return Ok(false);
        }
        // An iteration may return no new rows for a long time.
        cx.breathe().await?;
        let width = plan.base.visible;
        let done = std::mem::replace(&mut self.round, Batch::new(width));
        self.gathered_round.restart();
        if let Some(queries) = &mut cx.queries {
            queries.works.insert(plan.work, Arc::new(done));
        }
        self.first_round = false;
        self.current = SelectState::new(&plan.step);
        self.rows = Batch::new(plan.step.targets.len());
        Ok(true)
    }
}
