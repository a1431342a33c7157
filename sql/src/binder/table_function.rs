//! Functions in FROM with one column: `generate_series`, `txid_status`, and functions that return a
//! single value.

use sqlparser::ast;

use super::call::{function_name, no_function, plain_argument};
use super::expr::Clause;
use super::from::lateral;
use super::scope::{RowValue, Scope, ScopeColumn, ScopeLeaf};
use super::{Binder, names};
use crate::bound::{Expr, From, LeafSource, TableFunction};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::{Type, TypeCategory, TypeKind};

impl Binder<'_> {
    /// Binds a function in FROM: a set-returning function, or another one, which gives one row.
    pub(super) fn table_function(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        (scope, left): (&mut Scope, &[&Scope]),
    ) -> Result<From, SqlError> {
        let name = function_name(name)?;
        let empty = Scope::default();
        let (bound, read) = self.beside(left, |binder| {
            let mut bound = Vec::with_capacity(args.len());
            for arg in args {
                bound.push(binder.scalar(plain_argument(arg)?, &empty, Clause::FromFunction)?);
            }
            Ok(bound)
        })?;
        let (ty, source) = match TableFunction::of(&name) {
            Some(function) => self.rows_of(function, bound)?,
            None => {
                let call = self.call(&name, bound)?;
                (call.ty, LeafSource::Values(vec![vec![call]]))
            }
        };
        let alias_name = match alias {
            Some(alias) => names::fold(&alias.name),
            None => name,
        };
        let leaf = ScopeLeaf {
            alias: alias_name.clone(),
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: vec![ScopeColumn {
                name: alias_name,
                ty,
                origin: None,
                hidden: false,
            }],
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: (!ty.kind.is_row()).then_some(RowValue::Scalar),
            is_table: false,
        };
        self.leaf(leaf, lateral(read, source), alias, scope)
    }

    /// Returns the source for a function, and the type of its column.
    pub(super) fn rows_of(
        &mut self,
        function: TableFunction,
        args: Vec<Expr>,
    ) -> Result<(Type, LeafSource), SqlError> {
        match function {
            TableFunction::GenerateSeries => self.series(args),
            TableFunction::Rows { .. }
            | TableFunction::Routine { .. }
            | TableFunction::Sequence => Err(SqlError::internal("rows without what gives them")),
            TableFunction::TxidStatus => {
                let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
                let Ok([number]) = <[Expr; 1]>::try_from(args) else {
                    return Err(no_function(function.name(), &types));
                };
                let args = vec![self.coerce(number, Type::INT8, CastContext::Implicit)?];
                Ok((Type::TEXT, LeafSource::Function { function, args }))
            }
        }
    }

    /// Binds the arguments of generate_series, converted to their common type.
    fn series(&mut self, args: Vec<Expr>) -> Result<(Type, LeafSource), SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        if args.len() < 2 || args.len() > 3 {
            return Err(no_function("generate_series", &types));
        }
        if types
            .iter()
            .any(|t| t.kind.category() == TypeCategory::DateTime)
        {
            return self.series_of_moments(args);
        }
        let widest = types
            .iter()
            .map(|t| t.kind)
            .filter(|k| *k != TypeKind::Unknown)
            .try_fold(TypeKind::Int4, |widest, kind| match kind {
                TypeKind::Int2 | TypeKind::Int4 => Ok(widest),
                TypeKind::Int8 if widest == TypeKind::Int4 => Ok(TypeKind::Int8),
                TypeKind::Int8 => Ok(widest),
                TypeKind::Numeric => Ok(TypeKind::Numeric),
                _ => Err(no_function("generate_series", &types)),
            })?;
        let ty = Type::of(widest);
        let mut cast = Vec::with_capacity(args.len());
        for arg in args {
            cast.push(self.coerce(arg, ty, CastContext::Implicit)?);
        }
        let source = LeafSource::Function {
            function: TableFunction::GenerateSeries,
            args: cast,
        };
        Ok((ty, source))
    }

    /// Binds the arguments of generate_series over timestamps. As in PostgreSQL, dates are
    /// converted to `timestamptz`.
    fn series_of_moments(&mut self, args: Vec<Expr>) -> Result<(Type, LeafSource), SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let Ok([start, stop, step]) = <[Expr; 3]>::try_from(args) else {
            return Err(no_function("generate_series", &types));
        };
        let local = |ty: &Type| matches!(ty.kind, TypeKind::Timestamp | TypeKind::Unknown);
        let ty = match types[..2].iter().all(local) {
            true => Type::TIMESTAMP,
            false => Type::TIMESTAMPTZ,
        };
        let args = vec![
            self.coerce(start, ty, CastContext::Implicit)?,
            self.coerce(stop, ty, CastContext::Implicit)?,
            self.coerce(step, Type::INTERVAL, CastContext::Implicit)
                .map_err(|e| match e.sqlstate() {
                    SqlState::CANNOT_COERCE => no_function("generate_series", &types),
                    _ => e,
                })?,
        ];
        let source = LeafSource::Function {
            function: TableFunction::GenerateSeries,
            args,
        };
        Ok((ty, source))
    }
}
