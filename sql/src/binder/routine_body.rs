//! The bodies of SQL functions: they are bound with the parameters as variables, and return the
//! declared result.

use super::variables::{NamePriority, Variable, Variables};
use super::{ParamTypes, bind_among};
use crate::bound::{ResultColumn, Statement};
use crate::catalog::{CatalogView, RoutineArg, RoutineResult};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, cast_context};
use crate::parser;
use crate::types::composites::Field;
use crate::types::{Type, TypeKind};

/// The SQLSTATE for an invalid function definition.
const INVALID_FUNCTION: SqlState = SqlState::new(b"42P13");

pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(INVALID_FUNCTION, message)
}

/// The bound body of an SQL function.
pub struct BoundBody {
    /// The statements, each with its parameters, which contain its dependencies.
    pub statements: Vec<(Statement, ParamTypes)>,
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
