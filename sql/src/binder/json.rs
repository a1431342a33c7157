//! JSON: subscripts of jsonb, and functions that take any number of arguments of any type.

use sqlparser::ast;

use super::Binder;
use super::expr::ExprContext;
use crate::bound::{Expr, Node};
use crate::error::SqlError;
use crate::functions::{ARRAY_OF, CastContext, candidates};
use crate::types::{Type, TypeKind};

impl Binder<'_> {
    /// Binds `j['a'][0]` as a chain of `->` operators.
    pub(super) fn json_subscripted(
        &mut self,
        base: Expr,
        subscripts: &[&ast::Subscript],
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let mut found = base;
        for step in self.json_steps(subscripts, around)? {
            found = self.symbol("->", found, step)?;
        }
        Ok(found)
    }

    /// Binds the subscripts of jsonb: each is an integer or a text.
    pub(super) fn json_steps(
        &mut self,
        subscripts: &[&ast::Subscript],
        around: &mut ExprContext<'_>,
    ) -> Result<Vec<Expr>, SqlError> {
        let mut steps = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let ast::Subscript::Index { index } = subscript else {
                return Err(SqlError::new(
                    crate::error::SqlState::DATATYPE_MISMATCH,
                    "jsonb subscript does not support slices",
                ));
            };
            let index = self.expr(index, around)?;
            steps.push(match index.ty.kind {
                TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 => {
                    self.coerce(index, Type::INT4, CastContext::Assignment)?
                }
                _ => self.coerce(index, Type::TEXT, CastContext::Implicit)?,
            });
        }
        Ok(steps)
    }

    /// Binds `json_build_array(…)` and other functions that take values of any types.
    pub(super) fn json_built(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let Some(function) = candidates(name).next() else {
            return Err(SqlError::internal("a function is not in the library"));
        };
        let mut settled = Vec::with_capacity(args.len());
        for arg in args {
            settled.push(self.padded(arg)?);
        }
        Ok(Expr::new(
            Type::of(function.result),
            Node::Call {
                function,
                args: settled,
            },
        ))
    }

    /// Binds `json_extract_path[_text](j, step, …)`: `#>` and `#>>` with the path as separate
    /// arguments.
    pub(super) fn json_path(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let mut args = args.into_iter();
        let (Some(json), Some(texts)) = (args.next(), Type::TEXT.array()) else {
            return Err(super::call::no_function(name, &types));
        };
        let mut steps = Vec::new();
        for step in args {
            steps.push(self.coerce(step, Type::TEXT, CastContext::Implicit)?);
        }
        let path = Expr::new(
            texts,
            Node::Call {
                function: &ARRAY_OF,
                args: steps,
            },
        );
        self.json_at_path(name, json, path)
    }

    /// Binds the same functions with the path as an array.
    pub(super) fn json_at_path(
        &mut self,
        name: &str,
        json: Expr,
        path: Expr,
    ) -> Result<Expr, SqlError> {
        let of = match name.starts_with("jsonb") {
            true => Type::JSONB,
            false => Type::JSON,
        };
        let texts = Type::TEXT.array().unwrap_or(Type::TEXT);
        let json = self.coerce(json, of, CastContext::Implicit)?;
        let path = self.coerce(path, texts, CastContext::Implicit)?;
        let symbol = if name.ends_with("_text") { "#>>" } else { "#>" };
        self.symbol(symbol, json, path)
    }
}
