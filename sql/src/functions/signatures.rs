//! Functions and operators by name and argument types, in the text forms of regprocedure, regoper
//! and regoperator.

use super::objects::parts;
use super::quote_ident as quoted;
use crate::binder::search_path;
use crate::catalog::{CATALOG_SCHEMA, CatalogView, RoutineDef, Snapshot};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::pg_catalog::{self, Operator, Procedure};

/// The name of a missing operand.
const NONE: &str = "none";

/// Returns the oid of the function that a text such as `f(integer)` names.
///
/// # Errors
/// 42883 if there is none; 22P02 for a text without parentheses.
pub fn routine_of_signature(text: &str, cx: &EvalContext) -> Result<u32, SqlError> {
    let snapshot = cx.catalog();
    let missing = || missing("function", text);
    let (name, types) = split(text)?;
    let mut wanted = Vec::new();
    for ty in types {
        let oid = pg_catalog::type_oid(&snapshot, ty, cx);
        wanted.push(oid.ok_or_else(|| no_type(ty))?);
    }
    let parts = parts(name)?;
    let (path, name) = match parts.as_slice() {
        [name] => (search_path(&*snapshot, cx), name),
        [schema, name] => (vec![schema.clone()], name),
        _ => return Err(missing()),
    };
    let of_users = path.iter().find_map(|schema| {
        let mut named = snapshot.routines(Some(schema), name).into_iter();
        let takes = |routine: &RoutineDef| {
            let inputs = routine.inputs().map(|arg| arg.ty.oid());
            inputs.eq(wanted.iter().copied())
        };
        named
            .find(|routine| takes(routine))
            .map(|routine| routine.id)
    });
    let in_catalog = parts.len() == 1 || parts[0] == CATALOG_SCHEMA;
    let of_catalog = || {
        let mut all = Procedure::named(name).filter(|_| in_catalog);
        all.find(|of| of.args == wanted).map(|of| of.oid)
    };
    of_users.or_else(of_catalog).ok_or_else(missing)
}

/// Returns a function as regprocedure shows it: `length(text)`.
pub fn signature(snapshot: &Snapshot, oid: u32, cx: &EvalContext) -> Option<String> {
    let type_name = |oid| type_text(snapshot, oid, cx);
    let Some(routine) = snapshot.routine_by_id(oid) else {
        let of = Procedure::of(oid)?;
        let types: Vec<String> = of.args.iter().map(|oid| type_name(*oid)).collect();
        return Some(format!("{}({})", quoted(of.name), types.join(",")));
    };
    let types = routine.inputs().map(|arg| type_name(arg.ty.oid()));
    let types = types.collect::<Vec<_>>().join(",");
    let name = quoted(&routine.name);
    let is_found = search_path(snapshot, cx).contains(&routine.schema);
    Some(if is_found {
        format!("{name}({types})")
    } else {
        format!("{}.{name}({types})", quoted(&routine.schema))
    })
}

/// Returns the oid of the only operator of a name.
///
/// # Errors
/// 42883 if there is none, 42725 if there are several.
pub fn operator(text: &str) -> Result<u32, SqlError> {
    let mut found = Operator::named(operator_name(text));
    let first = found.next().ok_or_else(|| no_operator(text))?;
    match found.next() {
        None => Ok(first.oid),
        Some(_) => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("more than one operator named {text}"),
        )),
    }
}

/// Returns the oid of the operator that a text such as `+(integer,integer)` or `-(none,integer)`
/// names.
///
/// # Errors
/// 42883 if there is none, 42P02 if one of the two types is missing, 54023 if there are more than
/// two.
pub fn operator_of_signature(text: &str, cx: &EvalContext) -> Result<u32, SqlError> {
    let snapshot = cx.catalog();
    let (name, types) = split(text)?;
    let mut operands = Vec::new();
    for ty in types {
        operands.push(if ty.eq_ignore_ascii_case(NONE) {
            0
        } else {
            pg_catalog::type_oid(&snapshot, ty, cx).ok_or_else(|| no_type(ty))?
        });
    }
    let [left, right] = *operands.as_slice() else {
        return Err(match operands.len() {
            0 | 1 => SqlError::new(SqlState::UNDEFINED_PARAMETER, "missing argument")
                .hint("Use NONE to denote the missing argument of a unary operator."),
            _ => SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "too many arguments")
                .hint("Provide two argument types for operator."),
        });
    };
    let mut named = Operator::named(operator_name(name));
    let found = named.find(|of| of.left == left && of.right == right);
    found.map(|of| of.oid).ok_or_else(|| no_operator(text))
}

/// Returns an operator as regoper shows it: qualified if its name is ambiguous.
pub fn operator_text(oid: u32) -> Option<String> {
    let of = Operator::of(oid)?;
    Some(match Operator::named(of.name).nth(1) {
        None => of.name.to_owned(),
        Some(_) => format!("{CATALOG_SCHEMA}.{}", of.name),
    })
}

/// Returns an operator as regoperator shows it.
pub fn operator_signature(snapshot: &Snapshot, oid: u32, cx: &EvalContext) -> Option<String> {
    let of = Operator::of(oid)?;
    let type_name = |oid| match oid {
        0 => "NONE".to_owned(),
        oid => type_text(snapshot, oid, cx),
    };
    let (left, right) = (type_name(of.left), type_name(of.right));
    Some(format!("{}({left},{right})", of.name))
}

fn type_text(snapshot: &Snapshot, oid: u32, cx: &EvalContext) -> String {
    let name = pg_catalog::type_name(snapshot, oid, cx);
    name.unwrap_or_else(|| oid.to_string())
}

/// Splits `name(type, type)` into the name and the types.
fn split(text: &str) -> Result<(&str, Vec<&str>), SqlError> {
    let expected = |what| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what);
    let Some(at) = text.find('(') else {
        return Err(expected("expected a left parenthesis"));
    };
    let Some(types) = text[at + 1..].trim_ascii_end().strip_suffix(')') else {
        return Err(expected("expected a right parenthesis"));
    };
    let types = commas(types).into_iter().map(str::trim_ascii);
    let types: Vec<&str> = types.collect();
    let name = text[..at].trim_ascii();
    match types.as_slice() {
        [""] => Ok((name, Vec::new())),
        all if all.contains(&"") => Err(expected("expected a type name")),
        _ => Ok((name, types)),
    }
}

/// Splits a list at commas outside quotes and parentheses.
fn commas(list: &str) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut depth, mut is_quoted) = (0u32, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'(' if !is_quoted => depth += 1,
            b')' if !is_quoted => depth = depth.saturating_sub(1),
            b',' if !is_quoted && depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

/// Returns the name of an operator without its schema.
fn operator_name(text: &str) -> &str {
    let text = text.trim_ascii();
    text.strip_prefix("pg_catalog.").unwrap_or(text)
}

fn missing(what: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("{what} \"{text}\" does not exist"),
    )
}

fn no_operator(text: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {text}"),
    )
}

fn no_type(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("type \"{name}\" does not exist"),
    )
}
