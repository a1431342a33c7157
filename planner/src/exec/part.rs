//! The executing side of a split SELECT: it reads some partitions and returns partial results to
//! the gathering machine.

use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_txn::Work;

use super::batch::Batch;
use super::cx::Cx;
use super::select::SelectState;
use crate::plan::SelectPlan;
use crate::sink::RowSink;
use crate::split::PartOutput;
use crate::statement::Plan;

const CHUNK: usize = 256;

/// Runs the part of a split plan for the partitions in `cx`. Passes rows of the types
/// [`crate::Split::columns`] to the sink, and returns their number.
pub fn run_part<'a>(
    plan: &'a Plan,
    cx: &'a mut Cx<'_>,
    sink: &'a mut dyn RowSink,
) -> Work<'a, Result<u64, StatementStop>> {
    Box::pin(async move {
        let Some(plan) = plan.part() else {
            return Err(SqlError::internal("a plan that is not split").into());
        };
        let given = give_part(plan, cx, sink).await;
        let held = std::mem::take(&mut cx.held);
        cx.tx.release_memory(held);
        given
    })
}

async fn give_part(
    plan: &SelectPlan,
    cx: &mut Cx<'_>,
    sink: &mut dyn RowSink,
) -> Result<u64, StatementStop> {
    let mut state = SelectState::new(plan);
    if let Some(grouping) = &plan.grouping {
        if plan
            .split
            .as_ref()
            .is_some_and(|split| split.gives == PartOutput::Columns)
        {
            return state.give_columns(plan, cx, sink).await;
        }
        let mut groups = state.group(plan, grouping, cx).await?;
        return groups.partial(grouping, cx, |row| sink.row(row)).await;
    }
    let mut batch = Batch::new(plan.targets.len());
    let mut given = 0;
    loop {
        batch.clear();
        let more = state.next_of_part(plan, cx, &mut batch, CHUNK).await?;
        for at in 0..batch.len() {
            sink.row(batch.row(at))?;
        }
        given += batch.len() as u64;
        if !more {
            return Ok(given);
        }
    }
}
