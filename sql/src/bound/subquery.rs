//! Subqueries in expressions, and their outer references.
//!
//! ```text
//!   SELECT a, (SELECT max(y) FROM u WHERE u.x = t.x) FROM t
//!                                           └── slot 0: `Node::Outer(0)` inside,
//!                                               argument `t.x` outside
//! ```
//! A subquery reads outer rows through numbered *outer slots*, which belong to the whole statement.
//! The surrounding expression has the values as arguments, and the executor of the subquery first
//! stores them in the slots. So a subquery depends on nothing but its arguments, even when
//! subqueries are nested. Two executions with the same arguments return the same rows.

use std::collections::HashSet;
use std::sync::Arc;

use super::expr::{Expr, Volatility};
use super::relation::SourceQuery;
use super::routine::RoutineCall;
use super::select::{From, Leaf, LeafSource, Select};
use super::statement::Statement;
use super::{Changes, CopySource, InsertSource, Integrity, Target};
use crate::catalog::RoutineDef;

/// A subquery in an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// The number of the subquery within the statement. Expressions that read different columns of
    /// one row-valued subquery share it.
    pub id: usize,
    /// The kind of the result.
    pub kind: SubqueryKind,
    /// The outer slots that the subquery reads, with their expressions.
    pub args: Vec<(usize, Expr)>,
    /// The query.
    pub query: Arc<Select>,
    /// Whether each execution may return another result.
    pub volatile: bool,
    /// The outer slot that stores the value for expressions that read it again.
    pub result: usize,
}

/// The kind of result of a subquery.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryKind {
    /// A column of its single row; NULL without a row, 21000 with several rows.
    Scalar {
        /// The position of the column.
        column: usize,
    },
    /// An array of the values of its single column; empty without rows.
    Array,
    /// Whether it returns a row.
    Exists,
    /// Whether a condition is true for some of its rows, or for all.
    Any {
        /// Whether it must be true for all rows.
        all: bool,
        /// The condition, over the outer row and the outer slots below.
        test: Box<Expr>,
        /// The outer slots that receive the columns of a row.
        columns: Vec<usize>,
    },
}

impl Subquery {
    /// Returns whether the subquery reads no columns of the outer row.
    pub fn stands_alone(&self) -> bool {
        self.args.iter().all(|(_, arg)| !arg.has_columns())
    }
}

impl Select {
    /// Calls `f` on each expression of the query itself. These include the expressions of VALUES,
    /// of functions in FROM and of ON, but not those of subqueries in FROM.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        of_from(&self.from, f);
        self.filter.iter().for_each(&mut *f);
        if let Some(grouping) = &self.grouping {
            grouping.keys.iter().for_each(&mut *f);
            for aggregate in &grouping.aggregates {
                aggregate.args.iter().for_each(&mut *f);
                aggregate.filter.iter().for_each(&mut *f);
                aggregate.order_by.iter().for_each(|(key, ..)| f(key));
            }
        }
        self.having.iter().for_each(&mut *f);
        self.windows.iter().for_each(|call| call.for_each_expr(f));
        self.targets.iter().for_each(|target| f(&target.expr));
        self.limit.iter().for_each(&mut *f);
        self.offset.iter().for_each(&mut *f);
    }

    /// Calls `f` on the query and on each query inside it, at every depth, in FROM and in
    /// expressions; on each CTE once.
    pub fn for_each_query<'a>(&'a self, f: &mut dyn FnMut(&'a Select)) {
        self.walk(&mut HashSet::new(), f);
    }

    fn walk<'a>(&'a self, seen: &mut HashSet<usize>, f: &mut dyn FnMut(&'a Select)) {
        f(self);
        walk_from(&self.from, seen, f);
        self.for_each_expr(&mut |expr| {
            expr.for_each_subquery(&mut |sub| sub.query.walk(seen, f));
        });
    }

    /// Returns the volatility of the most volatile part, at least stable.
    pub fn volatility(&self) -> Volatility {
        let mut volatility = Volatility::Stable;
        self.for_each_query(&mut |query| {
            query.for_each_expr(&mut |expr| volatility = volatility.max(expr.volatility()));
        });
        volatility
    }
}

