//! The execution of a SELECT through DataFusion, on the session's side.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::DataFusionError;
use datafusion_physical_plan::ExecutionPlan;
use fencepost_sql::bound::{AggregateKind, Expr, Grouping};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::partial_sum;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_txn::Stop;
use tokio::sync::mpsc;

use super::arrow_feed::{Columns, Leaf, Work, given};
use super::columns::ResultColumn;
use super::cost_choice::{PASSING, for_each_scan, scan_sizes};
use super::engine::{self, Task};
use super::form::Form;
use super::operators::{self, Event, LeafPlan, sum_form};
use super::pool::Pool;
use super::shape::{Column, GroupShape, Shape};
use crate::exec::{Batch, Cx, Groups};
use crate::plan::{Scan, Source};

/// The maximal number of events that wait for the session.
const EVENTS: usize = 8;

/// A SELECT that runs through DataFusion, or has not begun.
#[derive(Default)]
pub struct AnalyticExecution {
    live: Option<Box<StartedExecution>>,
    /// The current batch of the result, and the position of its next row.
    page: Option<(RecordBatch, usize)>,
}

/// The state of a SELECT that has begun.
struct StartedExecution {
    events: mpsc::Receiver<Event>,
    leaves: Vec<(Leaf, Option<mpsc::UnboundedSender<RecordBatch>>)>,
    work: Option<(Work, mpsc::UnboundedSender<RecordBatch>)>,
    /// The columns of joined rows.
    columns: Vec<Column>,
    pool: Arc<Pool>,
    _task: Task,
}

/// The grouping and filter that the session evaluates above the joins.
type SessionGrouping<'a> = Option<(&'a Grouping, &'a GroupShape, Option<&'a Expr>)>;

impl AnalyticExecution {
    /// Adds about `max` joined rows to `out`. Returns false when no more rows follow.
    pub async fn rows(
        &mut self,
        source: (&Source, &Shape),
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let mut left = max;
        loop {
            if let (Some((batch, at)), Some(live)) = (&mut self.page, &self.live) {
                let columns = given(batch, &live.columns)?;
                let end = batch.num_rows().min(*at + left);
                for row in *at..end {
                    let slots = out.push();
                    for (place, column) in live.columns.iter().zip(&columns) {
                        slots[place.slot] = column.value(row, place.kind)?;
                    }
                }
                left -= end - *at;
                *at = end;
                if left == 0 {
                    return Ok(true);
                }
            }
            let mut live = match self.live.take() {
                Some(live) => live,
                None => Box::new(StartedExecution::begin(source, cx, None).await?),
            };
            match live.next(source.0, cx, None).await? {
                Some(batch) => self.page = Some((batch, 0)),
                None => return Ok(false),
            }
            self.live = Some(live);
        }
    }

    /// Aggregates the rows that pass `filter`, and adds the results to `groups`.
    pub async fn group(
        &self,
        source: (&Source, &Shape),
        filter: Option<&Expr>,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        groups: &mut Groups,
    ) -> Result<(), StatementStop> {
        let groups_of = || SqlError::internal("groups that are not DataFusion's");
        let shape = source.1.groups_with(grouping, cx.params());
        let shape = &shape.ok_or_else(groups_of)?;
        let above = Some((grouping, shape, filter));
        let mut live = StartedExecution::begin(source, cx, above).await?;
        let mut values = Vec::new();
        while let Some(batch) = live.next(source.0, cx, above).await? {
            values.clear();
            let width = partials(&batch, grouping, shape, &mut values)?;
            groups.merge(grouping, cx, (&values, width)).await?;
        }
        Ok(())
    }
}

impl StartedExecution {
    async fn begin(
        (source, shape): (&Source, &Shape),
        cx: &mut Cx<'_>,
        above: SessionGrouping<'_>,
    ) -> Result<StartedExecution, StatementStop> {
        let mut sizes = Vec::new();
        scan_sizes(source, cx.tx.machine(), &mut sizes).await?;
        let (sender, events) = mpsc::channel(EVENTS);
        let mut leaves = Vec::new();
        let mut plans = Vec::new();
        let lone = above.filter(|_| matches!(source, Source::Scan(_)));
        for_each_scan(source, &mut |scan| {
            let own = |column: &&Column| is_of(column, scan);
            let columns = match lone {
                Some((_, groups, _)) => Columns::of_groups(groups),
                None => Columns::of_slots(shape.columns.iter().filter(own)),
            };
            let (batches, receiver) = mpsc::unbounded_channel();
            let size = sizes.get(plans.len()).copied().unwrap_or(0.0);
            plans.push(LeafPlan {
                columns: shape.columns.iter().filter(own).copied().collect(),
                schema: Arc::clone(columns.schema()),
                batches: receiver,
                rows: match scan.filter.is_some() {
                    true => size * PASSING,
                    false => size,
                },
            });
            leaves.push((Leaf::new(columns, shape.width), Some(batches)));
        });
        // Each join has a hash table, and the grouping.
        let bytes_max = cx.eval.settings.work_memory.hash_bytes();
        let bytes_max = bytes_max.saturating_mul(leaves.len());
        let pool = Arc::new(Pool::new(cx.tx.machine(), bytes_max));
        let built = build(source, shape, above, (plans, &sender)).map_err(|e| failed(&e, &pool))?;
        let task = engine::run(built.plan, &pool, sender).map_err(|e| failed(&e, &pool))?;
        Ok(StartedExecution {
            events,
            leaves,
            work: built.work,
            columns: built.columns,
            pool,
            _task: task,
        })
    }

