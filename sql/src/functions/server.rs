//! Functions about the server and about values in it, and functions of features that are not
//! supported: standbys, row security.

use std::sync::Arc;

use super::library::{Body, stable, variadic, volatile, waiting};
use super::{ScalarFunction, format};
use crate::catalog::{CatalogView, IndexColumn, IndexKind, TableDef};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::server::Server;
use crate::types::TypeKind::{Any, Bool, Int4, Oid, RegClass, RegProc, RegRole, Text, TimestampTz};
use crate::types::{Type, TypeKind, binary_out};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    counted("num_nulls", |a, _| Ok(num_nulls(a))),
    counted("num_nonnulls", |a, _| Ok(num_nonnulls(a))),
    stable("pg_column_size", &[Any], Int4, |a, _| Ok(size(a))),
    stable("pg_column_compression", &[Any], Text, |_, _| Ok(Value::Null)),
    waiting("pg_export_snapshot", &[], Text, |_, cx| Box::pin(async {
        let exports = cx.exports.as_deref();
        let outside = || SqlError::unsupported("exporting a snapshot outside a session");
        let exports = exports.ok_or_else(outside)?;
        Ok(Value::text(exports.announce()))
    })),
    volatile("timeofday", &[], Text, |_, cx| {
        format::time_of_day(&Value::TimestampTz(cx.clock_now()), cx)
    }),
    stable("pg_postmaster_start_time", &[], TimestampTz, began),
    stable("pg_conf_load_time", &[], TimestampTz, |a, cx| match &cx.server {
        Some(server) => Ok(Value::TimestampTz(server.configured())),
        None => began(a, cx),
    }),
    stable("pg_jit_available", &[], Bool, |_, _| Ok(Value::Bool(false))),
    volatile("pg_reload_conf", &[], Bool, |_, cx| {
        let server = administered(cx, "pg_reload_conf")?;
        Ok(Value::Bool(server.is_none_or(Server::reload)))
    }),
    volatile("pg_rotate_logfile", &[], Bool, |_, cx| {
        let server = administered(cx, "pg_rotate_logfile")?;
        Ok(Value::Bool(server.is_some_and(Server::rotate_log)))
    }),
    volatile("pg_current_logfile", &[], Text, log_file),
    volatile("pg_current_logfile", &[Text], Text, log_file),
    volatile("pg_last_xact_replay_timestamp", &[], TimestampTz, |_, _| Ok(Value::Null)),
    stable("row_security_active", &[Oid], Bool, |_, _| Ok(Value::Bool(false))),
    stable("row_security_active", &[Text], Bool, |_, _| Ok(Value::Bool(false))),
    stable("pg_opfamily_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("to_regproc", &[Text], RegProc, |a, cx| to_object(a, RegProc, cx)),
    stable("to_regrole", &[Text], RegRole, |a, cx| to_object(a, RegRole, cx)),
    stable("pg_relation_filenode", &[RegClass], Oid, |a, cx| Ok(match stored(a, cx) {
        Some(oid) => Value::Oid(oid),
        None => Value::Null,
    })),
    stable("pg_relation_filepath", &[RegClass], Text, |a, cx| Ok(match stored(a, cx) {
        Some(oid) => Value::text(format!("base/{}/{oid}", cx.database_oid())),
        None => Value::Null,
    })),
    stable("pg_partition_root", &[RegClass], RegClass, |a, cx| {
        match super::catalog_rows::ancestors(oid(a), cx).last() {
            Some(root) => super::objects::named(&Value::Oid(*root), RegClass, cx),
            None => Ok(Value::Null),
        }
    }),
    stable("pg_indexam_has_property", &[Oid, Text], Bool,
        |a, _| Ok(of_method(oid(a), &property(a)))),
    stable("pg_index_has_property", &[RegClass, Text], Bool, of_index),
    stable("pg_index_column_has_property", &[RegClass, Int4, Text], Bool, of_index_column),
    stable("pg_get_replica_identity_index", &[RegClass], RegClass, |_, _| Ok(Value::Null)),
];

/// Returns the server.
///
/// # Errors
/// 42501 if the current role is not a superuser.
fn administered<'a>(
    cx: &'a EvalContext,
    function: &str,
) -> Result<Option<&'a dyn Server>, SqlError> {
    let role = cx.catalog().role(&cx.current_user())?;
    match role.is_some_and(|role| role.superuser) {
        true => Ok(cx.server.as_deref()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied for function {function}"),
        )),
    }
}

/// Returns the path of the log file, if the server has one.
fn log_file(_: &[Value], cx: &EvalContext) -> Outcome {
    let server = administered(cx, "pg_current_logfile")?;
    Ok(server
        .and_then(Server::log_file)
        .map_or(Value::Null, Value::text))
}

pub(super) fn num_nulls(args: &[Value]) -> Value {
    Value::Int4(nulls(args) as i32)
}

pub(super) fn num_nonnulls(args: &[Value]) -> Value {
    Value::Int4((args.len() - nulls(args)) as i32)
}

