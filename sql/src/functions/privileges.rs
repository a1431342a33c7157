//! `has_table_privilege` and similar functions, and `pg_has_role`.
//!
//! Each takes a role by name or oid, by default the current role. It also takes an object by name
//! or oid, and a list of privileges by name. One of these privileges suffices. For an oid that does
//! not exist, the result is NULL.

use super::library::stable;
use super::{ScalarFunction, objects, signatures};
use crate::catalog::acl::{PUBLIC, Privileges};
use crate::catalog::{CatalogView, Object, ObjectKind, Security, Snapshot};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::pg_catalog as pg;
use crate::types::TypeKind::{self, Bool, Int2, Name, Oid, Text};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

/// Defines the signatures of a function for one kind of objects.
macro_rules! asks {
    ($name:literal, $of:expr) => {
        [
            stable($name, &[Name, Text, Text], Bool, |a, cx| object(a, cx, $of)),
            stable($name, &[Name, Oid, Text], Bool, |a, cx| object(a, cx, $of)),
            stable($name, &[Oid, Text, Text], Bool, |a, cx| object(a, cx, $of)),
            stable($name, &[Oid, Oid, Text], Bool, |a, cx| object(a, cx, $of)),
            stable($name, &[Text, Text], Bool, |a, cx| object(a, cx, $of)),
            stable($name, &[Oid, Text], Bool, |a, cx| object(a, cx, $of)),
        ]
    };
}

/// Defines the signatures for columns.
macro_rules! asks_column {
    ($table:expr) => {
        [
            stable(
                "has_column_privilege",
                &[Name, $table, Text, Text],
                Bool,
                column,
            ),
            stable(
                "has_column_privilege",
                &[Oid, $table, Text, Text],
                Bool,
                column,
            ),
            stable(
                "has_column_privilege",
                &[Name, $table, Int2, Text],
                Bool,
                column,
            ),
            stable(
                "has_column_privilege",
                &[Oid, $table, Int2, Text],
                Bool,
                column,
            ),
            stable("has_column_privilege", &[$table, Text, Text], Bool, column),
            stable("has_column_privilege", &[$table, Int2, Text], Bool, column),
        ]
    };
}

pub(super) static OF_TABLES: &[ScalarFunction] =
    &asks!("has_table_privilege", (ObjectKind::Table, false));
pub(super) static OF_ANY_COLUMNS: &[ScalarFunction] =
    &asks!("has_any_column_privilege", (ObjectKind::Table, true));
pub(super) static OF_SEQUENCES: &[ScalarFunction] =
    &asks!("has_sequence_privilege", (ObjectKind::Sequence, false));
pub(super) static OF_SCHEMAS: &[ScalarFunction] =
    &asks!("has_schema_privilege", (ObjectKind::Schema, false));
pub(super) static OF_FUNCTIONS: &[ScalarFunction] =
    &asks!("has_function_privilege", (ObjectKind::Function, false));
pub(super) static OF_TYPES: &[ScalarFunction] =
    &asks!("has_type_privilege", (ObjectKind::Type, false));
pub(super) static OF_DATABASES: &[ScalarFunction] =
    &asks!("has_database_privilege", (ObjectKind::Database, false));
pub(super) static OF_COLUMNS: &[ScalarFunction] = &asks_column!(Text);
pub(super) static OF_COLUMNS_BY_OID: &[ScalarFunction] = &asks_column!(Oid);
pub(super) static OF_ROLES: &[ScalarFunction] = &[
    stable("pg_has_role", &[Name, Name, Text], Bool, role),
    stable("pg_has_role", &[Name, Oid, Text], Bool, role),
    stable("pg_has_role", &[Oid, Name, Text], Bool, role),
    stable("pg_has_role", &[Oid, Oid, Text], Bool, role),
    stable("pg_has_role", &[Name, Text], Bool, role),
    stable("pg_has_role", &[Oid, Text], Bool, role),
];

/// Returns the oid of a role argument.
fn role_of(value: &Value, snapshot: &Snapshot) -> Result<u32, SqlError> {
    match value {
        Value::Text(name) if name == "public" => Ok(PUBLIC),
        Value::Text(name) => pg::role_oid(snapshot, name).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("role \"{name}\" does not exist"),
            )
        }),
        number => Ok(oid_of(number)),
    }
}

fn oid_of(value: &Value) -> u32 {
    let number = value.as_int();
    number
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or(0)
}

/// Returns the role that is checked and the remaining arguments.
fn asker<'a>(
    args: &'a [Value],
    rest: usize,
    cx: &EvalContext,
    snapshot: &Snapshot,
) -> Result<(u32, &'a [Value]), SqlError> {
    match args.len() > rest {
        true => Ok((role_of(&args[0], snapshot)?, &args[1..])),
        false => {
            let user = Value::text(cx.current_user());
            Ok((role_of(&user, snapshot)?, args))
        }
    }
}

/// Parses a list of privileges, and for each whether WITH GRANT OPTION is required.
fn wanted(text: &Value) -> Result<Vec<(Privileges, bool)>, SqlError> {
    let text = text.as_text().unwrap_or_default();
    let one = |part: &str| {
        let part = part.trim();
        let upper = part.to_ascii_uppercase();
        let plain = upper.strip_suffix(" WITH GRANT OPTION");
        let found = Privileges::named(plain.unwrap_or(&upper));
        found.map(|of| (of, plain.is_some())).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unrecognized privilege type: \"{part}\""),
            )
        })
    };
    text.split(',').map(one).collect()
}

