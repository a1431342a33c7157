//! Calls of user-defined functions and procedures: overload resolution, and the conversion of
//! arguments.

use std::sync::Arc;

use sqlparser::ast;

use super::call::{Signature, choose, choose_among, no_function};
use super::coerce::implicitly;
use super::expr::{Clause, ExprContext};
use super::polymorphic_types::{ConcreteTypes, concrete, element_of};
use super::scope::{RowValue, Scope, ScopeColumn, ScopeLeaf};
use super::target_rows::set_here;
use super::{Binder, names};
use crate::bound::{Expr, From, Leaf, LeafSource, Node, RoutineCall, TableFunction};
use crate::catalog::acl::Privileges;
use crate::catalog::{ArgMode, CATALOG_SCHEMA, Object, RoutineArg, RoutineDef, RoutineKind};
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, candidates};
use crate::order::StableSort;
use crate::parser;
use crate::types::{Type, TypeKind};

/// The largest number of arguments of a call.
const ARGUMENTS_MAX: usize = 100;

/// The arguments of a call: the positional ones, then the named ones.
struct CallArguments {
    plain: Vec<Expr>,
    named: Vec<(String, Expr)>,
    /// Whether the last argument is marked VARIADIC: an array with the variadic arguments.
    spread: bool,
}

/// The source of the value of a parameter.
#[derive(Clone, Debug)]
enum ArgumentSource {
    /// The argument with this number.
    Given(usize),
    /// The arguments from this number on, as an array.
    Rest(usize),
    /// The default of the parameter.
    Default,
}

/// The value of a parameter before conversion.
enum ArgumentValue {
    /// A value, and the context in which it may be cast.
    One(Expr, CastContext),
    /// The variadic arguments.
    Rest(Vec<Expr>),
}

/// A routine that the call may refer to.
struct Candidate {
    routine: Arc<RoutineDef>,
    places: Vec<ArgumentSource>,
    /// The parameter types of the given arguments, in the order of the arguments.
    kinds: Vec<TypeKind>,
}

impl Signature for Candidate {
    fn args(&self) -> &[TypeKind] {
        &self.kinds
    }

    fn fits(&self, types: &[Type]) -> bool {
        let given: Vec<(TypeKind, Type)> = self
            .kinds
            .iter()
            .copied()
            .zip(types.iter().copied())
            .collect();
        let mut pairs = given.iter();
        pairs.all(|(param, ty)| param.is_polymorphic() || implicitly(ty.kind, *param))
            && ConcreteTypes::of(&given).is_some()
    }
}

impl Candidate {
    /// Matches `count` positional arguments and the named ones with the parameters; `None` if they
    /// do not match.
    fn of(
        routine: &Arc<RoutineDef>,
        params: &[&RoutineArg],
        (count, named, spread): (usize, &[(String, Expr)], bool),
    ) -> Option<Candidate> {
        let variadic = params
            .last()
            .filter(|arg| arg.mode == ArgMode::Variadic && count >= params.len() && !spread);
        let rest = params.len().saturating_sub(1);
        if count > params.len() && variadic.is_none() {
            return None;
        }
        let mut places: Vec<Option<ArgumentSource>> = vec![None; params.len()];
        let mut kinds = vec![TypeKind::Unknown; count + named.len()];
        for (i, kind) in kinds.iter_mut().enumerate().take(count) {
            match variadic {
                Some(arg) if i >= rest => {
                    places[rest].get_or_insert(ArgumentSource::Rest(rest));
                    *kind = element_of(arg.ty.kind)?;
                }
                _ => {
                    places[i] = Some(ArgumentSource::Given(i));
                    *kind = params[i].ty.kind;
                }
            }
        }
        for (i, (name, _)) in named.iter().enumerate() {
            let at = params.iter().position(|arg| arg.name == *name)?;
            if places[at].is_some() {
                return None;
            }
            places[at] = Some(ArgumentSource::Given(count + i));
            kinds[count + i] = params[at].ty.kind;
        }
        let filled = places.into_iter().zip(params);
        let places = filled.map(|(place, arg)| {
            place.or_else(|| arg.default.as_ref().map(|_| ArgumentSource::Default))
        });
        Some(Candidate {
            routine: Arc::clone(routine),
            places: places.collect::<Option<_>>()?,
            kinds,
        })
    }

