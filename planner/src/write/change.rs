//! UPDATE and DELETE: find the rows, then change them.
//!
//! A statement for one whole unique key goes straight to its row. Any other finds all its rows
//! before it changes the first, so it never meets its own work.

use std::sync::Arc;

use fencepost_sql::bound::{
    self, Assignment, Expr, From, Integrity, Join, JoinKind, Leaf, LeafSource, Target,
};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;
use foldhash::{HashSet, HashSetExt};

use super::referee::Referee;
use super::references::References;
use super::returning::Returning;
use super::rows::RowWriter;
use super::rules::generate;
use crate::build::{Builder, Changed, mark, mark_joins};
use crate::exec::{Batch, Cx, SourceState, fetch_point, point_key, pointer_of};
use crate::home::HomeKey;
use crate::plan::{Scan, Source, TablePlan};
use crate::subplans::{Subplans, any_deep, inits};
use crate::terms::{conjunction, conjuncts};

const CHUNK: usize = 1024;

/// An UPDATE or DELETE.
#[derive(Debug)]
pub struct ChangePlan {
    /// The table.
    pub table: Arc<TablePlan>,
    /// Foreign keys that it may meet.
    pub references: Option<Arc<References>>,
    /// Its rows, and those they are joined with.
    pub source: Source,
    /// What of WHERE the source does not do.
    pub filter: Option<Expr>,
    /// What to do with each row.
    pub action: Action,
    /// RETURNING.
    pub returning: Vec<Target>,
    /// What tells its home.
    pub home: Option<HomeKey>,
    /// Its queries in expressions.
    pub queries: Option<Arc<Subplans>>,
    /// Queries that keys of its scans read: they run first.
    inits: Vec<Expr>,
    /// There are queries in its expressions.
    deep: bool,
    /// There are queries in SET.
    deep_set: bool,
    /// There are queries in RETURNING.
    deep_returning: bool,
    /// Width of the from row, without the pointer.
    width: usize,
}

/// What happens to a row.
#[derive(Debug)]
pub enum Action {
    /// It gets new values.
    Update {
        /// SET.
        assignments: Vec<Assignment>,
        /// The columns set.
        columns: Vec<usize>,
    },
    /// It goes.
    Delete,
}

/// The plan of `update`.
pub fn plan_update(update: bound::Update) -> ChangePlan {
    let set = update.assignments.iter().map(|a| a.column);
    let generated = update.integrity.rules.generated.iter();
    let columns = set.chain(generated.map(|g| g.column)).collect();
    let action = Action::Update {
        assignments: update.assignments,
        columns,
    };
    let target = (update.table, update.alias);
    let integrity = update.integrity;
    let rest = (update.from, update.filter, update.returning);
    plan_change(target, rest, action, integrity)
}

/// The plan of `delete`.
pub fn plan_delete(delete: bound::Delete) -> ChangePlan {
    let target = (delete.table, delete.alias);
    let rest = (delete.using, delete.filter, delete.returning);
    plan_change(target, rest, Action::Delete, delete.integrity)
}

