//! The plans of UPDATE, DELETE and MERGE: the source of the rows, and the change to make to each.

use std::sync::Arc;

use fencepost_sql::bound::{
    self, Assignment, Expr, From, Integrity, Join, JoinKind, Leaf, LeafSource, RowLockOptions,
    Select, Target,
};
use fencepost_sql::catalog::TableDef;

use super::merge::MergeClause;
use super::references::References;
use crate::build::{Builder, TargetTable, mark, mark_joins};
use crate::conjuncts::{conjunction, conjuncts};
use crate::context::PlanContext;
use crate::estimate::Estimator;
use crate::home::HomeKey;
use crate::plan::{Hints, Scan, Source, TablePlan};
use crate::rules::push_down;
use crate::slots::Slots;
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
    pub(super) deep_set: bool,
    /// Whether RETURNING contains subqueries.
    pub(super) deep_returning: bool,
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
    pub(super) fn participle(&self) -> &'static str {
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

/// Returns the lock that an action takes on the rows it changes. An UPDATE lets other transactions
/// reference its rows. If it changes a key, it locks the row again, more strongly
/// ([`super::rows::RowWriter::update`]).
fn hold_of(action: &Action) -> RowLockOptions {
    match action {
        Action::Update { .. } => RowLockOptions::CHANGED_NO_KEY,
        Action::Delete | Action::Merge(_) => RowLockOptions::CHANGED,
    }
}

/// Plans `update`.
pub fn plan_update(update: bound::Update, cx: PlanContext<'_>) -> ChangePlan {
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
    plan_change(cx, target, rest, action, integrity)
}

/// Plans `delete`.
pub fn plan_delete(delete: bound::Delete, cx: PlanContext<'_>) -> ChangePlan {
    let target = (delete.table, delete.alias, delete.view);
    let rest = (
        delete.using,
        (delete.filter, delete.current),
        delete.returning,
    );
    plan_change(cx, target, rest, Action::Delete, delete.integrity)
}

/// The parts of a change besides its table: the other relations, WHERE with the row of WHERE
/// CURRENT OF, and RETURNING.
type ChangeClauses = (Option<From>, (Option<Expr>, Option<Expr>), Vec<Target>);

/// The table or view to change, its alias, and its query if it is a view.
type TargetRelation = (Arc<TableDef>, String, Option<Box<Select>>);

pub(super) fn plan_change(
    cx: PlanContext<'_>,
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
    let mut from = joined(leaf, others, (kind, on));
    push_down(&mut from, &mut filter);
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
    whole.iter().for_each(|f| mark(f, &mut needed));
    mark_joins(&from, &mut needed);
    returning.iter().for_each(|t| mark(&t.expr, &mut needed));
    action.for_each_expr(&mut |expr| mark(expr, &mut needed));
    let pointers = [TargetTable {
        first_slot: 0,
        pointer_slot: width,
    }];
    let builder = Builder {
        estimator: Estimator::of_joins(cx, &from),
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
    let planned = builder.plan_from(from, conditions, Slots::NONE);
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

/// Joins the target with the other relations, if there are any.
fn joined(target: From, others: Option<From>, (kind, on): (JoinKind, Option<Expr>)) -> From {
    match others {
        None => target,
        Some(others) => From::Join(Box::new(Join {
            kind,
            left: target,
            right: others,
            on,
        })),
    }
}

impl ChangePlan {
    /// Returns the scan if it reaches one row by a whole unique key and there is no filter,
    /// subquery or trigger.
    pub(super) fn single_point(&self) -> Option<&Scan> {
        match &self.source {
            Source::Scan(scan) if self.filter.is_none() && !self.deep && !self.table.fires => {
                scan.single_point().is_some().then_some(scan)
            }
            _ => None,
        }
    }
}
