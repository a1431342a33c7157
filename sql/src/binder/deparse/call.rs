//! Deparsing of calls: functions, aggregates, and functions with SQL keywords between their
//! arguments.

use sqlparser::ast;

use super::super::aggregate::kind_of;
use super::super::call::{choose, choose_among, function_name, plain_argument};
use super::super::named_args::{Argument, in_order};
use super::super::polymorphic;
use super::super::rows::gives_rows;
use super::super::sequence::{takes_sequence, under_regclass};
use super::super::variadic::{argument, is_spread};
use super::expr::words;
use super::tree::{Piece, QueryKind, SortBy, SortKey, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::bound::{AggregateKind, Node, OrderedSet, Statistic, TableFunction, WindowFunction};
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
    fn arguments(
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

    fn aggregate(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let kind = kind_of(name);
        let mut pieces = vec![Piece::Text(format!("{}(", quoted(name)))];
        if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
            pieces.push(Piece::Text("DISTINCT ".to_owned()));
        }
        let star = matches!(
            list.args.as_slice(),
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
        );
        if star {
            pieces.push(Piece::Text("*".to_owned()));
        } else {
            let mut args = Vec::new();
            for arg in &list.args {
                args.push(self.expr(plain_argument(arg)?, level)?);
            }
            let args = match OrderedSet::of(name).filter(|_| !function.within_group.is_empty()) {
                Some(set) => self.direct(set, args)?,
                None => self.aggregated(kind, args)?,
            };
            pieces.extend(list_of(args));
        }
        for clause in &list.clauses {
            let strings: &[ast::FunctionArg] = match kind {
                Some(AggregateKind::StringAgg) => &list.args,
                _ => &[],
            };
            let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(SqlError::unsupported("this clause in a call"));
            };
            pieces.push(Piece::Text(" ORDER BY ".to_owned()));
            pieces.push(Piece::Keys(self.inner_keys(keys, strings, level)?));
        }
        pieces.push(Piece::Text(")".to_owned()));
        if !function.within_group.is_empty() {
            pieces.push(Piece::Text(" WITHIN GROUP (ORDER BY ".to_owned()));
            let set = OrderedSet::of(name);
            pieces.push(Piece::Keys(self.grouped_keys(
                set,
                &function.within_group,
                level,
            )?));
            pieces.push(Piece::Text(")".to_owned()));
        }
        if let Some(filter) = &function.filter {
            pieces.push(Piece::Text(" FILTER (WHERE ".to_owned()));
            pieces.push(Piece::Plain(self.condition(filter, level)?));
            pieces.push(Piece::Text(")".to_owned()));
        }
        if let Some(over) = &function.over {
            pieces.push(Piece::Text(" OVER ".to_owned()));
            match over {
                ast::WindowType::NamedWindow(name) => {
                    let name = super::super::names::fold(name);
                    pieces.push(Piece::Text(quoted(&name)));
                }
                ast::WindowType::WindowSpec(spec) => pieces.extend(self.window(spec, level)?),
            }
        }
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    /// Casts the arguments of an aggregate or of a window function.
    fn aggregated(
        &mut self,
        kind: Option<AggregateKind>,
        args: Vec<DeparsedExpr>,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        use AggregateKind as K;
        let mut all = Vec::new();
        let joins_bytes = args.iter().any(|arg| arg.ty.kind == TypeKind::Bytea);
        for arg in args {
            let is_string = arg.ty.kind.is_string() || arg.ty == Type::UNKNOWN;
            let to = match kind {
                Some(K::StringAgg) if joins_bytes => Some(Type::BYTEA),
                Some(K::StringAgg) => Some(Type::TEXT),
                Some(K::Min | K::Max) if is_string && arg.ty.kind != TypeKind::BpChar => {
                    Some(Type::TEXT)
                }
                Some(K::Statistic(of)) if !Statistic::is_single(of) => Some(Type::FLOAT8),
                Some(K::BoolAnd | K::BoolOr) => Some(Type::BOOL),
                Some(K::Count) | Some(K::JsonObjectAgg | K::JsonbObjectAgg) => None,
                _ if arg.ty == Type::UNKNOWN => Some(Type::TEXT),
                _ => None,
            };
            all.push(match to {
                Some(to) => self.coerced(arg, to, false)?,
                None => arg,
            });
        }
        Ok(all)
    }

    /// Deparses the keys of an ORDER BY that refers to no result column. A string key that is one
    /// of `arguments` is cast to text.
    pub(super) fn inner_keys(
        &mut self,
        keys: &[ast::OrderByExpr],
        arguments: &[ast::FunctionArg],
        level: &Level,
    ) -> Result<Vec<SortKey>, SqlError> {
        let mut all = Vec::new();
        for key in keys {
            let mut deparsed = self.settled(&key.expr, level)?;
            let same = |arg: &ast::Expr| arg.to_string() == key.expr.to_string();
            let is_argument = |arg| plain_argument(arg).is_ok_and(same);
            if deparsed.ty.kind.is_string() && arguments.iter().any(is_argument) {
                deparsed = self.coerced(deparsed, Type::TEXT, false)?;
            }
            all.push(SortKey {
                by: SortBy::Tree(deparsed.tree),
                suffix: suffix(key),
            });
        }
        Ok(all)
    }

    /// Deparses a function with SQL keywords instead of commas, such as EXTRACT.
    pub(super) fn worded(
        &mut self,
        expr: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        use ast::Expr as E;
        let ty = self.bound(expr, level)?.ty;
        let text = |text: &str| Piece::Text(text.to_owned());
        let mut pieces = Vec::new();
        match expr {
            E::Extract { field, expr, .. } => {
                let field = field.to_string().to_ascii_lowercase();
                pieces.push(Piece::Text(format!(
                    "EXTRACT({} FROM ",
                    field.trim_matches('\'')
                )));
                pieces.push(Piece::Plain(self.expr(expr, level)?.tree));
                pieces.push(text(")"));
            }
            E::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let input = self.expr(timestamp, level)?;
                let input = match input.ty == Type::UNKNOWN {
                    true => self.coerced(input, Type::TIMESTAMPTZ, false)?,
                    false => input,
                };
                pieces.push(text("("));
                pieces.push(Piece::Operand(input.tree));
                pieces.push(text(" AT TIME ZONE "));
                pieces.push(Piece::Operand(self.settled(time_zone, level)?.tree));
                pieces.push(text(")"));
            }
            E::Position { expr, r#in } => {
                pieces.push(text("POSITION(("));
                let [part, whole] = self.strings([expr, r#in], level)?;
                pieces.push(Piece::Plain(part));
                pieces.push(text(") IN ("));
                pieces.push(Piece::Plain(whole));
                pieces.push(text("))"));
            }
            E::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let [whole, part] = self.strings([expr, overlay_what], level)?;
                pieces.push(text("OVERLAY("));
                pieces.push(Piece::Plain(whole));
                pieces.push(text(" PLACING "));
                pieces.push(Piece::Plain(part));
                pieces.push(text(" FROM "));
                pieces.push(Piece::Plain(self.expr(overlay_from, level)?.tree));
                if let Some(length) = overlay_for {
                    pieces.push(text(" FOR "));
                    pieces.push(Piece::Plain(self.expr(length, level)?.tree));
                }
                pieces.push(text(")"));
            }
            E::Substring {
                expr,
                substring_from,
                substring_for,
                special,
                shorthand,
            } => {
                let name = match (special, shorthand) {
                    (_, true) => Some("substr"),
                    (true, false) => Some("substring"),
                    (false, false) => None,
                };
                return self.substring(expr, substring_from, substring_for, (name, ty, level));
            }
            E::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                let side = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "LEADING",
                    Some(ast::TrimWhereField::Trailing) => "TRAILING",
                    _ => "BOTH",
                };
                pieces.push(Piece::Text(format!("TRIM({side} ")));
                let extra = trim_characters.iter().flatten();
                let whole = match trim_what.as_deref().into_iter().chain(extra).next() {
                    Some(what) => {
                        let [what, whole] = self.strings([what, expr], level)?;
                        pieces.push(Piece::Plain(what));
                        pieces.push(text(" "));
                        whole
                    }
                    None => {
                        let [whole] = self.strings([expr], level)?;
                        whole
                    }
                };
                pieces.push(text("FROM "));
                pieces.push(Piece::Plain(whole));
                pieces.push(text(")"));
            }
            E::Ceil { expr, .. } => return self.rounded("ceil", expr, (ty, level)),
            E::Floor { expr, .. } => return self.rounded("floor", expr, (ty, level)),
            _ => return Err(SqlError::unsupported("this kind of expression")),
        }
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    fn rounded(
        &mut self,
        name: &str,
        input: &ast::Expr,
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let args = vec![self.expr(input, level)?];
        let args = self.arguments(name, args)?;
        Ok(DeparsedExpr::new(call(name, args), ty))
    }

    fn substring(
        &mut self,
        input: &ast::Expr,
        from: &Option<Box<ast::Expr>>,
        length: &Option<Box<ast::Expr>>,
        (name, ty, level): (Option<&str>, Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let parts = std::iter::once(input);
        let parts = parts.chain(from.as_deref()).chain(length.as_deref());
        let args = self.exprs(parts, level)?;
        let args = self.arguments("substring", args)?;
        if let Some(name) = name {
            return Ok(DeparsedExpr::new(call(name, args), ty));
        }
        let mut words = vec!["SUBSTRING("];
        words.extend(from.as_ref().map(|_| " FROM "));
        words.extend(length.as_ref().map(|_| " FOR "));
        let mut pieces = Vec::new();
        for (word, arg) in words.into_iter().zip(args) {
            pieces.push(Piece::Text(word.to_owned()));
            pieces.push(Piece::Plain(arg.tree));
        }
        pieces.push(Piece::Text(")".to_owned()));
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    /// Converts strings to one type: bytea if one of them is bytea, else text.
    fn strings<const N: usize>(
        &mut self,
        exprs: [&ast::Expr; N],
        level: &Level,
    ) -> Result<[Tree; N], SqlError> {
        let all = self.exprs(exprs, level)?;
        let are_bytes = all.iter().any(|expr| expr.ty.kind == TypeKind::Bytea);
        let ty = if are_bytes { Type::BYTEA } else { Type::TEXT };
        let trees = all
            .into_iter()
            .map(|deparsed| Ok(self.coerced(deparsed, ty, false)?.tree));
        let trees = trees.collect::<Result<Vec<Tree>, SqlError>>()?;
        <[Tree; N]>::try_from(trees).map_err(|_| SqlError::internal("strings are missing"))
    }
}

/// Returns the options of a sort key that are not the defaults, such as ` DESC` or ` NULLS FIRST`.
pub(super) fn suffix(key: &ast::OrderByExpr) -> &'static str {
    match (key.options.asc == Some(false), key.options.nulls_first) {
        (false, Some(true)) => " NULLS FIRST",
        (false, _) => "",
        (true, Some(false)) => " DESC NULLS LAST",
        (true, _) => " DESC",
    }
}

