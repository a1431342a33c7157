//! Function calls, and the resolution of a function name by the types of the arguments.

use sqlparser::ast;

use super::Binder;
use super::coerce::implicitly;
use super::expr::{ExprContext, has_blanks};
use super::json_rows::JsonRows;
use super::named_args::{Argument, in_order};
use super::sequence::{takes_sequence, under_regclass};
use super::target_rows::set_here;
use super::variadic::is_spread;
use super::whole_row::{is_row_call, without_stars};
use super::{names, polymorphic};
use crate::bound::{Expr, Node, WindowFunction};
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, ScalarFunction, candidates, cast_context, is_elsewhere};
use crate::types::{Type, TypeCategory, TypeKind};
use crate::value::Value;

impl Binder<'_> {
    /// Binds a function call as it is written.
    pub(super) fn function(
        &mut self,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let position = match function.name.0.first() {
            Some(ast::ObjectNamePart::Identifier(ident)) => self.position(ident.span),
            _ => 0,
        };
        self.function_here(function, around)
            .map_err(|e| e.or_at(position))
    }

    fn function_here(
        &mut self,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if is_row_call(function) {
            return self.row_call(function, around);
        }
        if let Some(plain) = without_stars(function) {
            return self.function_here(&plain, around);
        }
        if let Some(call) = self.routine_call(function, around)? {
            return Ok(call);
        }
        let name = function_name(&function.name)?;
        if !function.within_group.is_empty() {
            return self.ordered_set_call(&name, function, around);
        }
        if let Some(args) = is_spread(&function.args) {
            return self.spread_call(&name, args, around);
        }
        if function.over.is_some() {
            return self.window_call(&name, function, around);
        }
        if name == "grouping" {
            return self.grouping_level(function, around);
        }
        if WindowFunction::of(&name).is_some() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("window function {name} requires an OVER clause"),
            ));
        }
        if let Some(aggregate) = self.aggregate_call(&name, function, around)? {
            return Ok(aggregate);
        }
        let refused = |what: &str| {
            SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{what} specified, but {name} is not an aggregate function"),
            )
        };
        if function.filter.is_some() {
            return Err(refused("FILTER"));
        }
        let mut args = Vec::new();
        match &function.args {
            ast::FunctionArguments::None => {}
            ast::FunctionArguments::Subquery(query) if name == "array" => {
                return self.array_subquery(query, around);
            }
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a function of a subquery"));
            }
            ast::FunctionArguments::List(list) => {
                if list.duplicate_treatment.is_some() {
                    return Err(refused("DISTINCT"));
                }
                for (nth, arg) in in_order(&name, &list.args)?.into_iter().enumerate() {
                    args.push(match arg {
                        Argument::Given(arg) if nth == 0 && takes_sequence(&name) => {
                            let arg = self.expr(under_regclass(arg), around)?;
                            let sequence = self.sequence_of(arg)?;
                            self.need_sequence(&name, &sequence)?;
                            sequence
                        }
                        Argument::Given(arg) if nth == 1 && name == "normalize" => {
                            match normal_form(arg) {
                                Some(form) => Expr::constant(Type::TEXT, Value::text(form)),
                                None => self.expr(arg, around)?,
                            }
                        }
                        Argument::Given(arg) => self.expr(arg, around)?,
                        Argument::Default(text) => Expr::constant(Type::UNKNOWN, Value::text(text)),
                    });
                }
            }
        }
        match name.as_str() {
            "pg_get_serial_sequence" => self.serial_sequence(args),
            "coalesce" => self.coalesce(args),
            "greatest" | "least" => self.extreme(name == "greatest", args),
            "nullif" => self.nullif(args),
            "pg_typeof" => self.type_of_value(args),
            "enum_first" | "enum_last" | "enum_range" => self.enum_call(&name, args),
            "concat" | "concat_ws" | "format" => self.concat_all(&name, args),
            "generate_series" => Err(set_here(&name, around.clause)),
            "octet_length" if args.len() == 1 && args[0].ty.kind == TypeKind::BpChar => {
                let padded = self.padded(args.remove(0))?;
                self.call(&name, vec![padded])
            }
            "array_to_string" | "array_to_json" if !args.is_empty() => {
                let padded = self.padded(args.remove(0))?;
                args.insert(0, padded);
                self.call(&name, args)
            }
            "current_timestamp" | "localtimestamp" | "current_time" | "localtime"
                if args.len() == 1 =>
            {
                self.clock_with_precision(&name, &args[0])
            }
            "json_build_array" | "jsonb_build_array" | "json_build_object"
            | "jsonb_build_object" => self.json_built(&name, args),
            "to_json" | "to_jsonb" if args.len() == 1 && has_blanks(args[0].ty) => {
                let padded = self.padded(args.remove(0))?;
                self.call(&name, vec![padded])
            }
            "num_nulls" | "num_nonnulls" if !args.is_empty() => self.json_built(&name, args),
            "json_extract_path"
            | "jsonb_extract_path"
            | "json_extract_path_text"
            | "jsonb_extract_path_text" => self.json_path(&name, args),
            _ if let Some(rows) = JsonRows::of(&name) => {
                self.json_row(&name, rows, args, around.clause)
            }
            _ if super::rows::gives_rows(&name) => Err(set_here(&name, around.clause)),
            _ => self.call(&name, args),
        }
    }

    fn clock_with_precision(&mut self, name: &str, digits: &Expr) -> Result<Expr, SqlError> {
        let clock = self.call(name, Vec::new())?;
        let digits = match &digits.node {
            Node::Const(value) => value.as_int().unwrap_or(6).clamp(0, 6) as i32,
            _ => return Err(SqlError::unsupported("a precision that is not a constant")),
        };
        let to = Type::with(clock.ty.kind, digits);
        self.coerce(clock, to, CastContext::Explicit)
    }

    fn coalesce(&mut self, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let (ty, args) = self.unify(args, "COALESCE")?;
        Ok(Expr::new(ty, Node::Coalesce(args)))
    }

    fn extreme(&mut self, greatest: bool, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let what = if greatest { "GREATEST" } else { "LEAST" };
        let (ty, args) = self.unify(args, what)?;
        let class = match ty.kind.is_integer() {
            true => crate::bound::CompareClass::Int,
            false => crate::bound::CompareClass::Same,
        };
        Ok(self.fold(Expr::new(
            ty,
            Node::Extreme {
                greatest,
                class,
                args,
            },
        )))
    }

    fn nullif(&mut self, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let [left, right] = <[Expr; 2]>::try_from(args).map_err(|args| {
            let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
            no_function("nullif", &types)
        })?;
        let unknown = left.ty == Type::UNKNOWN;
        let result = left.clone();
        let (class, left, right) = self.comparable("=", left, right)?;
        let result = match unknown {
            true => left.clone(),
            false => result,
        };
        Ok(Expr::new(
            result.ty,
            Node::NullIf {
                class,
                left: Box::new(left),
                right: Box::new(right),
                result: Box::new(result),
            },
        ))
    }

    /// Binds a call of concat, which takes arguments of any type and converts each to text.
    fn concat_all(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let Some(function) = candidates(name).next() else {
            return Err(SqlError::internal("concat is not in the library"));
        };
        if args.len() < function.args.len() {
            let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
            return Err(no_function(name, &types));
        }
        let mut texts = Vec::with_capacity(args.len());
        for arg in args {
            let arg = match arg.ty.kind {
                // concat displays booleans as the wire protocol does: `t` and `f`.
                TypeKind::Bool => self.bool_letter(arg),
                TypeKind::BpChar => self.padded(arg)?,
                _ => arg,
            };
            texts.push(self.as_text(arg)?);
        }
        Ok(Expr::new(
            Type::of(function.result),
            Node::Call {
                function,
                args: texts,
            },
        ))
    }

    fn bool_letter(&mut self, input: Expr) -> Expr {
        let letter = |text: &str| Expr::constant(Type::TEXT, Value::text(text));
        let no = Expr::new(Type::BOOL, Node::Not(Box::new(input.clone())));
        Expr::new(
            Type::TEXT,
            Node::Case {
                operand: None,
                branches: vec![(input, letter("t")), (no, letter("f"))],
                otherwise: None,
            },
        )
    }

    /// Binds a call of the built-in function that fits the arguments best.
    pub(super) fn call(&mut self, name: &str, mut args: Vec<Expr>) -> Result<Expr, SqlError> {
        args.retain(|arg| !matches!(arg.node, Node::Param(_)) || arg.ty.kind != TypeKind::Void);
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        match (choose(name, &types), args.as_slice()) {
            (Err(error), [_]) => {
                let arg = args.remove(0);
                self.cast_called(name, arg)?.ok_or(error)
            }
            (chosen, _) => self.call_of(chosen?, args),
        }
    }

    /// Binds `float8(x)`: a call by the name of a type is a cast, if that cast exists.
    fn cast_called(&mut self, name: &str, arg: Expr) -> Result<Option<Expr>, SqlError> {
        let Some(kind) = TypeKind::from_catalog_name(name) else {
            return Ok(None);
        };
        match arg.ty == Type::UNKNOWN || cast_context(arg.ty.kind, kind).is_some() {
            true => {
                let cast = self.coerce(arg, Type::of(kind), CastContext::Explicit);
                cast.map(Some)
            }
            false => Ok(None),
        }
    }

    /// Returns a call of this function, with its arguments cast to the types of its parameters.
    pub(super) fn call_of(
        &mut self,
        function: &'static ScalarFunction,
        args: Vec<Expr>,
    ) -> Result<Expr, SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let element = match polymorphic::is_polymorphic(function) {
            true => polymorphic::element(function.args, &types),
            false => None,
        };
        if element == Some(Type::UNKNOWN) && function.args.iter().any(|a| *a != TypeKind::Any) {
            return Err(polymorphic::undetermined());
        }
        let element = element.unwrap_or(Type::UNKNOWN);
        let mut cast = Vec::with_capacity(args.len());
        for (i, arg) in args.into_iter().enumerate() {
            let to = polymorphic::parameter(parameter(function, i), element, arg.ty)?;
            cast.push(match parameter(function, i) {
                TypeKind::Any => self.unknown_to_text(arg)?,
                _ => self.coerce(arg, to, CastContext::Implicit)?,
            });
        }
        let length = polymorphic::blanks(function.args, &types);
        let element = Type {
            typmod: length.unwrap_or(element.typmod),
            ..element
        };
        let result = polymorphic::parameter(function.result, element, element)?;
        Ok(self.fold(Expr::new(
            result,
            Node::Call {
                function,
                args: cast,
            },
        )))
    }
}

