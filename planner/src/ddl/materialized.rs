//! REFRESH MATERIALIZED VIEW, and statements that a DDL statement runs.
//!
//! A refresh is a change of the catalog: new trees replace the old ones, and plans that use the
//! view are made again. With CONCURRENTLY it changes only rows, and only those that differ.

use fencepost_sql::bound::{Refresh, RefreshView, Statement};
use fencepost_sql::catalog::{GuardScope, guard_table};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::changes::Changes;
use super::create::fill;
use super::drop::empty;
use crate::context::PlanContext;
use crate::exec::{Batch, Cx, Queries};
use crate::statement::{Plan, plan};
use crate::write::{Returning, run_change, run_insert};

/// Runs REFRESH MATERIALIZED VIEW. Returns the command tag.
pub async fn refresh(
    statement: &RefreshView,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "REFRESH MATERIALIZED VIEW";
    if let Refresh::Concurrently(changes) = &statement.how {
        for change in changes.iter() {
            Box::pin(run_now(change.clone(), cx)).await?;
        }
        return Ok(TAG);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut table = changes.take(cx, &statement.table).await?.clone();
    empty(cx, ddl, &mut table).await?;
    if let Some(of) = &mut table.materialized {
        of.populated = matches!(statement.how, Refresh::Anew(_));
    }
    changes.put(table.clone());
    changes.finish(cx, ddl).await?;
    if let Refresh::Anew(select) = &statement.how {
        Box::pin(fill(&table, select, cx)).await?;
    }
    Ok(TAG)
}

/// Runs an INSERT or DELETE. Returns the number of rows.
pub async fn run_now(statement: Statement, cx: &mut Cx<'_>) -> Result<u64, StatementStop> {
    let Ok(plan) = plan(statement, PlanContext::of(cx.eval)) else {
        return Err(SqlError::internal("a statement without a plan").into());
    };
    for table in plan.tables() {
        // A table that this transaction has changed has no guard older than this change.
        if !guard_table(cx.tx, &table.def, GuardScope::Commit).await? {
            return Err(StatementStop::Stale);
        }
    }
    let queries = match &plan {
        Plan::Insert(insert) => insert.queries.as_ref(),
        Plan::Delete(change) => change.queries.as_ref(),
        _ => return Err(SqlError::internal("neither an INSERT nor a DELETE").into()),
    };
    cx.queries = queries.map(|queries| Box::new(Queries::new(queries, cx.params)));
    let mut returning = Returning::Materialize(Batch::new(0));
    let done = match &plan {
        Plan::Insert(insert) => run_insert(insert, cx, &mut returning).await,
        Plan::Delete(change) => run_change(change, cx, &mut returning).await,
        _ => Ok(0),
    };
    cx.queries = None;
    done
}
