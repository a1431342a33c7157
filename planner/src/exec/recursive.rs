//! Queries that read their own rows: WITH RECURSIVE.
//!
//! Each round's rows are given, and are what the next round reads as its work table; a round that gives none is the
//! last. A reader that wants no more rows ends it, however many there would be.

use std::sync::Arc;

use fencepost_sql::stop::Halt;
use foldhash::HashSet;

use super::batch::Batch;
use super::cx::Cx;
use super::gathered::Gathered;
use super::select::SelectState;
use super::set::key_of;
use crate::plan::RecursivePlan;

/// Where a recursive query stands.
pub struct RecursiveState {
    first_round: bool,
    current: SelectState,
    rows: Batch,
    /// What this round has given.
    round: Batch,
    /// UNION: what has been given in all.
    seen: HashSet<Vec<u8>>,
    /// What `seen` holds.
    gathered: Gathered,
    /// What `round` holds.
    gathered_round: Gathered,
    key: Vec<u8>,
}

impl RecursiveState {
    /// The state before the first row.
    pub fn new(plan: &RecursivePlan) -> RecursiveState {
        RecursiveState {
            first_round: true,
            current: SelectState::new(&plan.base),
            rows: Batch::new(plan.base.targets.len()),
            round: Batch::new(plan.base.visible),
            seen: HashSet::default(),
            gathered: Gathered::default(),
            gathered_round: Gathered::default(),
            key: Vec::new(),
        }
    }

    /// Adds up to `max` rows to `out`; false when there are no more after them.
    pub async fn next(
        &mut self,
        plan: &RecursivePlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, Halt> {
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
        // A round may give nothing at all for a long time.
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