    /// Returns the next batch of the result. Until it arrives, serves DataFusion's requests.
    async fn next(
        &mut self,
        source: &Source,
        cx: &mut Cx<'_>,
        above: SessionGrouping<'_>,
    ) -> Result<Option<RecordBatch>, StatementStop> {
        loop {
            cx.breathe().await?;
            match self.events.recv().await {
                Some(Event::Rows(batch)) => return Ok(Some(batch)),
                Some(Event::Wants(number)) => self.feed(number, source, cx, above).await?,
                Some(Event::Compute(batch)) => {
                    if let (Some((work, batches)), Some((grouping, _, filter))) =
                        (&mut self.work, above)
                    {
                        let what = (grouping, filter);
                        let made = work.compute(&batch, &self.columns, cx, what).await?;
                        // The plan may have been dropped; ignore the send error.
                        let _ = batches.send(made);
                    }
                }
                Some(Event::Over(Ok(()))) => return Ok(None),
                Some(Event::Over(Err(error))) => return Err(failed(&error, &self.pool)),
                None => return Err(SqlError::internal("DataFusion has given up").into()),
            }
        }
    }

    /// Sends a leaf its next batch. After the last one, closes its channel.
    async fn feed(
        &mut self,
        number: usize,
        source: &Source,
        cx: &mut Cx<'_>,
        above: SessionGrouping<'_>,
    ) -> Result<(), StatementStop> {
        let mut scans = Vec::new();
        for_each_scan(source, &mut |scan| scans.push(scan));
        let (Some(scan), Some((leaf, batches))) = (scans.get(number), self.leaves.get_mut(number))
        else {
            return Err(SqlError::internal("no such scan").into());
        };
        // If there is a single scan, the keys and arguments are computed here.
        let (grouping, filter) = match source {
            Source::Scan(_) => above.map_or((None, None), |(g, _, filter)| (Some(g), filter)),
            _ => (None, None),
        };
        match leaf.next(scan, cx, grouping, filter).await? {
            Some(batch) => {
                if let Some(batches) = batches {
                    let _ = batches.send(batch);
                }
            }
            None => *batches = None,
        }
        Ok(())
    }
}

fn is_of(column: &Column, scan: &Scan) -> bool {
    let width = scan.table.def.columns.len();
    (scan.first_slot..scan.first_slot + width).contains(&column.slot)
}

/// A plan, and the session's part of it.
struct PhysicalPlan {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<Column>,
    work: Option<(Work, mpsc::UnboundedSender<RecordBatch>)>,
}

fn build(
    source: &Source,
    shape: &Shape,
    above: SessionGrouping<'_>,
    (leaves, events): (Vec<LeafPlan>, &mpsc::Sender<Event>),
) -> Result<PhysicalPlan, DataFusionError> {
    let joined = operators::joins(source, &mut leaves.into_iter(), (events, &mut 0))?;
    let columns = joined.columns.clone();
    let mut work = None;
    let plan = match above {
        Some((grouping, groups, _)) => match source {
            Source::Scan(_) => operators::grouped(joined.plan, grouping, groups)?,
            _ if !groups.computed => operators::grouped_columns(joined, grouping, groups)?,
            _ => {
                let made = Work::new(groups, shape.width);
                let schema = Arc::clone(made.schema());
                let (batches, receiver) = mpsc::unbounded_channel();
                work = Some((made, batches));
                let input = operators::computed(joined.plan, schema, events.clone(), receiver)?;
                operators::grouped(input, grouping, groups)?
            }
        },
        None => joined.plan,
    };
    Ok(PhysicalPlan {
        plan,
        columns,
        work,
    })
}

/// Appends the keys and partial aggregates of groups to `out`, side by side. Returns the number of
/// values of a group.
fn partials(
    batch: &RecordBatch,
    grouping: &Grouping,
    shape: &GroupShape,
    out: &mut Vec<Value>,
) -> Result<usize, SqlError> {
    let mut columns = batch.columns().iter();
    let mut next = |form| match columns.next() {
        Some(array) => ResultColumn::of(&**array, form),
        None => Err(SqlError::internal("a column is missing")),
    };
    let mut parts = Vec::new();
    for (key, form) in grouping.keys.iter().zip(&shape.keys) {
        parts.push((next(*form)?, GroupColumn::Value(key.ty.kind)));
    }
    for (aggregate, form) in grouping.aggregates.iter().zip(&shape.args) {
        let count = GroupColumn::Value(TypeKind::Int8);
        match aggregate.kind {
            AggregateKind::CountStar | AggregateKind::Count => {
                parts.push((next(Form::Int)?, count))
            }
            AggregateKind::Sum | AggregateKind::Avg => {
                let sum = sum_form(aggregate, *form);
                let small = aggregate.kind == AggregateKind::Sum && sum == Form::Int;
                let part = if small { count } else { GroupColumn::Sum };
                parts.push((next(sum)?, part));
                if aggregate.kind == AggregateKind::Avg {
                    parts.push((next(Form::Int)?, count));
                }
            }
            _ => parts.push((next(*form)?, GroupColumn::Value(aggregate.ty.kind))),
        }
    }
    for row in 0..batch.num_rows() {
        for (column, part) in &parts {
            out.push(match part {
                GroupColumn::Value(kind) => column.value(row, *kind)?,
                GroupColumn::Sum => column.digits(row)?.map_or(Value::Null, partial_sum),
            });
        }
    }
    Ok(parts.len())
}

/// The content of a column of groups.
#[derive(Clone, Copy)]
enum GroupColumn {
    /// Values of a type.
    Value(TypeKind),
    /// Sums that may have more digits than any value.
    Sum,
}

/// Converts an error of DataFusion.
fn failed(error: &DataFusionError, pool: &Pool) -> StatementStop {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => Stop::OutOfMemory.into(),
        _ if pool.has_refused() => Stop::OutOfMemory.into(),
        other => SqlError::internal(format!("DataFusion: {other}")).into(),
    }
}
