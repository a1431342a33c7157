//! CREATE, ALTER and DROP of functions and procedures, CALL, and the bodies of SQL functions.

use std::sync::Arc;

use sqlparser::ast::{DataType, Ident, ObjectName};

use super::expr::Clause;
use super::polymorphic_types::{ConcreteTypes, check_determined, element_of, has_any};
use super::scope::Scope;
use super::variables::{NamePriority, Variable, Variables};
use super::{Binder, ParamTypes, bind_among, names};
use crate::bound::{
    AlterRoutine, CreateRoutine, DropRoutine, ResultColumn, SettingChange, Statement, Volatility,
};
use crate::catalog::{
    ArgMode, CatalogView, Language, Planning, RoutineArg, RoutineDef, RoutineKind, RoutineResult,
    columns_of_row,
};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, cast_context, quote_ident};
use crate::parser::{
    self, ArgSyntax, Attributes, Body, ReturnsSyntax, RoutineChange, RoutineName, RoutineSyntax,
    TypeOf, TypeSyntax,
};
use crate::plpgsql;
use crate::settings::{Settings, display_name, is_list};
use crate::types::composites::Field;
use crate::types::{Type, TypeKind};

/// The SQLSTATE for an invalid function definition.
const INVALID_FUNCTION: SqlState = SqlState::new(b"42P13");
const TRIGGER_ARGUMENTS_HINT: &str =
    "The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead.";

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(INVALID_FUNCTION, message)
}

/// A type in the declaration of a routine.
enum DeclaredType {
    Value(Type),
    Record,
    Trigger,
}

/// The bound body of an SQL function.
pub struct BoundBody {
    /// The statements, each with its parameters, which contain its dependencies.
    pub statements: Vec<(Statement, ParamTypes)>,
}

