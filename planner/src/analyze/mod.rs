//! ANALYZE: the collection of the statistics of a table.
//!
//! ```text
//! table ──scan──▶ sample of rows ──column by column──▶ TableStatistics
//! ```
//!
//! The scan reads all rows and keeps a random sample of them. Its reads stay out of the read set: a
//! change of the table neither waits for ANALYZE nor makes it retry.

mod column;
mod command;
mod sample;

use std::sync::Arc;

use fencepost_sql::bound::{Expr, From, Leaf, LeafSource, Select, Target};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::table_statistics::TableStatistics;

use crate::build::plan_select;
use crate::context::PlanContext;
use crate::exec::{Batch, CollectedMemory, Cx, SelectState};
use crate::plan::{Hints, SelectPlan, Source};
use column::column_statistics;
pub use command::run_analyze;
use sample::Sample;

/// The number of rows that are read at once.
const BATCH: usize = 256;

/// Collects the statistics of a table. `columns` are positions of columns; the others get no
/// statistics.
///
/// # Errors
/// Those of reading rows; 53200 if the sample exceeds the memory limit; 57014 if the statement is
/// cancelled.
async fn analyze(
    table: &Arc<TableDef>,
    columns: &[usize],
    cx: &mut Cx<'_>,
) -> Result<TableStatistics, StatementStop> {
    let outer = std::mem::take(&mut cx.held);
    let analyzed = analyze_sample(table, columns, cx).await;
    cx.tx.release_memory(std::mem::replace(&mut cx.held, outer));
    analyzed
}

async fn analyze_sample(
    table: &Arc<TableDef>,
    columns: &[usize],
    cx: &mut Cx<'_>,
) -> Result<TableStatistics, StatementStop> {
    let sample = take_sample(table, columns, cx).await?;
    let mut statistics = TableStatistics {
        rows: sample.seen() as f64,
        columns: Vec::with_capacity(columns.len()),
    };
    let rows = sample.into_rows();
    for (at, column) in columns.iter().enumerate() {
        cx.breathe().await?;
        let attnum = table.columns[*column].attnum;
        statistics
            .columns
            .push(column_statistics(&rows, at, attnum, statistics.rows));
    }
    statistics.columns.sort_by_key(|column| column.attnum);
    Ok(statistics)
}

async fn take_sample(
    table: &Arc<TableDef>,
    columns: &[usize],
    cx: &mut Cx<'_>,
) -> Result<Sample, StatementStop> {
    let plan = plan_of(table, columns, cx);
    let mut state = SelectState::new(&plan);
    let mut batch = Batch::new(plan.targets.len());
    let mut sample = Sample::new(cx.eval.statement_start.unsigned_abs());
    let mut memory = CollectedMemory::default();
    loop {
        batch.clear();
        let more = state.next(&plan, cx, &mut batch, BATCH).await?;
        for row in 0..batch.len() {
            memory.add_bytes(cx, sample.add(batch.row(row)))?;
        }
        if !more {
            return Ok(sample);
        }
    }
}

/// Returns the plan that reads these columns of all rows.
fn plan_of(table: &Arc<TableDef>, columns: &[usize], cx: &Cx<'_>) -> SelectPlan {
    let target = |column: &usize| Target {
        name: String::new(),
        expr: Expr::column(table.columns[*column].ty, *column),
        origin: None,
    };
    let leaf = Leaf {
        alias: table.name.clone(),
        column_names: table.columns.iter().map(|c| c.name.clone()).collect(),
        column_types: table.columns.iter().map(|c| c.ty).collect(),
        first_slot: 0,
        source: LeafSource::Table(Arc::clone(table)),
    };
    let select = Select::over(From::Leaf(leaf), columns.iter().map(target).collect());
    let mut plan = plan_select(select, PlanContext::of(cx.eval));
    if let Source::Scan(scan) = &mut plan.source {
        scan.hints = Hints::All;
    }
    plan
}
