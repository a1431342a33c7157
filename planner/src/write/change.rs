//! UPDATE and DELETE: find the rows, then change them.
//!
//! A statement for one whole unique key accesses its row directly. Any other statement finds all
//! its rows before it changes the first, so it never sees its own changes.

use std::sync::Arc;

use fencepost_sql::bound::{
    self, Assignment, Expr, From, Integrity, Join, JoinKind, Leaf, LeafSource, RowLockOptions,
    Select, Target,
};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;
use fencepost_txn::Timestamp;
use foldhash::{HashSet, HashSetExt};

use super::find::{deep_values, find_and_lock, hold_of, is_changed};
use super::foreign_key_actions::ForeignKeyActions;
use super::merge::{MergeClause, begin_merge};
use super::references::References;
use super::returning::Returning;
use super::rows::{RowWriter, Yield};
use super::rules::{check_views, generate};
use super::triggers::{PendingTriggers, StatementEvent, already_modified, check_unchanged};
use crate::access::are_plain;
use crate::build::{Builder, TargetTable, mark, mark_joins};
use crate::conjuncts::{conjunction, conjuncts};
use crate::exec::{Cx, LockedRowState, PointRow, decided_by, fetch_point, point_key, pointer_of};
use crate::home::HomeKey;
use crate::plan::{Hints, Scan, Source, TablePlan};
use crate::subplans::{Subplans, any_deep, inits};

/// The plan of an UPDATE, DELETE or MERGE.
#[derive(Debug)]
pub struct ChangePlan {
    /// The table or view to change.
    pub table: Arc<TablePlan>,
    /// The foreign keys that the change may affect.
    pub references: Option<Arc<References>>,
    /// The source of the table's rows, joined with the other relations of the statement.
    pub source: Source,
    /// The part of WHERE that the source does not evaluate.
    pub filter: Option<Expr>,
    /// All of WHERE, or the condition of a MERGE, to recheck rows that have changed since they were
    /// found.
    pub(super) whole: Option<Expr>,
    /// The lock on its rows.
    pub(super) hold: RowLockOptions,
    /// The change to make to each row.
    pub action: Action,
    /// RETURNING.
    pub returning: Vec<Target>,
    /// How to find the home partition.
    pub home: Option<HomeKey>,
    /// The subqueries in its expressions.
    pub queries: Option<Arc<Subplans>>,
    /// Subqueries that the keys of its scans read. They run before the scans open.
    pub(super) inits: Vec<Expr>,
    /// Whether its expressions contain subqueries.
    pub(super) deep: bool,
    /// Whether SET contains subqueries.
    deep_set: bool,
    /// Whether RETURNING contains subqueries.
    deep_returning: bool,
    /// The number of slots of the from row, without the fat pointer.
    pub(super) width: usize,
}

/// The change to make to a row.
#[derive(Debug)]
pub enum Action {
    /// Set new values.
    Update {
        /// The assignments of SET.
        assignments: Vec<Assignment>,
        /// The columns that change, generated columns included.
        columns: Vec<usize>,
    },
    /// Delete the row.
    Delete,
    /// Apply the first WHEN clause of a MERGE that matches.
    Merge(Vec<MergeClause>),
}

impl Action {
    /// Returns the verb for the change of a row in messages.
    fn participle(&self) -> &'static str {
        match self {
            Action::Delete => "deleted",
            Action::Update { .. } | Action::Merge(_) => "updated",
        }
    }

    /// Calls `f` on each expression in it.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Action::Update { assignments, .. } => assignments.iter().for_each(|a| f(&a.value)),
            Action::Delete => {}
            Action::Merge(whens) => whens.iter().for_each(|when| when.for_each_expr(f)),
        }
    }
}

