//! The construction of DataFusion's physical plan for a shape.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::{DataFusionError, JoinType, NullEquality, Result, ScalarValue};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{CastExpr, Column as ColumnExpr, lit};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use fencepost_sql::bound::{Aggregate, AggregateKind, Grouping, JoinKind, Node};
use fencepost_sql::types::TypeKind;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::columns::name;
use super::form::Form;
use super::shape::{Column, GroupShape, key_column};
use crate::plan::{Join, JoinMethod, Source};

/// The number of batches that a leaf requests in advance.
const AHEAD: usize = 2;

/// A message from DataFusion's threads to the session.
pub enum Event {
    /// The leaf with this number needs its next batch.
    Wants(usize),
    /// The session must compute the keys and arguments of these rows.
    Compute(RecordBatch),
    /// A batch of the result.
    Rows(RecordBatch),
    /// The plan has ended, or failed.
    Over(Result<()>),
}

/// A plan, and the columns that it returns.
pub struct PlannedInput {
    pub plan: Arc<dyn ExecutionPlan>,
    pub columns: Vec<Column>,
    /// The estimated number of rows.
    rows: f64,
}

/// The receiver of a leaf's batches.
pub type Batches = mpsc::UnboundedReceiver<RecordBatch>;

/// A leaf: its columns, their Arrow schema, the receiver of its batches, and the estimated number
/// of rows.
pub struct LeafPlan {
    pub columns: Vec<Column>,
    pub schema: SchemaRef,
    pub batches: Batches,
    pub rows: f64,
}

/// Builds the joins of `source` over the leaves, which come in the order of its scans.
pub fn joins(
    source: &Source,
    leaves: &mut impl Iterator<Item = LeafPlan>,
    (events, next): (&mpsc::Sender<Event>, &mut usize),
) -> Result<PlannedInput> {
    match source {
        Source::Scan(_) => {
            let Some(leaf) = leaves.next() else {
                return Err(internal("a scan without its leaf"));
            };
            let number = *next;
            *next += 1;
            let stream = LeafStream {
                number,
                schema: leaf.schema,
                events: events.clone(),
                batches: Mutex::new(Some(leaf.batches)),
            };
            Ok(PlannedInput {
                plan: streaming(stream)?,
                columns: leaf.columns,
                rows: leaf.rows,
            })
        }
        Source::Join(join) => {
            let left = joins(&join.left, leaves, (events, &mut *next))?;
            let right = joins(&join.right, leaves, (events, next))?;
            hash_join(join, left, right)
        }
        _ => Err(internal("neither a scan nor a join")),
    }
}