impl Binder<'_> {
    pub(super) fn routine(&mut self, syntax: &RoutineSyntax) -> Result<Statement, SqlError> {
        match syntax {
            RoutineSyntax::Create(create) => self.create_routine(create),
            RoutineSyntax::Drop(drop) => {
                let mut bound = DropRoutine {
                    kind: drop.kind,
                    routines: Vec::new(),
                    missing: Vec::new(),
                    cascade: drop.cascade,
                };
                for name in &drop.routines {
                    match self.named_routine(name, drop.kind)? {
                        Ok(routine) => bound.routines.push(routine),
                        Err(error) if drop.if_exists => {
                            let missing = error.message().to_owned();
                            bound.missing.push(missing.replace(" does not exist", ""));
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(Statement::DropRoutine(bound))
            }
            RoutineSyntax::Alter(alter) => {
                let routine = self.named_routine(&alter.routine, alter.kind)??;
                if let RoutineChange::Schema(schema) = &alter.change {
                    self.schema_for(Some(schema.clone()))?;
                }
                let mut settings = routine.settings.clone();
                let mut planning = routine.planning;
                if let RoutineChange::Attributes {
                    settings: all,
                    attributes,
                } = &alter.change
                {
                    settings = self.settings_after(&settings, all)?;
                    planning = planning_after(planning, attributes, routine.result.set)?;
                }
                Ok(Statement::AlterRoutine(AlterRoutine {
                    kind: alter.kind,
                    routine,
                    change: alter.change.clone(),
                    settings,
                    planning,
                }))
            }
            RoutineSyntax::Call(function) => {
                Ok(Statement::Call(Box::new(self.procedure_call(function)?)))
            }
        }
    }

    /// Returns the settings of a routine after these changes.
    fn settings_after(
        &self,
        before: &[(String, String)],
        changes: &[SettingChange],
    ) -> Result<Vec<(String, String)>, SqlError> {
        let mut all = before.to_vec();
        for change in changes {
            let (name, value) = match change {
                SettingChange::ResetAll => {
                    all.clear();
                    continue;
                }
                SettingChange::Set(name, value) => (name, value.clone()),
                SettingChange::SetCurrent(name) => (name, self.cx.setting(name)),
            };
            let of_transaction = name.starts_with("transaction_");
            if of_transaction || matches!(name.as_str(), "role" | "session_authorization") {
                let what = format!("SET {name} of a function");
                return Err(SqlError::unsupported(what));
            }
            let setting_name = display_name(name);
            let place = all.iter().position(|(of, _)| of == setting_name);
            let mut trial = Settings::new();
            let Some(mut value) = value else {
                trial.reset(name)?;
                if let Some(place) = place {
                    all.remove(place);
                }
                continue;
            };
            if is_list(name) && !value.contains(',') && !value.starts_with('"') {
                value = quote_ident(&value);
            }
            trial.set(name, &value)?;
            match place {
                Some(place) => all[place].1 = value,
                None => all.push((setting_name.to_owned(), value)),
            }
        }
        Ok(all)
    }

    /// Returns the routine that DROP or ALTER names, or the error that it does not exist.
    pub(super) fn named_routine(
        &mut self,
        name: &RoutineName,
        kind: Option<RoutineKind>,
    ) -> Result<Result<Arc<RoutineDef>, SqlError>, SqlError> {
        let what = kind.map_or("routine", RoutineKind::name);
        let qualified = names::qualified_name(name.schema.as_deref(), &name.name);
        let mut found = self.catalog.routines(name.schema.as_deref(), &name.name);
        let mut types = None;
        if let Some(args) = &name.args {
            let mut kinds = Vec::new();
            for arg in args {
                if arg.mode.is_input() {
                    kinds.push(self.value_type(&arg.ty)?.kind);
                }
            }
            found.retain(|routine| routine.input_kinds() == kinds);
            let list: Vec<String> = kinds.iter().map(|k| Type::of(*k).name()).collect();
            types = Some(list.join(", "));
        }
        let of_kind = |routine: &Arc<RoutineDef>| kind.is_none_or(|kind| kind == routine.kind);
        let right: Vec<_> = found.iter().filter(|r| of_kind(r)).cloned().collect();
        Ok(match (right.as_slice(), found.first(), types) {
            ([one], ..) => Ok(Arc::clone(one)),
            ([first, ..], _, Some(_)) => Ok(Arc::clone(first)),
            ([_, ..], _, None) => {
                let message = format!("{what} name \"{qualified}\" is not unique");
                let hint = format!("Specify the argument list to select the {what} unambiguously.");
                Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint))
            }
            ([], Some(other), _) => {
                let message = format!("{} is not a {what}", other.signature());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            ([], None, types) => {
                let message = match types {
                    Some(types) => format!("{what} {qualified}({types}) does not exist"),
                    None if kind == Some(RoutineKind::Procedure) => {
                        format!("could not find a procedure named \"{qualified}\"")
                    }
                    None => format!("could not find a {what} named \"{qualified}\""),
                };
                Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
            }
        })
    }

    fn type_of_syntax(&mut self, syntax: &TypeSyntax) -> Result<DeclaredType, SqlError> {
        match &syntax.of {
            TypeOf::Like(path) => {
                let Some((column, table)) = path.split_last() else {
                    return Err(invalid("invalid type name"));
                };
                let (schema, table) = match table {
                    [table] => (None, table),
                    [schema, table] => (Some(schema.as_str()), table),
                    _ => return Err(invalid("improper %TYPE reference")),
                };
                let table = self.table_called(schema, table)?;
                let found = table.column(column).map(|c| table.columns[c].declared());
                let missing = || names::no_column_of(column, &table.name);
                Ok(DeclaredType::Value(found.ok_or_else(missing)?))
            }
            TypeOf::Row(path) => {
                let idents = path.iter().map(|part| Ident::with_quote('"', part));
                let named = ObjectName::from(idents.collect::<Vec<_>>());
                let ty = self.type_of(&DataType::Custom(named, Vec::new()))?;
                Ok(DeclaredType::Value(ty))
            }
            TypeOf::Named(data_type) => {
                let name = data_type.to_string().to_ascii_lowercase();
                match name.as_str() {
                    "record" => return Ok(DeclaredType::Record),
                    "trigger" => return Ok(DeclaredType::Trigger),
                    "void" => return Ok(DeclaredType::Value(Type::of(TypeKind::Void))),
                    "\"any\"" => return Ok(DeclaredType::Value(Type::of(TypeKind::Any))),
                    _ => {}
                }
                let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
                let mut polymorphic = TypeKind::POLYMORPHIC.into_iter();
                if let Some(kind) = polymorphic.find(|kind| kind.name() == name) {
                    return Ok(DeclaredType::Value(Type::of(kind)));
                }
                Ok(DeclaredType::Value(self.type_of(data_type)?))
            }
        }
    }

    /// Returns the type of a parameter, without its type modifier.
    pub(super) fn value_type(&mut self, syntax: &TypeSyntax) -> Result<Type, SqlError> {
        if syntax.set {
            return Err(invalid("functions cannot accept set arguments"));
        }
        match self.type_of_syntax(syntax)? {
            DeclaredType::Value(ty) => Ok(Type::of(ty.kind)),
            DeclaredType::Record => Ok(Type::of(TypeKind::Record)),
            DeclaredType::Trigger => Err(invalid("functions cannot accept type trigger")),
        }
    }

    fn routine_args(&mut self, list: &[ArgSyntax]) -> Result<Vec<RoutineArg>, SqlError> {
        let mut args: Vec<RoutineArg> = Vec::with_capacity(list.len());
        let mut defaults = false;
        for arg in list {
            let ty = self.value_type(&arg.ty)?;
            if arg.mode.is_input() {
                if args.iter().any(|a| a.mode == ArgMode::Variadic) {
                    return Err(invalid(
                        "VARIADIC parameter must be the last input parameter",
                    ));
                }
                if arg.default.is_none() && defaults && arg.mode != ArgMode::Variadic {
                    return Err(invalid(
                        "input parameters after one with a default value must also have defaults",
                    ));
                }
            }
            let takes_all = element_of(ty.kind).is_some() || ty.kind == TypeKind::Any;
            if arg.mode == ArgMode::Variadic && !takes_all {
                return Err(invalid("VARIADIC parameter must be an array"));
            }
            if let Some(text) = &arg.default {
                if !arg.mode.is_input() {
                    return Err(invalid("only input parameters can have default values"));
                }
                defaults = true;
                let parsed = parser::parse_expression(text)?;
                let bound = self.scalar(&parsed, &Scope::default(), Clause::Default)?;
                if !ty.kind.is_polymorphic() {
                    self.coerce(bound, ty, CastContext::Assignment)?;
                }
            }
            let same = |other: &&RoutineArg| {
                !arg.name.is_empty()
                    && other.name == arg.name
                    && (other.mode.is_input() == arg.mode.is_input()
                        || other.mode.is_output() == arg.mode.is_output())
            };
            if args.iter().find(same).is_some() {
                return Err(invalid(format!(
                    "parameter name \"{}\" used more than once",
                    arg.name
                )));
            }
            args.push(RoutineArg {
                name: arg.name.clone(),
                mode: arg.mode,
                ty,
                default: arg.default.clone(),
            });
        }
        if args.len() > 100 {
            return Err(SqlError::new(
                SqlState::TOO_MANY_ARGUMENTS,
                "functions cannot have more than 100 arguments",
            ));
        }
        Ok(args)
    }

    fn create_routine(&mut self, create: &parser::CreateRoutine) -> Result<Statement, SqlError> {
        let schema = self.schema_for(create.schema.clone())?;
        let language = match (create.language.as_deref(), &create.body) {
            (Some("sql"), _) | (None, Some(Body::Sql(_))) => Language::Sql,
            (Some("plpgsql"), _) => Language::PlPgSql,
            (None, _) => return Err(invalid("no language specified")),
            (Some(other @ ("c" | "internal")), _) => {
                return Err(SqlError::unsupported(format!("language {other}")));
            }
            (Some(other), _) => {
                let message = format!("language \"{other}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        };
        let mut args = self.routine_args(&create.args)?;
        check_records(&args, language)?;
        let result = self.result_of(create, &mut args)?;
        check_determined(&args, &result)?;
        let (body, atomic) = match &create.body {
            None => return Err(invalid("no function body specified")),
            Some(Body::Text(text)) => (text.clone(), false),
            Some(Body::Sql(text)) => (text.clone(), true),
        };
        if atomic && language != Language::Sql {
            let message = "inline SQL function body only valid for language SQL";
            return Err(invalid(message));
        }
        if result.trigger && !args.is_empty() {
            return Err(invalid("trigger functions cannot have declared arguments")
                .hint(TRIGGER_ARGUMENTS_HINT));
        }
        let said = &create.attributes;
        let planning = planning_after(Planning::of(result.set), said, result.set)?;
        let bound = CreateRoutine {
            or_replace: create.or_replace,
            schema,
            name: create.name.clone(),
            kind: create.kind,
            language,
            args,
            result,
            volatility: said.volatility.unwrap_or(Volatility::Volatile),
            strict: said.strict.unwrap_or(false),
            definer: said.definer.unwrap_or(false),
            planning,
            body,
            atomic,
            settings: self.settings_after(&[], &create.settings)?,
        };
        check_any(language, &bound.args, &bound.result)?;
        let checked = self.cx.setting("check_function_bodies");
        let own = match bound.settings.is_empty() {
            true => None,
            false => {
                let mut settings = self.cx.settings_now()?;
                for (name, value) in &bound.settings {
                    settings.set(name, value)?;
                }
                Some(self.cx.under(settings))
            }
        };
        let cx = own.as_ref().unwrap_or(self.cx);
        if checked.as_deref() != Some("off") {
            match language {
                Language::Sql => {
                    if bound.result.trigger {
                        return Err(invalid("SQL functions cannot return type trigger"));
                    }
                    let body = (bound.body.as_str(), bound.atomic);
                    let signature = (bound.name.as_str(), &bound.args[..], &bound.result);
                    let read = match has_any(&bound.args, &bound.result) {
                        true => parsed_body(body).map(|_| ()),
                        false => bind_body(body, signature, self.catalog, cx).map(|_| ()),
                    };
                    let calls_itself = || parser::calls(&bound.body, &bound.name);
                    match read {
                        // Privileges are checked for the caller of the function, when it is called.
                        Err(error) if error.sqlstate() == SqlState::INSUFFICIENT_PRIVILEGE => {}
                        // A recursive function is bound once it is in the catalog.
                        Err(error)
                            if error.sqlstate() == SqlState::UNDEFINED_FUNCTION
                                && calls_itself() => {}
                        read => read?,
                    }
                }
                Language::PlPgSql => {
                    let example = ConcreteTypes::EXAMPLE.signature(&bound.args, &bound.result)?;
                    let header = plpgsql::Header {
                        name: &bound.name,
                        args: &example.0,
                        result: &example.1,
                        procedure: bound.kind == RoutineKind::Procedure,
                        polymorphic: bound.result.ty.kind.is_polymorphic(),
                    };
                    plpgsql::compile(&bound.body, header, self.catalog, cx)?;
                }
                // No user statement can declare a function in C.
                Language::C => {}
            }
        }
        Ok(Statement::CreateRoutine(Box::new(bound)))
    }

    fn result_of(
        &mut self,
        create: &parser::CreateRoutine,
        args: &mut Vec<RoutineArg>,
    ) -> Result<RoutineResult, SqlError> {
        let mut result = RoutineResult {
            ty: Type::of(TypeKind::Void),
            set: false,
            trigger: false,
            columns: Vec::new(),
            record: false,
        };
        if let Some(ReturnsSyntax::Table(columns)) = &create.returns {
            if args.iter().any(|arg| arg.mode.is_output()) {
                return Err(invalid(
                    "OUT and INOUT arguments aren't allowed in TABLE functions",
                ));
            }
            for column in columns {
                let column = ArgSyntax {
                    mode: ArgMode::Out,
                    ..column.clone()
                };
                let mut of_table = self.routine_args(std::slice::from_ref(&column))?;
                of_table
                    .iter_mut()
                    .for_each(|arg| arg.mode = ArgMode::Table);
                let taken = |arg: &RoutineArg| arg.name == column.name;
                if args.iter().any(taken) {
                    let message = format!("parameter name \"{}\" used more than once", column.name);
                    return Err(invalid(message));
                }
                args.append(&mut of_table);
            }
            result.set = true;
        }
        let outputs = args.iter().filter(|arg| arg.mode.is_output());
        let name = |(nth, arg): (usize, &RoutineArg)| match arg.name.as_str() {
            "" => (format!("column{}", nth + 1), arg.ty),
            name => (name.to_owned(), arg.ty),
        };
        result.columns = outputs.enumerate().map(name).collect();
        let of_outputs = match result.columns.as_slice() {
            [] => None,
            [(_, ty)] if create.kind == RoutineKind::Function => Some(*ty),
            _ => Some(Type::of(TypeKind::Record)),
        };
        if let Some(ty) = of_outputs {
            result.ty = ty;
        }
        match &create.returns {
            Some(ReturnsSyntax::Table(_)) => {}
            None if create.kind == RoutineKind::Procedure || of_outputs.is_some() => {}
            None => return Err(invalid("function result type must be specified")),
            Some(ReturnsSyntax::Type(syntax)) => {
                result.set = syntax.set;
                let of = self.type_of_syntax(syntax)?;
                match (of, of_outputs) {
                    (DeclaredType::Value(ty), None) => result.ty = Type::of(ty.kind),
                    (DeclaredType::Value(ty), Some(out)) if ty.kind == out.kind => {}
                    (DeclaredType::Record, Some(out)) if out.kind == TypeKind::Record => {}
                    (_, Some(out)) => {
                        return Err(invalid(format!(
                            "function result type must be {out} because of OUT parameters"
                        )));
                    }
                    (DeclaredType::Record, None) => {
                        result.record = true;
                        result.ty = Type::of(TypeKind::Record);
                    }
                    (DeclaredType::Trigger, None) => result.trigger = true,
                }
            }
        }
        if let Some(columns) = columns_of_row(result.ty) {
            result.columns = columns;
        }
        Ok(result)
    }
}

/// Returns the planner hints of a routine after this statement; 22023 for ROWS of a routine that
/// returns no set.
fn planning_after(before: Planning, said: &Attributes, set: bool) -> Result<Planning, SqlError> {
    if said.rows.is_some() && !set {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "ROWS is not applicable when function does not return a set",
        ));
    }
    Ok(Planning {
        leakproof: said.leakproof.unwrap_or(before.leakproof),
        parallel: said.parallel.unwrap_or(before.parallel),
        cost: said.cost.unwrap_or(before.cost),
        rows: said.rows.unwrap_or(before.rows),
    })
}

/// The parameters of an SQL function, found by name.
pub(super) struct Arguments<'a> {
    pub(super) function: &'a str,
    pub(super) args: Vec<&'a RoutineArg>,
}

impl Arguments<'_> {
    fn named(&self, path: &[String]) -> Option<Variable> {
        let name = match path {
            [name] => name,
            [function, name] if function == self.function => name,
            _ => return None,
        };
        let param = self.args.iter().position(|arg| arg.name == *name)?;
        Some(Variable {
            param,
            ty: self.args[param].ty,
            field: None,
        })
    }
}

