//! The home partition of a statement: the one partition that all of its accesses concern, if there
//! is one.
//!
//! A statement has a home partition if three conditions hold. All its tables belong to one group of
//! partitioned tables. Every access gives the partition column the same value. Every index that the
//! statement writes has one tree for each partition. Then all its reads and writes, except those of
//! the catalog, are on that partition's machine. The value depends on the parameters; the
//! expression that gives it is known when the statement is planned.
//!
//! A statement with subqueries in expressions has no home, because the tables of those subqueries
//! are not examined.
//!
//! The analysis is conservative: a statement for which it cannot prove a home has none. A statement
//! with a home may run on any machine.

use std::sync::Arc;

use fencepost_sql::bound::{Assignment, Expr, Node};
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;

use crate::access::{Access, KeyBounds, KeyTerm};
use crate::exec::{Fit, fit};
use crate::plan::{Scan, SelectPlan, Source, TablePlan};
use crate::statement::Plan;
use crate::write::{Action, ChangePlan, InsertPlan, InsertSource};

/// The home partition of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomePartition {
    /// The number of the partition.
    pub partition: u32,
    /// An object of the partition. The statement's home machine is the machine of this object.
    pub root: Addr,
}

/// How the home of a statement follows from its parameters.
#[derive(Debug)]
pub struct HomeKey {
    /// One of the statement's tables.
    table: Arc<TablePlan>,
    /// The constants and parameters that the partition columns must equal.
    values: Vec<Expr>,
}

impl Plan {
    /// Returns the home of the statement with these parameters; `None` if it is not one partition.
    pub fn home(&self, params: &[Value]) -> Option<HomePartition> {
        let key = match self {
            Plan::Row(_) | Plan::CopyIn(_) | Plan::Merge(_) => &None,
            Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => &plan.home,
            Plan::Insert(insert) => &insert.home,
            Plan::Update(change) | Plan::Delete(change) => &change.home,
        };
        key.as_ref()?.find(params)
    }

    /// Records how the home of the statement is found.
    pub(crate) fn find_home(mut self) -> Plan {
        match &mut self {
            Plan::Row(_) | Plan::CopyIn(_) | Plan::Merge(_) => {}
            Plan::Point(plan) | Plan::Select(plan) | Plan::CopyOut(_, plan) => {
                if plan.queries.is_none() {
                    plan.home = of_source(&plan.source);
                }
            }
            Plan::Insert(insert) => insert.home = of_insert(insert),
            Plan::Update(change) | Plan::Delete(change) => change.home = of_change(change),
        }
        self
    }
}

impl HomeKey {
    fn find(&self, params: &[Value]) -> Option<HomePartition> {
        let by = self.table.def.partitioning?;
        let mut scratch = Vec::new();
        let mut found = None;
        for expr in &self.values {
            let value = match &expr.node {
                Node::Const(value) => value,
                Node::Param(n) => params.get(*n)?,
                _ => return None,
            };
            let Fit::Value(value) = fit(value.clone(), by.kind) else {
                return None;
            };
            let partition = by.of_value(&value, &mut scratch);
            if *found.get_or_insert(partition) != partition {
                return None;
            }
        }
        let partition = found?;
        let root = self.table.home_of(partition);
        Some(HomePartition { partition, root })
    }
}

/// The state of the analysis: the values found so far for the partition columns.
#[derive(Default)]
struct Pins {
    table: Option<Arc<TablePlan>>,
    values: Vec<Expr>,
    /// Slots of the from row that have the one value.
    slots: Vec<usize>,
}

impl Pins {
    /// Adds a table. Returns false if it is not partitioned in the same group as the tables before
    /// it.
    fn table(&mut self, table: &Arc<TablePlan>) -> bool {
        let group = |table: &TablePlan| table.def.partitioning.map(|by| by.group);
        let first = self.table.get_or_insert_with(|| Arc::clone(table));
        group(table).is_some() && group(table) == group(first)
    }

    /// Adds an expression that a partition column equals. Returns false if it is not known to be
    /// the one value.
    fn value(&mut self, expr: &Expr) -> bool {
        let expr = bare(expr);
        match &expr.node {
            Node::Const(_) | Node::Param(_) => {
                if !self.values.contains(expr) {
                    self.values.push(expr.clone());
                }
                true
            }
            Node::Column(slot) => self.slots.contains(slot),
            _ => false,
        }
    }