/// Returns the start time of the queried machine.
fn began(_: &[Value], cx: &EvalContext) -> Outcome {
    let sessions = cx.sessions.as_ref();
    Ok(sessions.map_or(Value::Null, |sessions| Value::TimestampTz(sessions.began())))
}

/// Defines a function that takes values of any types, including NULLs.
const fn counted(name: &'static str, eval: Body) -> ScalarFunction {
    variadic(name, &[Any], Int4, eval)
}

fn nulls(args: &[Value]) -> usize {
    args.iter().filter(|value| value.is_null()).count()
}

/// Returns the approximate size of a value in PostgreSQL's rows: its bytes on the wire, and one or
/// four for the length.
fn size(args: &[Value]) -> Value {
    let Some(value) = args.first() else {
        return Value::Null;
    };
    let mut wire = Vec::new();
    binary_out(value, &Type::of(TypeKind::Unknown), &mut wire);
    let bytes = match value {
        Value::Null => return Value::Null,
        Value::Text(text) => text.len(),
        Value::Numeric(_) => wire.len().saturating_sub(6),
        Value::Bytea(_) | Value::Json(_) | Value::Jsonb(_) | Value::Array(_) | Value::Record(_) => {
            wire.len()
        }
        _ => return Value::Int4(wire.len() as i32),
    };
    let length = if bytes < 127 { 1 } else { 4 };
    Value::Int4((bytes + length) as i32)
}

fn oid(args: &[Value]) -> u32 {
    let oid = args.first().and_then(Value::as_int);
    oid.and_then(|oid| u32::try_from(oid).ok()).unwrap_or(0)
}

fn property(args: &[Value]) -> String {
    let name = args.last().and_then(Value::as_text).unwrap_or("");
    name.to_ascii_lowercase()
}

fn to_object(args: &[Value], kind: TypeKind, cx: &EvalContext) -> Outcome {
    match args.first().and_then(Value::as_text) {
        Some(name) => super::objects::find_or_null(name, kind, cx),
        None => Ok(Value::Null),
    }
}

/// Returns the oid of a relation that stores rows or index entries itself.
fn stored(args: &[Value], cx: &EvalContext) -> Option<u32> {
    let catalog = cx.catalog();
    let of = oid(args);
    if let Some(table) = catalog.relation(of) {
        return (!table.is_parent()).then_some(of);
    }
    let sequence = catalog.sequence_by_id(of).ok().flatten();
    sequence.map(|_| of)
}

/// The oids of the access methods.
const BTREE: u32 = 403;
const HASH: u32 = 405;

/// Returns a property of an access method.
fn of_method(method: u32, property: &str) -> Value {
    let ordered = match method {
        BTREE => true,
        HASH => false,
        _ => return Value::Null,
    };
    match property {
        "can_order" | "can_unique" | "can_multi_col" | "can_include" => Value::Bool(ordered),
        "can_exclude" => Value::Bool(true),
        _ => Value::Null,
    }
}

/// Returns the index whose oid is the first argument, and its table.
fn index(args: &[Value], cx: &EvalContext) -> Option<(Arc<TableDef>, usize)> {
    let of = oid(args);
    let table = cx.catalog().relation(of)?;
    let at = table.indexes.iter().position(|index| index.id == of)?;
    Some((table, at))
}

/// Returns a property of an index.
fn of_index(args: &[Value], cx: &EvalContext) -> Outcome {
    let Some((table, at)) = index(args, cx) else {
        return Ok(Value::Null);
    };
    let ordered = table.indexes[at].kind == IndexKind::BTree;
    Ok(match property(args).as_str() {
        "clusterable" => Value::Bool(ordered),
        "index_scan" | "bitmap_scan" | "backward_scan" => Value::Bool(true),
        _ => Value::Null,
    })
}

/// Returns a property of an index column.
fn of_index_column(args: &[Value], cx: &EvalContext) -> Outcome {
    let Some((table, at)) = index(args, cx) else {
        return Ok(Value::Null);
    };
    let index = &table.indexes[at];
    let number = args.get(1).and_then(Value::as_int).unwrap_or(0);
    let Some(at) = usize::try_from(number).ok().and_then(|n| n.checked_sub(1)) else {
        return Ok(Value::Null);
    };
    let key = index.columns.get(at);
    if at >= index.columns.len() + index.more.include.len() {
        return Ok(Value::Null);
    }
    let ordered = index.kind == IndexKind::BTree;
    let of_order = |is: &dyn Fn(&IndexColumn) -> bool| match key {
        Some(key) => Value::Bool(ordered && is(key)),
        None => Value::Null,
    };
    Ok(match property(args).as_str() {
        "asc" => of_order(&|key| !key.desc),
        "desc" => of_order(&|key| key.desc),
        "nulls_first" => of_order(&|key| key.nulls_first),
        "nulls_last" => of_order(&|key| !key.nulls_first),
        "orderable" => Value::Bool(ordered && key.is_some()),
        "distance_orderable" => Value::Bool(false),
        "returnable" => Value::Bool(ordered),
        "search_array" | "search_nulls" => of_order(&|_| true),
        _ => Value::Null,
    })
}
