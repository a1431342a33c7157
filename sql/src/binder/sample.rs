//! TABLESAMPLE: the table becomes a subquery whose WHERE decides for each row whether it is
//! sampled.
//!
//! ```text
//! t AS x TABLESAMPLE BERNOULLI (p) REPEATABLE (s)
//!   is  (SELECT * FROM t WHERE tablesample(p, s, key…)) AS x
//! ```
//! Tables have no pages that could be sampled as a whole, so SYSTEM is the same as BERNOULLI.

use sqlparser::ast::{self, TableFactor};

use super::Binder;
use super::expr::Clause;
use super::scope::{Scope, ScopeLeaf};
use crate::bound::{Expr, From, Leaf, LeafSource, Node, Select, Target};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, SAMPLED, SAMPLED_AGAIN};
use crate::types::Type;

impl Binder<'_> {
    /// Binds a table with a TABLESAMPLE clause.
    pub(super) fn sampled(
        &mut self,
        factor: &TableFactor,
        sample: &ast::TableSampleKind,
        scope: &mut Scope,
    ) -> Result<From, SqlError> {
        let ast::TableSampleKind::AfterTableAlias(sample) = sample else {
            return Err(SqlError::unsupported("TABLESAMPLE before an alias"));
        };
        let mut plain = Box::new(factor.clone());
        if let TableFactor::Table { sample, .. } = &mut *plain {
            *sample = None;
        }
        let mut own = Scope::default();
        let from = self.factor(&plain, &mut own, &[])?;
        let table = match &from {
            From::Leaf(Leaf {
                source: LeafSource::Table(table),
                ..
            }) => table.clone(),
            From::Leaf(Leaf {
                source: LeafSource::System(_),
                ..
            }) => return Err(SqlError::unsupported("TABLESAMPLE of a system catalog")),
            _ => {
                let message =
                    "TABLESAMPLE clause can only be applied to tables and materialized views";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        };
        let Some(leaf) = own.leaves.pop() else {
            return Err(SqlError::internal("a table without its columns"));
        };
        let targets = leaf.columns.iter().enumerate();
        let targets = targets.map(|(slot, column)| Target {
            name: column.name.clone(),
            expr: Expr::column(column.ty, slot),
            origin: column.origin,
        });
        let mut select = Select::over(from, targets.collect());
        select.filter = Some(self.throw(sample, &table)?);
        let width = scope.width;
        let moved = |slots: Vec<usize>| slots.into_iter().map(|slot| width + slot).collect();
        let leaf = ScopeLeaf {
            first_slot: scope.width,
            key: moved(leaf.key),
            routed: moved(leaf.routed),
            ..leaf
        };
        let source = LeafSource::Subquery(Box::new(select));
        self.leaf(leaf, source, None, scope)
    }

    /// Returns the condition that decides whether a row is sampled.
    fn throw(&mut self, sample: &ast::TableSample, table: &TableDef) -> Result<Expr, SqlError> {
        let plain = sample.modifier == ast::TableSampleModifier::TableSample
            && matches!(
                sample.name,
                Some(ast::TableSampleMethod::Bernoulli | ast::TableSampleMethod::System)
            )
            && sample.bucket.is_none()
            && sample.offset.is_none();
        let quantity = sample.quantity.as_ref();
        let quantity = quantity.filter(|of| plain && of.parenthesized && of.unit.is_none());
        let Some(quantity) = quantity else {
            return Err(SqlError::unsupported("this form of TABLESAMPLE"));
        };
        let percent = self.scalar(&quantity.value, &Scope::default(), Clause::FromFunction)?;
        let percent = self.sample_argument(percent, Type::FLOAT4)?;
        let Some(seed) = &sample.seed else {
            return Ok(call(&SAMPLED, vec![percent]));
        };
        let seed = ast::Expr::Value(seed.value.clone());
        let seed = self.scalar(&seed, &Scope::default(), Clause::FromFunction)?;
        let mut args = vec![percent, self.sample_argument(seed, Type::FLOAT8)?];
        // Without a primary key, equal rows are sampled together.
        let key = table
            .primary_key()
            .filter(|key| key.unique && !key.is_hidden());
        let key = key.map(|key| key.columns.iter().map(|of| of.column).collect());
        let columns: Vec<usize> = key.unwrap_or_else(|| (0..table.columns.len()).collect());
        args.extend(columns.into_iter().filter_map(|at| {
            let column = table.columns.get(at)?;
            Some(Expr::column(column.ty, at))
        }));
        Ok(call(&SAMPLED_AGAIN, args))
    }

    fn sample_argument(&mut self, arg: Expr, ty: Type) -> Result<Expr, SqlError> {
        let given = arg.ty;
        self.coerce(arg, ty, CastContext::Assignment).map_err(|e| {
            match e.sqlstate() == SqlState::DATATYPE_MISMATCH
                || e.sqlstate() == SqlState::CANNOT_COERCE
            {
                true => SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("argument of TABLESAMPLE must be type {ty}, not type {given}"),
                ),
                false => e,
            }
        })
    }
}

fn call(function: &'static crate::functions::ScalarFunction, args: Vec<Expr>) -> Expr {
    Expr::new(Type::BOOL, Node::Call { function, args })
}