/// Plans `update`.
pub fn plan_update(update: bound::Update) -> ChangePlan {
    let set = update.assignments.iter().map(|a| a.column);
    let generated = update.integrity.rules.generated.iter();
    let columns = set.chain(generated.map(|g| g.column)).collect();
    let action = Action::Update {
        assignments: update.assignments,
        columns,
    };
    let target = (update.table, update.alias, update.view);
    let integrity = update.integrity;
    let rest = (
        update.from,
        (update.filter, update.current),
        update.returning,
    );
    plan_change(target, rest, action, integrity)
}

/// Plans `delete`.
pub fn plan_delete(delete: bound::Delete) -> ChangePlan {
    let target = (delete.table, delete.alias, delete.view);
    let rest = (
        delete.using,
        (delete.filter, delete.current),
        delete.returning,
    );
    plan_change(target, rest, Action::Delete, delete.integrity)
}

/// The parts of a change besides its table: the other relations, WHERE with the row of WHERE
/// CURRENT OF, and RETURNING.
type ChangeClauses = (Option<From>, (Option<Expr>, Option<Expr>), Vec<Target>);

/// The table or view to change, its alias, and its query if it is a view.
type TargetRelation = (Arc<TableDef>, String, Option<Box<Select>>);

pub(super) fn plan_change(
    (table, alias, view): TargetRelation,
    (others, (mut filter, place), returning): ChangeClauses,
    action: Action,
    integrity: Integrity,
) -> ChangePlan {
    let references = References::of(integrity.related);
    let whole = filter.clone();
    let hold = hold_of(&action);
    let leaf = From::Leaf(Leaf {
        source: match view {
            None => LeafSource::Table(Arc::clone(&table)),
            Some(query) => LeafSource::Subquery(query),
        },
        alias,
        column_names: table.columns.iter().map(|c| c.name.clone()).collect(),
        column_types: table.columns.iter().map(|c| c.ty).collect(),
        first_slot: 0,
    });
    let (kind, on) = match &action {
        // MERGE also needs the source rows without a matching row.
        Action::Merge(_) => (JoinKind::Right, filter.take()),
        _ => (JoinKind::Inner, None),
    };
    let from = match others {
        None => leaf,
        Some(others) => From::Join(Box::new(Join {
            kind,
            left: leaf,
            right: others,
            on,
        })),
    };
    let width = from.width();
    let mut needed = vec![false; width];
    match action {
        // The columns are needed to encode the new row, and to find its index entries.
        Action::Update { .. } | Action::Merge(_) => needed[..table.columns.len()].fill(true),
        // The columns are needed to find the row's index entries.
        Action::Delete => {
            for (column, needed) in needed[..table.columns.len()].iter_mut().enumerate() {
                *needed = references.is_some()
                    || !integrity.rules.triggers.is_empty()
                    || table.is_parent()
                    || table.is_partition_column(column)
                    || table.indexes.iter().any(|index| index.concerns(column));
            }
        }
    }
    filter.iter().for_each(|f| mark(f, &mut needed));
    mark_joins(&from, &mut needed);
    returning.iter().for_each(|t| mark(&t.expr, &mut needed));
    action.for_each_expr(&mut |expr| mark(expr, &mut needed));
    let pointers = [TargetTable {
        first_slot: 0,
        pointer_slot: width,
    }];
    let builder = Builder {
        hashes: false,
        needed,
        wanted: &[],
        locks: None,
        pointers: &pointers,
        place,
        writes: Some(hold),
        hints: Hints::No,
    };
    let mut conditions = Vec::new();
    conjuncts(filter, &mut conditions);
    let planned = builder.plan_from(from, conditions, (0, 0));
    let mut deep_set = false;
    action.for_each_expr(&mut |expr| deep_set |= expr.has_subquery());
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
        whole,
        hold,
        action,
        returning,
        home: None,
        width,
    }
}

impl ChangePlan {
    /// Returns the scan if it reaches one row by a whole unique key and there is no filter,
    /// subquery or trigger.
    fn single_point(&self) -> Option<&Scan> {
        match &self.source {
            Source::Scan(scan) if self.filter.is_none() && !self.deep && !self.table.fires => {
                scan.single_point().is_some().then_some(scan)
            }
            _ => None,
        }
    }
}

