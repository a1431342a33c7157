//! The signatures of routines: the types and defaults of parameters, and the result.

use sqlparser::ast::{DataType, Ident, ObjectName};

use super::expr::Clause;
use super::polymorphic_types::element_of;
use super::routine_body::invalid;
use super::scope::Scope;
use super::{Binder, names};
use crate::catalog::{ArgMode, Language, RoutineArg, RoutineKind, RoutineResult, columns_of_row};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::parser::{self, ArgSyntax, ReturnsSyntax, TypeOf, TypeSyntax};
use crate::types::{Type, TypeKind};

/// A type in the declaration of a routine.
enum DeclaredType {
    Value(Type),
    Record,
    Trigger,
}

impl Binder<'_> {
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

    pub(super) fn routine_args(&mut self, list: &[ArgSyntax]) -> Result<Vec<RoutineArg>, SqlError> {
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

    pub(super) fn result_of(
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

/// Refuses parameters and results of type `"any"`, which functions in these languages cannot have,
/// with 42P13 or 0A000.
pub(super) fn check_any(
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

/// Refuses parameters of type record if the language or the parameter mode does not allow them.
pub(super) fn check_records(args: &[RoutineArg], language: Language) -> Result<(), SqlError> {
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
