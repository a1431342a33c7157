//! Subqueries in expressions, and the columns that they read from outer queries.

use std::sync::Arc;

use sqlparser::ast;

use super::Binder;
use super::aggregate::Aggregates;
use super::expr::{Clause, ExprContext};
use super::row_compare::row_of;
use super::scope::{ResolvedColumn, Scope};
use crate::bound::{Expr, Node, Select, Subquery, SubqueryKind, Volatility};
use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// The query around the one that is being bound.
pub(super) struct OuterQuery {
    pub(super) scope: Scope,
    /// The values that the inner query reads from it: outer slots and their expressions.
    pub(super) args: Vec<(usize, Expr)>,
    /// The clause that contains the inner query; a relation in FROM is surrounded by the relations
    /// to its left.
    pub(super) clause: Clause,
    /// The aggregates that this query has collected so far; `None` where aggregates are not
    /// allowed.
    pub(super) aggregates: Option<Aggregates>,
}

impl OuterQuery {
    pub(super) fn new(scope: Scope, clause: Clause) -> OuterQuery {
        OuterQuery {
            scope,
            args: Vec::new(),
            clause,
            aggregates: None,
        }
    }

    /// Returns whether these are the relations to the left of a relation in FROM.
    pub(super) fn lateral(&self) -> bool {
        self.clause == Clause::FromRelation
    }
}

