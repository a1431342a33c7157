//! The execution of plans: rows go to the sink, and a count to the command tag.

use std::sync::Arc;

use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::{Stop, Work};

use crate::access::are_plain;
use crate::analytics::pays;
use crate::copy::CopyWriter;
use crate::exec::{Batch, Cx, Queries, SelectState, fetch_point, point_key};
use crate::plan::SelectPlan;
use crate::sink::RowSink;
use crate::statement::Plan;
use crate::subplans::Subplans;
use crate::write::{
    ChangePlan, InsertPlan, Returning, recheck_unique_keys, run_change, run_insert, run_merge,
};

const CHUNK: usize = 256;
const COPY_BYTES: usize = 64 * 1024;

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The statement has ended; the number of rows returned or changed.
    Done(u64),
    /// The row limit is reached; more rows may follow.
    Suspended,
}

/// The state of a running plan. A portal keeps it from call to call.
#[derive(Default)]
pub struct Execution {
    state: Option<State>,
    /// The number of rows returned so far.
    given: u64,
    /// Bytes of memory that its operators hold.
    held: usize,
    /// The state and results of the subqueries in expressions.
    queries: Option<Box<Queries>>,
    /// Whether the analytical plan runs.
    bulk: bool,
}

enum State {
    Select {
        state: Box<SelectState>,
        batch: Batch,
        at: usize,
        more: bool,
    },
    /// The rows of RETURNING, and how many rows were changed.
    Materialized { rows: Batch, at: usize, count: u64 },
    /// All rows have been returned.
    Over,
}

impl Execution {
    /// Returns whether the execution has returned or changed rows.
    pub fn has_begun(&self) -> bool {
        self.state.is_some()
    }