fn walk_from<'a>(from: &'a From, seen: &mut HashSet<usize>, f: &mut dyn FnMut(&'a Select)) {
    from.for_each_leaf(&mut |leaf| {
        leaf.source.for_each_part(&mut |part| match part {
            SourceQuery::Query(query) => query.walk(seen, f),
            SourceQuery::Cte(cte) if seen.insert(cte.id) => cte.query.walk(seen, f),
            SourceQuery::Cte(_) => {}
        });
    });
}

fn of_from<'a>(from: &'a From, f: &mut dyn FnMut(&'a Expr)) {
    match from {
        From::Nothing => {}
        From::Leaf(leaf) => leaf.source.for_each_expr(f),
        From::Join(join) => {
            of_from(&join.left, f);
            of_from(&join.right, f);
            join.on.iter().for_each(f);
        }
    }
}

impl LeafSource {
    fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            LeafSource::Function { args, .. } => args.iter().for_each(f),
            LeafSource::Values(rows) => rows.iter().flatten().for_each(f),
            LeafSource::Cte(cte) => cte.args.iter().for_each(|(_, arg)| f(arg)),
            LeafSource::Lateral(lateral) => {
                lateral.args.iter().for_each(|(_, arg)| f(arg));
                lateral.source.for_each_expr(f);
            }
            LeafSource::Table(_)
            | LeafSource::Subquery(_)
            | LeafSource::System(_)
            | LeafSource::Set(_)
            | LeafSource::Recursive(_)
            | LeafSource::Work(_) => {}
        }
    }
}

impl Expr {
    /// Calls `f` on each subquery of the expression that is not inside another subquery of it.
    pub fn for_each_subquery<'a>(&'a self, f: &mut dyn FnMut(&'a Subquery)) {
        if let super::Node::Subquery(sub) = &self.node {
            f(sub);
        }
        self.for_each_part(|part| part.for_each_subquery(f));
    }

    /// Returns whether the expression contains a subquery, or a call that may have to wait, as a
    /// user-defined function may.
    pub fn has_subquery(&self) -> bool {
        use super::Node;
        let mut found = match &self.node {
            Node::Subquery(_) | Node::Routine(_) => true,
            Node::Call { function, .. } => function.wait.is_some(),
            _ => false,
        };
        if !found {
            self.for_each_part(|part| found = found || part.has_subquery());
        }
        found
    }

    /// Calls `f` on each call of a user-defined function in the expression itself.
    pub fn for_each_routine<'a>(&'a self, f: &mut dyn FnMut(&'a RoutineCall)) {
        if let super::Node::Routine(call) = &self.node {
            f(call);
        }
        self.for_each_part(|part| part.for_each_routine(f));
    }
}

impl Changes {
    fn for_each<'a>(&'a self, mut f: impl FnMut(&'a Statement)) {
        self.first.iter().for_each(|(_, statement)| f(statement));
        f(&self.main);
    }
}

