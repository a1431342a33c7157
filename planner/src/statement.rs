//! Statements that run by a plan, unlike those that only the session or the catalog handles.

use std::sync::Arc;

use fencepost_sql::bound::{ColumnOrigin, Expr, Volatility};
use fencepost_sql::bound::{
    Copy, CopyDirection, CopyFormat, CopySource, From, Leaf, LeafSource, Refresh, RefreshView,
    Select, Statement, Target,
};
use fencepost_sql::catalog::{RoutineDef, TableDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::settings::Analytics;
use fencepost_sql::value::Value;
use fencepost_txn::{Machine, Stop};

use crate::analytics::pays;
use crate::build::plan_whole_select;
use crate::context::{PlanContext, WithQueryRows};
use crate::decorrelate::decorrelate;
use crate::inline::inline_queries;
use crate::outer_slots::outer_slots;
use crate::plan::{Scan, SelectPlan, Source, TablePlan};
use crate::statement_snapshot::{needs_statement_snapshot, order_of_changes, unread_changes};
use crate::subplans::{Change, Subplans};
use crate::tag::Tag;
use crate::write::{
    ChangePlan, InsertPlan, InsertSource, plan_delete, plan_insert, plan_merge, plan_update,
};

/// A planned statement.
#[derive(Debug)]
pub enum Plan {
    /// A SELECT of one row without a table.
    Row(SelectPlan),
    /// A SELECT of at most one row by a whole unique key.
    Point(SelectPlan),
    /// Any other SELECT.
    Select(SelectPlan),
    /// INSERT.
    Insert(InsertPlan),
    /// UPDATE.
    Update(ChangePlan),
    /// DELETE.
    Delete(ChangePlan),
    /// MERGE.
    Merge(ChangePlan),
    /// COPY TO: the statement for its options, and the plan of its rows.
    CopyOut(Box<Copy>, SelectPlan),
    /// COPY FROM.
    CopyIn(Box<Copy>),
}

/// Plans a statement. Returns the statement itself if it does not run by a plan.
pub fn plan(mut statement: Statement, cx: PlanContext<'_>) -> Result<Plan, Box<Statement>> {
    let with_queries = WithQueryRows::default();
    let cx = cx.with_queries(&with_queries);
    inline_queries(&mut statement);
    let mut slots = outer_slots(&statement);
    decorrelate(&mut statement, &mut slots, cx);
    let mut queries = Subplans::of(&statement, slots, cx);
    let needs_statement_snapshot = needs_statement_snapshot(&statement);
    if let Statement::With(changes) = statement {
        let unread = unread_changes(&changes);
        let order = order_of_changes(&changes);
        let mut parts: Vec<Option<(usize, Statement)>> =
            changes.first.into_iter().map(Some).collect();
        let mut first = Vec::with_capacity(parts.len());
        for (id, change) in order.into_iter().filter_map(|at| parts[at].take()) {
            let mut plan = plan_alone(change, cx)?;
            if let Plan::Insert(insert) = &mut plan {
                // The tables that its queries read are not known here.
                insert.make_rows_first();
            }
            let last = unread.contains(&id);
            first.push(Change { id, plan, last });
        }
        let all = queries.get_or_insert_with(Subplans::default);
        all.changes = first;
        all.needs_statement_snapshot = needs_statement_snapshot;
        statement = changes.main;
    }
    let queries = queries.map(Arc::new);
    let mut plan = plan_alone(statement, cx)?;
    if queries.is_some() {
        plan = match plan {
            Plan::Row(select) | Plan::Point(select) => Plan::Select(select),
            other => other,
        };
    }
    match &mut plan {
        Plan::Row(plan) | Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
            plan.queries = queries;
        }
        Plan::Insert(insert) => insert.set_queries(queries),
        Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
            change.queries = queries;
        }
        Plan::CopyIn(_) => {}
    }
    Ok(plan.find_home())
}

