//! INSERT.

use std::sync::Arc;

use fencepost_sql::bound::{self, ConflictUpdate, Expr, Target};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::change::finish;
use super::foreign_key_actions::ForeignKeyActions;
use super::references::References;
use super::returning::Returning;
use super::rows::{Inserted, RowWriter, Yield};
use super::rules::{check_views, generate};
use super::triggers::{PendingTriggers, StatementEvent};
use super::upsert::{Upsert, UpsertOutcome};
use crate::build::plan_select;
use crate::context::PlanContext;
use crate::exec::{Batch, Cx, SelectState};
use crate::home::HomeKey;
use crate::plan::{SelectPlan, TablePlan};
use crate::subplans::{Subplans, any_deep};

const CHUNK: usize = 1024;

/// The plan of an INSERT.
#[derive(Debug)]
pub struct InsertPlan {
    /// The table that receives the rows.
    pub table: Arc<TablePlan>,
    /// The foreign keys that the rows may affect.
    pub references: Option<Arc<References>>,
    /// The rows.
    pub source: InsertSource,
    /// The unique indexes of ON CONFLICT.
    pub yields: Yield,
    /// The action of ON CONFLICT DO UPDATE.
    pub update: Option<ConflictUpdate>,
    /// RETURNING.
    pub returning: Vec<Target>,
    /// How to find the home partition.
    pub home: Option<HomeKey>,
    /// The subqueries in its expressions.
    pub queries: Option<Arc<Subplans>>,
    /// Whether VALUES contains subqueries.
    deep_rows: bool,
    /// Whether RETURNING contains subqueries.
    deep_returning: bool,
    /// Whether RETURNING reads `xmax`, which shows whether the row existed before.
    asks_before: bool,
}

/// The source of the rows.
#[derive(Debug)]
pub enum InsertSource {
    /// VALUES: the expressions of each row.
    Values(Vec<Vec<Expr>>),
    /// A query.
    Select {
        /// The query.
        plan: Box<SelectPlan>,
        /// The expression for each column, over the query's row.
        row: Vec<Expr>,
        /// Whether the query reads the target table. If so, all its rows are produced first.
        reads_target: bool,
    },
}

/// Plans `insert`.
pub fn plan_insert(insert: bound::Insert, cx: PlanContext<'_>) -> InsertPlan {
    let source = match insert.source {
        bound::InsertSource::Values(rows) => InsertSource::Values(rows),
        bound::InsertSource::Select { select, row } => {
            let plan = Box::new(plan_select(*select, cx));
            let mut reads_target = false;
            plan.for_each_table(&mut |t| reads_target |= t.def.id == insert.table.id);
            // A trigger may write to any table that the query reads.
            reads_target |= insert.integrity.rules.all_triggers().next().is_some();
            InsertSource::Select {
                plan,
                row,
                reads_target,
            }
        }
    };
    let (yields, update) = match insert.on_conflict {
        None => (Yield::Never, None),
        Some(conflict) => (
            conflict.index.map_or(Yield::Any, Yield::Index),
            conflict.update,
        ),
    };
    let deep_rows = match &source {
        InsertSource::Values(rows) => any_deep(rows.iter().flatten()),
        InsertSource::Select { .. } => false,
    };
    let table = TablePlan::written(&insert.table, insert.integrity.rules);
    let width = table.layout.width();
    let mut asks_before = false;
    for target in &insert.returning {
        let expr = &target.expr;
        expr.for_each_column(&mut |slot| asks_before |= slot == width);
    }
    InsertPlan {
        deep_rows,
        table: Arc::new(table),
        references: References::of(insert.integrity.related),
        source,
        yields,
        deep_returning: any_deep(insert.returning.iter().map(|t| &t.expr)),
        asks_before,
        update,
        returning: insert.returning,
        home: None,
        queries: None,
    }
}

impl InsertPlan {
    /// Makes the plan produce all rows of its query before it inserts the first.
    pub fn make_rows_first(&mut self) {
        if let InsertSource::Select { reads_target, .. } = &mut self.source {
            *reads_target = true;
        }
    }

    /// Sets its subqueries in expressions, which may read the target table.
    pub fn set_queries(&mut self, queries: Option<Arc<Subplans>>) {
        if let (InsertSource::Select { reads_target, .. }, Some(queries)) =
            (&mut self.source, &queries)
        {
            let target = self.table.def.id;
            queries.for_each_table(&mut |t| *reads_target |= t.def.id == target);
        }
        self.queries = queries;
    }
}