fn plan_change(
    (table, alias): (Arc<TableDef>, String),
    (others, filter, returning): (Option<From>, Option<Expr>, Vec<Target>),
    action: Action,
    integrity: Integrity,
) -> ChangePlan {
    let references = References::of(integrity.related);
    let leaf = From::Leaf(Leaf {
        source: LeafSource::Table(Arc::clone(&table)),
        alias,
        column_names: table.columns.iter().map(|c| c.name.clone()).collect(),
        column_types: table.columns.iter().map(|c| c.ty).collect(),
        first_slot: 0,
    });
    let from = match others {
        None => leaf,
        Some(others) => From::Join(Box::new(Join {
            kind: JoinKind::Inner,
            left: leaf,
            right: others,
            on: None,
        })),
    };
    let width = from.width();
    let mut needed = vec![false; width];
    match action {
        // To encode the new row, and to find its index entries.
        Action::Update { .. } => needed[..table.columns.len()].fill(true),
        // To find its index entries.
        Action::Delete => {
            for (column, needed) in needed[..table.columns.len()].iter_mut().enumerate() {
                *needed = references.is_some()
                    || table.is_partition_column(column)
                    || table.indexes.iter().any(|index| index.concerns(column));
            }
        }
    }
    filter.iter().for_each(|f| mark(f, &mut needed));
    mark_joins(&from, &mut needed);
    returning.iter().for_each(|t| mark(&t.expr, &mut needed));
    if let Action::Update { assignments, .. } = &action {
        assignments.iter().for_each(|a| mark(&a.value, &mut needed));
    }
    let builder = Builder {
        needed,
        wanted: &[],
        locks: false,
        changed: Some(Changed {
            first_slot: 0,
            pointer_slot: width,
        }),
    };
    let mut conditions = Vec::new();
    conjuncts(filter, &mut conditions);
    let planned = builder.plan_from(from, conditions, (0, 0));
    let deep_set = match &action {
        Action::Update { assignments, .. } => any_deep(assignments.iter().map(|a| &a.value)),
        Action::Delete => false,
    };
    let inits = inits(&planned.source);
    let deep_returning = any_deep(returning.iter().map(|target| &target.expr));
    ChangePlan {
        queries: None,
        deep: deep_set || deep_returning || any_deep(&planned.rest) || !inits.is_empty(),
        inits,
        deep_set,
        deep_returning,
        table: Arc::new(TablePlan::written(&table, integrity.rules)),
        references,
        source: planned.source,
        filter: conjunction(planned.rest),
        action,
        returning,
        home: None,
        width,
    }
}

impl ChangePlan {
    /// The scan, where it reaches one row by a whole unique key and nothing else is to be checked.
    fn single_point(&self) -> Option<&Scan> {
        match &self.source {
            Source::Scan(scan) if self.filter.is_none() && !self.deep => {
                scan.single_point().is_some().then_some(scan)
            }
            _ => None,
        }
    }
}