/// Plans a statement without the subqueries in its expressions.
fn plan_alone(statement: Statement, cx: PlanContext<'_>) -> Result<Plan, Box<Statement>> {
    Ok(match statement {
        Statement::Select(select) => {
            let plan = plan_whole_select(*select, cx);
            match plan.point_scan() {
                Some(_) => Plan::Point(plan),
                None if plan.is_single_row() => Plan::Row(plan),
                None => Plan::Select(plan),
            }
        }
        Statement::Insert(insert) => Plan::Insert(plan_insert(*insert, cx)),
        Statement::Update(update) => Plan::Update(plan_update(*update, cx)),
        Statement::Delete(delete) => Plan::Delete(plan_delete(*delete, cx)),
        Statement::Merge(merge) => Plan::Merge(plan_merge(*merge, cx)),
        Statement::Copy(mut copy) => match copy.direction {
            CopyDirection::In => Plan::CopyIn(copy),
            CopyDirection::Out => {
                let select = copied_rows(&mut copy);
                Plan::CopyOut(copy, plan_whole_select(select, cx))
            }
        },
        other => return Err(Box::new(other)),
    })
}

/// Returns the SELECT for the rows that a COPY TO writes.
fn copied_rows(copy: &mut Copy) -> Select {
    let (table, columns) = match &mut copy.source {
        CopySource::Query(select) => {
            let empty = Select::over(From::Nothing, Vec::new());
            return std::mem::replace(&mut **select, empty);
        }
        CopySource::Table { table, columns, .. } => (Arc::clone(table), columns.clone()),
    };
    let targets: Vec<Target> = columns
        .iter()
        .map(|&c| Target {
            name: table.columns[c].name.clone(),
            expr: Expr::column(table.columns[c].ty, c),
            origin: Some(ColumnOrigin {
                table: table.id,
                attnum: table.columns[c].attnum,
            }),
        })
        .collect();
    let leaf = Leaf {
        alias: table.name.clone(),
        column_names: table.columns.iter().map(|c| c.name.clone()).collect(),
        column_types: table.columns.iter().map(|c| c.ty).collect(),
        first_slot: 0,
        source: LeafSource::Table(table),
    };
    Select::over(From::Leaf(leaf), targets)
}

impl SelectPlan {
    /// Returns the scan if the plan reads exactly one row by a whole unique key.
    pub fn point_scan(&self) -> Option<&Scan> {
        match &self.source {
            Source::Scan(scan) if self.is_plain() => scan.single_point().is_some().then_some(scan),
            _ => None,
        }
    }

    /// Returns whether the plan is exactly one row of values without a table.
    pub fn is_single_row(&self) -> bool {
        matches!(self.source, Source::One) && self.is_plain()
    }

    fn is_plain(&self) -> bool {
        self.places.is_none()
            && self.grouping.is_none()
            && self.having.is_none()
            && self.filter.is_none()
            && !self.distinct
            && self.limit.is_none()
            && self.offset.is_none()
            && !self.deep
            && self.inits.is_empty()
            && self.windows.is_empty()
    }
}

impl Plan {
    /// Returns the tables that the plan uses.
    pub fn tables(&self) -> Vec<Arc<TablePlan>> {
        let mut tables: Vec<Arc<TablePlan>> = Vec::new();
        if let Plan::CopyIn(copy) = self
            && let CopySource::Table {
                table, integrity, ..
            } = &copy.source
        {
            if !table.is_view() {
                tables.push(Arc::new(TablePlan::new(table)));
            }
            for related in &integrity.related {
                if tables.iter().all(|t| t.def.id != related.table.id) {
                    tables.push(Arc::new(TablePlan::new(&related.table)));
                }
            }
            if let Some(top) = &integrity.rules.within {
                tables.push(Arc::new(TablePlan::new(top)));
            }
        }
        self.for_each_table(&mut |table| {
            if tables.iter().all(|t| t.def.id != table.def.id) {
                tables.push(Arc::clone(table));
            }
        });
        let tops: Vec<_> = tables
            .iter()
            .filter_map(|t| t.rules.within.clone())
            .collect();
        for top in tops {
            if tables.iter().all(|t| t.def.id != top.id) {
                tables.push(Arc::new(TablePlan::new(&top)));
            }
        }
        tables
    }

