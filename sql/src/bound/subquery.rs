//! A query inside an expression, and what it takes from the row around it.
//!
//! ```text
//!   SELECT a, (SELECT max(y) FROM u WHERE u.x = t.x) FROM t
//!                                           └── slot 0: `Node::Outer(0)` inside, argument `t.x` outside
//! ```
//! Whatever a query reads of the rows around it goes through numbered *outer slots*, which belong to the whole
//! statement: the expression around has the values as arguments, and who runs the query puts them into the slots
//! first. So a query depends on its arguments and on nothing else of its surroundings, also where several are
//! nested, and running it twice with the same arguments gives the same rows.

use std::collections::HashSet;
use std::sync::Arc;

use super::expr::{Expr, Volatility};
use super::relation::Part;
use super::routine::RoutineCall;
use super::select::{From, Leaf, LeafSource, Select};
use super::statement::Statement;
use super::{Changes, CopySource, InsertSource, Integrity, Target};
use crate::catalog::RoutineDef;

/// A query inside an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// Its number within the statement. Expressions that read columns of one query's row share it.
    pub id: usize,
    /// What it gives.
    pub kind: SubqueryKind,
    /// The outer slots that it reads, and what goes into them.
    pub args: Vec<(usize, Expr)>,
    /// The query.
    pub query: Arc<Select>,
    /// It may give something else each time that it runs.
    pub volatile: bool,
    /// The outer slot that takes the value, for those who read it again.
    pub result: usize,
}

/// What a query in an expression gives.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryKind {
    /// A column of its one row; NULL without a row, 21000 with more than one.
    Scalar {
        /// Which column.
        column: usize,
    },
    /// An array of its one column, empty without rows.
    Array,
    /// Whether it has rows.
    Exists,
    /// Whether a condition holds for some of its rows, or for all.
    Any {
        /// For all.
        all: bool,
        /// The condition, over the row around and the outer slots below.
        test: Box<Expr>,
        /// The outer slots that take the columns of a row.
        columns: Vec<usize>,
    },
}

impl Subquery {
    /// Does it read no columns of the row around?
    pub fn stands_alone(&self) -> bool {
        self.args.iter().all(|(_, arg)| !arg.has_columns())
    }
}

impl Select {
    /// Calls `f` on each expression of its own: not those of subqueries in FROM, but those of VALUES, of functions in
    /// FROM and of ON.
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

    /// Calls `f` on each query in it, itself first: in FROM and in expressions, at every depth; on those of WITH once.
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

    /// The least stable thing in it.
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
            Part::Query(query) => query.walk(seen, f),
            Part::Cte(cte) if seen.insert(cte.id) => cte.query.walk(seen, f),
            Part::Cte(_) => {}
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
    /// Calls `f` on each query in the expression that no other query of it contains.
    pub fn for_each_subquery<'a>(&'a self, f: &mut dyn FnMut(&'a Subquery)) {
        if let super::Node::Subquery(sub) = &self.node {
            f(sub);
        }
        self.for_each_part(|part| part.for_each_subquery(f));
    }

    /// Is there a query in it, or a call that may have to wait, as one of a user's function may?
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

    /// Calls `f` on each call of a user's function in the expression itself.
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
    /// Calls `f` on each expression that stands in the statement itself, and not in a query of it.
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

    /// Calls `f` on the statement's own FROM, where it is no query.
    fn for_each_from<'a>(&'a self, f: &mut dyn FnMut(&'a From)) {
        match self {
            Statement::With(changes) => changes.for_each(|statement| statement.for_each_from(f)),
            Statement::Update(update) => update.from.iter().for_each(f),
            Statement::Delete(delete) => delete.using.iter().for_each(f),
            Statement::Merge(merge) => f(&merge.source),
            _ => {}
        }
    }

    /// Calls `f` on each query in the statement, at every depth; on those of WITH once.
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

    /// Calls `f` on each query in an expression of the statement, at every depth.
    pub fn for_each_subquery<'a>(&'a self, f: &mut dyn FnMut(&'a Subquery)) {
        self.for_each_expr(&mut |expr| expr.for_each_subquery(f));
        self.for_each_query(&mut |select| {
            select.for_each_expr(&mut |expr| expr.for_each_subquery(f));
        });
    }

    /// Calls `f` on each call of a user's function, at every depth.
    pub fn for_each_routine<'a>(&'a self, f: &mut dyn FnMut(&'a RoutineCall)) {
        self.for_each_expr(&mut |expr| expr.for_each_routine(f));
        self.for_each_from(&mut |from| of_from(from, &mut |expr| expr.for_each_routine(f)));
        self.for_each_query(&mut |select| {
            select.for_each_expr(&mut |expr| expr.for_each_routine(f));
        });
    }

    /// Calls `f` on each function that triggers may run.
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
