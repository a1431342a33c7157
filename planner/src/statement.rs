//! Statements that run by a plan, as opposed to those that only the session or the catalog knows.

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
use crate::decorrelate::decorrelate;
use crate::hindsight::{looks_back, order_of_changes, unread_changes};
use crate::inline::inline_queries;
use crate::plan::{Scan, SelectPlan, Source, TablePlan};
use crate::subplans::{Change, Subplans};
use crate::tag::Tag;
use crate::write::{
    ChangePlan, InsertPlan, InsertSource, plan_delete, plan_insert, plan_merge, plan_update,
};

/// A planned statement.
#[derive(Debug)]
pub enum Plan {
    /// A SELECT of one row from no table.
    Row(SelectPlan),
    /// A SELECT of one row at most by a whole unique key.
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
    /// COPY TO: the statement for its options, the plan of its rows.
    CopyOut(Box<Copy>, SelectPlan),
    /// COPY FROM.
    CopyIn(Box<Copy>),
}

/// The plan of a statement, or the statement back if it has none.
pub fn plan(mut statement: Statement) -> Result<Plan, Box<Statement>> {
    inline_queries(&mut statement);
    decorrelate(&mut statement);
    let mut queries = Subplans::of(&statement);
    let looks_back = looks_back(&statement);
    if let Statement::With(changes) = statement {
        let unread = unread_changes(&changes);
        let order = order_of_changes(&changes);
        let mut parts: Vec<Option<(usize, Statement)>> =
            changes.first.into_iter().map(Some).collect();
        let mut first = Vec::with_capacity(parts.len());
        for (id, change) in order.into_iter().filter_map(|at| parts[at].take()) {
            let mut plan = plan_alone(change)?;
            if let Plan::Insert(insert) = &mut plan {
                // What its queries read is not known here.
                insert.make_rows_first();
            }
            let last = unread.contains(&id);
            first.push(Change { id, plan, last });
        }
        let all = queries.get_or_insert_with(Subplans::default);
        all.changes = first;
        all.looks_back = looks_back;
        statement = changes.main;
    }
    let queries = queries.map(Arc::new);
    let mut plan = plan_alone(statement)?;
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

/// The plan of a statement without its queries in expressions.
fn plan_alone(statement: Statement) -> Result<Plan, Box<Statement>> {
    Ok(match statement {
        Statement::Select(select) => {
            let plan = plan_whole_select(*select);
            match plan.point_scan() {
                Some(_) => Plan::Point(plan),
                None if plan.is_single_row() => Plan::Row(plan),
                None => Plan::Select(plan),
            }
        }
        Statement::Insert(insert) => Plan::Insert(plan_insert(*insert)),
        Statement::Update(update) => Plan::Update(plan_update(*update)),
        Statement::Delete(delete) => Plan::Delete(plan_delete(*delete)),
        Statement::Merge(merge) => Plan::Merge(plan_merge(*merge)),
        Statement::Copy(mut copy) => match copy.direction {
            CopyDirection::In => Plan::CopyIn(copy),
            CopyDirection::Out => {
                let select = copied_rows(&mut copy);
                Plan::CopyOut(copy, plan_whole_select(select))
            }
        },
        other => return Err(Box::new(other)),
    })
}

/// The SELECT that a COPY TO writes out.
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
    /// The scan, where the plan is just one row by a whole unique key.
    pub fn point_scan(&self) -> Option<&Scan> {
        match &self.source {
            Source::Scan(scan) if self.is_plain() => scan.single_point().is_some().then_some(scan),
            _ => None,
        }
    }

    /// Whether the plan is just one row of values, from no table.
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
    /// The tables that the plan uses.
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

    /// Calls `f` on each table that the plan uses, each maybe more than once; COPY FROM has none yet. A view whose
    /// triggers do what is to be done is none.
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

    /// The plans of its queries in expressions.
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

    /// The functions of users that it calls.
    pub fn routines(&self) -> &[Arc<RoutineDef>] {
        if let Plan::CopyIn(copy) = self
            && let CopySource::Table { integrity, .. } = &copy.source
        {
            return &integrity.routines;
        }
        self.queries().map_or(&[], |queries| &queries.routines)
    }

    /// May a function that it calls change rows?
    fn calls_volatile(&self) -> bool {
        let volatile = |routine: &Arc<RoutineDef>| routine.volatility == Volatility::Volatile;
        self.routines().iter().any(volatile)
    }

    /// RETURNING, where the plan changes rows; empty for none.
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

    /// Has it to do with other tables by foreign keys?
    pub fn has_references(&self) -> bool {
        match self {
            Plan::Insert(insert) => insert.references.is_some(),
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                change.references.is_some()
            }
            _ => false,
        }
    }

    /// The number of columns of a COPY TO, and whether it is in binary.
    pub fn copied_columns(&self) -> Option<(usize, bool)> {
        match self {
            Plan::CopyOut(copy, select) => {
                let binary = copy.options.format == CopyFormat::Binary;
                Some((select.visible, binary))
            }
            _ => None,
        }
    }

    /// Do statements in its WITH change rows?
    fn has_changes(&self) -> bool {
        self.queries()
            .is_some_and(|queries| !queries.changes.is_empty())
    }

    /// Whether it runs as its plan for much work says.
    ///
    /// # Errors
    /// As those of reading.
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

    /// Does it only read, without taking intents?
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

    /// Returns whether it reads tables otherwise than to check constraints.
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

    /// Is it a SELECT?
    pub fn is_query(&self) -> bool {
        matches!(self, Plan::Row(_) | Plan::Point(_) | Plan::Select(_))
    }

    /// Is it a SELECT FOR UPDATE?
    pub fn locks_rows(&self) -> bool {
        match self {
            Plan::Point(plan) | Plan::Select(plan) => plan.locks(),
            _ => false,
        }
    }

    /// Does it change rows?
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_) | Plan::Merge(_) | Plan::CopyIn(_)
        ) || self.has_changes()
    }

    /// The oid of the table whose rows it changes, if it changes any itself.
    pub fn changed_table(&self) -> Option<u32> {
        match self {
            Plan::Insert(insert) => Some(insert.table.def.id),
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                Some(change.table.def.id)
            }
            _ => None,
        }
    }

    /// The name of the command, for messages.
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

    /// The command tag after `count` rows.
    pub fn tag(&self, count: u64) -> Tag {
        match self {
            Plan::Insert(_) => Tag::counted("INSERT 0", count),
            other => Tag::counted(other.command(), count),
        }
    }
}

/// What the executor cannot run.
///
/// # Errors
/// As of a materialized view that has no rows yet.
pub fn check_supported(statement: &Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Declare(declare) => check_supported(&declare.query),
        other => check_populated(other),
    }
}

/// 55000 where rows of a materialized view are read that have not been made.
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