    /// Closes the execution and releases its memory.
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        let held = std::mem::take(&mut self.held) + std::mem::take(&mut cx.held);
        if held > 0 {
            cx.tx.release_memory(held);
        }
        self.state = Some(State::Over);
    }

    /// Continues `plan` and returns at most `max_rows` rows (0: all).
    pub async fn run(
        &mut self,
        plan: &Plan,
        cx: &mut Cx<'_>,
        sink: &mut dyn RowSink,
        max_rows: usize,
    ) -> Result<Progress, StatementStop> {
        let progress = self.run_plan(plan, cx, sink, max_rows).await;
        self.held += std::mem::take(&mut cx.held);
        if self.held > 0 && !matches!(progress, Ok(Progress::Suspended)) {
            cx.tx.release_memory(std::mem::take(&mut self.held));
        }
        progress
    }

    async fn run_plan(
        &mut self,
        plan: &Plan,
        cx: &mut Cx<'_>,
        sink: &mut dyn RowSink,
        max_rows: usize,
    ) -> Result<Progress, StatementStop> {
        if let Plan::Select(_) | Plan::CopyOut(..) = plan {
            cx.only_reads = max_rows == 0 && plan.is_snapshot_read();
        }
        match plan {
            Plan::Row(select) if self.state.is_none() => {
                run_row(select, cx, sink).await?;
                self.state = Some(State::Over);
                Ok(Progress::Done(1))
            }
            Plan::Point(select) if self.state.is_none() => {
                let count = run_point(select, cx, sink).await?;
                self.state = Some(State::Over);
                Ok(Progress::Done(count))
            }
            // The rest is boxed to keep the future of a point statement small: callers move it
            // before it runs.
            Plan::Select(select) => {
                self.lend_queries(select.queries.as_ref(), cx);
                let progress = match select
                    .queries
                    .as_deref()
                    .filter(|q| q.needs_statement_snapshot)
                {
                    Some(queries) => self.run_in_parts((plan, queries), cx, sink, max_rows).await,
                    None => {
                        if let Some(queries) = self.changing(select.queries.as_deref()) {
                            run_changes(queries, false, cx).await?;
                        }
                        self.run_select(select, cx, sink, max_rows).await
                    }
                };
                self.queries = cx.queries.take();
                progress
            }
            Plan::CopyOut(copy, select) => {
                self.lend_queries(select.queries.as_ref(), cx);
                if let Some(queries) = select
                    .queries
                    .as_deref()
                    .filter(|q| q.needs_statement_snapshot)
                {
                    return self.run_in_parts((plan, queries), cx, sink, max_rows).await;
                }
                if let Some(queries) = self.changing(select.queries.as_deref()) {
                    run_changes(queries, false, cx).await?;
                }
                let count = run_copy_out(copy, select, cx, sink).await?;
                Ok(Progress::Done(count))
            }
            Plan::Insert(InsertPlan { queries, .. })
            | Plan::Update(ChangePlan { queries, .. })
            | Plan::Delete(ChangePlan { queries, .. })
            | Plan::Merge(ChangePlan { queries, .. }) => {
                self.lend_queries(queries.as_ref(), cx);
                if let Some(queries) = queries.as_deref().filter(|q| q.needs_statement_snapshot) {
                    return self.run_in_parts((plan, queries), cx, sink, max_rows).await;
                }
                if let Some(queries) = self.changing(queries.as_deref()) {
                    run_changes(queries, false, cx).await?;
                }
                self.run_write(plan, cx, sink, max_rows).await
            }
            Plan::Row(_) | Plan::Point(_) | Plan::CopyIn(_) => Ok(Progress::Done(0)),
        }
    }

    /// Lends the state of the statement's subqueries to the context that evaluates them.
    fn lend_queries(&mut self, plans: Option<&Arc<Subplans>>, cx: &mut Cx<'_>) {
        if let Some(plans) = plans {
            let queries = self.queries.take();
            cx.queries = queries.or_else(|| Some(Box::new(Queries::new(plans, cx.params))));
        }
    }

    /// Runs a statement with a statement snapshot: its parts do not see each other's changes.
    fn run_in_parts<'a>(
        &'a mut self,
        (plan, queries): (&'a Plan, &'a Subplans),
        cx: &'a mut Cx<'_>,
        sink: &'a mut dyn RowSink,
        max_rows: usize,
    ) -> Work<'a, Result<Progress, StatementStop>> {
        Box::pin(async move {
            let begins = self.state.is_none();
            let mut mark = None;
            if begins {
                let opened = cx.tx.mark();
                cx.before = Some(opened.place());
                mark = Some(opened);
                run_changes(queries, false, cx).await?;
                if let Plan::Select(select) = plan {
                    self.make_all(select, cx).await?;
                }
            }
            let progress = match plan {
                Plan::Select(select) => self.run_select(select, cx, sink, max_rows).await?,
                Plan::CopyOut(copy, select) => {
                    Progress::Done(run_copy_out(copy, select, cx, sink).await?)
                }
                _ => self.run_write(plan, cx, sink, max_rows).await?,
            };
            if let Some(mark) = mark {
                run_changes(queries, true, cx).await?;
                cx.before = None;
                cx.tx.release_mark(mark);
            }
            Ok(progress)
        })
    }

    /// Produces all rows of a SELECT before the transaction does anything else.
    async fn make_all(&mut self, plan: &SelectPlan, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let mut state = Box::new(SelectState::new(plan));
        let mut batch = Batch::new(plan.targets.len());
        while state.next(plan, cx, &mut batch, CHUNK).await? {}
        self.state = Some(State::Select {
            state,
            batch,
            at: 0,
            more: false,
        });
        Ok(())
    }

    /// Returns the subplans of a statement that begins, if some of its WITH parts change rows
    /// first.
    fn changing<'a>(&self, queries: Option<&'a Subplans>) -> Option<&'a Subplans> {
        let begins = self.state.is_none();
        queries.filter(|queries| begins && queries.changes.iter().any(|change| !change.last))
    }

    fn run_select<'a>(
        &'a mut self,
        plan: &'a SelectPlan,
        cx: &'a mut Cx<'_>,
        sink: &'a mut dyn RowSink,
        max_rows: usize,
    ) -> Work<'a, Result<Progress, StatementStop>> {
        Box::pin(async move {
            if self.state.is_none() && plan.bulk.is_some() && cx.parts.is_none() {
                let known = (cx.params, cx.eval.settings.analytics);
                self.bulk = pays(plan, cx.tx.machine(), known).await?;
            }
            let by_rows = plan;
            let mut plan = plan.bulk.as_deref().filter(|_| self.bulk).unwrap_or(plan);
            let current = self.state.get_or_insert_with(|| State::Select {
                state: Box::new(SelectState::new(plan)),
                batch: Batch::new(plan.targets.len()),
                at: 0,
                more: true,
            });
            let State::Select {
                state,
                batch,
                at,
                more,
            } = current
            else {
                return Ok(Progress::Done(0));
            };
            let mut left = if max_rows == 0 { usize::MAX } else { max_rows };
            loop {
                while *at < batch.len() {
                    if left == 0 {
                        return Ok(Progress::Suspended);
                    }
                    sink.row(&batch.row(*at)[..plan.given()])?;
                    *at += 1;
                    left -= 1;
                    self.given += 1;
                }
                if !*more {
                    // The tag of a portal's last piece counts the rows of that piece, as in
                    // PostgreSQL.
                    let count = if max_rows == 0 {
                        self.given
                    } else {
                        (max_rows - left) as u64
                    };
                    return Ok(Progress::Done(count));
                }
                if left == 0 {
                    return Ok(Progress::Suspended);
                }
                if sink.should_flush() {
                    sink.flush().await?;
                }
                batch.clear();
                *at = 0;
                *more = match state.next(plan, cx, batch, CHUNK.min(left)).await {
                    Err(stop) if self.bulk && self.given == 0 && is_out_of_memory(&stop) => {
                        self.bulk = false;
                        plan = by_rows;
                        **state = SelectState::new(plan);
                        batch.clear();
                        true
                    }
                    next => next?,
                };
            }
        })
    }

    fn run_write<'a>(
        &'a mut self,
        plan: &'a Plan,
        cx: &'a mut Cx<'_>,
        sink: &'a mut dyn RowSink,
        max_rows: usize,
    ) -> Work<'a, Result<Progress, StatementStop>> {
        Box::pin(async move {
            if self.state.is_none() {
                let keep = max_rows > 0 && !plan.returning().is_empty();
                let mut returning = match keep {
                    true => Returning::Materialize(Batch::new(plan.returning().len())),
                    false => Returning::Sink(sink, Vec::new()),
                };
                let count = match plan {
                    Plan::Insert(insert) => run_insert(insert, cx, &mut returning).await?,
                    Plan::Merge(change) => run_merge(change, cx).await?,
                    Plan::Update(change) | Plan::Delete(change) => {
                        run_change(change, cx, &mut returning).await?
                    }
                    _ => 0,
                };
                recheck_unique_keys(cx).await?;
                match returning {
                    Returning::Sink(..) => {
                        self.state = Some(State::Over);
                        return Ok(Progress::Done(count));
                    }
                    Returning::Materialize(rows) => {
                        self.state = Some(State::Materialized { rows, at: 0, count })
                    }
                }
            }
            let Some(State::Materialized { rows, at, count }) = &mut self.state else {
                return Ok(Progress::Done(0));
            };
            let end = match max_rows {
                0 => rows.len(),
                max => rows.len().min(*at + max),
            };
            while *at < end {
                sink.row(rows.row(*at))?;
                *at += 1;
            }
            match end < rows.len() {
                true => Ok(Progress::Suspended),
                false => Ok(Progress::Done(*count)),
            }
        })
    }
}

