//! regclass and the other types of catalog objects: lookup by name, and names by oid.

use super::quote_ident as quoted;
use super::signatures;
use crate::binder::search_path;
use crate::catalog::{CATALOG_SCHEMA, CatalogView, Snapshot};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::pg_catalog::{self, Procedure};
use crate::types::TypeKind;
use crate::value::{Object, Value};

/// Returns the object with a name or an oid.
pub fn named(value: &Value, kind: TypeKind, cx: &EvalContext) -> Result<Value, SqlError> {
    let snapshot = cx.catalog();
    let oid = match (value, value.as_int()) {
        (Value::Text(text), _) => find(&snapshot, text.trim_ascii(), kind, cx)?,
        // A negative int4 is the oid with the same bits.
        (Value::Int2(_) | Value::Int4(_), Some(number)) => number as u32,
        (_, Some(number)) => u32::try_from(number).map_err(|_| super::out_of_range("OID"))?,
        _ => return Err(super::mismatch("a cast to a catalog object")),
    };
    let name = match oid {
        0 => "-".to_owned(),
        _ => object_name(&snapshot, oid, kind, cx).unwrap_or_else(|| oid.to_string()),
    };
    let name = name.into();
    Ok(Value::Object(Box::new(Object { oid, name })))
}

/// Returns the object with a name, or NULL.
pub fn find_or_null(text: &str, kind: TypeKind, cx: &EvalContext) -> Result<Value, SqlError> {
    match named(&Value::text(text), kind, cx) {
        Err(error) if is_missing(&error) => Ok(Value::Null),
        found => found,
    }
}

fn is_missing(error: &SqlError) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_SCHEMA_NAME,
    ]
    .contains(&error.sqlstate())
}

fn find(
    snapshot: &Snapshot,
    text: &str,
    kind: TypeKind,
    cx: &EvalContext,
) -> Result<u32, SqlError> {
    if text == "-" {
        return Ok(0);
    }
    if let Ok(oid) = text.parse() {
        return Ok(oid);
    }
    let missing = |state, what: &str| {
        let text = text.to_owned();
        let what = what.to_owned();
        move || SqlError::new(state, format!("{what} \"{text}\" does not exist"))
    };
    if kind == TypeKind::RegType {
        let name = text.strip_prefix("pg_catalog.").unwrap_or(text);
        let found = pg_catalog::type_oid(snapshot, name, cx);
        return found.ok_or_else(missing(SqlState::UNDEFINED_OBJECT, "type"));
    }
    match kind {
        TypeKind::RegProcedure => return signatures::routine_of_signature(text, cx),
        TypeKind::RegOper => return signatures::operator(text),
        TypeKind::RegOperator => return signatures::operator_of_signature(text, cx),
        _ => {}
    }
    let parts = parts(text)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        [database, schema, name] if kind == TypeKind::RegClass => {
            if *database != *cx.database {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("cross-database references are not implemented: {text}"),
                ));
            }
            (Some(schema.as_str()), name.as_str())
        }
        _ => {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {text}"),
            ));
        }
    };
    let schema_is_there =
        schema.is_none_or(|schema| pg_catalog::namespace_oid(snapshot, schema).is_some());
    match kind {
        _ if !schema_is_there => {
            let schema = schema.unwrap_or_default();
            Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
            ))
        }
        TypeKind::RegClass => along_path(snapshot, schema, name, cx)
            .ok_or_else(missing(SqlState::UNDEFINED_TABLE, "relation")),
        TypeKind::RegNamespace => pg_catalog::namespace_oid(snapshot, name)
            .ok_or_else(missing(SqlState::INVALID_SCHEMA_NAME, "schema")),
        TypeKind::RegRole => pg_catalog::role_oid(snapshot, name)
            .ok_or_else(missing(SqlState::UNDEFINED_OBJECT, "role")),
        TypeKind::RegCollation => pg_catalog::collation_oid(name).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
            )
        }),
        _ => {
            let missing = missing(SqlState::UNDEFINED_FUNCTION, "function");
            match routine(snapshot, (schema, name), cx)? {
                Some(oid) => Ok(oid),
                None => of_catalog(schema, name)?.ok_or_else(missing),
            }
        }
    }
}