    fn source(&mut self, source: &Source) -> bool {
        match source {
            Source::One | Source::Values { .. } | Source::Function { .. } => true,
            // A system table shows the state of the machine that runs the statement, so it has no
            // home.
            Source::System { .. } => false,
            Source::Cte { .. }
            | Source::Work { .. }
            | Source::Recursive(_)
            | Source::Lateral { .. } => false,
            Source::Set(set) => [&set.left, &set.right].into_iter().all(|side| {
                let slots = std::mem::take(&mut self.slots);
                let known = self.source(&side.source);
                self.slots = slots;
                known
            }),
            Source::Scan(scan) => self.scan(scan),
            Source::Filter { input, .. } | Source::Analytics { input, .. } => self.source(input),
            Source::Join(join) => self.source(&join.left) && self.source(&join.right),
            Source::Subquery { plan, .. } => {
                // A subquery has its own from row and its own slots.
                let slots = std::mem::take(&mut self.slots);
                let known = self.source(&plan.source);
                self.slots = slots;
                known
            }
        }
    }

    fn scan(&mut self, scan: &Scan) -> bool {
        let firsts: Option<Vec<&Expr>> = match &scan.access {
            Access::Full => None,
            Access::Points(terms) => match terms.first() {
                Some(KeyTerm::One(value)) => Some(vec![value]),
                Some(KeyTerm::Any(_) | KeyTerm::Members(_)) | None => None,
            },
            Access::Ranges(branches) => branches.iter().map(KeyBounds::first_value).collect(),
        };
        let by = scan.table.def.partitioning;
        let partitioned = scan.table.index_def(scan.index).roots.are_partitioned();
        let (Some(by), Some(values), true) = (by, firsts, partitioned) else {
            return false;
        };
        let known = self.table(&scan.table) && values.iter().all(|value| self.value(value));
        self.slots.push(scan.first_slot + by.column);
        known
    }

    fn key(self) -> Option<HomeKey> {
        Some(HomeKey {
            table: self.table?,
            values: self.values,
        })
    }
}

fn of_source(source: &Source) -> Option<HomeKey> {
    let mut pins = Pins::default();
    pins.source(source).then(|| pins.key())?
}

fn of_change(change: &ChangePlan) -> Option<HomeKey> {
    if change.references.is_some()
        || !writes_in_partition(&change.table)
        || change.queries.is_some()
    {
        return None;
    }
    if let Action::Update { columns, .. } = &change.action
        && columns
            .iter()
            .any(|c| change.table.def.is_partition_column(*c))
    {
        return None;
    }
    of_source(&change.source)
}

fn of_insert(insert: &InsertPlan) -> Option<HomeKey> {
    let moves = |a: &Assignment| insert.table.def.is_partition_column(a.column);
    let mut updates = insert.update.iter().flat_map(|u| &u.assignments);
    if insert.references.is_some()
        || updates.any(moves)
        || !writes_in_partition(&insert.table)
        || insert.queries.is_some()
    {
        return None;
    }
    let by = insert.table.def.partitioning?;
    let mut pins = Pins::default();
    let known = match &insert.source {
        InsertSource::Values(rows) => {
            pins.table(&insert.table) && rows.iter().all(|row| pins.value(&row[by.column]))
        }
        InsertSource::Select { plan, row, .. } => {
            pins.source(&plan.source)
                && pins.table(&insert.table)
                && selected(plan, &row[by.column]).is_some_and(|expr| pins.value(expr))
        }
    };
    known.then(|| pins.key())?
}

/// Returns the expression, over the from row of the source query, that INSERT … SELECT stores in a
/// column.
fn selected<'a>(plan: &'a SelectPlan, expr: &'a Expr) -> Option<&'a Expr> {
    match bare(expr).node {
        Node::Column(target) if plan.grouping.is_none() => Some(&plan.targets.get(target)?.expr),
        Node::Column(_) => None,
        _ => Some(expr),
    }
}

/// Returns whether every index of the table has one tree for each partition.
fn writes_in_partition(table: &TablePlan) -> bool {
    let mut indexes = table.def.indexes.iter();
    indexes.all(|index| index.roots.are_partitioned())
}

/// Strips casts that do not change the value if it fits the target type.
fn bare(expr: &Expr) -> &Expr {
    let string = |kind| matches!(kind, TypeKind::Text | TypeKind::VarChar | TypeKind::Name);
    match &expr.node {
        Node::Cast { input, .. } => {
            let (from, to) = (input.ty.kind, expr.ty.kind);
            let same = from == to
                || (from.is_integer() && to.is_integer())
                || (string(from) && string(to));
            if same { bare(input) } else { expr }
        }
        _ => expr,
    }
}