    /// Calls `f` on each table that the plan uses, possibly several times. It skips the table of
    /// COPY FROM, which is not planned yet, and a view with INSTEAD OF triggers.
    pub(crate) fn for_each_table<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<TablePlan>)) {
        match self {
            Plan::Row(plan) | Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
                plan.for_each_table(f);
            }
            Plan::Insert(insert) => {
                if !insert.table.def.is_view() {
                    f(&insert.table);
                }
                if let Some(references) = &insert.references {
                    references.tables.iter().for_each(&mut *f);
                }
                if let InsertSource::Select { plan, .. } = &insert.source {
                    plan.for_each_table(f);
                }
                insert.queries.iter().for_each(|q| q.for_each_table(f));
            }
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                if !change.table.def.is_view() {
                    f(&change.table);
                }
                if let Some(references) = &change.references {
                    references.tables.iter().for_each(&mut *f);
                }
                change.source.for_each_table(f);
                change.queries.iter().for_each(|q| q.for_each_table(f));
            }
            Plan::CopyIn(_) => {}
        }
    }

    /// Returns the plans of the subqueries in its expressions.
    pub fn queries(&self) -> Option<&Subplans> {
        let queries = match self {
            Plan::Row(plan) | Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
                &plan.queries
            }
            Plan::Insert(insert) => &insert.queries,
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => &change.queries,
            Plan::CopyIn(_) => &None,
        };
        queries.as_deref()
    }

    /// Returns the user-defined functions that it calls.
    pub fn routines(&self) -> &[Arc<RoutineDef>] {
        if let Plan::CopyIn(copy) = self
            && let CopySource::Table { integrity, .. } = &copy.source
        {
            return &integrity.routines;
        }
        self.queries().map_or(&[], |queries| &queries.routines)
    }

    /// Returns whether it calls a volatile user-defined function, which may change rows.
    fn calls_volatile(&self) -> bool {
        let volatile = |routine: &Arc<RoutineDef>| routine.volatility == Volatility::Volatile;
        self.routines().iter().any(volatile)
    }

    /// Returns the RETURNING list of a plan that changes rows; empty without one.
    pub fn returning(&self) -> &[Target] {
        match self {
            Plan::Insert(insert) => &insert.returning,
            Plan::Update(change) | Plan::Delete(change) => &change.returning,
            Plan::Row(_)
            | Plan::Point(_)
            | Plan::Select(_)
            | Plan::CopyOut(..)
            | Plan::Merge(_)
            | Plan::CopyIn(_) => &[],
        }
    }

    /// Returns whether foreign keys connect the statement with other tables.
    pub fn has_references(&self) -> bool {
        match self {
            Plan::Insert(insert) => insert.references.is_some(),
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                change.references.is_some()
            }
            _ => false,
        }
    }

    /// Returns the number of columns of a COPY TO, and whether the format is binary.
    pub fn copied_columns(&self) -> Option<(usize, bool)> {
        match self {
            Plan::CopyOut(copy, select) => {
                let binary = copy.options.format == CopyFormat::Binary;
                Some((select.visible, binary))
            }
            _ => None,
        }
    }

    /// Returns whether WITH contains statements that change rows.
    fn has_changes(&self) -> bool {
        self.queries()
            .is_some_and(|queries| !queries.changes.is_empty())
    }

    /// Returns whether the analytical plan is to run.
    ///
    /// # Errors
    /// Those of reading rows.
    pub async fn is_bulk(
        &self,
        machine: &Machine,
        known: (&[Value], Analytics),
    ) -> Result<bool, Stop> {
        match self {
            Plan::Select(plan) | Plan::CopyOut(_, plan) => pays(plan, machine, known).await,
            _ => Ok(false),
        }
    }

    /// Returns whether the plan only reads and takes no intents.
    pub fn is_snapshot_read(&self) -> bool {
        if self.has_changes() || self.calls_volatile() {
            return false;
        }
        match self {
            Plan::Row(plan) | Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
                !plan.locks()
            }
            Plan::Insert(_)
            | Plan::Update(_)
            | Plan::Delete(_)
            | Plan::Merge(_)
            | Plan::CopyIn(_) => false,
        }
    }

    /// Returns whether it reads tables for other purposes than constraint checks.
    pub fn needs_snapshot(&self) -> bool {
        match self {
            Plan::Row(plan) => plan.queries.is_some(),
            Plan::Insert(insert) => {
                insert.queries.is_some() || !matches!(insert.source, InsertSource::Values(_))
            }
            Plan::CopyIn(_) => false,
            Plan::Point(_)
            | Plan::Select(_)
            | Plan::CopyOut(..)
            | Plan::Update(_)
            | Plan::Delete(_)
            | Plan::Merge(_) => true,
        }
    }

    /// Returns whether it is a SELECT.
    pub fn is_query(&self) -> bool {
        matches!(self, Plan::Row(_) | Plan::Point(_) | Plan::Select(_))
    }

    /// Returns whether it is a SELECT FOR UPDATE, or takes another row lock.
    pub fn locks_rows(&self) -> bool {
        match self {
            Plan::Point(plan) | Plan::Select(plan) => plan.locks(),
            _ => false,
        }
    }

    /// Returns whether it changes rows.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_) | Plan::Merge(_) | Plan::CopyIn(_)
        ) || self.has_changes()
    }

    /// Returns the number of rows of VALUES of an INSERT; 0 for other statements.
    pub fn rows_of_values(&self) -> usize {
        match self {
            Plan::Insert(insert) => match &insert.source {
                InsertSource::Values(rows) => rows.len(),
                InsertSource::Select { .. } => 0,
            },
            _ => 0,
        }
    }

    /// Returns the oid of the table that the main statement changes, if there is one.
    pub fn changed_table(&self) -> Option<u32> {
        match self {
            Plan::Insert(insert) => Some(insert.table.def.id),
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                Some(change.table.def.id)
            }
            _ => None,
        }
    }

    /// Returns the name of the command, for messages.
    pub fn command(&self) -> &'static str {
        match self {
            Plan::Row(_) | Plan::Point(_) | Plan::Select(_) => "SELECT",
            Plan::Insert(_) => "INSERT",
            Plan::Update(_) => "UPDATE",
            Plan::Delete(_) => "DELETE",
            Plan::Merge(_) => "MERGE",
            Plan::CopyOut(..) | Plan::CopyIn(_) => "COPY",
        }
    }

    /// Returns the command tag after `count` rows.
    pub fn tag(&self, count: u64) -> Tag {
        match self {
            Plan::Insert(_) => Tag::counted("INSERT 0", count),
            other => Tag::counted(other.command(), count),
        }
    }
}

/// Checks whether the executor can run the statement.
///
/// # Errors
/// 55000 for a materialized view that has not been populated.
pub fn check_supported(statement: &Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Declare(declare) => check_supported(&declare.query),
        other => check_populated(other),
    }
}

/// Returns error 55000 if the statement reads a materialized view that has not been populated.
fn check_populated(statement: &Statement) -> Result<(), SqlError> {
    let mut empty = None;
    let mut check = |table: &Arc<TableDef>| {
        if table.materialized.as_ref().is_some_and(|of| !of.populated) {
            empty = Some(Arc::clone(table));
        }
    };
    match statement {
        Statement::CreateTable(create) if create.with_data => {
            if let Some(select) = &create.source {
                select.for_each_table(&mut check);
            }
        }
        Statement::RefreshView(RefreshView {
            how: Refresh::Anew(select),
            ..
        }) => select.for_each_table(&mut check),
        other => other.for_each_leaf(&mut |leaf| {
            if let LeafSource::Table(table) = &leaf.source {
                check(table);
            }
        }),
    }
    match empty {
        None => Ok(()),
        Some(table) => Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "materialized view \"{}\" has not been populated",
                table.name
            ),
        )
        .hint("Use the REFRESH MATERIALIZED VIEW command.")),
    }
}