/// Runs the data-modifying statements of WITH: those that run first or those that run last.
fn run_changes<'a>(
    queries: &'a Subplans,
    last: bool,
    cx: &'a mut Cx<'_>,
) -> Work<'a, Result<(), StatementStop>> {
    Box::pin(async move {
        for change in &queries.changes {
            if change.last != last {
                continue;
            }
            let (id, plan) = (change.id, &change.plan);
            let mut returning = Returning::Materialize(Batch::new(plan.returning().len()));
            match plan {
                Plan::Insert(insert) => {
                    run_insert(insert, cx, &mut returning).await?;
                }
                Plan::Update(change) | Plan::Delete(change) => {
                    run_change(change, cx, &mut returning).await?;
                }
                _ => {}
            }
            recheck_unique_keys(cx).await?;
            if let (Returning::Materialize(rows), Some(queries)) = (returning, &mut cx.queries) {
                queries.keep(id, rows);
            }
        }
        Ok(())
    })
}

/// Runs a SELECT of one row without a table.
async fn run_row(
    plan: &SelectPlan,
    cx: &mut Cx<'_>,
    sink: &mut dyn RowSink,
) -> Result<(), StatementStop> {
    let mut out = std::mem::take(&mut cx.scratch.out);
    out.clear();
    for target in &plan.targets[..plan.visible] {
        out.push(cx.value(&target.expr, &[]).await?);
    }
    sink.row(&out)?;
    cx.scratch.out = out;
    Ok(())
}