impl Variables for Arguments<'_> {
    fn find(&self, path: &[String]) -> Result<Option<Variable>, SqlError> {
        if let Some(whole) = self.named(path) {
            return Ok(Some(whole));
        }
        let Some((field, row)) = path.split_last() else {
            return Ok(None);
        };
        let Some(row) = self.named(row) else {
            return Ok(None);
        };
        let Some(of) = row.ty.kind.as_composite() else {
            return Ok(None);
        };
        let mut fields = of.definition().fields.iter();
        let at = fields.position(|f| f.name == *field);
        Ok(at.map(|at| Variable {
            field: Some(at),
            ..row
        }))
    }

    fn fields(&self, path: &[String]) -> Result<Option<Vec<(String, Variable)>>, SqlError> {
        let Some(row) = self.named(path) else {
            return Ok(None);
        };
        Ok(row.ty.kind.as_composite().map(|of| {
            let fields = of.definition().fields.iter().enumerate();
            let field = |(at, field): (usize, &Field)| {
                let field_of_row = Variable {
                    field: Some(at),
                    ..row
                };
                (field.name.clone(), field_of_row)
            };
            fields.map(field).collect()
        }))
    }

    fn place(&self, _: &str, _: (&str, u32)) -> Option<Variable> {
        None
    }

    fn prefer(&self) -> NamePriority {
        NamePriority::Column
    }
}