/// Returns the object of an argument; `None` for an oid that does not exist.
fn object_of(
    value: &Value,
    kind: ObjectKind,
    cx: &EvalContext,
    snapshot: &Snapshot,
) -> Result<Option<Object>, SqlError> {
    let found = |id: u32| Some(Object::new(kind, id));
    let named = |by: TypeKind| match objects::named(value, by, cx)? {
        Value::Object(object) => Ok(object.oid),
        _ => Ok::<u32, SqlError>(0),
    };
    Ok(match (kind, value) {
        (ObjectKind::Table | ObjectKind::Sequence, value) => {
            let id = named(TypeKind::RegClass)?;
            let known = snapshot.object_of_relation(id);
            if known.is_none() && matches!(value, Value::Text(_)) {
                // A system relation, which every role can read.
                return Ok(Some(Object::new(ObjectKind::Index, id)));
            }
            known.or_else(|| pg::relation_name(snapshot, id).and(found(id)))
        }
        (ObjectKind::Schema, value) => {
            let id = named(TypeKind::RegNamespace)?;
            let _ = value;
            pg::namespace_name(snapshot, id).and(found(id))
        }
        (ObjectKind::Type, _) => found(named(TypeKind::RegType)?),
        (ObjectKind::Function, Value::Text(name)) => {
            let id = signatures::routine_of_signature(name, cx)?;
            found(id)
        }
        (ObjectKind::Database, Value::Text(name)) => match snapshot.database_named(name) {
            Some(database) => found(database.id),
            None => {
                return Err(SqlError::new(
                    SqlState::INVALID_CATALOG_NAME,
                    format!("database \"{name}\" does not exist"),
                ));
            }
        },
        (_, number) => found(oid_of(number)),
    })
}

/// Returns whether the role has one of the privileges on an object.
fn has_one(security: &Security, role: u32, object: Object, wanted: &[(Privileges, bool)]) -> bool {
    wanted.iter().any(|(one, option)| match option {
        true => security.may_grant(role, object, *one),
        false => security.allowed(role, object, *one).has(*one),
    })
}

fn object(args: &[Value], cx: &EvalContext, (kind, columns): (ObjectKind, bool)) -> Outcome {
    let snapshot = cx.catalog();
    let (role, rest) = asker(args, 2, cx, &snapshot)?;
    let [of, text] = rest else {
        return Ok(Value::Null);
    };
    let wanted = wanted(text)?;
    let Some(object) = object_of(of, kind, cx, &snapshot)? else {
        return Ok(Value::Null);
    };
    if object.kind == ObjectKind::Index {
        let read = wanted.iter().any(|(one, _)| *one == Privileges::SELECT);
        return Ok(Value::Bool(read || snapshot.security().is_superuser(role)));
    }
    let security = snapshot.security();
    let any = |(one, _): &(Privileges, bool)| security.allowed_any_column(role, object, *one);
    Ok(Value::Bool(
        has_one(security, role, object, &wanted) || (columns && wanted.iter().any(any)),
    ))
}

fn column(args: &[Value], cx: &EvalContext) -> Outcome {
    let snapshot = cx.catalog();
    let (role, rest) = asker(args, 3, cx, &snapshot)?;
    let [of, column, text] = rest else {
        return Ok(Value::Null);
    };
    let wanted = wanted(text)?;
    let Some(object) = object_of(of, ObjectKind::Table, cx, &snapshot)? else {
        return Ok(Value::Null);
    };
    let number = match column {
        Value::Text(name) => {
            let columns = snapshot.column_names(object.id);
            let at = columns.iter().position(|of| of == name);
            let at = at.ok_or_else(|| {
                let table = pg::relation_name(&snapshot, object.id)
                    .unwrap_or_default()
                    .1;
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" of relation \"{table}\" does not exist"),
                )
            })?;
            i16::try_from(at + 1).unwrap_or(0)
        }
        number => i16::try_from(oid_of(number)).unwrap_or(0),
    };
    let security = snapshot.security();
    let of_column = |(one, _): &(Privileges, bool)| {
        !security
            .allowed_column(role, object, number, *one)
            .is_none()
    };
    Ok(Value::Bool(
        has_one(security, role, object, &wanted) || wanted.iter().any(of_column),
    ))
}

/// Evaluates pg_has_role. USAGE: the member has the role's privileges. MEMBER: the member can SET
/// ROLE to it. With the option: the member can grant the membership to others.
fn role(args: &[Value], cx: &EvalContext) -> Outcome {
    let snapshot = cx.catalog();
    let (member, rest) = asker(args, 2, cx, &snapshot)?;
    let [of, text] = rest else {
        return Ok(Value::Null);
    };
    let of = role_of(of, &snapshot)?;
    let security = snapshot.security();
    let mut parts = text.as_text().unwrap_or_default().split(',');
    let mut has = false;
    parts.try_for_each(|part| {
        let upper = part.trim().to_ascii_uppercase();
        has |= match upper.as_str() {
            "USAGE" => security.has_privileges_of(member, of),
            "MEMBER" => security.is_member_of(member, of),
            "USAGE WITH GRANT OPTION"
            | "USAGE WITH ADMIN OPTION"
            | "MEMBER WITH GRANT OPTION"
            | "MEMBER WITH ADMIN OPTION" => security.is_admin_of(member, of),
            _ => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized privilege type: \"{}\"", part.trim()),
                ));
            }
        };
        Ok(())
    })?;
    Ok(Value::Bool(has))
}
