//! The execution of sources: one future for each batch, for every kind of source.

use std::future::ready;
use std::sync::Arc;

use fencepost_sql::bound::{Expr, Node, TableFunction};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::Series;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::Work;

use super::batch::Batch;
use super::cx::Cx;
use super::join::JoinState;
use super::recursive::RecursiveState;
use super::rows::Rows;
use super::scan::ScanState;
use super::select::SelectState;
use super::set::SetState;
use super::{sequence, status, system};
use crate::analytics::AnalyticExecution;
use crate::plan::Source;
use crate::slots::Slots;
use crate::subplans::any_deep;

/// The future of a batch; it yields true if more rows may follow.
pub type NextBatch<'a> = Work<'a, Result<bool, StatementStop>>;

/// The state of a source. It mirrors the plan, which is passed to every call.
pub enum SourceState {
    /// One row without columns; true until it is returned.
    One(bool),
    /// A scan.
    Scan(Box<ScanState>),
    /// The position of the next row of VALUES.
    Values(usize),
    /// The position of the next row of VALUES with subqueries.
    DeepValues(usize),
    /// The state of `generate_series`.
    Series(Option<Series>),
    /// The elements of arrays.
    Rows(Option<Rows>),
    /// The remaining rows of a user-defined function, and the number of the previous row.
    Routine(Option<std::vec::IntoIter<Vec<Value>>>, i64),
    /// `txid_status`; true until its row is returned.
    Status(bool),
    /// The state of a sequence; true until its row is returned.
    Sequence(bool),
    /// The remaining rows of a system table, in reverse order.
    System(Option<Vec<Vec<Value>>>),
    /// A subquery and its last batch.
    Subquery(Box<SelectState>, Batch),
    /// A set operation.
    Set(Box<SetState>),
    /// The position of the next row of a WITH query.
    Cte(usize),
    /// A recursive query.
    Recursive(Box<RecursiveState>),
    /// A work table, and the position of its next row.
    Work(Option<Arc<Batch>>, usize),
    /// A source that reads outer slots, and whether it has started.
    Lateral(Box<SourceState>, bool),
    /// A join.
    Join(Box<JoinState>),
    /// A filtered source.
    Filter(Box<SourceState>),
    /// Scans and joins that run on DataFusion's operators.
    Analytics(Box<AnalyticExecution>),
}

impl SourceState {
    /// Creates the state before the first row.
    pub fn new(source: &Source, width: usize) -> SourceState {
        match source {
            Source::One => SourceState::One(true),
            Source::Scan(_) => SourceState::Scan(Box::default()),
            Source::Values { rows, .. } => match any_deep(rows.iter().flatten()) {
                true => SourceState::DeepValues(0),
                false => SourceState::Values(0),
            },
            Source::Function { function, .. } => match function {
                TableFunction::GenerateSeries => SourceState::Series(None),
                TableFunction::TxidStatus => SourceState::Status(true),
                TableFunction::Sequence => SourceState::Sequence(true),
                TableFunction::Rows { .. } => SourceState::Rows(None),
                TableFunction::Routine { .. } => SourceState::Routine(None, 0),
            },
            Source::System { .. } => SourceState::System(None),
            Source::Subquery { plan, .. } => SourceState::Subquery(
                Box::new(SelectState::new(plan)),
                Batch::new(plan.targets.len()),
            ),
            Source::Set(set) => SourceState::Set(Box::new(SetState::new(set))),
            Source::Cte { .. } => SourceState::Cte(0),
            Source::Recursive(plan) => SourceState::Recursive(Box::new(RecursiveState::new(plan))),
            Source::Work { .. } => SourceState::Work(None, 0),
            Source::Lateral { input, .. } => {
                SourceState::Lateral(Box::new(SourceState::new(input, width)), false)
            }
            Source::Join(join) => SourceState::Join(Box::new(JoinState::new(join, width))),
            Source::Analytics { .. } => SourceState::Analytics(Box::default()),
            Source::Filter { input, .. } => {
                SourceState::Filter(Box::new(SourceState::new(input, width)))
            }
        }
    }

    /// Restarts the source, with keys and outer slots from `row`. Only the columns within `slots`
    /// of `row` are set.
    pub async fn reopen(
        &mut self,
        source: &Source,
        cx: &mut Cx<'_>,
        (row, slots): (&[Value], &Slots),
    ) -> Result<(), StatementStop> {
        match (self, source) {
            (SourceState::Scan(state), Source::Scan(scan)) => state.open(scan, cx, row).await,
            (state, _) => {
                fill_slots(source, cx, (row, slots))?;
                *state = SourceState::new(source, row.len());
                Ok(())
            }
        }
    }