/// Builds a hash join. The side with the smaller estimate is kept in memory.
fn hash_join(join: &Join, left: PlannedInput, right: PlannedInput) -> Result<PlannedInput> {
    let JoinMethod::Hash {
        left_keys,
        right_keys,
    } = &join.method
    else {
        return Err(internal("not a hash join"));
    };
    let turned = right.rows <= left.rows;
    let (build, build_keys, probe, probe_keys) = match turned {
        true => (right, right_keys, left, left_keys),
        false => (left, left_keys, right, right_keys),
    };
    let kind = match (join.kind, turned) {
        (JoinKind::Inner, _) => JoinType::Inner,
        (JoinKind::Full, _) => JoinType::Full,
        // The rows of the left side are preserved, whichever side it becomes.
        (JoinKind::Left, false) | (JoinKind::Right, true) => JoinType::Left,
        (JoinKind::Left, true) | (JoinKind::Right, false) => JoinType::Right,
    };
    let key = |given: &PlannedInput, expr| {
        let slot = key_column(expr).map(|column| column.slot);
        let at = given.columns.iter().position(|c| Some(c.slot) == slot);
        at.map(|at| column(&given.plan.schema(), at))
            .ok_or_else(|| internal("no such key"))
    };
    let mut on = Vec::with_capacity(build_keys.len());
    for (a, b) in build_keys.iter().zip(probe_keys) {
        on.push((key(&build, a)?, key(&probe, b)?));
    }
    let exec = HashJoinExec::try_new(
        build.plan,
        probe.plan,
        on,
        None,
        &kind,
        None,
        PartitionMode::CollectLeft,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    let mut columns = build.columns;
    columns.extend(probe.columns);
    Ok(PlannedInput {
        plan: Arc::new(exec),
        columns,
        rows: build.rows.max(probe.rows),
    })
}

/// Returns a plan for the keys and arguments of the rows of `input`, which the session computes.
pub fn computed(
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    events: mpsc::Sender<Event>,
    batches: Batches,
) -> Result<Arc<dyn ExecutionPlan>> {
    streaming(WorkStream {
        input,
        schema,
        events,
        batches: Mutex::new(Some(batches)),
    })
}

/// Returns a plan for the groups of `input`, which has the group keys, followed by the aggregate
/// arguments.
pub fn grouped(
    input: Arc<dyn ExecutionPlan>,
    grouping: &Grouping,
    shape: &GroupShape,
) -> Result<Arc<dyn ExecutionPlan>> {
    let keys = shape.keys.len();
    let args = (keys..).zip(&shape.args);
    let schema = input.schema();
    let args = args
        .map(|(at, form)| (column(&schema, at), *form))
        .collect();
    let keys = (0..keys).map(|at| column(&schema, at)).collect();
    aggregation(input, keys, args, grouping)
}

/// Returns a plan for the groups of joined rows, if all keys and arguments are columns of them.
pub fn grouped_columns(
    input: PlannedInput,
    grouping: &Grouping,
    shape: &GroupShape,
) -> Result<Arc<dyn ExecutionPlan>> {
    let at = |expr: &fencepost_sql::bound::Expr| {
        let place = match expr.node {
            Node::Column(slot) => input.columns.iter().position(|c| c.slot == slot),
            _ => None,
        };
        place.ok_or_else(|| internal("no such column"))
    };
    let schema = input.plan.schema();
    let mut keys = Vec::new();
    for key in &grouping.keys {
        keys.push(column(&schema, at(key)?));
    }
    let mut args = Vec::new();
    for (aggregate, form) in grouping.aggregates.iter().zip(&shape.args) {
        let arg = match aggregate.args.first() {
            None => lit(ScalarValue::Boolean(Some(true))),
            Some(arg) => {
                let at = at(arg)?;
                match (input.columns[at].form, form) {
                    (Form::Int, Form::Decimal(_)) => {
                        Arc::new(CastExpr::new(column(&schema, at), form.data_type(), None)) as _
                    }
                    _ => column(&schema, at),
                }
            }
        };
        args.push((arg, *form));
    }
    aggregation(input.plan, keys, args, grouping)
}

type Expr = Arc<dyn PhysicalExpr>;

fn aggregation(
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Expr>,
    args: Vec<(Expr, Form)>,
    grouping: &Grouping,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let named = keys.into_iter().enumerate();
    let group_by = PhysicalGroupBy::new_single(named.map(|(nth, key)| (key, name(nth))).collect());
    let mut calls = Vec::new();
    for (aggregate, (arg, _)) in grouping.aggregates.iter().zip(args) {
        for function in functions(aggregate)? {
            let call = AggregateExprBuilder::new(function, vec![Arc::clone(&arg)])
                .schema(Arc::clone(&schema))
                .alias(format!("a{}", calls.len()))
                .build()?;
            calls.push(Arc::new(call) as Arc<AggregateFunctionExpr>);
        }
    }
    let filters = vec![None; calls.len()];
    let mode = AggregateMode::Single;
    let exec = AggregateExec::try_new(mode, group_by, calls, filters, input, schema)?;
    Ok(Arc::new(exec))
}

/// Returns the DataFusion functions that compute an aggregate.
fn functions(aggregate: &Aggregate) -> Result<Vec<Arc<AggregateUDF>>> {
    Ok(match aggregate.kind {
        AggregateKind::CountStar | AggregateKind::Count => vec![count_udaf()],
        AggregateKind::Sum => vec![sum_udaf()],
        AggregateKind::Avg => vec![sum_udaf(), count_udaf()],
        AggregateKind::Min => vec![min_udaf()],
        AggregateKind::Max => vec![max_udaf()],
        _ => return Err(internal("not an aggregate of DataFusion's")),
    })
}

/// Returns the form of a sum: a bigint if the argument is a smaller integer.
pub fn sum_form(aggregate: &Aggregate, arg: Form) -> Form {
    match aggregate.args.first().map(|arg| arg.ty.kind) {
        Some(TypeKind::Int2 | TypeKind::Int4) => Form::Int,
        _ => arg,
    }
}

fn column(schema: &SchemaRef, at: usize) -> Expr {
    Arc::new(ColumnExpr::new(schema.field(at).name(), at))
}

fn streaming(stream: impl PartitionStream + 'static) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::clone(stream.schema());
    let exec = StreamingTableExec::try_new(schema, vec![Arc::new(stream)], None, [], false, None)?;
    Ok(Arc::new(exec))
}

/// A scan as a source of DataFusion.
struct LeafStream {
    number: usize,
    schema: SchemaRef,
    events: mpsc::Sender<Event>,
    batches: Mutex<Option<Batches>>,
}

impl fmt::Debug for LeafStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan {}", self.number)
    }
}

impl PartitionStream for LeafStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (events, number) = (self.events.clone(), self.number);
        let start = (self.batches.lock().take(), false);
        let stream = futures_util::stream::unfold(start, move |(batches, begun)| {
            let events = events.clone();
            async move {
                let mut batches = batches?;
                let wanted = if begun { 1 } else { AHEAD };
                for _ in 0..wanted {
                    // If the session has dropped the receiver, no batch will arrive either.
                    let _ = events.send(Event::Wants(number)).await;
                }
                let batch = batches.recv().await?;
                Some((Ok(batch), (Some(batches), true)))
            }
        });
        adapted(&self.schema, stream)
    }
}

/// The session's computation as a source of DataFusion.
struct WorkStream {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    events: mpsc::Sender<Event>,
    batches: Mutex<Option<Batches>>,
}

impl fmt::Debug for WorkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys and arguments")
    }
}

impl PartitionStream for WorkStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let events = self.events.clone();
        let input = self.input.execute(0, context);
        let start = self.batches.lock().take().map(|batches| (input, batches));
        let stream = futures_util::stream::unfold(start, move |state| {
            let events = events.clone();
            async move {
                let (input, mut batches) = state?;
                let mut input = match input {
                    Ok(input) => input,
                    Err(error) => return Some((Err(error), None)),
                };
                match input.next().await? {
                    Ok(batch) => {
                        let _ = events.send(Event::Compute(batch)).await;
                        let batch = batches.recv().await?;
                        Some((Ok(batch), Some((Ok(input), batches))))
                    }
                    Err(error) => Some((Err(error), None)),
                }
            }
        });
        adapted(&self.schema, stream)
    }
}

fn adapted(
    schema: &SchemaRef,
    stream: impl futures_util::Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), stream))
}

fn internal(what: &str) -> DataFusionError {
    DataFusionError::Internal(what.to_owned())
}