/// Runs the INSERT. Returns the number of rows inserted or updated.
pub async fn run_insert(
    plan: &InsertPlan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, StatementStop> {
    let mut inserter = Inserter {
        writer: RowWriter::default(),
        actions: plan.references.as_ref().map(ForeignKeyActions::new),
        triggers: PendingTriggers::of(&plan.table),
        upsert: Upsert::default(),
    };
    if let Some(triggers) = &mut inserter.triggers {
        Box::pin(begin(plan, triggers, cx)).await?;
    }
    let width = plan.table.layout.width();
    let mut row = vec![Value::Null; width + usize::from(plan.asks_before)];
    match &plan.source {
        InsertSource::Values(rows) if plan.deep_rows => {
            let mut count = 0;
            // The subqueries see the table as it was before the first row is inserted.
            let mut all = Batch::new(width);
            for exprs in rows {
                cx.breathe().await?;
                let mut values = Vec::with_capacity(width);
                for expr in exprs {
                    values.push(cx.deep_value(expr, &[]).await?);
                }
                for (slot, value) in all.push().iter_mut().zip(values) {
                    *slot = value;
                }
            }
            for i in 0..all.len() {
                cx.breathe().await?;
                row[..width].clone_from_slice(all.row(i));
                count += inserter.put(plan, cx, &mut row, returning).await?;
            }
            inserter.finish(plan, cx).await?;
            Ok(count)
        }
        InsertSource::Values(rows) => {
            let mut count = 0;
            for exprs in rows {
                cx.breathe().await?;
                let values = (exprs.as_slice(), [].as_slice());
                let inserted = inserter.one(plan, cx, values, &mut row, returning);
                count += inserted.await?;
            }
            inserter.finish(plan, cx).await?;
            Ok(count)
        }
        InsertSource::Select {
            plan: select,
            row: exprs,
            reads_target,
        } => {
            // A trigger finds the inserted rows through their index entries.
            if plan.yields == Yield::Never && inserter.triggers.is_none() {
                inserter.writer = RowWriter::of_many();
            }
            let mut state = SelectState::new(select);
            let mut batch = Batch::new(select.targets.len());
            let mut more = true;
            let mut count = 0;
            // A default expression, for example, may call a user-defined function.
            let calls = exprs.iter().any(Expr::has_subquery);
            while more {
                if *reads_target {
                    while state.next(select, cx, &mut batch, CHUNK).await? {}
                    more = false;
                } else {
                    batch.clear();
                    more = state.next(select, cx, &mut batch, CHUNK).await?;
                }
                for i in 0..batch.len() {
                    cx.breathe().await?;
                    let values = (exprs.as_slice(), &batch.row(i)[..select.visible]);
                    if calls {
                        Box::pin(called(values, cx, &mut row)).await?;
                        count += inserter.put(plan, cx, &mut row, returning).await?;
                        continue;
                    }
                    let inserted = inserter.one(plan, cx, values, &mut row, returning);
                    count += inserted.await?;
                }
            }
            inserter.finish(plan, cx).await?;
            Ok(count)
        }
    }
}

/// Stores the values of expressions that call user-defined functions in a row.
async fn called(
    (exprs, from): (&[Expr], &[Value]),
    cx: &mut Cx<'_>,
    row: &mut [Value],
) -> Result<(), StatementStop> {
    for (slot, expr) in row.iter_mut().zip(exprs) {
        *slot = cx.deep_value(expr, from).await?;
    }
    Ok(())
}

/// The state that an INSERT keeps from row to row.
struct Inserter {
    writer: RowWriter,
    actions: Option<ForeignKeyActions>,
    triggers: Option<PendingTriggers>,
    upsert: Upsert,
}

/// Fires the BEFORE STATEMENT triggers.
async fn begin(
    plan: &InsertPlan,
    triggers: &mut PendingTriggers,
    cx: &mut Cx<'_>,
) -> Result<(), StatementStop> {
    triggers
        .begin(cx, &plan.table, StatementEvent::INSERT)
        .await?;
    let Some(update) = &plan.update else {
        return Ok(());
    };
    let set: Vec<usize> = update.assignments.iter().map(|a| a.column).collect();
    triggers
        .begin(cx, &plan.table, StatementEvent::update(&set))
        .await
}

/// Returns a 32-bit number for `xmax` of an existing row that this transaction has changed. It
/// distinguishes transactions as far as 32 bits can.
fn xmax_of(cx: &Cx<'_>) -> u32 {
    (cx.tx.read_timestamp().raw() as u32).max(1)
}

impl Inserter {
    /// Inserts one row, given as expressions over `from`.
    async fn one(
        &mut self,
        plan: &InsertPlan,
        cx: &mut Cx<'_>,
        (exprs, from): (&[Expr], &[Value]),
        row: &mut [Value],
        returning: &mut Returning<'_>,
    ) -> Result<u64, StatementStop> {
        for (slot, expr) in row.iter_mut().zip(exprs) {
            *slot = cx.value(expr, from).await?;
        }
        self.put(plan, cx, row, returning).await
    }

    /// Inserts a row. If RETURNING reads `xmax`, the row has one more slot for it.
    async fn put(
        &mut self,
        plan: &InsertPlan,
        cx: &mut Cx<'_>,
        buffer: &mut [Value],
        returning: &mut Returning<'_>,
    ) -> Result<u64, StatementStop> {
        let table = &plan.table;
        let row = &mut buffer[..table.layout.width()];
        let mut put = UpsertOutcome::Inserted;
        if table.def.is_view() {
            return Box::pin(self.put_instead(plan, cx, row, returning)).await;
        }
        if let Some(triggers) = &mut self.triggers {
            let before =
                triggers.before(cx, table, StatementEvent::INSERT, (None, Some(&mut *row)));
            if !Box::pin(before).await? {
                return Ok(0);
            }
        }
        generate(cx, table, row).await?;
        if let (Yield::Index(index), Some(update)) = (plan.yields, &plan.update) {
            let at = (table, index);
            let observers = (&mut self.actions, &mut self.triggers);
            let (writer, rest) = (&mut self.writer, (&mut *row, observers));
            put = Box::pin(self.upsert.put(cx, at, update, writer, rest)).await?;
            if put == UpsertOutcome::Neither {
                return Ok(0);
            }
        } else {
            match self.writer.insert(cx, table, row, plan.yields).await? {
                Inserted::Conflict => return Ok(0),
                Inserted::Done => {
                    if let Some(actions) = &mut self.actions {
                        Box::pin(actions.inserted(cx, row)).await?;
                    }
                    if let Some(triggers) = &mut self.triggers {
                        triggers
                            .after(cx, table, StatementEvent::INSERT, (None, Some(row)))
                            .await?;
                    }
                }
            }
        }
        if !table.rules.views.is_empty() {
            Box::pin(check_views(cx, table, row)).await?;
        }
        if let Some(xmax) = buffer.get_mut(table.layout.width()) {
            *xmax = Value::Oid(match put {
                UpsertOutcome::Updated => xmax_of(cx),
                UpsertOutcome::Inserted | UpsertOutcome::Neither => 0,
            });
        }
        match plan.deep_returning {
            true => Box::pin(returning.deep_row(&plan.returning, cx, buffer)).await?,
            false => returning.row(&plan.returning, cx, buffer).await?,
        }
        Ok(1)
    }

    /// Inserts a row into a view through its INSTEAD OF triggers.
    async fn put_instead(
        &mut self,
        plan: &InsertPlan,
        cx: &mut Cx<'_>,
        row: &mut [Value],
        returning: &mut Returning<'_>,
    ) -> Result<u64, StatementStop> {
        let table = &plan.table;
        let Some(triggers) = &mut self.triggers else {
            return Err(SqlError::internal("a view without triggers").into());
        };
        let rows = (None, Some(&mut *row));
        if !triggers
            .instead(cx, table, StatementEvent::INSERT, rows)
            .await?
        {
            return Ok(0);
        }
        check_views(cx, table, row).await?;
        returning.deep_row(&plan.returning, cx, row).await?;
        Ok(1)
    }

    /// Ends the statement, after all rows are inserted.
    async fn finish(&mut self, plan: &InsertPlan, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        self.writer.finish(cx, &plan.table).await?;
        finish(&mut self.actions, &mut self.triggers, cx).await
    }
}
