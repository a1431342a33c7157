//! Ordered-set aggregates (WITHIN GROUP): percentiles, the mode, and hypothetical-set functions.

use sqlparser::ast;

use super::Binder;
use super::call::{no_function, plain_argument};
use super::expr::{Clause, ExprContext};
use super::group::Grouper;
use crate::bound::{Aggregate, AggregateKind, Expr, OrderedSet};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::{Type, TypeCategory, TypeKind};

/// A key of ORDER BY: the expression, whether it is descending, and whether NULLs come first.
type Key = (Expr, bool, bool);

impl Binder<'_> {
    /// Binds a call with WITHIN GROUP.
    pub(super) fn ordered_set_call(
        &mut self,
        name: &str,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if function.over.is_some() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("OVER is not supported for ordered-set aggregate {name}"),
            ));
        }
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(no_function(name, &[]));
        };
        let syntax = |what: &str| SqlError::new(SqlState::SYNTAX_ERROR, what);
        if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
            return Err(syntax("cannot use DISTINCT with WITHIN GROUP"));
        }
        if !list.clauses.is_empty() {
            return Err(syntax(
                "cannot use multiple ORDER BY clauses with WITHIN GROUP",
            ));
        }
        let handed = self.handed();
        let mut direct = Vec::new();
        for arg in &list.args {
            direct.push(self.scalar(plain_argument(arg)?, around.scope, Clause::Argument)?);
        }
        let clause = ast::FunctionArgumentClause::OrderBy(function.within_group.clone());
        let keys = self.inner_order(&[clause], around)?;
        keys.iter()
            .try_for_each(|(key, ..)| super::distinct::has_order(&key.ty))?;
        let filter = match &function.filter {
            None => None,
            Some(filter) => {
                let filter = self.scalar(filter, around.scope, Clause::Filter)?;
                Some(self.condition(filter, "FILTER")?)
            }
        };
        let Some(kind) = OrderedSet::of(name) else {
            let all = direct.iter().chain(keys.iter().map(|(key, ..)| key));
            let types: Vec<Type> = all.map(|expr| expr.ty).collect();
            return Err(no_function(name, &types));
        };
        let (ty, args, order_by) = self.ordered_set_types(kind, direct, keys)?;
        let aggregate = Aggregate {
            kind: AggregateKind::OrderedSet(kind),
            distinct: false,
            args,
            filter,
            order_by,
            ty,
        };
        self.belonging(aggregate, &handed, around)
    }

    /// Returns the result type, and the direct arguments and keys converted to the declared types.
    fn ordered_set_types(
        &mut self,
        kind: OrderedSet,
        direct: Vec<Expr>,
        mut keys: Vec<Key>,
    ) -> Result<(Type, Vec<Expr>, Vec<Key>), SqlError> {
        let all = direct.iter().chain(keys.iter().map(|(key, ..)| key));
        let types: Vec<Type> = all.map(|expr| expr.ty).collect();
        let missing = || no_function(kind.name(), &types);
        if kind.is_hypothetical() {
            if direct.len() != keys.len() {
                return Err(missing().hint(format!(
                    "To use the hypothetical-set aggregate {}, the number of hypothetical direct \
                     arguments (here {}) must match the number of ordering columns (here {}).",
                    kind.name(),
                    direct.len(),
                    keys.len(),
                )));
            }
            let mut args = Vec::with_capacity(direct.len());
            for (arg, key) in direct.into_iter().zip(&mut keys) {
                let pair = vec![key.0.clone(), arg];
                let (_, pair) = self.unify(pair, "WITHIN GROUP")?;
                let [by, arg] = <[Expr; 2]>::try_from(pair).map_err(|_| missing())?;
                key.0 = by;
                args.push(arg);
            }
            let ty = match kind {
                OrderedSet::Rank | OrderedSet::DenseRank => Type::INT8,
                _ => Type::FLOAT8,
            };
            return Ok((ty, args, keys));
        }
        let [(key, ..)] = keys.as_mut_slice() else {
            return Err(missing());
        };
        if kind == OrderedSet::Mode {
            let ty = Type::of(key.ty.kind);
            return match direct.is_empty() {
                true => Ok((ty, direct, keys)),
                false => Err(missing()),
            };
        }
        let [fraction] = <[Expr; 1]>::try_from(direct).map_err(|_| missing())?;
        let many = fraction.ty.element().is_some();
        let wanted = match many {
            true => Type::FLOAT8.array().ok_or_else(missing)?,
            false => Type::FLOAT8,
        };
        let fraction = self.coerce(fraction, wanted, CastContext::Implicit);
        let fraction = fraction.map_err(|_| missing())?;
        if kind == OrderedSet::PercentileCont && key.ty.kind != TypeKind::Interval {
            if key.ty.kind.category() != TypeCategory::Numeric {
                return Err(missing());
            }
            *key = self.coerce(key.clone(), Type::FLOAT8, CastContext::Implicit)?;
        }
        let one = Type::of(key.ty.kind);
        let ty = match many {
            true => one.array().ok_or_else(missing)?,
            false => one,
        };
        Ok((ty, vec![fraction], keys))
    }
}

impl Grouper<'_> {
    /// Checks that every direct argument is constant within a group; 42803 otherwise.
    pub(super) fn check_direct(&mut self, aggregates: &[Aggregate]) -> Result<(), SqlError> {
        for aggregate in aggregates {
            if !matches!(aggregate.kind, AggregateKind::OrderedSet(_)) {
                continue;
            }
            for arg in &aggregate.args {
                self.rewrite(&mut arg.clone()).map_err(|e| {
                    e.detail(
                        "Direct arguments of an ordered-set aggregate must use only grouped \
                         columns.",
                    )
                })?;
            }
        }
        Ok(())
    }
}
