//! The groups of a SELECT: from groups to rows of the select list.

use fencepost_sql::stop::StatementStop;

use super::super::batch::Batch;
use super::super::cx::Cx;
use super::super::distinct::Distinct;
use super::super::group::{Groups, LastGroup};
use super::super::targets::{deep_target_row, target_row};
use super::{CHUNK, SelectState};
use crate::plan::SelectPlan;

/// The least number of rows that are grouped together, if they come in the order of the groups.
const GROUPED_ROWS: usize = 128;

impl SelectState {
    /// Projects the groups.
    pub(super) async fn project_groups(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if plan.groups_in_order {
            return Box::pin(self.project_groups_in_order(plan, cx, out, max)).await;
        }
        if let (None, Some(grouping)) = (&self.groups, &plan.grouping) {
            let mut groups = Box::pin(self.group(plan, grouping, cx)).await?;
            Box::pin(groups.finish(grouping, cx)).await?;
            self.groups = Some(groups);
        }
        self.input.clear();
        let (Some(groups), Some(grouping)) = (&mut self.groups, &plan.grouping) else {
            return Ok(false);
        };
        let (rows, more) = groups.next_rows(grouping, cx, max).await?;
        project_group_rows(plan, cx, rows, out, self.distinct.as_deref_mut()).await?;
        Ok(more)
    }

    /// Projects the groups that end in the next rows.
    async fn project_groups_in_order(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let Some(grouping) = &plan.grouping else {
            return Ok(false);
        };
        let mut groups = match self.groups.take() {
            Some(groups) => groups,
            None => Groups::in_order(grouping, cx),
        };
        let max = max.clamp(GROUPED_ROWS, CHUNK);
        let more = self.next_input(plan, cx, max).await?;
        groups.add(grouping, cx, &self.input).await?;
        let last = if more {
            LastGroup::GoesOn
        } else {
            LastGroup::HasEnded
        };
        let rows = groups.take_ended(grouping, cx, last).await?;
        project_group_rows(plan, cx, rows, out, self.distinct.as_deref_mut()).await?;
        self.groups = Some(groups);
        Ok(more)
    }
}

/// Projects the rows of groups that HAVING accepts.
async fn project_group_rows(
    plan: &SelectPlan,
    cx: &mut Cx<'_>,
    rows: &Batch,
    out: &mut Batch,
    mut distinct: Option<&mut Distinct>,
) -> Result<(), StatementStop> {
    for i in 0..rows.len() {
        if cx.is_due() {
            cx.pause().await?;
        }
        let row = rows.row(i);
        if plan.deep {
            if cx.deep_holds(plan.having.as_ref(), row).await? {
                deep_target_row(plan, cx, row, out, distinct.as_deref_mut()).await?;
            }
        } else if cx.holds(plan.having.as_ref(), row).await? {
            target_row(plan, cx, row, out, distinct.as_deref_mut()).await?;
        }
    }
    Ok(())
}