/// Returns the function of `pg_catalog` with a name.
fn of_catalog(schema: Option<&str>, name: &str) -> Result<Option<u32>, SqlError> {
    let mut named = Procedure::named(name).filter(|_| schema.is_none_or(|of| of == CATALOG_SCHEMA));
    let first = named.next().map(|of| of.oid);
    match named.next() {
        None => Ok(first),
        Some(_) => Err(ambiguous(name)),
    }
}

fn ambiguous(name: &str) -> SqlError {
    SqlError::new(
        SqlState::AMBIGUOUS_FUNCTION,
        format!("more than one function named \"{name}\""),
    )
}

/// Returns the user-defined function with a name, along the search path unless a schema is given.
///
/// # Errors
/// 42725 if there are several.
fn routine(
    snapshot: &Snapshot,
    (schema, name): (Option<&str>, &str),
    cx: &EvalContext,
) -> Result<Option<u32>, SqlError> {
    let path = match schema {
        Some(schema) => vec![schema.to_owned()],
        None => search_path(snapshot, cx),
    };
    let of = |schema: &String| snapshot.routines(Some(schema), name);
    match path.iter().flat_map(of).collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.id)),
        _ => Err(ambiguous(name)),
    }
}

/// Returns the relation with a name, along the search path unless a schema is given.
fn along_path(
    snapshot: &Snapshot,
    schema: Option<&str>,
    name: &str,
    cx: &EvalContext,
) -> Option<u32> {
    let of_catalog = pg_catalog::Relation::named(schema, name).map(|relation| relation.oid);
    of_catalog.or_else(|| match schema {
        Some(_) => pg_catalog::relation_oid(snapshot, schema, name),
        None => {
            let path = search_path(snapshot, cx);
            let mut path = path.iter();
            path.find_map(|schema| pg_catalog::relation_oid(snapshot, Some(schema), name))
        }
    })
}

/// Splits a qualified name into identifiers, folded to lower case unless quoted.
pub fn parts(text: &str) -> Result<Vec<String>, SqlError> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim_ascii();
    loop {
        let part;
        if let Some(inside) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = inside.char_indices().peekable();
            let end = loop {
                match chars.next().ok_or_else(invalid)? {
                    (_, '"') if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                        chars.next();
                        name.push('"');
                    }
                    (at, '"') => break at,
                    (_, other) => name.push(other),
                }
            };
            part = name;
            rest = inside[end + 1..].trim_ascii_start();
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            part = rest[..end].trim_ascii_end().to_ascii_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_ascii_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

/// Returns the displayed name of an object.
fn object_name(snapshot: &Snapshot, oid: u32, kind: TypeKind, cx: &EvalContext) -> Option<String> {
    match kind {
        TypeKind::RegClass => {
            let (schema, name) = pg_catalog::relation_name(snapshot, oid)?;
            let found = schema == CATALOG_SCHEMA || search_path(snapshot, cx).contains(&schema);
            Some(match found {
                true => quoted(&name),
                false => format!("{}.{}", quoted(&schema), quoted(&name)),
            })
        }
        TypeKind::RegType => pg_catalog::type_name(snapshot, oid, cx),
        TypeKind::RegNamespace => {
            pg_catalog::namespace_name(snapshot, oid).map(|name| quoted(&name))
        }
        TypeKind::RegRole => pg_catalog::role_name(snapshot, oid).map(|name| quoted(&name)),
        TypeKind::RegCollation => pg_catalog::collation_name(oid).map(quoted),
        TypeKind::RegProcedure => signatures::signature(snapshot, oid, cx),
        TypeKind::RegOper => signatures::operator_text(oid),
        TypeKind::RegOperator => signatures::operator_signature(snapshot, oid, cx),
        _ => {
            let Some(routine) = snapshot.routine_by_id(oid) else {
                return Procedure::of(oid).map(Procedure::display_name);
            };
            let found = search_path(snapshot, cx).contains(&routine.schema);
            let name = quoted(&routine.name);
            Some(match found {
                true => name,
                false => format!("{}.{name}", quoted(&routine.schema)),
            })
        }
    }
}
