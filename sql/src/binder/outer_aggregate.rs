//! Aggregates of an outer query: a call belongs to the innermost query whose columns it reads.
//!
//! ```text
//! SELECT (SELECT max(i.y) + sum(o.x) FROM i) FROM o
//!   max(i.y)   is of the inner query
//!   sum(o.x)   is of the outer query; the inner query reads its placeholder through an outer slot
//! ```
//!
//! While a subquery is bound, the aggregates that the outer query has collected so far are stored
//! with its surroundings. So a call finds its list. Outer columns that only the arguments of the
//! aggregate read are no longer passed in. The inner query receives the aggregate and not these
//! columns.

use super::Binder;
use super::aggregate::Aggregates;
use super::expr::{Clause, ExprContext};
use super::select::has_aggregate;
use crate::bound::{Aggregate, Expr, Node};
use crate::error::{SqlError, SqlState};

/// The number of values that each outer query passes to the query inside it.
pub(super) struct PassedValues(Vec<usize>);

impl Binder<'_> {
    /// Returns the numbers of values passed so far, before the arguments of a call are bound.
    pub(super) fn handed(&self) -> PassedValues {
        PassedValues(self.surroundings.iter().map(|s| s.args.len()).collect())
    }

    /// Returns how many queries further out the call belongs: the smallest level of its parts, or 0
    /// if they read no columns.
    fn level_of_all<'e>(&self, parts: impl IntoIterator<Item = &'e Expr>) -> usize {
        let top = self.surroundings.len();
        let levels = parts.into_iter();
        let levels = levels.filter_map(|part| self.level_of(part, top));
        levels.min().unwrap_or(0)
    }

    fn level_of(&self, expr: &Expr, top: usize) -> Option<usize> {
        match expr.node {
            Node::Column(_) => return Some(0),
            Node::Outer(slot) => {
                let arg = self.handed_in(slot, top)?;
                return Some(1 + self.level_of(arg, top - 1)?);
            }
            _ => {}
        }
        let mut least: Option<usize> = None;
        expr.for_each_part(|part| {
            if let Some(level) = self.level_of(part, top) {
                least = Some(least.map_or(level, |l| l.min(level)));
            }
        });
        least
    }

    /// Returns the outer expression that is passed in through `slot`; `None` if the slot is set
    /// inside the query.
    fn handed_in(&self, slot: usize, top: usize) -> Option<&Expr> {
        let args = &self.surroundings.get(top.checked_sub(1)?)?.args;
        args.iter()
            .find(|(handed, _)| *handed == slot)
            .map(|(_, arg)| arg)
    }

    /// Rewrites an expression of the current query to one of the query `level` further out.
    fn further_out(&self, expr: &mut Expr, level: usize) {
        let top = self.surroundings.len();
        for top in (top - level + 1..=top).rev() {
            self.outward(expr, top);
        }
    }

    fn outward(&self, expr: &mut Expr, top: usize) {
        if let Node::Outer(slot) = expr.node {
            if let Some(arg) = self.handed_in(slot, top) {
                *expr = arg.clone();
            }
            return;
        }
        expr.for_each_part_mut(|part| self.outward(part, top));
    }

    /// Adds an aggregate to the query that it belongs to. Returns its placeholder, as the current
    /// query reads it. `handed` is taken before the arguments are bound.
    pub(super) fn belonging(
        &mut self,
        mut aggregate: Aggregate,
        handed: &PassedValues,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let level = self.level_of_all(parts(&aggregate));
        let clause = self.clause_at(level, around);
        let moved = aggregate.args.iter_mut().chain(&mut aggregate.filter);
        let keys = aggregate.order_by.iter_mut().map(|(key, ..)| key);
        self.move_out(moved.chain(keys), level, handed)?;
        let list = self.aggregates_at(level, around);
        let placeholder = list.ok_or_else(|| not_here(clause))?.add(aggregate);
        Ok(self.carried(self.surroundings.len() - level, placeholder))
    }

    /// Does the same as [`Binder::belonging`] for a call of GROUPING.
    pub(super) fn grouping_belonging(
        &mut self,
        mut args: Vec<Expr>,
        handed: &PassedValues,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let level = self.level_of_all(&args);
        let clause = self.clause_at(level, around);
        self.move_out(&mut args, level, handed)?;
        let allowed = matches!(
            clause,
            Clause::Select | Clause::Having | Clause::OrderBy | Clause::Window
        );
        match self.aggregates_at(level, around) {
            Some(list) if allowed => {
                let placeholder = list.add_level(args);
                Ok(self.carried(self.surroundings.len() - level, placeholder))
            }
            _ => Err(SqlError::new(
                SqlState::GROUPING_ERROR,
                format!("grouping operations are not allowed in {}", clause.name()),
            )),
        }
    }

    /// Returns the clause that contains the call in the query `level` further out.
    fn clause_at(&self, level: usize, around: &ExprContext<'_>) -> Clause {
        match level {
            0 => around.clause,
            level => self.surroundings[self.surroundings.len() - level].clause,
        }
    }

    /// Returns the aggregate list of the query `level` further out; `None` where aggregates are not
    /// allowed.
    fn aggregates_at<'l>(
        &'l mut self,
        level: usize,
        around: &'l mut ExprContext<'_>,
    ) -> Option<&'l mut Aggregates> {
        let top = self.surroundings.len();
        match level {
            0 => around.aggregates.as_deref_mut(),
            level => self.surroundings[top - level].aggregates.as_mut(),
        }
    }

    /// Moves the parts of a call to the query `level` further out. The values that only the call
    /// passed through the queries between are removed.
    fn move_out<'e>(
        &mut self,
        parts: impl IntoIterator<Item = &'e mut Expr>,
        level: usize,
        handed: &PassedValues,
    ) -> Result<(), SqlError> {
        if level == 0 {
            return Ok(());
        }
        for part in parts {
            self.further_out(part, level);
            if has_aggregate(part) {
                return Err(not_here(Clause::Argument));
            }
        }
        let home = self.surroundings.len() - level;
        let between = self.surroundings.iter_mut().zip(&handed.0);
        for (between, had) in between.skip(home) {
            between.args.truncate(*had);
        }
        Ok(())
    }
}

/// Returns the arguments, the filter and the sort keys of an aggregate.
fn parts(aggregate: &Aggregate) -> impl Iterator<Item = &Expr> {
    let keys = aggregate.order_by.iter().map(|(key, ..)| key);
    aggregate.args.iter().chain(&aggregate.filter).chain(keys)
}

/// Returns the error 42803 for an aggregate in a clause that does not allow one.
fn not_here(clause: Clause) -> SqlError {
    let message = match clause {
        Clause::Argument | Clause::Filter => "aggregate function calls cannot be nested".to_owned(),
        clause => format!("aggregate functions are not allowed in {}", clause.name()),
    };
    SqlError::new(SqlState::GROUPING_ERROR, message)
}
