//! INSERT.

use std::sync::Arc;

use fencepost_sql::bound::{self, Expr, Target};
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;

use super::returning::Returning;
use super::rows::{Inserted, RowWriter, Yield};
use crate::build::plan_select;
use crate::exec::{Batch, Cx, SelectState};
use crate::home::HomeKey;
use crate::plan::{SelectPlan, TablePlan};
use crate::subplans::{Subplans, any_deep};

const CHUNK: usize = 1024;

/// An INSERT.
#[derive(Debug)]
pub struct InsertPlan {
    /// Into this table.
    pub table: Arc<TablePlan>,
    /// The rows.
    pub source: InsertSource,
    /// ON CONFLICT DO NOTHING.
    pub yields: Yield,
    /// RETURNING.
    pub returning: Vec<Target>,
    /// What tells its home.
    pub home: Option<HomeKey>,
    /// Its queries in expressions.
    pub queries: Option<Arc<Subplans>>,
    /// There are queries in RETURNING.
    deep_returning: bool,
}

/// Where the rows come from.
#[derive(Debug)]
pub enum InsertSource {
    /// Expressions, a row each.
    Values(Vec<Vec<Expr>>),
    /// A query.
    Select {
        /// The query.
        plan: Box<SelectPlan>,
        /// What goes into each column, over the query's row.
        row: Vec<Expr>,
        /// The query reads the table it fills: its rows are all made first.
        reads_target: bool,
    },
}

/// The plan of `insert`.
pub fn plan_insert(insert: bound::Insert) -> InsertPlan {
    let source = match insert.source {
        bound::InsertSource::Values(rows) => InsertSource::Values(rows),
        bound::InsertSource::Select { select, row } => {
            let plan = Box::new(plan_select(*select));
            let mut reads_target = false;
            plan.for_each_table(&mut |t| reads_target |= t.def.id == insert.table.id);
            InsertSource::Select {
                plan,
                row,
                reads_target,
            }
        }
    };
    InsertPlan {
        table: Arc::new(TablePlan::new(&insert.table)),
        source,
        yields: match insert.on_conflict {
            None => Yield::Never,
            Some(bound::OnConflict { index: None }) => Yield::Any,
            Some(bound::OnConflict { index: Some(index) }) => Yield::Index(index),
        },
        deep_returning: any_deep(insert.returning.iter().map(|t| &t.expr)),
        returning: insert.returning,
        home: None,
        queries: None,
    }
}

impl InsertPlan {
    /// Notes its queries in expressions, which may read the table it fills.
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

/// Runs the INSERT; the number of rows that went in.
pub async fn run_insert(
    plan: &InsertPlan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, Halt> {
    let mut writer = RowWriter::default();
    let mut row = vec![Value::Null; plan.table.layout.width()];
    match &plan.source {
        InsertSource::Values(rows) if plan.queries.is_some() => {
            let mut count = 0;
            // The queries see the table as it was before the first row goes in.
            let mut all = Batch::new(row.len());
            for exprs in rows {
                let mut values = Vec::with_capacity(row.len());
                for expr in exprs {
                    values.push(cx.deep_value(expr, &[]).await?);
                }
                for (slot, value) in all.push().iter_mut().zip(values) {
                    *slot = value;
                }
            }
            for i in 0..all.len() {
                cx.check_cancel()?;
                count += insert_row(plan, cx, &mut writer, all.row(i), returning).await?;
            }
            Ok(count)
        }
        InsertSource::Values(rows) => {
            let mut count = 0;
            for exprs in rows {
                cx.check_cancel()?;
                count += insert_one(plan, cx, &mut writer, exprs, &[], &mut row, returning).await?;
            }
            Ok(count)
        }
        InsertSource::Select {
            plan: select,
            row: exprs,
            reads_target,
        } => {
            if plan.yields == Yield::Never {
                writer = RowWriter::of_many();
            }
            let mut state = SelectState::new(select);
            let mut batch = Batch::new(select.targets.len());
            let mut more = true;
            let mut count = 0;
            while more {
                if *reads_target {
                    while state.next(select, cx, &mut batch, CHUNK).await? {}
                    more = false;
                } else {
                    batch.clear();
                    more = state.next(select, cx, &mut batch, CHUNK).await?;
                }
                for i in 0..batch.len() {
                    let from = &batch.row(i)[..select.visible];
                    count +=
                        insert_one(plan, cx, &mut writer, exprs, from, &mut row, returning).await?;
                }
            }
            writer.finish(cx, &plan.table).await?;
            Ok(count)
        }
    }
}

async fn insert_one(
    plan: &InsertPlan,
    cx: &mut Cx<'_>,
    writer: &mut RowWriter,
    exprs: &[Expr],
    from: &[Value],
    row: &mut [Value],
    returning: &mut Returning<'_>,
) -> Result<u64, Halt> {
    for (slot, expr) in row.iter_mut().zip(exprs) {
        *slot = cx.value(expr, from)?;
    }
    insert_row(plan, cx, writer, row, returning).await
}

async fn insert_row(
    plan: &InsertPlan,
    cx: &mut Cx<'_>,
    writer: &mut RowWriter,
    row: &[Value],
    returning: &mut Returning<'_>,
) -> Result<u64, Halt> {
    match writer.insert(cx, &plan.table, row, plan.yields).await? {
        Inserted::Conflict => Ok(0),
        Inserted::Done if plan.deep_returning => {
            returning.deep_row(&plan.returning, cx, row).await?;
            Ok(1)
        }
        Inserted::Done => {
            returning.row(&plan.returning, cx, row)?;
            Ok(1)
        }
    }
}
