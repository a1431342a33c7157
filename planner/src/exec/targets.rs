//! The target rows of a SELECT, and the limits on their number.

use fencepost_sql::bound::Expr;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::eval_row_count;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::batch::Batch;
use super::cx::Cx;
use super::distinct::Distinct;
use crate::plan::SelectPlan;

/// LIMIT and OFFSET after evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of rows to skip first.
    pub skip: u64,
    /// The number of rows to return after them.
    pub take: u64,
}

impl Limits {
    /// Returns limits for the first `take` rows.
    pub fn of_first(take: u64) -> Limits {
        Limits { skip: 0, take }
    }
}

/// Adds one row of targets, unless DISTINCT has seen it.
pub async fn target_row(
    plan: &SelectPlan,
    cx: &mut Cx<'_>,
    row: &[Value],
    out: &mut Batch,
    distinct: Option<&mut Distinct>,
) -> Result<(), SqlError> {
    let slots = out.push();
    for (slot, target) in slots.iter_mut().zip(&plan.targets) {
        *slot = cx.value(&target.expr, row).await?;
    }
    match distinct {
        Some(distinct) => distinct.keep_new(plan, out),
        None => Ok(()),
    }
}

/// Adds a row as [`target_row`] does, with subqueries in the targets.
pub async fn deep_target_row(
    plan: &SelectPlan,
    cx: &mut Cx<'_>,
    row: &[Value],
    out: &mut Batch,
    distinct: Option<&mut Distinct>,
) -> Result<(), StatementStop> {
    let mut values = Vec::with_capacity(plan.targets.len());
    for target in &plan.targets {
        values.push(cx.deep_value(&target.expr, row).await?);
    }
    for (slot, value) in out.push().iter_mut().zip(values) {
        *slot = value;
    }
    match distinct {
        Some(distinct) => Ok(distinct.keep_new(plan, out)?),
        None => Ok(()),
    }
}

/// Evaluates LIMIT and OFFSET of a plan.
pub fn limits(plan: &SelectPlan, cx: &Cx<'_>) -> Result<Limits, SqlError> {
    let count = |expr: Option<&Expr>, offset| match expr {
        None => Ok(None),
        Some(expr) => eval_row_count(expr, cx.params(), cx.eval, offset),
    };
    let skip = count(plan.offset.as_ref(), true)?.unwrap_or(0);
    let take = count(plan.limit.as_ref(), false)?.unwrap_or(u64::MAX);
    Ok(match plan.gives_skipped {
        true => Limits::of_first(skip.saturating_add(take)),
        false => Limits { skip, take },
    })
}
