//! Deparsing of function calls, and the casts of their arguments.

use sqlparser::ast;

use super::super::aggregate::kind_of;
use super::super::call::{choose, choose_among, function_name, plain_argument};
use super::super::named_args::{Argument, in_order};
use super::super::polymorphic;
use super::super::rows::gives_rows;
use super::super::sequence::{takes_sequence, under_regclass};
use super::super::variadic::{argument, is_spread};
use super::call_pieces::{call, call_named, list_of, spread_call};
use super::expr::words;
use super::tree::{Piece, QueryKind, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::bound::{Node, TableFunction, WindowFunction};
use crate::catalog::ArgMode;
use crate::error::SqlError;
use crate::functions::{ScalarFunction, quote_ident as quoted, rows_candidates};
use crate::types::{Type, TypeKind};

impl Deparser<'_, '_> {
    pub(super) fn function(
        &mut self,
        expr: &ast::Expr,
        function: &ast::Function,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let list = match &function.args {
            ast::FunctionArguments::List(list) => list,
            ast::FunctionArguments::None => {
                let ty = self.bound(expr, level)?.ty;
                let name = function.name.to_string().to_ascii_uppercase();
                return Ok(DeparsedExpr::new(words(name), ty));
            }
            ast::FunctionArguments::Subquery(query) => {
                let ty = self.bound(expr, level)?.ty;
                return self.subquery(QueryKind::Array, Vec::new(), query, (ty, level));
            }
        };
        let named = function_name(&function.name);
        if named.is_ok_and(|name| TableFunction::of(&name).is_some() || gives_rows(&name)) {
            return self.rows_of_call(function, list, level);
        }
        let bound = self.bound(expr, level)?;
        if let Node::Routine(call) = &bound.node {
            let routine = &call.routine;
            let goes_in = |mode: ArgMode| !matches!(mode, ArgMode::Out | ArgMode::Table);
            let types = routine.args.iter().filter(|arg| goes_in(arg.mode));
            let types: Vec<Type> = types.map(|arg| arg.ty).collect();
            let renamed = self.reader.renaming;
            let renamed = renamed.and_then(|of| of.of_routine(routine.id));
            let mut name = quoted(renamed.unwrap_or(&routine.name));
            if !self.seen.contains(&routine.schema) {
                name = format!("{}.{name}", quoted(&routine.schema));
            }
            let mut args = Vec::new();
            let mut spread = false;
            for (arg, ty) in list.args.iter().zip(types) {
                let (arg, variadic) = argument(arg)?;
                spread |= variadic;
                let deparsed = self.expr(arg, level)?;
                args.push(match ty.kind.is_polymorphic() {
                    true => self.as_known(deparsed)?,
                    false => self.coerced(deparsed, Type::of(ty.kind), false)?,
                });
            }
            if args.len() != list.args.len() {
                return Err(SqlError::unsupported("a variadic call"));
            }
            let deparsed = match spread {
                true => spread_call(name, args),
                false => call_named(name, args),
            };
            return Ok(DeparsedExpr::new(deparsed, bound.ty));
        }
        let name = function_name(&function.name)?;
        let ty = bound.ty;
        if let Some(list) = is_spread(&function.args) {
            let document = match name.contains("_extract_path") {
                true if name.starts_with("jsonb") => Type::of(TypeKind::Jsonb),
                true => Type::of(TypeKind::Json),
                false => Type::TEXT,
            };
            let texts = Type::TEXT.array().unwrap_or(Type::UNKNOWN);
            let mut args = Vec::with_capacity(list.len());
            for (nth, arg) in list.iter().enumerate() {
                let unknown = if nth + 1 == list.len() {
                    texts
                } else {
                    document
                };
                let deparsed = self.expr(argument(arg)?.0, level)?;
                args.push(self.coerced_unknown(deparsed, unknown)?);
            }
            return Ok(DeparsedExpr::new(spread_call(quoted(&name), args), ty));
        }
        let grouped = !function.within_group.is_empty();
        if grouped || kind_of(&name).is_some() || function.over.is_some() {
            return self.aggregate(&name, function, list, (ty, level));
        }
        if WindowFunction::of(&name).is_some() {
            return Err(SqlError::unsupported("this call"));
        }
        if list
            .args
            .iter()
            .any(|arg| matches!(arg, ast::FunctionArg::Named { .. }))
        {
            return self.named_call(&name, list, (ty, level));
        }
        if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(row))] =
            list.args.as_slice()
        {
            let row = super::super::names::table_name(row)?.1;
            if let Ok(leaf) = level.scope.leaf(None, &row) {
                self.check_stays(leaf)?;
            }
            let row = Tree::Var(format!("{}.*", quoted(&row)));
            let row = DeparsedExpr::new(row, Type::of(TypeKind::Any));
            return Ok(DeparsedExpr::new(call(&name, vec![row]), ty));
        }
        let mut args = Vec::new();
        for (nth, arg) in in_order(&name, &list.args)?.into_iter().enumerate() {
            let Argument::Given(arg) = arg else {
                return Err(SqlError::unsupported("a left out argument"));
            };
            args.push(match nth == 0 && takes_sequence(&name) {
                true => {
                    let deparsed = self.expr(under_regclass(arg), level)?;
                    self.coerced(deparsed, Type::of(TypeKind::RegClass), false)?
                }
                false => self.expr(arg, level)?,
            });
        }
        let worded = |word: &str, args: Vec<DeparsedExpr>| {
            let mut pieces = vec![Piece::Text(format!("{word}("))];
            pieces.extend(list_of(args));
            pieces.push(Piece::Text(")".to_owned()));
            Tree::Call {
                pieces,
                function: false,
            }
        };
        match name.as_str() {
            "coalesce" | "greatest" | "least" => {
                let (ty, args) = self.unified(args)?;
                Ok(DeparsedExpr::new(
                    worded(&name.to_ascii_uppercase(), args),
                    ty,
                ))
            }
            "grouping" => Ok(DeparsedExpr::new(worded("GROUPING", args), ty)),
            "nullif" => {
                let [left, right] = <[DeparsedExpr; 2]>::try_from(args)
                    .map_err(|_| SqlError::unsupported("this call"))?;
                let (left, right) = self.compared(left, right)?;
                Ok(DeparsedExpr::new(worded("NULLIF", vec![left, right]), ty))
            }
            "current_timestamp" | "localtimestamp" | "current_time" | "localtime" => Ok(
                DeparsedExpr::new(worded(&name.to_ascii_uppercase(), args), ty),
            ),
            "nextval" | "currval" | "setval" => Ok(DeparsedExpr::new(call(&name, args), ty)),
            _ => {
                let args = self.arguments(&name, args)?;
                Ok(DeparsedExpr::new(call(&name, args), ty))
            }
        }
    }

    /// Deparses a call of a set-returning function in a target list.
    fn rows_of_call(
        &mut self,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        let name = function_name(&function.name)?;
        let mut args = Vec::new();
        for arg in &list.args {
            args.push(self.expr(plain_argument(arg)?, level)?);
        }
        let args = self.rows_arguments(&name, args)?;
        let first = args.first().map_or(Type::TEXT, |arg| arg.ty);
        let ty = first.element().unwrap_or(first);
        Ok(DeparsedExpr::new(call(&name, args), ty))
    }

    /// Deparses a call with named arguments.
    fn named_call(
        &mut self,
        name: &str,
        list: &ast::FunctionArgumentList,
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let mut pieces = vec![Piece::Text(format!("{}(", quoted(name)))];
        for (i, arg) in list.args.iter().enumerate() {
            if i > 0 {
                pieces.push(Piece::Text(", ".to_owned()));
            }
            let expr = match arg {
                ast::FunctionArg::Named {
                    name,
                    arg: ast::FunctionArgExpr::Expr(expr),
                    ..
                } => {
                    let name = super::super::names::fold(name);
                    pieces.push(Piece::Text(format!("{} => ", quoted(&name))));
                    expr
                }
                other => plain_argument(other)?,
            };
            pieces.push(Piece::Tree(self.expr(expr, level)?.tree));
        }
        pieces.push(Piece::Text(")".to_owned()));
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    /// Casts arguments to the parameter types of a set-returning function.
    pub(super) fn rows_arguments(
        &mut self,
        name: &str,
        args: Vec<DeparsedExpr>,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        let known = || rows_candidates(name).map(|of| &of.function);
        match choose_among(known, name, &types) {
            Ok(function) => self.as_parameters(function, args),
            // The binder builds such a call itself, so there is no declared signature.
            Err(_) => args.into_iter().map(|arg| self.as_known(arg)).collect(),
        }
    }

    /// Casts arguments to the parameter types of a built-in function.
    pub(super) fn arguments(
        &mut self,
        name: &str,
        args: Vec<DeparsedExpr>,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        // Functions that the binder builds itself accept arguments of any type.
        let Ok(function) = choose(name, &types) else {
            let format = matches!(name, "format" | "concat_ws");
            let args = args.into_iter().enumerate();
            let args = args.map(|(nth, arg)| match format && nth == 0 {
                true => self.coerced(arg, Type::TEXT, false),
                false => Ok(arg),
            });
            return args.collect();
        };
        self.as_parameters(function, args)
    }

    /// Adds the casts to the parameter types of a function.
    fn as_parameters(
        &mut self,
        function: &ScalarFunction,
        args: Vec<DeparsedExpr>,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        let element = polymorphic::element(function.args, &types).unwrap_or(Type::UNKNOWN);
        let mut cast = Vec::with_capacity(args.len());
        for (i, arg) in args.into_iter().enumerate() {
            let last = function.args.len().saturating_sub(1);
            let Some(param) = function.args.get(i.min(last)).copied() else {
                cast.push(arg);
                continue;
            };
            let known = arg.ty != Type::UNKNOWN;
            cast.push(match param {
                TypeKind::Any => arg,
                _ if known && param.is_polymorphic() => arg,
                _ => {
                    let to = polymorphic::parameter(param, element, arg.ty)?;
                    self.coerced(arg, Type::of(to.kind), false)?
                }
            });
        }
        Ok(cast)
    }
}