/// Returns the word of an argument that names a Unicode normal form.
fn normal_form(arg: &ast::Expr) -> Option<&str> {
    match arg {
        ast::Expr::Identifier(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

/// Returns the name of a function without the schema of the built-in functions.
pub(super) fn function_name(name: &ast::ObjectName) -> Result<String, SqlError> {
    match names::parts(name)?.as_slice() {
        [name] => Ok(names::fold(name)),
        [schema, name] if names::fold(schema) == crate::catalog::CATALOG_SCHEMA => {
            Ok(names::fold(name))
        }
        [schema, name]
            if names::fold(schema) == "information_schema"
                && names::fold(name) == "_pg_expandarray" =>
        {
            Ok(names::fold(name))
        }
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {name} does not exist"),
        )),
    }
}

/// Returns the expression of a positional argument.
pub(super) fn plain_argument(arg: &ast::FunctionArg) -> Result<&ast::Expr, SqlError> {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
        _ => Err(SqlError::unsupported("a named or wildcard argument")),
    }
}

/// Returns the error 42883 for a function that does not exist.
pub(super) fn no_function(name: &str, types: &[Type]) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {}({}) does not exist", name, type_names(types)),
    )
    .hint(
        "No function matches the given name and argument types. You might need to add explicit \
         type casts.",
    )
}