    /// Adds up to `max` rows, or a few more, to `out`. Returns false when no more rows follow.
    pub fn next<'a>(
        &'a mut self,
        source: &'a Source,
        cx: &'a mut Cx<'_>,
        out: &'a mut Batch,
        max: usize,
    ) -> NextBatch<'a> {
        // Each kind has a box of its own size; a source that awaits nothing needs hardly any
        // memory.
        match (self, source) {
            (SourceState::Scan(state), Source::Scan(scan)) => {
                Box::pin(state.next(scan, cx, out, max))
            }
            (SourceState::Join(state), Source::Join(join)) => {
                Box::pin(state.next(join, cx, out, max))
            }
            (
                SourceState::Subquery(state, batch),
                Source::Subquery {
                    plan, first_slot, ..
                },
            ) => Box::pin(async move {
                batch.clear();
                let more = state.next(plan, cx, batch, max).await?;
                for i in 0..batch.len() {
                    let slots = &mut out.push()[*first_slot..];
                    for (slot, value) in slots.iter_mut().zip(&mut batch.row_mut(i)[..plan.visible])
                    {
                        *slot = std::mem::take(value);
                    }
                }
                Ok(more)
            }),
            (SourceState::Set(state), Source::Set(set)) => Box::pin(state.next(set, cx, out, max)),
            (SourceState::Recursive(state), Source::Recursive(plan)) => {
                Box::pin(state.next(plan, cx, out, max))
            }
            (
                SourceState::Cte(at),
                Source::Cte {
                    cte, first_slot, ..
                },
            ) => Box::pin(async move { cx.cte_rows((cte, *first_slot), at, out, max).await }),
            (
                SourceState::Work(rows, at),
                Source::Work {
                    work, first_slot, ..
                },
            ) => {
                if rows.is_none() {
                    let queries = cx.queries.as_ref();
                    *rows = queries.and_then(|queries| queries.works.get(work).cloned());
                }
                let more = rows.as_ref().is_some_and(|rows| {
                    let end = rows.len().min(*at + max);
                    for i in *at..end {
                        let row = rows.row(i);
                        out.push()[*first_slot..][..row.len()].clone_from_slice(row);
                    }
                    *at = end;
                    end < rows.len()
                });
                Box::pin(ready(Ok(more)))
            }
            (SourceState::Lateral(state, begun), Source::Lateral { args, input }) => {
                Box::pin(async move {
                    if !std::mem::replace(begun, true) {
                        cx.fill_slots(args, &[], Slots::NONE)?;
                    }
                    state.next(input, cx, out, max).await
                })
            }
            (SourceState::Filter(state), Source::Filter { input, filter }) => {
                Box::pin(filtered(state, input, filter, cx, out, max))
            }
            (SourceState::Analytics(running), Source::Analytics { input, shape }) => {
                Box::pin(running.rows((&**input, shape), cx, out, max))
            }
            (SourceState::One(left), Source::One) => {
                if std::mem::take(left) {
                    out.push();
                }
                Box::pin(ready(Ok(false)))
            }
            (SourceState::Values(at), Source::Values { rows, first_slot }) => {
                Box::pin(values(at, (rows, *first_slot), cx, out, max))
            }
            (SourceState::DeepValues(at), Source::Values { rows, first_slot }) => {
                Box::pin(deep_values(at, (rows, *first_slot), cx, out, max))
            }
            (
                SourceState::Series(state),
                Source::Function {
                    args, first_slot, ..
                },
            ) => Box::pin(async move {
                let series = match state {
                    Some(series) => series,
                    None => state.insert(start_series(args, cx).await?),
                };
                cx.pause().await?;
                for _ in 0..max {
                    match series.next_value()? {
                        Some(value) => out.push()[*first_slot] = value,
                        None => return Ok(false),
                    }
                }
                Ok(true)
            }),
            (
                SourceState::Rows(state),
                Source::Function {
                    function: TableFunction::Rows { wide, ordinality },
                    args,
                    first_slot,
                },
            ) => Box::pin(async move {
                let rows = match state {
                    Some(rows) => rows,
                    None => state.insert(Rows::open(args, *wide, *ordinality, cx).await?),
                };
                cx.pause().await?;
                Ok(rows.next(*first_slot, out, max))
            }),
            (
                SourceState::Routine(left, number),
                Source::Function {
                    function: TableFunction::Routine { ordinality },
                    args,
                    first_slot,
                },
            ) => Box::pin(async move {
                let left = match left {
                    Some(left) => left,
                    None => left.insert(routine_rows(args, cx).await?.into_iter()),
                };
                cx.pause().await?;
                for row in left.take(max) {
                    let slots = &mut out.push()[*first_slot..];
                    let width = row.len();
                    for (slot, value) in slots.iter_mut().zip(row) {
                        *slot = value;
                    }
                    *number += 1;
                    if *ordinality {
                        slots[width] = Value::Int8(*number);
                    }
                }
                Ok(left.len() > 0)
            }),
            (
                SourceState::Status(left),
                Source::Function {
                    args, first_slot, ..
                },
            ) => Box::pin(async move {
                if std::mem::take(left) {
                    let status = status::of(args, cx).await?;
                    out.push()[*first_slot] = status;
                }
                Ok(false)
            }),
            (
                SourceState::Sequence(left),
                Source::Function {
                    args, first_slot, ..
                },
            ) => Box::pin(async move {
                if std::mem::take(left) {
                    let row = sequence::row(args, cx).await?;
                    for (slot, value) in out.push()[*first_slot..].iter_mut().zip(row) {
                        *slot = value;
                    }
                }
                Ok(false)
            }),
            (SourceState::System(left), Source::System { table, first_slot }) => {
                Box::pin(async move {
                    let left = match left {
                        Some(left) => left,
                        None => {
                            let mut rows = system::rows(*table, cx).await?;
                            rows.reverse();
                            left.insert(rows)
                        }
                    };
                    cx.pause().await?;
                    let from = left.len().saturating_sub(max);
                    for row in left.drain(from..).rev() {
                        let slots = &mut out.push()[*first_slot..];
                        for (slot, value) in slots.iter_mut().zip(row) {
                            *slot = value;
                        }
                    }
                    Ok(!left.is_empty())
                })
            }
            _ => Box::pin(ready(Ok(false))),
        }
    }
}