impl Binder<'_> {
    /// Binds a subquery in an expression, and returns it with its outer references.
    fn inner_query(
        &mut self,
        query: &ast::Query,
        around: &mut ExprContext<'_>,
    ) -> Result<(Select, Vec<(usize, Expr)>), SqlError> {
        let refused = match around.clause {
            Clause::Where
            | Clause::On
            | Clause::GroupBy
            | Clause::Having
            | Clause::Select
            | Clause::OrderBy
            | Clause::Limit
            | Clause::Values
            | Clause::Set
            | Clause::Returning
            | Clause::FromFunction
            | Clause::FromRelation
            | Clause::Argument
            | Clause::Filter
            | Clause::Window => None,
            Clause::Default => Some("DEFAULT expression"),
            Clause::Execute => Some("EXECUTE parameter"),
            Clause::Check => Some("check constraint"),
            Clause::Generated => Some("column generation expression"),
            Clause::Transform => Some("transform expression"),
            Clause::IndexPredicate => Some("index predicate"),
            Clause::IndexExpression => Some("index expression"),
            Clause::TriggerWhen => Some("trigger WHEN condition"),
            Clause::CopyWhere => Some("COPY FROM WHERE condition"),
            Clause::Call => Some("CALL argument"),
        };
        if let Some(place) = refused {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot use subquery in {place}"),
            ));
        }
        let mut surroundings = OuterQuery::new(around.scope.clone(), around.clause);
        let borrowed = around.aggregates.as_deref_mut();
        surroundings.aggregates = borrowed.map(std::mem::take);
        self.surroundings.push(surroundings);
        let bound = self.query(query);
        let surroundings = self.surroundings.pop();
        let surroundings = surroundings.expect("what was pushed is there");
        if let (Some(place), Some(lent)) = (&mut around.aggregates, surroundings.aggregates) {
            **place = lent;
        }
        Ok((bound?, surroundings.args))
    }

    /// Runs `bind` for a query that does not see the current query, but the queries around that.
    pub(super) fn within<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<(T, Vec<(usize, Expr)>), SqlError> {
        self.surrounded(OuterQuery::new(Scope::default(), Clause::Select), bind)
    }

    /// Runs `bind` for a relation that reads the relations to its left in FROM. Returns its result
    /// with its outer references.
    pub(super) fn within_lateral<T>(
        &mut self,
        scope: Scope,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<(T, Vec<(usize, Expr)>), SqlError> {
        self.surrounded(OuterQuery::new(scope, Clause::FromRelation), bind)
    }

    fn surrounded<T>(
        &mut self,
        surroundings: OuterQuery,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<(T, Vec<(usize, Expr)>), SqlError> {
        self.surroundings.push(surroundings);
        let bound = bind(self);
        let args = self.surroundings.pop().map_or(Vec::new(), |s| s.args);
        Ok((bound?, args))
    }

    /// Returns the column that `find` finds in the nearest outer query, as the current query reads
    /// it.
    pub(super) fn surrounding(
        &mut self,
        find: impl Fn(&Scope) -> Result<Option<ResolvedColumn>, SqlError>,
    ) -> Result<Option<Expr>, SqlError> {
        for level in (0..self.surroundings.len()).rev() {
            if let Some(found) = find(&self.surroundings[level].scope)? {
                return Ok(Some(self.carried(level, found.expr)));
            }
        }
        Ok(None)
    }

    /// Passes a value of the outer query at `level` through each query down to the current one.
    pub(super) fn carried(&mut self, level: usize, mut expr: Expr) -> Expr {
        for level in level..self.surroundings.len() {
            let ty = expr.ty;
            let args = &self.surroundings[level].args;
            let slot = match args.iter().find(|(_, arg)| *arg == expr) {
                Some((slot, _)) => *slot,
                None => {
                    let slot = self.outer_slot();
                    self.surroundings[level].args.push((slot, expr));
                    slot
                }
            };
            expr = Expr::new(ty, Node::Outer(slot));
        }
        expr
    }

    /// Returns a new outer slot.
    pub(super) fn outer_slot(&mut self) -> usize {
        self.outer_slots += 1;
        self.outer_slots - 1
    }

    fn new_subquery(
        &mut self,
        ty: Type,
        kind: SubqueryKind,
        (query, args): (Select, Vec<(usize, Expr)>),
    ) -> Expr {
        self.subqueries += 1;
        let sub = Subquery {
            id: self.subqueries - 1,
            kind,
            args,
            volatile: query.volatility() == Volatility::Volatile,
            query: Arc::new(query),
            result: self.outer_slot(),
        };
        Expr::new(ty, Node::Subquery(Box::new(sub)))
    }

    /// Binds `(SELECT …)`.
    pub(super) fn scalar_subquery(
        &mut self,
        query: &ast::Query,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let found = self.inner_query(query, around)?;
        let [target] = found.0.columns() else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "subquery must return only one column",
            ));
        };
        let ty = target.expr.ty;
        Ok(self.new_subquery(ty, SubqueryKind::Scalar { column: 0 }, found))
    }

    /// Binds `ARRAY(SELECT …)`.
    pub(super) fn array_subquery(
        &mut self,
        query: &ast::Query,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let found = self.inner_query(query, around)?;
        let [target] = found.0.columns() else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "subquery must return only one column",
            ));
        };
        let element = match target.expr.ty {
            Type::UNKNOWN => Type::TEXT,
            ty => ty,
        };
        let Some(ty) = element.array() else {
            return Err(SqlError::unsupported(format!("an array of {element}")));
        };
        Ok(self.new_subquery(ty, SubqueryKind::Array, found))
    }

    /// Binds `(SELECT …)` with several columns, and returns one expression for each.
    pub(super) fn row_subquery(
        &mut self,
        query: &ast::Query,
        around: &mut ExprContext<'_>,
    ) -> Result<Vec<Expr>, SqlError> {
        let found = self.inner_query(query, around)?;
        let types: Vec<Type> = found.0.columns().iter().map(|t| t.expr.ty).collect();
        let first = self.new_subquery(Type::UNKNOWN, SubqueryKind::Scalar { column: 0 }, found);
        let mut columns = Vec::with_capacity(types.len());
        for (column, ty) in types.into_iter().enumerate() {
            let mut expr = first.clone();
            expr.ty = ty;
            if let Node::Subquery(sub) = &mut expr.node {
                sub.kind = SubqueryKind::Scalar { column };
                sub.result = self.outer_slot();
            }
            columns.push(expr);
        }
        Ok(columns)
    }

    /// Binds `[NOT] EXISTS (SELECT …)`.
    pub(super) fn exists(
        &mut self,
        query: &ast::Query,
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let found = self.inner_query(query, around)?;
        let exists = self.new_subquery(Type::BOOL, SubqueryKind::Exists, found);
        Ok(negated_if(negated, exists))
    }

    /// Binds `input [NOT] IN (SELECT …)`.
    pub(super) fn in_subquery(
        &mut self,
        input: &ast::Expr,
        query: &ast::Query,
        negated: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let any = self.quantified(input, &ast::BinaryOperator::Eq, query, false, around)?;
        Ok(negated_if(negated, any))
    }

    /// Binds `input op ANY (SELECT …)`, or ALL.
    pub(super) fn quantified(
        &mut self,
        input: &ast::Expr,
        op: &ast::BinaryOperator,
        query: &ast::Query,
        all: bool,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let inputs = row_of(input).unwrap_or_else(|| vec![input]);
        let mut left = Vec::with_capacity(inputs.len());
        for input in &inputs {
            left.push(self.expr(input, around)?);
        }
        let found = self.inner_query(query, around)?;
        let types: Vec<Type> = found.0.columns().iter().map(|t| t.expr.ty).collect();
        if types.len() != left.len() {
            let what = match types.len() > left.len() {
                true => "subquery has too many columns",
                false => "subquery has too few columns",
            };
            return Err(
                SqlError::new(SqlState::SYNTAX_ERROR, what).or_at(self.position_near(input))
            );
        }
        let mut columns = Vec::with_capacity(types.len());
        let mut tests = Vec::with_capacity(types.len());
        for (left, ty) in left.into_iter().zip(types) {
            let slot = self.outer_slot();
            columns.push(slot);
            let right = Expr::new(ty, Node::Outer(slot));
            let test = self
                .binary(op, left, right)
                .map_err(|e| e.or_at(self.position_near(input)))?;
            if test.ty != Type::BOOL {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "op ANY/ALL (subquery) requires operator to yield boolean",
                ));
            }
            tests.push(test);
        }
        let test = match (tests.len(), op) {
            (1, _) => tests.remove(0),
            (_, ast::BinaryOperator::Eq) => Expr::new(Type::BOOL, Node::And(tests)),
            (_, ast::BinaryOperator::NotEq) => Expr::new(Type::BOOL, Node::Or(tests)),
            _ => return Err(SqlError::unsupported("an ordering of rows and a subquery")),
        };
        let kind = SubqueryKind::Any {
            all,
            test: Box::new(test),
            columns,
        };
        Ok(self.new_subquery(Type::BOOL, kind, found))
    }
}

fn negated_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::new(Type::BOOL, Node::Not(Box::new(expr))),
        false => expr,
    }
}

fn unwrapped(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => unwrapped(inner),
        other => other,
    }
}

/// Returns the query of `(SELECT …)`, with or without further parentheses.
pub(super) fn query_of(expr: &ast::Expr) -> Option<&ast::Query> {
    match unwrapped(expr) {
        ast::Expr::Subquery(query) => Some(query),
        _ => None,
    }
}