fn type_names(types: &[Type]) -> String {
    let names: Vec<&str> = types.iter().map(|t| t.kind.name()).collect();
    names.join(", ")
}

/// Returns the type of parameter `i`; the last one also stands for all further arguments.
fn parameter(function: &ScalarFunction, i: usize) -> TypeKind {
    let last = function.args.len().saturating_sub(1);
    function
        .args
        .get(i.min(last))
        .copied()
        .unwrap_or(TypeKind::Unknown)
}

/// The part of a function's declaration that overload resolution looks at.
pub(super) trait Signature {
    /// Returns the types of the parameters.
    fn args(&self) -> &[TypeKind];

    /// Returns whether the last parameter is variadic; overload resolution skips such functions.
    fn is_variadic(&self) -> bool {
        false
    }

    /// Returns whether every argument can be converted to the type of its parameter.
    fn fits(&self, types: &[Type]) -> bool {
        let Some(element) = polymorphic::element(self.args(), types) else {
            return false;
        };
        let mut pairs = self.args().iter().zip(types);
        pairs.all(|(param, ty)| match param {
            TypeKind::Any => true,
            TypeKind::AnyArray => *ty == Type::UNKNOWN || ty.element().is_some(),
            TypeKind::AnyElement => implicitly(ty.kind, element.kind),
            param => implicitly(ty.kind, *param),
        })
    }
}

impl Signature for ScalarFunction {
    fn args(&self) -> &[TypeKind] {
        self.args
    }

    fn is_variadic(&self) -> bool {
        self.variadic
    }
}

