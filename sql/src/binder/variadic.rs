//! Calls of built-in functions with VARIADIC: an array supplies the last arguments.

use sqlparser::ast;

use super::Binder;
use super::call::{no_function, plain_argument};
use super::expr::ExprContext;
use crate::bound::{Expr, Node};
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, spread_candidate};
use crate::parser::variadic_argument;
use crate::types::Type;

/// Returns the expression of an argument, and whether it is marked VARIADIC.
pub(super) fn argument(arg: &ast::FunctionArg) -> Result<(&ast::Expr, bool), SqlError> {
    match variadic_argument(arg) {
        Some(expr) => Ok((expr, true)),
        None => plain_argument(arg).map(|expr| (expr, false)),
    }
}

/// Returns the arguments if the last one is marked VARIADIC.
pub(super) fn is_spread(args: &ast::FunctionArguments) -> Option<&[ast::FunctionArg]> {
    match args {
        ast::FunctionArguments::List(list) => {
            let last = list.args.last()?;
            variadic_argument(last).map(|_| list.args.as_slice())
        }
        _ => None,
    }
}

impl Binder<'_> {
    pub(super) fn spread_call(
        &mut self,
        name: &str,
        args: &[ast::FunctionArg],
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(self.expr(argument(arg)?.0, around)?);
        }
        let types: Vec<Type> = bound.iter().map(|a| a.ty).collect();
        if name.starts_with("json") && name.contains("_extract_path") {
            let Ok([json, path]) = <[Expr; 2]>::try_from(bound) else {
                return Err(no_function(name, &types));
            };
            return self.json_at_path(name, json, path);
        }
        let Some(function) = spread_candidate(name).filter(|f| bound.len() == f.args.len() + 1)
        else {
            return Err(no_function(name, &types));
        };
        let array = bound.pop().filter(|array| array.ty.element().is_some());
        let Some(array) = array else {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                "VARIADIC argument must be an array",
            ));
        };
        let mut args = Vec::with_capacity(bound.len() + 1);
        for (arg, to) in bound.into_iter().zip(function.args) {
            args.push(self.coerce(arg, Type::of(*to), CastContext::Assignment)?);
        }
        args.push(array);
        let ty = Type::of(function.result);
        Ok(Expr::new(ty, Node::Call { function, args }))
    }
}
