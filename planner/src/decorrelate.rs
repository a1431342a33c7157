//! Decorrelation of EXISTS with an equality: it becomes a condition over the rows of a subquery
//! that runs once.
//!
//! ```text
//! EXISTS (SELECT … FROM u WHERE u.x = t.y AND u.z > t.w AND …)
//!   becomes   ((t.y = x AND z > t.w) ANY (SELECT u.x, u.z FROM u WHERE …)) IS TRUE
//! ```
//!
//! Without the rewrite the subquery would read all of `u` for each row. A hash table finds the rows
//! of `u` with the same `x`. If an index serves `u.x`, the query is left unchanged, unless the
//! outer rows are so many that one run and a hash table are estimated to be cheaper.

use std::sync::Arc;

use fencepost_sql::bound::{
    BoolTest, CompareOp, CopySource, Expr, From, InsertSource, Leaf, LeafSource, Node, Select,
    Statement, Subquery, SubqueryKind, Target, Volatility,
};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::types::Type;

use crate::conjuncts::{conjunction, conjuncts_of};
use crate::context::PlanContext;
use crate::estimate::Estimator;
use crate::join::{Runs, prefers_one_run};
use crate::outer_slots::free_slots;
use crate::rules::rewrite;

/// Decorrelates every eligible EXISTS of the statement, whose outer slots from `slots` on are free.
pub fn decorrelate(statement: &mut Statement, slots: &mut usize, cx: PlanContext<'_>) {
    Decorrelation { slots, cx }.in_statement(statement);
}

/// The rewriting of one statement.
struct Decorrelation<'a> {
    /// The first free outer slot.
    slots: &'a mut usize,
    cx: PlanContext<'a>,
}

impl Decorrelation<'_> {
    fn in_statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Select(select) => self.in_select(select, 1.0),
            Statement::Insert(insert) => {
                if let InsertSource::Select { select, .. } = &mut insert.source {
                    self.in_select(select, 1.0);
                }
            }
            Statement::Update(update) => {
                let rows = self.rows_of_table(&update.table, update.filter.as_ref());
                update.filter.iter_mut().for_each(|e| self.in_expr(e, rows));
            }
            Statement::Delete(delete) => {
                let rows = self.rows_of_table(&delete.table, delete.filter.as_ref());
                delete.filter.iter_mut().for_each(|e| self.in_expr(e, rows));
            }
            Statement::Copy(copy) => {
                if let CopySource::Query(select) = &mut copy.source {
                    self.in_select(select, 1.0);
                }
            }
            Statement::With(changes) => self.in_statement(&mut changes.main),
            _ => {}
        }
    }

    /// Rewrites a query that runs `runs` times.
    fn in_select(&mut self, select: &mut Select, runs: f64) {
        select
            .from
            .for_each_leaf_mut(&mut |leaf| self.in_leaf(leaf, runs));
        let has_subquery = select
            .filter
            .iter()
            .chain(&select.having)
            .chain(select.targets.iter().map(|target| &target.expr))
            .any(Expr::has_subquery);
        if !has_subquery {
            return;
        }
        let rows = runs * self.rows(&select.from, select.filter.as_ref());
        let targets = select.targets.iter_mut().map(|target| &mut target.expr);
        let exprs = select.filter.iter_mut().chain(&mut select.having);
        exprs
            .chain(targets)
            .for_each(|expr| self.in_expr(expr, rows));
    }

    fn in_leaf(&mut self, leaf: &mut Leaf, runs: f64) {
        let source = match &mut leaf.source {
            LeafSource::Lateral(lateral) => &mut lateral.source,
            other => other,
        };
        match source {
            LeafSource::Subquery(select) => self.in_select(select, runs),
            LeafSource::Set(set) => {
                self.in_select(&mut set.left, runs);
                self.in_select(&mut set.right, runs);
            }
            _ => {}
        }
    }

    /// Rewrites an expression that is evaluated for `rows` rows.
    fn in_expr(&mut self, expr: &mut Expr, rows: f64) {
        expr.for_each_part_mut(|part| self.in_expr(part, rows));
        if let Node::Subquery(sub) = &mut expr.node {
            let runs = if sub.args.is_empty() { 1.0 } else { rows };
            let query = Arc::make_mut(&mut sub.query);
            rewrite(query);
            self.in_select(query, runs);
            if let Some(changed) = among(sub, rows, self) {
                expr.node = Node::BoolTest {
                    test: BoolTest::True,
                    negated: false,
                    input: Box::new(Expr::new(Type::BOOL, Node::Subquery(Box::new(changed)))),
                };
            }
        }
    }

    /// Estimates as [`Self::rows`] does, for the target table of a statement.
    fn rows_of_table(&self, table: &Arc<TableDef>, filter: Option<&Expr>) -> f64 {
        if !filter.is_some_and(Expr::has_subquery) {
            return 1.0;
        }
        let leaf = Leaf {
            source: LeafSource::Table(Arc::clone(table)),
            alias: String::new(),
            column_names: Vec::new(),
            column_types: table.columns.iter().map(|column| column.ty).collect(),
            first_slot: 0,
        };
        self.rows(&From::Leaf(leaf), filter)
    }

    /// Estimates the number of rows for which the subqueries of a filter run: those that the rest
    /// of the filter leaves.
    fn rows(&self, from: &From, filter: Option<&Expr>) -> f64 {
        let mut conditions = conjuncts_of(filter.cloned());
        conditions.retain(|condition| !condition.has_subquery());
        Estimator::of(self.cx, from).rows(from, &conditions)
    }
}