impl Statement {
    /// Calls `f` on each expression of the statement itself, outside its subqueries.
    fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        if let Statement::With(changes) = self {
            return changes.for_each(|statement| statement.for_each_expr(f));
        }
        let returned = |targets: &'a [Target], f: &mut dyn FnMut(&'a Expr)| {
            targets.iter().for_each(|target| f(&target.expr));
        };
        let checked = |integrity: &'a Integrity, f: &mut dyn FnMut(&'a Expr)| {
            let views = integrity.rules.views.iter();
            views.for_each(|check| f(&check.condition));
        };
        match self {
            Statement::Insert(insert) => {
                match &insert.source {
                    InsertSource::Values(rows) => rows.iter().flatten().for_each(&mut *f),
                    InsertSource::Select { row, .. } => row.iter().for_each(&mut *f),
                }
                let update = insert.on_conflict.iter().filter_map(|c| c.update.as_ref());
                for update in update {
                    update.assignments.iter().for_each(|a| f(&a.value));
                    update.filter.iter().for_each(&mut *f);
                }
                checked(&insert.integrity, &mut *f);
                returned(&insert.returning, f);
            }
            Statement::Update(update) => {
                update.from.iter().for_each(|from| of_from(from, f));
                update.filter.iter().for_each(&mut *f);
                update.assignments.iter().for_each(|a| f(&a.value));
                checked(&update.integrity, &mut *f);
                returned(&update.returning, f);
            }
            Statement::Delete(delete) => {
                delete.using.iter().for_each(|from| of_from(from, f));
                delete.filter.iter().for_each(&mut *f);
                returned(&delete.returning, f);
            }
            Statement::Merge(merge) => {
                of_from(&merge.source, f);
                merge.for_each_expr(f);
            }
            _ => {}
        }
    }

    /// Calls `f` on the FROM of the statement itself, if the statement is not a query.
    fn for_each_from<'a>(&'a self, f: &mut dyn FnMut(&'a From)) {
        match self {
            Statement::With(changes) => changes.for_each(|statement| statement.for_each_from(f)),
            Statement::Update(update) => update.from.iter().for_each(f),
            Statement::Delete(delete) => delete.using.iter().for_each(f),
            Statement::Merge(merge) => f(&merge.source),
            _ => {}
        }
    }

    /// Calls `f` on each query in the statement, at every depth; on each CTE once.
    pub fn for_each_query<'a>(&'a self, f: &mut dyn FnMut(&'a Select)) {
        let seen = &mut HashSet::new();
        self.walk(seen, f);
    }

    fn walk<'a>(&'a self, seen: &mut HashSet<usize>, f: &mut dyn FnMut(&'a Select)) {
        match self {
            Statement::With(changes) => changes.for_each(|statement| statement.walk(seen, f)),
            Statement::Select(select) => select.walk(seen, f),
            Statement::Insert(insert) => {
                if let InsertSource::Select { select, .. } = &insert.source {
                    select.walk(seen, f);
                }
            }
            Statement::Update(update) => update.view.iter().for_each(|s| s.walk(seen, f)),
            Statement::Delete(delete) => delete.view.iter().for_each(|s| s.walk(seen, f)),
            Statement::Copy(copy) => {
                if let CopySource::Query(select) = &copy.source {
                    select.walk(seen, f);
                }
            }
            Statement::Explain(explain) => explain.statement.walk(seen, f),
            Statement::Declare(declare) => declare.query.walk(seen, f),
            _ => {}
        }
        self.for_each_from(&mut |from| walk_from(from, seen, f));
        self.for_each_expr(&mut |expr| {
            expr.for_each_subquery(&mut |sub| sub.query.walk(seen, f));
        });
    }

    /// Calls `f` on each subquery in an expression of the statement, at every depth.
    pub fn for_each_subquery<'a>(&'a self, f: &mut dyn FnMut(&'a Subquery)) {
        self.for_each_expr(&mut |expr| expr.for_each_subquery(f));
        self.for_each_query(&mut |select| {
            select.for_each_expr(&mut |expr| expr.for_each_subquery(f));
        });
    }

    /// Calls `f` on each call of a user-defined function, at every depth.
    pub fn for_each_routine<'a>(&'a self, f: &mut dyn FnMut(&'a RoutineCall)) {
        self.for_each_expr(&mut |expr| expr.for_each_routine(f));
        self.for_each_from(&mut |from| of_from(from, &mut |expr| expr.for_each_routine(f)));
        self.for_each_query(&mut |select| {
            select.for_each_expr(&mut |expr| expr.for_each_routine(f));
        });
    }

    /// Calls `f` on each function that a trigger may call.
    pub fn for_each_trigger<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<RoutineDef>)) {
        let integrity = match self {
            Statement::With(changes) => {
                return changes.for_each(|statement| statement.for_each_trigger(f));
            }
            Statement::Insert(insert) => &insert.integrity,
            Statement::Update(update) => &update.integrity,
            Statement::Delete(delete) => &delete.integrity,
            Statement::Merge(merge) => &merge.integrity,
            _ => return,
        };
        integrity.routines.iter().for_each(f);
    }

    /// Calls `f` on each leaf of a FROM, at every depth.
    pub fn for_each_leaf<'a>(&'a self, f: &mut dyn FnMut(&'a Leaf)) {
        self.for_each_from(&mut |from| from.for_each_leaf(f));
        self.for_each_query(&mut |select| select.from.for_each_leaf(f));
    }
}