/// Runs a SELECT of one row by its key: from the index to the client without operators or batches.
async fn run_point(
    plan: &SelectPlan,
    cx: &mut Cx<'_>,
    sink: &mut dyn RowSink,
) -> Result<u64, StatementStop> {
    let Some((scan, terms)) = plan
        .point_scan()
        .and_then(|scan| scan.single_point().map(|terms| (scan, terms)))
    else {
        return Ok(0);
    };
    let mut key = std::mem::take(&mut cx.scratch.key);
    let mut words = std::mem::take(&mut cx.scratch.words);
    let mut row = std::mem::take(&mut cx.scratch.row);
    let mut out = std::mem::take(&mut cx.scratch.out);
    let result = async {
        let partition = match are_plain(terms) {
            true => point_key(scan, terms, cx, &[], &mut key)?,
            false => {
                let found = cx.in_parts(|cx| point_key(scan, terms, cx, &[], &mut key));
                found.await?
            }
        };
        let Some(partition) = partition else {
            return Ok(0);
        };
        let found = fetch_point(scan, cx, (&key, partition), &mut words);
        if found.await?.is_none() {
            return Ok(0);
        }
        if row.len() < plan.width {
            row.resize(plan.width, Value::Null);
        }
        scan.table
            .layout
            .decode_some(&words, &scan.columns, &mut row)?;
        if !cx.holds(scan.filter.as_ref(), &row).await? {
            return Ok(0);
        }
        out.clear();
        for target in &plan.targets[..plan.visible] {
            out.push(cx.value(&target.expr, &row).await?);
        }
        sink.row(&out)?;
        Ok(1)
    }
    .await;
    cx.scratch.key = key;
    cx.scratch.words = words;
    cx.scratch.row = row;
    cx.scratch.out = out;
    cx.scratch.shrink();
    result
}

/// Returns whether a SELECT has exceeded the memory for DataFusion's operators. If it has returned
/// no rows, it starts again with the row executor, whose operators write to temporary files.
fn is_out_of_memory(stop: &StatementStop) -> bool {
    matches!(stop, StatementStop::Stop(Stop::OutOfMemory))
}

fn run_copy_out<'a>(
    copy: &'a fencepost_sql::bound::Copy,
    plan: &'a SelectPlan,
    cx: &'a mut Cx<'_>,
    sink: &'a mut dyn RowSink,
) -> Work<'a, Result<u64, StatementStop>> {
    Box::pin(async move {
        let columns = &plan.targets[..plan.visible];
        let types: Vec<Type> = columns.iter().map(|t| t.expr.ty).collect();
        let mut writer = CopyWriter::new(&copy.options, &cx.eval.settings, types);
        let mut bytes = Vec::with_capacity(COPY_BYTES);
        writer.begin(columns.iter().map(|t| t.name.as_str()), &mut bytes);
        let known = (cx.params, cx.eval.settings.analytics);
        let mut bulk = cx.parts.is_none() && pays(plan, cx.tx.machine(), known).await?;
        let by_rows = plan;
        let mut plan = plan.bulk.as_deref().filter(|_| bulk).unwrap_or(plan);
        let mut state = SelectState::new(plan);
        let mut batch = Batch::new(plan.targets.len());
        let mut more = true;
        let mut count = 0;
        while more {
            batch.clear();
            more = match state.next(plan, cx, &mut batch, CHUNK).await {
                Err(stop) if bulk && count == 0 && is_out_of_memory(&stop) => {
                    bulk = false;
                    plan = by_rows;
                    state = SelectState::new(plan);
                    continue;
                }
                next => next?,
            };
            for i in 0..batch.len() {
                writer.row(&batch.row(i)[..plan.visible], &mut bytes)?;
                sink.copy_data(&bytes)?;
                bytes.clear();
            }
            count += batch.len() as u64;
            if sink.should_flush() {
                sink.flush().await?;
            }
        }
        writer.end(&mut bytes);
        if !bytes.is_empty() {
            sink.copy_data(&bytes)?;
        }
        Ok(count)
    })
}