/// Chooses among the functions of one name by PostgreSQL's rules. Exact types come first, then
/// implicit casts, then preferred types, then the possible types of unknown literals.
pub(super) fn choose(name: &str, types: &[Type]) -> Result<&'static ScalarFunction, SqlError> {
    check_citext(name, types)?;
    choose_among(|| candidates(name), name, types)
}

/// Checks for functions that ignore the case rules of citext: 0A000 if one of their first two
/// arguments is citext.
pub(super) fn check_citext(name: &str, types: &[Type]) -> Result<(), SqlError> {
    const HEEDLESS: [&str; 9] = [
        "regexp_match",
        "regexp_matches",
        "regexp_replace",
        "regexp_split_to_array",
        "regexp_split_to_table",
        "replace",
        "split_part",
        "strpos",
        "translate",
    ];
    match types {
        [first, second, ..]
            if first.kind.is_citext()
                && (second.kind.is_citext() || *second == Type::UNKNOWN)
                && HEEDLESS.contains(&name) =>
        {
            Err(SqlError::unsupported(format!("{name} of citext")))
        }
        _ => Ok(()),
    }
}

/// Chooses by the same rules among the functions that `known` lists.
pub(super) fn choose_among<'f, F: Signature + 'f, I: Iterator<Item = &'f F>>(
    known: impl Fn() -> I,
    name: &str,
    types: &[Type],
) -> Result<&'f F, SqlError> {
    let arity = |f: &&F| f.args().len() == types.len() && !f.is_variadic();
    let exact = known()
        .filter(arity)
        .find(|f| f.args().iter().zip(types).all(|(a, t)| *a == t.kind));
    if let Some(function) = exact {
        return Ok(function);
    }
    let mut fitting: Vec<&'f F> = known().filter(arity).filter(|f| f.fits(types)).collect();
    if fitting.is_empty() {
        return Err(match known().next().is_none() && is_elsewhere(name) {
            true => SqlError::unsupported(format!("function {name}({})", type_names(types))),
            false => no_function(name, types),
        });
    }
    keep_most(&mut fitting, |f| count(f, types, |a, t| a == t.kind));
    keep_most(&mut fitting, |f| {
        count(f, types, |a, t| {
            a == t.kind || (a.is_preferred() && a.category() == t.kind.category())
        })
    });
    if fitting.len() > 1 {
        by_unknowns(&mut fitting, types);
    }
    match fitting.as_slice() {
        [one] => Ok(one),
        _ => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("function {name}({}) is not unique", type_names(types)),
        )
        .hint(
            "Could not choose a best candidate function. You might need to add explicit type \
             casts.",
        )),
    }
}

fn count<F: Signature>(f: &F, types: &[Type], good: impl Fn(TypeKind, &Type) -> bool) -> usize {
    f.args()
        .iter()
        .zip(types)
        .filter(|(a, t)| good(**a, t))
        .count()
}

fn keep_most<F>(list: &mut Vec<&F>, score: impl Fn(&F) -> usize) {
    let best = list.iter().map(|f| score(f)).max().unwrap_or(0);
    list.retain(|f| score(f) == best);
}

/// Resolves unknown arguments: a string if any candidate takes one, otherwise the type category
/// that all candidates share.
fn by_unknowns<F: Signature>(fitting: &mut Vec<&F>, types: &[Type]) {
    for (i, ty) in types.iter().enumerate() {
        if *ty != Type::UNKNOWN {
            continue;
        }
        let takes_string = fitting
            .iter()
            .any(|f| f.args()[i].category() == TypeCategory::String);
        let category = match takes_string {
            true => TypeCategory::String,
            false => fitting[0].args()[i].category(),
        };
        let agreed = |f: &&F| f.args()[i].category() == category;
        if !takes_string && !fitting.iter().all(agreed) {
            break;
        }
        let narrowed: Vec<_> = fitting
            .iter()
            .copied()
            .filter(|f| f.args()[i].category() == category)
            .collect();
        *fitting = narrowed;
        if fitting.iter().any(|f| f.args()[i].is_preferred()) {
            fitting.retain(|f| f.args()[i].is_preferred());
        }
    }
    if fitting.len() > 1 {
        // If all known arguments have one type, assume that the unknown ones have it too.
        let mut known = types.iter().filter(|t| **t != Type::UNKNOWN);
        if let Some(first) = known.next()
            && known.all(|t| t.kind == first.kind)
        {
            let same: Vec<_> = fitting
                .iter()
                .copied()
                .filter(|f| {
                    let goes = |a: &TypeKind| a.is_polymorphic() || implicitly(first.kind, *a);
                    f.args().iter().all(goes)
                })
                .collect();
            if same.len() == 1 {
                *fitting = same;
            }
        }
    }
}