async fn routine_rows(args: &[Expr], cx: &mut Cx<'_>) -> Result<Vec<Vec<Value>>, StatementStop> {
    match args {
        [
            Expr {
                node: Node::Routine(call),
                ..
            },
        ] => Box::pin(cx.call_rows(call, &[])).await,
        _ => Err(SqlError::internal("a function without its call").into()),
    }
}

async fn values(
    at: &mut usize,
    (rows, first_slot): (&[Vec<Expr>], usize),
    cx: &mut Cx<'_>,
    out: &mut Batch,
    max: usize,
) -> Result<bool, StatementStop> {
    let end = rows.len().min(*at + max);
    for row in &rows[*at..end] {
        cx.breathe().await?;
        let slots = &mut out.push()[first_slot..];
        for (slot, expr) in slots.iter_mut().zip(row) {
            *slot = cx.value(expr, &[]).await?;
        }
    }
    *at = end;
    Ok(end < rows.len())
}

async fn deep_values(
    at: &mut usize,
    (rows, first_slot): (&[Vec<Expr>], usize),
    cx: &mut Cx<'_>,
    out: &mut Batch,
    max: usize,
) -> Result<bool, StatementStop> {
    let end = rows.len().min(*at + max);
    for row in &rows[*at..end] {
        cx.breathe().await?;
        let mut values = Vec::with_capacity(row.len());
        for expr in row {
            values.push(cx.deep_value(expr, &[]).await?);
        }
        for (slot, value) in out.push()[first_slot..].iter_mut().zip(values) {
            *slot = value;
        }
    }
    *at = end;
    Ok(end < rows.len())
}

async fn start_series(args: &[Expr], cx: &mut Cx<'_>) -> Result<Series, StatementStop> {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        values.push(cx.deep_value(arg, &[]).await?);
    }
    Ok(Series::new(&values, &cx.eval.settings.time_zone)?)
}

/// Fills the outer slots that LATERAL sources in `source` read from the sources to their left.
fn fill_slots(
    source: &Source,
    cx: &mut Cx<'_>,
    row: (&[Value], &Slots),
) -> Result<(), StatementStop> {
    match source {
        Source::Lateral { args, .. } => cx.fill_slots(args, row.0, row.1),
        Source::Filter { input, .. } => fill_slots(input, cx, row),
        Source::Join(join) => {
            fill_slots(&join.left, cx, row)?;
            fill_slots(&join.right, cx, row)
        }
        _ => Ok(()),
    }
}

async fn filtered(
    state: &mut SourceState,
    input: &Source,
    filter: &Expr,
    cx: &mut Cx<'_>,
    out: &mut Batch,
    max: usize,
) -> Result<bool, StatementStop> {
    let start = out.len();
    let more = state.next(input, cx, out, max).await?;
    let mut kept = start;
    let deep = filter.has_subquery();
    for i in start..out.len() {
        if cx.is_due() {
            cx.pause().await?;
        }
        let holds = match deep {
            true => cx.deep_holds(Some(filter), out.row(i)).await?,
            false => cx.value(filter, out.row(i)).await?.as_bool() == Some(true),
        };
        if holds {
            out.swap(kept, i);
            kept += 1;
        }
    }
    out.truncate(kept);
    Ok(more)
}