/// Runs the statement; the number of rows it changed.
pub async fn run_change(
    plan: &ChangePlan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, Halt> {
    if let Some(scan) = plan.single_point() {
        return change_point(plan, scan, cx, returning).await;
    }
    for init in &plan.inits {
        cx.run_init(init).await?;
    }
    let rows = Box::pin(find_rows(plan, cx)).await?;
    let held = rows.weight();
    let mut changer = Changer::new(plan);
    let mut seen = HashSet::new();
    let joined = !matches!(plan.source, Source::Scan(_));
    let mut count = 0;
    let place = |i: usize| {
        pointer_of(&rows.row(i)[plan.width])
            .ok_or_else(|| SqlError::internal("a row to change has no address"))
    };
    // A row that changes while its turn is awaited makes the statement start over: all at once then,
    // and not row by row.
    for i in 0..rows.len() {
        cx.check_cancel()?;
        cx.queue(place(i)?.addr).await?;
    }
    let mut set = match &plan.action {
        Action::Update { assignments, .. } if plan.deep_set => {
            Some(deep_values(assignments, cx, &rows).await?)
        }
        _ => None,
    };
    for i in 0..rows.len() {
        cx.check_cancel()?;
        changer.set = set.as_mut().map(|set| std::mem::take(&mut set[i]));
        let (row, place) = (rows.row(i), place(i)?);
        // A row with several join partners is changed once.
        if joined && !seen.insert(place.addr.raw()) {
            continue;
        }
        changer.change(plan, cx, place, row, returning).await?;
        count += 1;
    }
    changer.finish(cx).await?;
    cx.tx.release_memory(held);
    Ok(count)
}

/// One row by its whole unique key: no operators, no batches.
async fn change_point(
    plan: &ChangePlan,
    scan: &Scan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, Halt> {
    let mut key = std::mem::take(&mut cx.scratch.key);
    let mut words = std::mem::take(&mut cx.scratch.words);
    let mut row = std::mem::take(&mut cx.scratch.row);
    let result = async {
        let terms = scan.single_point().unwrap_or(&[]);
        let Some(partition) = point_key(scan, terms, cx, &[], &mut key)? else {
            return Ok(0);
        };
        let found = fetch_point(scan, cx, (&key, partition), &mut words);
        let Some(place) = found.await? else {
            return Ok(0);
        };
        row.clear();
        row.resize(plan.width, Value::Null);
        let layout = &plan.table.layout;
        layout.decode_some(&words, &scan.columns, &mut row)?;
        if !cx.holds(scan.filter.as_ref(), &row)? {
            return Ok(0);
        }
        let mut changer = Changer::new(plan);
        changer.change(plan, cx, place, &row, returning).await?;
        changer.finish(cx).await?;
        Ok(1)
    }
    .await;
    cx.scratch.key = key;
    cx.scratch.words = words;
    cx.scratch.row = row;
    cx.scratch.shrink();
    result
}

/// All from rows that pass WHERE, with their pointers; the weight of long ones is held.
async fn find_rows(plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<Batch, Halt> {
    let mut rows = Batch::new(plan.width + 1);
    let mut state = SourceState::new(&plan.source, plan.width + 1);
    let mut more = true;
    while more {
        let (start, held) = (rows.len(), rows.weight());
        more = state.next(&plan.source, cx, &mut rows, CHUNK).await?;
        if rows.weight() > held {
            cx.tx.hold_memory(rows.weight() - held)?;
        }
        let mut kept = start;
        for i in start..rows.len() {
            let holds = match plan.deep {
                true => cx.deep_holds(plan.filter.as_ref(), rows.row(i)).await?,
                false => cx.holds(plan.filter.as_ref(), rows.row(i))?,
            };
            if holds {
                rows.swap(kept, i);
                kept += 1;
            }
        }
        rows.truncate(kept);
    }
    Ok(rows)
}

/// What SET gives each row, where it has queries, which see the tables as they were before the first change.
async fn deep_values(
    assignments: &[Assignment],
    cx: &mut Cx<'_>,
    rows: &Batch,
) -> Result<Vec<Vec<Value>>, Halt> {
    let mut all = Vec::with_capacity(rows.len());
    for i in 0..rows.len() {
        cx.check_cancel()?;
        let mut values = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            values.push(cx.deep_value(&assignment.value, rows.row(i)).await?);
        }
        all.push(values);
    }
    Ok(all)
}

/// Buffers for changing rows, kept from row to row.
struct Changer {
    writer: RowWriter,
    referee: Option<Referee>,
    new: Vec<Value>,
    /// What SET gives the next row, where that is known.
    set: Option<Vec<Value>>,
}

impl Changer {
    fn new(plan: &ChangePlan) -> Changer {
        Changer {
            writer: RowWriter::default(),
            referee: plan.references.as_ref().map(Referee::new),
            new: Vec::with_capacity(plan.width),
            set: None,
        }
    }

    /// Changes the row at `place`, which is the first columns of `row`.
    async fn change(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        place: FatPtr,
        row: &[Value],
        returning: &mut Returning<'_>,
    ) -> Result<(), Halt> {
        let columns = plan.table.layout.width();
        let (writer, table) = (&mut self.writer, &plan.table);
        match &plan.action {
            Action::Delete => {
                writer.delete(cx, table, place, &row[..columns]).await?;
                if let Some(referee) = &mut self.referee {
                    referee.deleted(&row[..columns]);
                }
                if plan.deep_returning {
                    return returning.deep_row(&plan.returning, cx, row).await;
                }
                returning.row(&plan.returning, cx, row)?;
            }
            Action::Update {
                assignments,
                columns: changed,
            } => {
                self.new.clear();
                self.new.extend_from_slice(&row[..plan.width]);
                match self.set.take() {
                    Some(values) => {
                        for (assignment, value) in assignments.iter().zip(values) {
                            self.new[assignment.column] = value;
                        }
                    }
                    None => {
                        for assignment in assignments {
                            self.new[assignment.column] = cx.value(&assignment.value, row)?;
                        }
                    }
                }
                generate(cx, table, &mut self.new)?;
                let rows = (&row[..columns], &self.new[..columns]);
                writer.update(cx, table, place, rows, changed).await?;
                if let Some(referee) = &mut self.referee {
                    Box::pin(referee.updated(cx, rows)).await?;
                }
                if plan.deep_returning {
                    return returning.deep_row(&plan.returning, cx, &self.new).await;
                }
                returning.row(&plan.returning, cx, &self.new)?;
            }
        }
        Ok(())
    }

    /// All rows are changed.
    async fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), Halt> {
        match &mut self.referee {
            None => Ok(()),
            Some(referee) => Box::pin(referee.finish(cx)).await,
        }
    }
}