/// Returns a call of a built-in function.
pub(super) fn call(name: &str, args: Vec<DeparsedExpr>) -> Tree {
    call_named(quoted(name), args)
}

/// Returns a call of a function by its qualified name.
pub(super) fn call_named(name: String, args: Vec<DeparsedExpr>) -> Tree {
    let mut pieces = vec![Piece::Text(format!("{name}("))];
    pieces.extend(list_of(args));
    pieces.push(Piece::Text(")".to_owned()));
    Tree::Call {
        pieces,
        function: true,
    }
}

/// Returns a call whose last argument is marked VARIADIC.
fn spread_call(name: String, mut args: Vec<DeparsedExpr>) -> Tree {
    let array = args.pop();
    let mut pieces = vec![Piece::Text(format!("{name}("))];
    let comma = if args.is_empty() { "" } else { ", " };
    pieces.extend(list_of(args));
    pieces.push(Piece::Text(format!("{comma}VARIADIC ")));
    pieces.extend(array.map(|array| Piece::Tree(array.tree)));
    pieces.push(Piece::Text(")".to_owned()));
    Tree::Call {
        pieces,
        function: true,
    }
}

pub(super) fn list_of(args: Vec<DeparsedExpr>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (i, arg) in args.into_iter().enumerate() {
        if i > 0 {
            pieces.push(Piece::Text(", ".to_owned()));
        }
        pieces.push(Piece::Tree(arg.tree));
    }
    pieces
}