/// Runs the statement. Returns the number of rows that it changed.
pub async fn run_change(
    plan: &ChangePlan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, StatementStop> {
    if let Some(scan) = plan.single_point() {
        return change_point(plan, scan, cx, returning).await;
    }
    for init in &plan.inits {
        cx.run_init(init).await?;
    }
    let (rows, decisions) = Box::pin(find_and_lock(plan, cx)).await?;
    let held = rows.weight();
    let mut changer = Changer::new(plan);
    changer.begin(plan, cx).await?;
    let mut seen = HashSet::new();
    let joined = !matches!(plan.source, Source::Scan(_));
    let is_view = plan.table.def.is_view();
    let mut count = 0;
    let place = |i: usize| {
        pointer_of(&rows.row(i)[plan.width])
            .ok_or_else(|| SqlError::internal("a row to change has no address"))
    };
    let mut set = match &plan.action {
        Action::Update { assignments, .. } if plan.deep_set => {
            Some(deep_values(assignments, cx, &rows).await?)
        }
        _ => None,
    };
    for i in 0..rows.len() {
        cx.breathe().await?;
        changer.set = set.as_mut().map(|set| std::mem::take(&mut set[i]));
        if is_view {
            count += changer.instead(plan, cx, rows.row(i), returning).await?;
            continue;
        }
        let (row, place) = (rows.row(i), place(i)?);
        // A row that matches several rows of the other relations is changed once.
        if joined && !seen.insert(place.addr.raw()) {
            continue;
        }
        // Rows that other parts of the statement changed were not found. So a function or a trigger
        // has changed this row since.
        if is_changed(cx, place) {
            return Err(already_modified(plan.action.participle()).into());
        }
        changer.latest = decisions.latest(place);
        count += u64::from(changer.change(plan, cx, place, row, returning).await?);
    }
    changer.finish(cx).await?;
    cx.tx.release_memory(held);
    Ok(count)
}

/// Changes one row by its whole unique key, without operators or batches.
async fn change_point(
    plan: &ChangePlan,
    scan: &Scan,
    cx: &mut Cx<'_>,
    returning: &mut Returning<'_>,
) -> Result<u64, StatementStop> {
    let mut key = std::mem::take(&mut cx.scratch.key);
    let mut words = std::mem::take(&mut cx.scratch.words);
    let mut row = std::mem::take(&mut cx.scratch.row);
    let result = async {
        let terms = scan.single_point().unwrap_or(&[]);
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
        let Some(PointRow { place, stands }) = found.await? else {
            return Ok(0);
        };
        if is_changed(cx, place) {
            return Ok(0);
        }
        let latest = match stands {
            LockedRowState::Changed => {
                cx.tx.refresh().await?;
                Timestamp::MAX
            }
            LockedRowState::Same | LockedRowState::Deleted => decided_by(cx),
        };
        row.clear();
        row.resize(plan.width, Value::Null);
        let layout = &plan.table.layout;
        layout.decode_some(&words, &scan.columns, &mut row)?;
        if !cx.holds(scan.filter.as_ref(), &row).await? {
            return Ok(0);
        }
        let mut changer = Changer::new(plan);
        changer.latest = latest;
        let changed = changer.change(plan, cx, place, &row, returning).await?;
        changer.finish(cx).await?;
        Ok(u64::from(changed))
    }
    .await;
    cx.scratch.key = key;
    cx.scratch.words = words;
    cx.scratch.row = row;
    cx.scratch.shrink();
    result
}

/// The state and buffers for changing the rows of a statement.
pub(super) struct Changer {
    writer: RowWriter,
    actions: Option<ForeignKeyActions>,
    triggers: Option<PendingTriggers>,
    new: Vec<Value>,
    /// The values of SET for the next row, if they are already computed.
    pub(super) set: Option<Vec<Value>>,
    /// The newest commit timestamp that the version of the next row may have.
    pub(super) latest: Timestamp,
}

impl Changer {
    pub(super) fn new(plan: &ChangePlan) -> Changer {
        Changer {
            writer: RowWriter::default(),
            actions: plan.references.as_ref().map(ForeignKeyActions::new),
            triggers: PendingTriggers::of(&plan.table),
            new: Vec::with_capacity(plan.width),
            set: None,
            latest: Timestamp::MAX,
        }
    }

    /// Fires BEFORE STATEMENT triggers, before the first row.
    pub(super) async fn begin(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let Some(triggers) = &mut self.triggers else {
            return Ok(());
        };
        let table = &plan.table;
        match &plan.action {
            Action::Delete => Box::pin(triggers.begin(cx, table, StatementEvent::DELETE)).await,
            Action::Update { columns, .. } => {
                Box::pin(triggers.begin(cx, table, StatementEvent::update(columns))).await
            }
            Action::Merge(whens) => Box::pin(begin_merge(whens, triggers, cx, table)).await,
        }
    }

    /// Changes the row at `place`, whose values are the first columns of `row`. Returns false if a
    /// trigger suppresses the change.
    async fn change(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        place: FatPtr,
        row: &[Value],
        returning: &mut Returning<'_>,
    ) -> Result<bool, StatementStop> {
        match &plan.action {
            Action::Delete => {
                if !self.delete(plan, cx, place, row).await? {
                    return Ok(false);
                }
                match plan.deep_returning {
                    true => returning.deep_row(&plan.returning, cx, row).await?,
                    false => returning.row(&plan.returning, cx, row).await?,
                }
            }
            Action::Update {
                assignments,
                columns,
            } => {
                let set = (assignments.as_slice(), columns.as_slice());
                if !self.update(plan, cx, set, place, row).await? {
                    return Ok(false);
                }
                match plan.deep_returning {
                    true => returning.deep_row(&plan.returning, cx, &self.new).await?,
                    false => returning.row(&plan.returning, cx, &self.new).await?,
                }
            }
            Action::Merge(_) => {}
        }
        Ok(true)
    }

    pub(super) async fn delete(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        place: FatPtr,
        row: &[Value],
    ) -> Result<bool, StatementStop> {
        let table = &plan.table;
        let row = &row[..table.layout.width()];
        if let Some(triggers) = &mut self.triggers {
            let before = triggers.before(cx, table, StatementEvent::DELETE, (Some(row), None));
            if !Box::pin(before).await? {
                return Ok(false);
            }
            Box::pin(check_unchanged(cx, table, place, row, "deleted")).await?;
        }
        cx.tx.decide_by(place.addr, self.latest);
        self.writer.delete(cx, table, place, row).await?;
        if let Some(actions) = &mut self.actions {
            actions.deleted(row);
        }
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, table, StatementEvent::DELETE, (Some(row), None))
                .await?;
        }
        Ok(true)
    }

    /// Updates a row, and leaves the new row in `new`.
    pub(super) async fn update(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        (assignments, changed): (&[Assignment], &[usize]),
        place: FatPtr,
        row: &[Value],
    ) -> Result<bool, StatementStop> {
        let columns = plan.table.layout.width();
        self.assign(plan, cx, assignments, row).await?;
        let doing = StatementEvent::update(changed);
        let mut written = changed;
        let all: Vec<usize>;
        if let Some(triggers) = &mut self.triggers {
            let both = (Some(&row[..columns]), Some(&mut self.new[..]));
            if !Box::pin(triggers.before(cx, &plan.table, doing, both)).await? {
                return Ok(false);
            }
            Box::pin(check_unchanged(cx, &plan.table, place, row, "updated")).await?;
            if triggers.looks_at_rows(cx, &plan.table, doing) {
                all = (0..columns).collect();
                written = &all;
            }
        }
        generate(cx, &plan.table, &mut self.new).await?;
        let rows = (&row[..columns], &self.new[..columns]);
        cx.tx.decide_by(place.addr, self.latest);
        let written = self.writer.update(cx, &plan.table, place, rows, written);
        written.await?;
        if let Some(actions) = &mut self.actions {
            Box::pin(actions.updated(cx, rows)).await?;
        }
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, &plan.table, doing, (Some(rows.0), Some(rows.1)))
                .await?;
        }
        if !plan.table.rules.views.is_empty() {
            Box::pin(check_views(cx, &plan.table, rows.1)).await?;
        }
        Ok(true)
    }

    /// Computes the row that SET produces, into `new`.
    async fn assign(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        assignments: &[Assignment],
        row: &[Value],
    ) -> Result<(), SqlError> {
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
                    self.new[assignment.column] = cx.value(&assignment.value, row).await?;
                }
            }
        }
        Ok(())
    }

    /// Changes a row of a view through its INSTEAD OF triggers. Returns the number of rows for
    /// which they did something.
    async fn instead(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        row: &[Value],
        returning: &mut Returning<'_>,
    ) -> Result<u64, StatementStop> {
        let view = &plan.table;
        let old = &row[..view.layout.width()];
        let set = match &plan.action {
            Action::Update {
                assignments,
                columns,
            } => {
                self.assign(plan, cx, assignments, row).await?;
                Some(columns)
            }
            _ => None,
        };
        let Some(triggers) = &mut self.triggers else {
            return Err(SqlError::internal("a view without triggers").into());
        };
        let Some(columns) = set else {
            let deleted = triggers.instead(cx, view, StatementEvent::DELETE, (Some(old), None));
            if !Box::pin(deleted).await? {
                return Ok(0);
            }
            Box::pin(returning.deep_row(&plan.returning, cx, row)).await?;
            return Ok(1);
        };
        let rows = (Some(old), Some(&mut self.new[..]));
        let updated = triggers.instead(cx, view, StatementEvent::update(columns), rows);
        if !Box::pin(updated).await? {
            return Ok(0);
        }
        Box::pin(check_views(cx, view, &self.new)).await?;
        Box::pin(returning.deep_row(&plan.returning, cx, &self.new)).await?;
        Ok(1)
    }

    /// Inserts a row for MERGE.
    pub(super) async fn insert(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        row: &mut [Value],
    ) -> Result<bool, StatementStop> {
        let table = &plan.table;
        if let Some(pending) = &mut self.triggers {
            let before = pending.before(cx, table, StatementEvent::INSERT, (None, Some(&mut *row)));
            if !Box::pin(before).await? {
                return Ok(false);
            }
        }
        generate(cx, table, row).await?;
        let inserted = self.writer.insert(cx, table, row, Yield::Never);
        inserted.await?;
        if let Some(actions) = &mut self.actions {
            Box::pin(actions.inserted(cx, row)).await?;
        }
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, table, StatementEvent::INSERT, (None, Some(row)))
                .await?;
        }
        Ok(true)
    }

    /// Ends the statement, after all rows have changed.
    pub(super) async fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        finish(&mut self.actions, &mut self.triggers, cx).await
    }
}

/// Ends a statement that has changed all its rows: runs its foreign-key actions, its own triggers,
/// and then the triggers of the rows that foreign-key actions changed.
pub async fn finish(
    actions: &mut Option<ForeignKeyActions>,
    triggers: &mut Option<PendingTriggers>,
    cx: &mut Cx<'_>,
) -> Result<(), StatementStop> {
    if let Some(actions) = actions {
        Box::pin(actions.finish(cx)).await?;
    }
    if let Some(triggers) = triggers {
        Box::pin(triggers.finish(cx)).await?;
    }
    match actions {
        None => Ok(()),
        Some(actions) => Box::pin(actions.finish_triggers(cx)).await,
    }
}