/// Parses the statements of an SQL body.
pub(super) fn parsed_body(
    (body, atomic): (&str, bool),
) -> Result<Vec<parser::ParsedStatement>, SqlError> {
    match atomic {
        true => parser::parse(&parser::atomic_body(body)?),
        false => parser::parse(body),
    }
}

/// Refuses parameters and results of type `"any"`, which functions in these languages cannot have,
/// with 42P13 or 0A000.
fn check_any(
    language: Language,
    args: &[RoutineArg],
    result: &RoutineResult,
) -> Result<(), SqlError> {
    let any = TypeKind::Any;
    let what = match args.iter().any(|arg| arg.ty.kind == any) {
        true => ["have arguments of type", "accept type"],
        false if result.ty.kind == any => ["return type", "return type"],
        false => return Ok(()),
    };
    Err(match language {
        Language::Sql => invalid(format!("SQL functions cannot {} \"any\"", what[0])),
        Language::PlPgSql => SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("PL/pgSQL functions cannot {} \"any\"", what[1]),
        ),
        Language::C => return Ok(()),
    })
}

/// Binds the body of an SQL function; its last statement returns the result.
pub fn bind_body(
    (body, atomic): (&str, bool),
    (name, args, result): (&str, &[RoutineArg], &RoutineResult),
    catalog: &dyn CatalogView,
    cx: &EvalContext,
) -> Result<BoundBody, SqlError> {
    let parsed = parsed_body((body, atomic))?;
    let inputs: Vec<&RoutineArg> = args.iter().filter(|arg| arg.mode.is_input()).collect();
    let types: Vec<Type> = inputs.iter().map(|arg| arg.ty).collect();
    let arguments = Arguments {
        function: name,
        args: inputs,
    };
    let mut statements = Vec::new();
    for (nth, parsed) in parsed.into_iter().enumerate() {
        let mut params = ParamTypes::declared(types.clone());
        let variables: Option<&dyn Variables> = Some(&arguments);
        let bound = bind_among(&parsed, catalog, (&mut params, variables), cx);
        let bound = bound.and_then(|bound| match params.len() > types.len() {
            true => Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", types.len() + 1),
            )),
            false => Ok(bound),
        });
        let in_body = |e: SqlError| match e.fields().context {
            None => e.context(format!("SQL function \"{name}\" statement {}", nth + 1)),
            Some(_) => e,
        };
        let bound = bound.map_err(in_body)?;
        check_statement(&bound)?;
        statements.push((bound, params));
    }
    check_result(statements.last().map(|(last, _)| last), result)
        .map_err(|e| e.context(format!("SQL function \"{name}\"")))?;
    Ok(BoundBody { statements })
}