    fn defaults(&self) -> usize {
        let default = |place: &&ArgumentSource| matches!(place, ArgumentSource::Default);
        self.places.iter().filter(default).count()
    }
}

/// Returns the parameters that receive an argument in CALL or, for functions, in a call.
fn params(routine: &RoutineDef, procedure: bool) -> Vec<&RoutineArg> {
    let given = |arg: &&RoutineArg| match procedure {
        true => arg.mode != ArgMode::Table,
        false => arg.mode.is_input(),
    };
    routine.args.iter().filter(given).collect()
}

impl Binder<'_> {
    /// Returns the routines that a name may refer to.
    fn routines_of(&self, name: &ast::ObjectName) -> Result<Vec<Arc<RoutineDef>>, SqlError> {
        Ok(match names::parts(name)?.as_slice() {
            [name] => self.catalog.routines(None, &names::fold(name)),
            [schema, name] if names::fold(schema) != CATALOG_SCHEMA => {
                let schema = names::fold(schema);
                self.catalog.routines(Some(&schema), &names::fold(name))
            }
            _ => Vec::new(),
        })
    }

    /// Binds a call of a user-defined function in an expression; `None` for other functions.
    pub(super) fn routine_call(
        &mut self,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let routines = self.routines_of(&function.name)?;
        if routines.is_empty() {
            return Ok(None);
        }
        let name = names::table_name(&function.name)?.1;
        let given = match &function.args {
            ast::FunctionArguments::List(list) if list.duplicate_treatment.is_none() => {
                let mut given = Vec::with_capacity(list.args.len());
                for arg in &list.args {
                    given.push(arg);
                }
                self.given(&given, &mut |binder, expr| binder.expr(expr, around))?
            }
            ast::FunctionArguments::None => CallArguments {
                plain: Vec::new(),
                named: Vec::new(),
                spread: false,
            },
            _ => return Ok(None),
        };
        let Some(call) = self.chosen_call(&name, &routines, given, false)? else {
            return Ok(None);
        };
        let routine = &call.routine;
        let misplaced = match (&function.over, &function.filter) {
            (Some(_), _) => Some(("OVER", "a window function nor an aggregate function")),
            (None, Some(_)) => Some(("FILTER", "an aggregate function")),
            (None, None) => None,
        };
        if let Some((word, wanted)) = misplaced {
            let message = format!("{word} specified, but {name} is not {wanted}");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        check_function(routine)?;
        let refused = match around.clause {
            Clause::IndexPredicate => Some("a function of users in an index predicate"),
            Clause::IndexExpression => Some("a function of users in an index expression"),
            Clause::TriggerWhen => Some("a function of users in WHEN of a trigger"),
            Clause::CopyWhere => Some("a function of users in WHERE of COPY"),
            Clause::Transform => Some("a function of users in a change of type"),
            Clause::Execute => Some("a function of users in EXECUTE"),
            clause if routine.result.set => return Err(set_here(&name, clause)),
            _ => None,
        };
        if let Some(refused) = refused {
            return Err(SqlError::unsupported(refused));
        }
        let ty = routine.result.ty.plain();
        Ok(Some(Expr::new(ty, Node::Routine(Box::new(call)))))
    }

    /// Binds CALL.
    pub(super) fn procedure_call(
        &mut self,
        function: &ast::Function,
    ) -> Result<RoutineCall, SqlError> {
        let name = names::table_name(&function.name)?.1;
        let routines = self.routines_of(&function.name)?;
        let scope = Scope::default();
        let given = match &function.args {
            ast::FunctionArguments::List(list) => {
                let given: Vec<_> = list.args.iter().collect();
                self.given(&given, &mut |binder, expr| {
                    binder.scalar(expr, &scope, Clause::Call)
                })?
            }
            _ => CallArguments {
                plain: Vec::new(),
                named: Vec::new(),
                spread: false,
            },
        };
        let types: Vec<Type> = given.plain.iter().map(|arg| arg.ty).collect();
        let missing = || {
            let type_names: Vec<String> = types.iter().map(Type::name).collect();
            let type_names = type_names.join(", ");
            SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("procedure {}({type_names}) does not exist", function.name),
            )
            .hint(
                "No procedure matches the given name and argument types. You might need to add \
                 explicit type casts.",
            )
        };
        let chosen = match routines.is_empty() {
            true => None,
            false => self
                .chosen_call(&name, &routines, given, true)
                .map_err(|e| match e.sqlstate() {
                    SqlState::UNDEFINED_FUNCTION => missing(),
                    _ => e,
                })?,
        };
        let Some(call) = chosen else {
            if candidates(&name).next().is_some() {
                return Err(not_a_procedure(&name, &types));
            }
            return Err(missing());
        };
        match call.routine.kind {
            RoutineKind::Procedure => Ok(call),
            RoutineKind::Function => Err(not_a_procedure(&name, &types)),
        }
    }

    fn given(
        &mut self,
        args: &[&ast::FunctionArg],
        bind: &mut dyn FnMut(&mut Self, &ast::Expr) -> Result<Expr, SqlError>,
    ) -> Result<CallArguments, SqlError> {
        let (mut plain, mut named, mut spread) = (Vec::new(), Vec::new(), false);
        if args.len() > ARGUMENTS_MAX {
            return Err(too_many_arguments());
        }
        for arg in args {
            if let Some(expr) = parser::variadic_argument(arg) {
                spread = true;
                plain.push(bind(self, expr)?);
                continue;
            }
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                    if !named.is_empty() {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            "positional argument cannot follow named argument",
                        ));
                    }
                    plain.push(bind(self, expr)?);
                }
                ast::FunctionArg::Named {
                    name,
                    arg: ast::FunctionArgExpr::Expr(expr),
                    ..
                } => {
                    let name = names::fold(name);
                    if named.iter().any(|(other, _)| *other == name) {
                        let message = format!("argument name \"{name}\" used more than once");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    named.push((name, bind(self, expr)?));
                }
                _ => return Err(SqlError::unsupported("a wildcard argument")),
            }
        }
        Ok(CallArguments {
            plain,
            named,
            spread,
        })
    }

    /// Returns the call of the routine that fits best; `None` if a built-in function fits better.
    fn chosen_call(
        &mut self,
        name: &str,
        routines: &[Arc<RoutineDef>],
        given: CallArguments,
        procedure: bool,
    ) -> Result<Option<RoutineCall>, SqlError> {
        let (count, spread) = (given.plain.len(), given.spread);
        let mut fitting: Vec<Candidate> = Vec::new();
        for routine in routines {
            let params = params(routine, procedure && routine.kind == RoutineKind::Procedure);
            let candidate = Candidate::of(routine, &params, (count, &given.named, given.spread));
            fitting.extend(candidate);
        }
        // Among routines with the same parameter types, prefer the one that uses fewer defaults,
        // then the one that comes earlier in the search path.
        fitting.order_by_key(Candidate::defaults);
        let mut known: Vec<Candidate> = Vec::new();
        for candidate in fitting {
            if known.iter().all(|other| other.kinds != candidate.kinds) {
                known.push(candidate);
            }
        }
        let named = given.named.into_iter().map(|(_, expr)| expr);
        let exprs: Vec<Expr> = given.plain.into_iter().chain(named).collect();
        let types: Vec<Type> = exprs.iter().map(|expr| expr.ty).collect();
        let of_library = candidates(name).next().is_some();
        if of_library
            && !spread
            && let Ok(function) = choose(name, &types)
            && function.args.iter().zip(&types).all(|(a, t)| *a == t.kind)
        {
            return Ok(None);
        }
        let chosen = match choose_among(|| known.iter(), name, &types) {
            Ok(chosen) => chosen,
            Err(_) if of_library => return Ok(None),
            Err(error) => return Err(error),
        };
        let declared = Arc::clone(&chosen.routine);
        let places = chosen.places.clone();
        let object = Object::new(declared.kind.into(), declared.id);
        self.need_use(object, &declared.name, Privileges::EXECUTE);
        let of_call = procedure && declared.kind == RoutineKind::Procedure;
        let mut exprs: Vec<Option<Expr>> = exprs.into_iter().map(Some).collect();
        let mut filled = Vec::with_capacity(places.len());
        let mut kinds = Vec::new();
        for (place, param) in places.iter().zip(params(&declared, of_call)) {
            if param.mode == ArgMode::Out {
                continue;
            }
            let mut take = |i: usize| exprs.get_mut(i).and_then(Option::take);
            filled.push(match place {
                ArgumentSource::Given(i) => {
                    let given = take(*i).ok_or_else(|| no_function(name, &types))?;
                    kinds.push((param.ty.kind, given.ty));
                    ArgumentValue::One(given, CastContext::Implicit)
                }
                ArgumentSource::Rest(from) => {
                    let rest: Vec<Expr> = (*from..types.len()).filter_map(take).collect();
                    let of = element_of(param.ty.kind).unwrap_or(param.ty.kind);
                    kinds.extend(rest.iter().map(|given| (of, given.ty)));
                    ArgumentValue::Rest(rest)
                }
                ArgumentSource::Default => {
                    let default = self.default_argument(&declared, param)?;
                    kinds.push((param.ty.kind, default.ty));
                    ArgumentValue::One(default, CastContext::Assignment)
                }
            });
        }
        let routine = concrete(&declared, &kinds)?;
        for ty in routine.args.iter().map(|arg| arg.ty) {
            self.name_type(ty);
        }
        self.name_type(routine.result.ty);
        let mut args = Vec::with_capacity(filled.len());
        for (filled, param) in filled.into_iter().zip(routine.inputs()) {
            let to = Type::of(param.ty.kind);
            args.push(match filled {
                ArgumentValue::One(given, context) => self.coerce(given, to, context)?,
                ArgumentValue::Rest(rest) => self.packed(rest, to)?,
            });
        }
        Ok(Some(RoutineCall {
            columns: routine.result.columns.clone(),
            routine,
            args,
        }))
    }

    /// Binds the default of a parameter from its text.
    fn default_argument(
        &mut self,
        routine: &RoutineDef,
        arg: &RoutineArg,
    ) -> Result<Expr, SqlError> {
        let text = arg.default.as_deref().unwrap_or("NULL");
        let parsed = parser::parse_expression(text)?;
        let path = [
            routine.schema.clone(),
            crate::catalog::PUBLIC_SCHEMA.to_owned(),
        ];
        let along = super::path::PathView {
            catalog: self.catalog,
            path: &path,
        };
        let around = (self.cx, self.depth + 1);
        let mut binder = Binder::of(text, (&along, &path), self.params, around);
        binder.scalar(&parsed, &Scope::default(), Clause::Default)
    }

    /// Binds a user-defined function in FROM; `None` for other functions.
    pub(super) fn routine_in_from(
        &mut self,
        (name, args): (&ast::ObjectName, &[ast::FunctionArg]),
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        (scope, left): (&mut Scope, &[&Scope]),
    ) -> Result<Option<From>, SqlError> {
        let routines = self.routines_of(name)?;
        if routines.is_empty() {
            return Ok(None);
        }
        let plain = names::table_name(name)?.1;
        let args: Vec<&ast::FunctionArg> = args.iter().collect();
        let empty = Scope::default();
        let (call, read) = self.beside(left, |binder| {
            let given = binder.given(&args, &mut |binder, expr| {
                binder.scalar(expr, &empty, Clause::FromFunction)
            })?;
            binder.chosen_call(&plain, &routines, given, false)
        })?;
        let Some(mut call) = call else {
            return Ok(None);
        };
        check_function(&call.routine)?;
        let alias_name = match alias {
            Some(alias) => names::fold(&alias.name),
            None => plain,
        };
        let definitions = self.column_definitions(alias)?;
        if let Some(columns) = definitions {
            if !call.routine.result.record {
                let message = if call.routine.outputs().next().is_some() {
                    "a column definition list is redundant for a function with OUT parameters"
                } else {
                    "a column definition list is only allowed for functions returning \"record\""
                };
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            call.columns = columns;
        } else if call.routine.result.record {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "a column definition list is required for functions returning \"record\"",
            ));
        }
        let ty = call.routine.result.ty.plain();
        let mut value = match (ty.kind.as_composite(), call.routine.result.record) {
            (Some(of), _) => Some(RowValue::Composite(of)),
            (None, false) if call.columns.len() < 2 => Some(RowValue::Scalar),
            (None, _) => None,
        };
        value = value.filter(|_| !ordinality);
        let row = call.routine.gives_row();
        let mut columns = call.columns.clone();
        columns.iter_mut().for_each(|(_, ty)| *ty = ty.plain());
        if columns.is_empty() {
            columns.push((alias_name.clone(), ty));
        }
        if ordinality {
            columns.push(("ordinality".to_owned(), Type::INT8));
        }
        let rows = row || call.routine.result.set || ordinality;
        let call = Expr::new(ty, Node::Routine(Box::new(call)));
        let source = match rows {
            true => LeafSource::Function {
                function: TableFunction::Routine { ordinality },
                args: vec![call],
            },
            false => LeafSource::Values(vec![vec![call]]),
        };
        let column = |(name, ty): (String, Type)| ScopeColumn {
            name,
            ty,
            origin: None,
            hidden: false,
        };
        let leaf = ScopeLeaf {
            alias: alias_name,
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: columns.into_iter().map(column).collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: value,
            is_table: false,
        };
        let source = super::from::lateral(read, source);
        self.leaf(leaf, source, alias, scope).map(Some)
    }

    /// Returns a set-returning user-defined function of one column as a FROM item, for a SELECT
    /// that has no other target.
    pub(super) fn routine_target(
        &mut self,
        function: &ast::Function,
        scope: &Scope,
    ) -> Result<Option<(Leaf, String)>, SqlError> {
        let routines = self.routines_of(&function.name)?;
        let ast::FunctionArguments::List(list) = &function.args else {
            return Ok(None);
        };
        if !routines.iter().any(|routine| routine.result.set) {
            return Ok(None);
        }
        let name = names::table_name(&function.name)?.1;
        let args: Vec<&ast::FunctionArg> = list.args.iter().collect();
        let given = self.given(&args, &mut |binder, expr| {
            binder.scalar(expr, scope, Clause::FromFunction)
        })?;
        let Some(call) = self.chosen_call(&name, &routines, given, false)? else {
            return Ok(None);
        };
        if !call.routine.result.set || call.routine.gives_row() {
            return Ok(None);
        }
        check_function(&call.routine)?;
        let ty = call.routine.result.ty.plain();
        let leaf = Leaf {
            source: LeafSource::Function {
                function: TableFunction::Routine { ordinality: false },
                args: vec![Expr::new(ty, Node::Routine(Box::new(call)))],
            },
            alias: name.clone(),
            column_names: vec![name.clone()],
            column_types: vec![ty],
            first_slot: 0,
        };
        Ok(Some((leaf, name)))
    }
}

/// Checks that the routine may be called as a function.
fn check_function(routine: &RoutineDef) -> Result<(), SqlError> {
    if routine.kind == RoutineKind::Procedure {
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("{} is a procedure", routine.signature()),
        )
        .hint("To call a procedure, use CALL."));
    }
    if routine.result.trigger {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "trigger functions can only be called as triggers",
        ));
    }
    Ok(())
}

fn not_a_procedure(name: &str, types: &[Type]) -> SqlError {
    let type_names: Vec<String> = types.iter().map(Type::name).collect();
    SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("{name}({}) is not a procedure", type_names.join(", ")),
    )
    .hint("To call a function, use SELECT.")
}

pub(super) fn too_many_arguments() -> SqlError {
    SqlError::new(
        SqlState::TOO_MANY_ARGUMENTS,
        format!("cannot pass more than {ARGUMENTS_MAX} arguments to a function"),
    )
}
