//! What the server has: schemas, roles, databases, settings, functions, access methods.

use super::names::{namespaces as all_namespaces, procedures};
use super::rows::{Rows, object, vector};
use super::{Around, PG_CATALOG_NAMESPACE};
use crate::bound::Volatility;
use crate::catalog::SUPERUSER_OID;
use crate::types::Type;
use crate::value::Value;

/// The oid of the one database.
const DATABASE: u32 = 5;
const ENCODING_UTF8: i32 = 6;
const INTERNAL_LANGUAGE: u32 = 12;

/// `pg_namespace`.
pub fn namespaces(rows: &mut Rows, around: &Around<'_>) {
    for (oid, name) in all_namespaces(around.snapshot) {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("nspname", Value::text(name)),
            ("nspowner", Value::Oid(SUPERUSER_OID)),
        ]);
    }
}

/// `pg_roles` and `pg_authid`; nobody is shown verifiers.
pub fn roles(rows: &mut Rows, around: &Around<'_>) {
    for role in around.snapshot.roles() {
        rows.add([
            ("oid", Value::Oid(role.id)),
            ("rolname", Value::text(&role.name)),
            ("rolsuper", Value::Bool(role.superuser)),
            ("rolinherit", Value::Bool(true)),
            ("rolcreaterole", Value::Bool(role.superuser)),
            ("rolcreatedb", Value::Bool(role.superuser)),
            ("rolcanlogin", Value::Bool(role.login)),
            ("rolreplication", Value::Bool(role.superuser)),
            ("rolconnlimit", Value::Int4(-1)),
            ("rolpassword", Value::text("********")),
            ("rolbypassrls", Value::Bool(role.superuser)),
        ]);
    }
}

/// `pg_user`.
pub fn users(rows: &mut Rows, around: &Around<'_>) {
    for role in around.snapshot.roles().iter().filter(|role| role.login) {
        rows.add([
            ("usename", Value::text(&role.name)),
            ("usesysid", Value::Oid(role.id)),
            ("usecreatedb", Value::Bool(role.superuser)),
            ("usesuper", Value::Bool(role.superuser)),
            ("usebypassrls", Value::Bool(role.superuser)),
            ("passwd", Value::text("********")),
        ]);
    }
}

/// `pg_database`.
pub fn databases(rows: &mut Rows, around: &Around<'_>) {
    rows.add([
        ("oid", Value::Oid(DATABASE)),
        ("datname", Value::text(around.database)),
        ("datdba", Value::Oid(SUPERUSER_OID)),
        ("encoding", Value::Int4(ENCODING_UTF8)),
        ("datlocprovider", Value::text("c")),
        ("datallowconn", Value::Bool(true)),
        ("datconnlimit", Value::Int4(-1)),
        ("dattablespace", Value::Oid(1663)),
        ("datcollate", Value::text("C")),
        ("datctype", Value::text("C")),
    ]);
}

/// `pg_tablespace`.
pub fn tablespaces(rows: &mut Rows, _: &Around<'_>) {
    for (oid, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("spcname", Value::text(name)),
            ("spcowner", Value::Oid(SUPERUSER_OID)),
        ]);
    }
}

/// `pg_settings`.
pub fn settings(rows: &mut Rows, around: &Around<'_>) {
    for (name, value, description) in around.settings.all() {
        rows.add([
            ("name", Value::text(name)),
            ("setting", Value::text(&value)),
            ("category", Value::text("Settings")),
            ("short_desc", Value::text(description)),
            ("context", Value::text("user")),
            ("vartype", Value::text("string")),
            ("source", Value::text("default")),
            ("boot_val", Value::text(&value)),
            ("reset_val", Value::text(&value)),
            ("sourceline", Value::Null),
        ]);
    }
}

/// `pg_am`.
pub fn access_methods(rows: &mut Rows, _: &Around<'_>) {
    let all = [
        (2, "heap", (3, "heap_tableam_handler"), "t"),
        (403, "btree", (330, "bthandler"), "i"),
        (405, "hash", (331, "hashhandler"), "i"),
    ];
    for (oid, name, (handler, handler_name), kind) in all {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("amname", Value::text(name)),
            ("amhandler", object(handler, handler_name)),
            ("amtype", Value::text(kind)),
        ]);
    }
}

/// `pg_language`.
pub fn languages(rows: &mut Rows, _: &Around<'_>) {
    rows.add([
        ("oid", Value::Oid(INTERNAL_LANGUAGE)),
        ("lanname", Value::text("internal")),
        ("lanowner", Value::Oid(SUPERUSER_OID)),
    ]);
}

/// `pg_collation`.
pub fn collations(rows: &mut Rows, _: &Around<'_>) {
    for (oid, name, provider, collate) in [
        (100, "default", "d", None),
        (950, "C", "c", Some("C")),
        (951, "POSIX", "c", Some("POSIX")),
        (12340, "ucs_basic", "c", Some("C")),
    ] {
        let collate = || collate.map_or(Value::Null, Value::text);
        rows.add([
            ("oid", Value::Oid(oid)),
            ("collname", Value::text(name)),
            ("collnamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("collowner", Value::Oid(SUPERUSER_OID)),
            ("collprovider", Value::text(provider)),
            ("collisdeterministic", Value::Bool(true)),
            ("collencoding", Value::Int4(-1)),
            ("collcollate", collate()),
            ("collctype", collate()),
        ]);
    }
}

/// `pg_proc`: the functions of the library.
pub fn functions(rows: &mut Rows, _: &Around<'_>) {
    for (oid, function) in procedures() {
        let types = function.args.iter();
        let types = vector(types.map(|kind| Value::Oid(kind.oid())));
        let volatility = match function.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        };
        rows.add([
            ("oid", Value::Oid(oid)),
            ("proname", Value::text(function.name)),
            ("pronamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("proowner", Value::Oid(SUPERUSER_OID)),
            ("prolang", Value::Oid(INTERNAL_LANGUAGE)),
            ("procost", Value::Float4(1.0)),
            ("prokind", Value::text("f")),
            ("proisstrict", Value::Bool(function.strict)),
            ("provolatile", Value::text(volatility)),
            ("proparallel", Value::text("s")),
            ("pronargs", Value::Int2(function.args.len() as i16)),
            ("prorettype", Value::Oid(Type::of(function.result).oid())),
            ("proargtypes", types),
            ("prosrc", Value::text(function.name)),
        ]);
    }
}
