//! A SELECT at work: rows of the source become rows of the select list.

use fencepost_sql::bound::Expr;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::eval_row_count;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use foldhash::HashSet;

use super::batch::Batch;
use super::cx::Cx;
use super::gathered::Gathered;
use super::group::Groups;
use super::join::push_comparable;
use super::sort::Sorter;
use super::source::SourceState;
use crate::plan::SelectPlan;

const CHUNK: usize = 1024;

/// Where a SELECT stands.
pub struct SelectState {
    source: SourceState,
    input: Batch,
    input_more: bool,
    groups: Option<Groups>,
    seen: HashSet<Vec<u8>>,
    sorter: Option<Sorter>,
    limits: Option<Limits>,
    /// What DISTINCT has seen.
    gathered: Gathered,
    key: Vec<u8>,
}

/// LIMIT and OFFSET, evaluated.
#[derive(Clone, Copy, Debug)]
struct Limits {
    skip: u64,
    take: u64,
}

impl SelectState {
    /// The state before the first row.
    pub fn new(plan: &SelectPlan) -> SelectState {
        SelectState {
            source: SourceState::new(&plan.source, plan.width),
            input: Batch::new(plan.width),
            input_more: true,
            groups: None,
            seen: HashSet::default(),
            sorter: None,
            limits: None,
            gathered: Gathered::default(),
            key: Vec::new(),
        }
    }

    /// Adds up to `max` rows of all targets to `out`; false when there are no more after them.
    pub async fn next(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, Halt> {
        let limits = match self.limits {
            Some(limits) => limits,
            None => *self.limits.insert(limits(plan, cx)?),
        };
        if limits.take == 0 {
            return Ok(false);
        }
        if plan.sort.is_empty() {
            return self.next_unsorted(plan, cx, out, max).await;
        }
        if self.sorter.is_none() {
            self.sort(plan, cx, limits).await?;
        }
        let Some(sorter) = &mut self.sorter else {
            return Ok(false);
        };
        for _ in 0..max {
            if !sorter.next(out) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn next_unsorted(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, Halt> {
        let target = out.len() + max;
        while out.len() < target {
            let Some(limits) = self.limits else {
                return Ok(false);
            };
            let wanted = limits.skip.saturating_add(limits.take);
            let start = out.len();
            let chunk = (target - start).min(usize::try_from(wanted).unwrap_or(usize::MAX));
            let more = self.project(plan, cx, out, chunk).await?;
            let made = (out.len() - start) as u64;
            let skipped = made.min(limits.skip);
            if skipped > 0 {
                out.remove(start, skipped as usize);
            }
            let kept = (made - skipped).min(limits.take);
            out.truncate(start + kept as usize);
            let take = limits.take - kept;
            self.limits = Some(Limits {
                skip: limits.skip - skipped,
                take,
            });
            if !more || take == 0 {
                return Ok(false);
            }
            if self.input.weight() > 0 {
                // Long rows are handed on before more of them come.
                break;
            }
        }
        Ok(true)
    }

    /// Makes every row and sorts; with a limit only the rows that may be given are kept.
    async fn sort(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        limits: Limits,
    ) -> Result<(), Halt> {
        let keep = limits.skip.saturating_add(limits.take);
        let mut sorter = Sorter::new(plan, keep);
        let mut gathered = Gathered::default();
        loop {
            let from = sorter.rows().len();
            let more = self.project(plan, cx, sorter.rows(), CHUNK).await?;
            if !sorter.trim() {
                gathered.add_rows(cx, sorter.rows(), from)?;
            }
            if !more {
                break;
            }
        }
        sorter.finish(limits.skip);
        self.sorter = Some(sorter);
        Ok(())
    }

    /// Adds about `max` rows of targets to `out`, before sort and limit.
    async fn project(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, Halt> {
        let from = out.len();
        if let Some(grouping) = &plan.grouping {
            if self.groups.is_none() {
                let mut groups = Groups::new(grouping);
                while self.next_input(plan, cx, CHUNK).await? {
                    groups.add(grouping, cx, &self.input)?;
                }
                groups.add(grouping, cx, &self.input)?;
                groups.finish(grouping)?;
                self.groups = Some(groups);
            }
            let groups = self.groups.as_mut();
            self.input.clear();
            let Some(rows) = groups.map(|g| g.rows(max)) else {
                return Ok(false);
            };
            let (rows, more) = rows;
            for i in 0..rows.len() {
                if cx.holds(plan.having.as_ref(), rows.row(i))? {
                    target_row(plan, cx, rows.row(i), out, &mut self.seen, &mut self.key)?;
                }
            }
            if plan.distinct {
                self.gathered.add_rows(cx, out, from)?;
            }
            return Ok(more);
        }
        let more = self.next_input(plan, cx, max).await?;
        for i in 0..self.input.len() {
            let row = self.input.row(i);
            target_row(plan, cx, row, out, &mut self.seen, &mut self.key)?;
        }
        if plan.distinct {
            self.gathered.add_rows(cx, out, from)?;
        }
        Ok(more)
    }

    /// The next from rows that pass WHERE, into `input`.
    async fn next_input(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        max: usize,
    ) -> Result<bool, Halt> {
        self.input.clear();
        if !self.input_more {
            return Ok(false);
        }
        let next = self.source.next(&plan.source, cx, &mut self.input, max);
        self.input_more = next.await?;
        if let Some(filter) = &plan.filter {
            let mut kept = 0;
            for i in 0..self.input.len() {
                if cx.holds(Some(filter), self.input.row(i))? {
                    self.input.swap(kept, i);
                    kept += 1;
                }
            }
            self.input.truncate(kept);
        }
        Ok(self.input_more)
    }
}

/// One row of targets, unless DISTINCT has seen it.
fn target_row(
    plan: &SelectPlan,
    cx: &Cx<'_>,
    row: &[Value],
    out: &mut Batch,
    seen: &mut HashSet<Vec<u8>>,
    key: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let slots = out.push();
    for (slot, target) in slots.iter_mut().zip(&plan.targets) {
        *slot = cx.value(&target.expr, row)?;
    }
    if plan.distinct {
        key.clear();
        for value in &slots[..plan.visible] {
            push_comparable(value, key);
        }
        if seen.contains(key.as_slice()) {
            out.pop();
        } else {
            seen.insert(key.clone());
        }
    }
    Ok(())
}

fn limits(plan: &SelectPlan, cx: &Cx<'_>) -> Result<Limits, SqlError> {
    let count = |expr: Option<&Expr>, offset| match expr {
        None => Ok(None),
        Some(expr) => eval_row_count(expr, cx.params, cx.eval, offset),
    };
    Ok(Limits {
        skip: count(plan.offset.as_ref(), true)?.unwrap_or(0),
        take: count(plan.limit.as_ref(), false)?.unwrap_or(u64::MAX),
    })
}