/// Refuses transaction control statements with 0A000.
fn check_statement(statement: &Statement) -> Result<(), SqlError> {
    let refused = match statement {
        Statement::Begin { .. } => "BEGIN",
        Statement::Commit { .. } => "COMMIT",
        Statement::Rollback { .. } => "ROLLBACK",
        Statement::Savepoint(_) => "SAVEPOINT",
        Statement::Release(_) => "RELEASE SAVEPOINT",
        Statement::RollbackTo(_) => "ROLLBACK TO SAVEPOINT",
        Statement::Copy(_) => "COPY",
        _ => return Ok(()),
    };
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{refused} is not allowed in an SQL function"),
    ))
}

/// Checks that the last statement returns the declared type.
fn check_result(last: Option<&Statement>, result: &RoutineResult) -> Result<(), SqlError> {
    if result.columns.is_empty() && result.ty.kind == TypeKind::Void {
        return Ok(());
    }
    let declared = result.ty.name();
    let mismatch = |detail: String| {
        invalid(format!(
            "return type mismatch in function declared to return {declared}"
        ))
        .detail(detail)
    };
    let columns: Option<Vec<ResultColumn>> = last.and_then(Statement::columns);
    let Some(columns) = columns else {
        return Err(mismatch(
            "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING."
                .to_owned(),
        ));
    };
    if result.record && result.columns.is_empty() {
        return Ok(());
    }
    // A single column of the row type is a valid result.
    if let (Some(_), [one]) = (result.ty.kind.as_composite(), columns.as_slice())
        && one.ty.kind.is_row()
        && (one.ty.kind == result.ty.kind || one.ty.kind == TypeKind::Record)
    {
        return Ok(());
    }
    // So is a single record column of a function with several columns; its fields are checked at
    // run time.
    if let (2.., [one]) = (result.columns.len(), columns.as_slice())
        && one.ty.kind == TypeKind::Record
    {
        return Ok(());
    }
    let wanted: Vec<Type> = match result.columns.is_empty() {
        true => vec![result.ty],
        false => result.columns.iter().map(|(_, ty)| *ty).collect(),
    };
    if wanted.len() == 1 && columns.len() != 1 {
        return Err(mismatch(
            "Final statement must return exactly one column.".to_owned(),
        ));
    }
    if columns.len() != wanted.len() {
        let few = if columns.len() < wanted.len() {
            "few"
        } else {
            "many"
        };
        return Err(mismatch(format!(
            "Final statement returns too {few} columns."
        )));
    }
    for (nth, (column, wanted_type)) in columns.iter().zip(&wanted).enumerate() {
        let fits = cast_context(column.ty.kind, wanted_type.kind);
        if fits.is_none_or(|needed| needed > CastContext::Assignment) {
            return Err(match wanted.len() {
                1 => mismatch(format!("Actual return type is {}.", column.ty)),
                _ => mismatch(format!(
                    "Final statement returns {} instead of {} at column {}.",
                    column.ty,
                    wanted_type,
                    nth + 1
                )),
            });
        }
    }
    Ok(())
}

/// Refuses parameters of type record if the language or the parameter mode does not allow them.
fn check_records(args: &[RoutineArg], language: Language) -> Result<(), SqlError> {
    let mut records = args.iter().filter(|arg| arg.ty.kind == TypeKind::Record);
    if language == Language::Sql && records.clone().any(|arg| arg.mode.is_input()) {
        return Err(invalid(
            "SQL functions cannot have arguments of type record",
        ));
    }
    match records.any(|arg| arg.mode.is_output()) {
        true => Err(SqlError::unsupported("a record as an OUT argument")),
        false => Ok(()),
    }
}