/// Returns EXISTS rewritten as a condition over the rows of a query; `None` if it is not eligible.
fn among(sub: &Subquery, outer_rows: f64, to: &mut Decorrelation<'_>) -> Option<Subquery> {
    let query = &sub.query;
    let plain = sub.kind == SubqueryKind::Exists
        && !sub.args.is_empty()
        && !sub.volatile
        && query.grouping.is_none()
        && query.windows.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locking.is_none();
    if !plain {
        return None;
    }
    let conditions = conjuncts_of(query.filter.clone());
    let (mut tests, own): (Vec<Expr>, Vec<Expr>) = conditions
        .into_iter()
        .partition(|condition| sub.args.iter().any(|(slot, _)| uses(condition, *slot) > 0));
    let (mut keys, mut has_index) = (Vec::new(), false);
    for test in &mut tests {
        if test.has_subquery() || test.volatility() == Volatility::Volatile {
            return None;
        }
        if let Some(value) = turn_to_key(test, sub) {
            has_index |= index_has(&query.from, value);
            keys.push(value.clone());
        }
    }
    if keys.is_empty() {
        return None;
    }
    let runs = Runs {
        outer_rows,
        own: &own,
        tests: &tests,
        keys: &keys,
    };
    if has_index && !prefers_one_run(query, &runs, to.cx) {
        return None;
    }
    let mut changed = Select::clone(query);
    changed.filter = conjunction(own);
    changed.distinct = false;
    changed.distinct_on = Vec::new();
    changed.order_by = Vec::new();
    changed.targets = Vec::new();
    changed.visible = 0;
    // The query must not depend on the outer row any more: it runs once.
    if !free_slots(&changed).is_empty() {
        return None;
    }
    let mut columns = Vec::new();
    for test in &mut tests {
        take_columns(test, &mut changed, &mut columns, to.slots);
        take_args(test, &sub.args);
    }
    Some(Subquery {
        kind: SubqueryKind::Any {
            all: false,
            test: Box::new(conjunction(tests)?),
            columns,
        },
        args: Vec::new(),
        query: Arc::new(changed),
        ..sub.clone()
    })
}

/// Turns an equality of a value of the subquery's row and an argument so that the argument is on
/// its left. Returns the value; `None` if the condition is no such equality.
fn turn_to_key<'a>(test: &'a mut Expr, sub: &Subquery) -> Option<&'a Expr> {
    let Node::Compare {
        op: CompareOp::Eq,
        left,
        right,
        ..
    } = &mut test.node
    else {
        return None;
    };
    let is_arg = |expr: &Expr| {
        let mut args = sub.args.iter();
        args.any(|(slot, _)| expr.node == Node::Outer(*slot))
    };
    let is_own = |expr: &Expr| {
        let mut args = sub.args.iter();
        expr.has_columns() && args.all(|(slot, _)| uses(expr, *slot) == 0)
    };
    if is_arg(right) && is_own(left) {
        std::mem::swap(left, right);
    }
    (is_arg(left) && is_own(right)).then_some(&**right)
}

/// Replaces the columns of the subquery's row by outer slots that receive them. The query returns
/// these columns.
fn take_columns(test: &mut Expr, query: &mut Select, columns: &mut Vec<usize>, slots: &mut usize) {
    if let Node::Column(_) = test.node {
        let known = query.targets.iter();
        let known = known
            .zip(&*columns)
            .find(|(target, _)| target.expr == *test);
        let slot = match known {
            Some((_, slot)) => *slot,
            None => {
                let slot = *slots;
                *slots += 1;
                columns.push(slot);
                query.targets.push(Target {
                    name: String::new(),
                    expr: test.clone(),
                    origin: None,
                });
                query.visible += 1;
                slot
            }
        };
        test.node = Node::Outer(slot);
        return;
    }
    test.for_each_part_mut(|part| take_columns(part, query, columns, slots));
}

/// Replaces the arguments of a subquery by their expressions over the outer row.
fn take_args(test: &mut Expr, args: &[(usize, Expr)]) {
    if let Node::Outer(slot) = test.node {
        if let Some((_, arg)) = args.iter().find(|(of, _)| *of == slot) {
            *test = arg.clone();
        }
        return;
    }
    test.for_each_part_mut(|part| take_args(part, args));
}

/// Counts how often an expression reads an outer slot.
fn uses(expr: &Expr, slot: usize) -> usize {
    let mut count = usize::from(expr.node == Node::Outer(slot));
    expr.for_each_part(|part| count += uses(part, slot));
    count
}

/// Returns whether `value` is a column that is the leading column of an index.
fn index_has(from: &From, value: &Expr) -> bool {
    let mut found = false;
    value.for_each_column(&mut |slot| {
        from.for_each_leaf(&mut |leaf| {
            let column = slot.checked_sub(leaf.first_slot);
            if let (LeafSource::Table(table), Some(column)) = (&leaf.source, column) {
                let mut indexes = table.indexes.iter();
                found |= column < leaf.width()
                    && indexes.any(|index| {
                        let first = index.columns.first();
                        first.is_some_and(|first| first.column == column)
                    });
            }
        });
    });
    found
}
