//! Objects of the server: schemas, roles, databases, settings, functions, access methods.

use super::names::namespaces as all_namespaces;
use super::privileges::{acl, owner};
use super::routines::{C_LANGUAGE, PLPGSQL_LANGUAGE, SQL_LANGUAGE};
use super::rows::{Rows, object};
use super::{PG_CATALOG_NAMESPACE, RowInputs};
use crate::catalog::{ObjectKind, RoleDef, SETTINGS_OF_ALL, SUPERUSER_OID};
use crate::types::calendar::{EPOCH_SHIFT_SECONDS, SECOND_US};
use crate::value::{Interval, Value};

/// The oid of the first database, `postgres`.
pub const DATABASE_OID: u32 = 5;
/// The oid of the language of built-in functions.
pub const INTERNAL_LANGUAGE: u32 = 12;
const ENCODING_UTF8: i32 = 6;
/// The oid of PL/pgSQL's handler function, which does not exist here.
const PLPGSQL_HANDLER: u32 = 13573;

/// Adds the rows of `pg_namespace`.
pub fn namespaces(rows: &mut Rows, around: &RowInputs<'_>) {
    for (oid, name) in all_namespaces(around.snapshot) {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("nspname", Value::text(name)),
            ("nspowner", owner(around.snapshot, ObjectKind::Schema, oid)),
            ("nspacl", acl(around.snapshot, ObjectKind::Schema, oid)),
        ]);
    }
}

/// Adds the rows of `pg_roles`, which hides the password verifiers.
pub fn roles(rows: &mut Rows, around: &RowInputs<'_>) {
    for role in around.snapshot.roles() {
        let own = [
            ("rolpassword", Value::text("********")),
            ("rolconfig", config(&role)),
        ];
        rows.add(attributes(&role).into_iter().chain(own));
    }
}

/// Adds the rows of `pg_authid`, which only superusers can read.
pub fn authenticated(rows: &mut Rows, around: &RowInputs<'_>) {
    for role in around.snapshot.roles() {
        let verifier = role.verifier.as_ref().map_or(Value::Null, Value::text);
        let own = [("rolpassword", verifier)];
        rows.add(attributes(&role).into_iter().chain(own));
    }
}

fn attributes(role: &RoleDef) -> [(&'static str, Value); 11] {
    [
        ("oid", Value::Oid(role.id)),
        ("rolname", Value::text(&role.name)),
        ("rolsuper", Value::Bool(role.superuser)),
        ("rolinherit", Value::Bool(role.inherit)),
        ("rolcreaterole", Value::Bool(role.create_role)),
        ("rolcreatedb", Value::Bool(role.create_db)),
        ("rolcanlogin", Value::Bool(role.login)),
        ("rolreplication", Value::Bool(role.replication)),
        ("rolconnlimit", Value::Int4(role.connections)),
        ("rolvaliduntil", valid_until(role)),
        ("rolbypassrls", Value::Bool(role.bypass_rls)),
    ]
}

fn valid_until(role: &RoleDef) -> Value {
    role.valid_until.map_or(Value::Null, Value::TimestampTz)
}

/// Adds the rows of `pg_user`.
pub fn users(rows: &mut Rows, around: &RowInputs<'_>) {
    for role in around.snapshot.roles().iter().filter(|role| role.login) {
        rows.add([
            ("usename", Value::text(&role.name)),
            ("usesysid", Value::Oid(role.id)),
            ("usecreatedb", Value::Bool(role.create_db)),
            ("usesuper", Value::Bool(role.superuser)),
            ("userepl", Value::Bool(role.replication)),
            ("usebypassrls", Value::Bool(role.bypass_rls)),
            ("passwd", Value::text("********")),
            ("valuntil", valid_until(role)),
            ("useconfig", config(role)),
        ]);
    }
}

/// Adds the rows of `pg_shadow`, which only superusers can read.
pub fn shadows(rows: &mut Rows, around: &RowInputs<'_>) {
    for role in around.snapshot.roles().iter().filter(|role| role.login) {
        rows.add([
            ("usename", Value::text(&role.name)),
            ("usesysid", Value::Oid(role.id)),
            ("usecreatedb", Value::Bool(role.create_db)),
            ("usesuper", Value::Bool(role.superuser)),
            ("userepl", Value::Bool(role.replication)),
            ("usebypassrls", Value::Bool(role.bypass_rls)),
            (
                "passwd",
                role.verifier.as_ref().map_or(Value::Null, Value::text),
            ),
            ("valuntil", valid_until(role)),
            ("useconfig", config(role)),
        ]);
    }
}

/// Adds the rows of `pg_timezone_names`, with the current abbreviations and offsets.
pub fn zones(rows: &mut Rows, around: &RowInputs<'_>) {
    let seconds = around.cx.transaction_start.div_euclid(SECOND_US) + EPOCH_SHIFT_SECONDS;
    let Ok(now) = jiff::Timestamp::from_second(seconds) else {
        return;
    };
    for name in jiff::tz::db().available() {
        let Ok(zone) = jiff::tz::TimeZone::get(name.as_str()) else {
            continue;
        };
        let info = zone.to_offset_info(now);
        let offset = Interval {
            us: i64::from(info.offset().seconds()) * SECOND_US,
            ..Interval::default()
        };
        rows.add([
            ("name", Value::text(name.as_str())),
            ("abbrev", Value::text(info.abbreviation())),
            ("utc_offset", Value::Interval(offset)),
            ("is_dst", Value::Bool(info.dst().is_dst())),
        ]);
    }
}

/// Adds the rows of `pg_database`.
pub fn databases(rows: &mut Rows, around: &RowInputs<'_>) {
    let snapshot = around.snapshot;
    for database in snapshot.databases() {
        rows.add([
            ("oid", Value::Oid(database.id)),
            ("datname", Value::text(&database.name)),
            ("datdba", owner(snapshot, ObjectKind::Database, database.id)),
            ("datacl", acl(snapshot, ObjectKind::Database, database.id)),
            ("encoding", Value::Int4(ENCODING_UTF8)),
            ("datlocprovider", Value::text("c")),
            ("datistemplate", Value::Bool(database.is_template)),
            ("datallowconn", Value::Bool(database.connects)),
            ("datconnlimit", Value::Int4(database.connections)),
            ("dattablespace", Value::Oid(1663)),
            ("datcollate", Value::text(&database.collate)),
            ("datctype", Value::text(&database.ctype)),
        ]);
    }
}

/// Adds the rows of `pg_db_role_setting`: the settings of ALTER DATABASE and ALTER ROLE.
pub fn database_settings(rows: &mut Rows, around: &RowInputs<'_>) {
    let mut add = |(database, role): (u32, u32), settings: &[(String, String)]| {
        if !settings.is_empty() {
            rows.add([
                ("setdatabase", Value::Oid(database)),
                ("setrole", Value::Oid(role)),
                ("setconfig", settings_value(settings)),
            ]);
        }
    };
    for database in around.snapshot.databases() {
        add((database.id, 0), &database.settings);
    }
    for role in around.snapshot.roles() {
        for of in &role.settings {
            let is_there = around.snapshot.database_by_id(of.database).is_some();
            if of.database == SETTINGS_OF_ALL {
                add((0, 0), &of.settings);
            } else if of.database == 0 || is_there {
                add((of.database, role.id), &of.settings);
            }
        }
    }
}

fn settings_value(settings: &[(String, String)]) -> Value {
    let settings = settings.iter();
    let texts = settings.map(|(name, value)| Value::text(format!("{name}={value}")));
    crate::value::Array::of(texts.collect()).into()
}

/// Returns the default settings of a role for all databases.
fn config(role: &RoleDef) -> Value {
    let mut all = role.settings.iter();
    let of = all.find(|of| of.database == 0);
    of.map_or(Value::Null, |of| settings_value(&of.settings))
}

/// Adds the rows of `pg_tablespace`.
pub fn tablespaces(rows: &mut Rows, _: &RowInputs<'_>) {
    for (oid, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("spcname", Value::text(name)),
            ("spcowner", Value::Oid(SUPERUSER_OID)),
        ]);
    }
}

/// Adds the rows of `pg_cursors`.
pub fn cursors(rows: &mut Rows, around: &RowInputs<'_>) {
    for cursor in around.cursors {
        rows.add([
            ("name", Value::text(&cursor.name)),
            ("statement", Value::text(&cursor.statement)),
            ("is_holdable", Value::Bool(cursor.is_holdable)),
            ("is_binary", Value::Bool(cursor.is_binary)),
            ("is_scrollable", Value::Bool(cursor.is_scrollable)),
            ("creation_time", Value::TimestampTz(cursor.created)),
        ]);
    }
}

/// Adds the rows of `pg_prepared_statements`. A statement has one plan for all parameters, and its
/// executions are not counted.
pub fn prepared_statements(rows: &mut Rows, around: &RowInputs<'_>) {
    for (name, statement) in around.prepared {
        let info = statement.info();
        let types = info.types.into_iter().map(|oid| {
            let users = || Some(around.snapshot.type_by_id(oid)?.name.clone());
            let name = super::types::sql_name(oid).or_else(users);
            object(oid, &name.unwrap_or_default())
        });
        rows.add([
            ("name", Value::text(name)),
            ("statement", Value::text(&info.text)),
            ("prepare_time", Value::TimestampTz(info.made)),
            (
                "parameter_types",
                crate::value::Array::of(types.collect()).into(),
            ),
            ("from_sql", Value::Bool(info.from_sql)),
            ("generic_plans", Value::Null),
            ("custom_plans", Value::Null),
        ]);
    }
}

/// Adds the rows of `pg_settings`.
pub fn settings(rows: &mut Rows, around: &RowInputs<'_>) {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::text);
    for of in around.cx.settings.described() {
        let (least, greatest) = of.values.range.unzip();
        let all = of.values.all.map(|all| {
            let all = all.iter().map(Value::text).collect();
            crate::value::Array::of(all).into()
        });
        rows.add([
            ("name", Value::text(of.name)),
            ("setting", Value::text(&of.value)),
            ("unit", text(of.unit)),
            ("category", Value::text(of.category)),
            ("short_desc", Value::text(of.description)),
            ("extra_desc", Value::Null),
            ("context", Value::text(of.context)),
            ("vartype", Value::text(of.values.name)),
            ("source", Value::text(of.source)),
            ("min_val", text(least.as_deref())),
            ("max_val", text(greatest.as_deref())),
            ("enumvals", all.unwrap_or_default()),
            ("boot_val", Value::text(&of.boot)),
            ("reset_val", Value::text(&of.reset)),
            ("sourcefile", Value::Null),
            ("sourceline", Value::Null),
            ("pending_restart", Value::Bool(false)),
        ]);
    }
}

/// Adds the rows of `pg_am`.
pub fn access_methods(rows: &mut Rows, _: &RowInputs<'_>) {
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

/// Adds the rows of `pg_language`.
pub fn languages(rows: &mut Rows, _: &RowInputs<'_>) {
    for (oid, name) in [(INTERNAL_LANGUAGE, "internal"), (C_LANGUAGE, "c")] {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("lanname", Value::text(name)),
            ("lanowner", Value::Oid(SUPERUSER_OID)),
        ]);
    }
    for (oid, name, procedural) in [
        (SQL_LANGUAGE, "sql", false),
        (PLPGSQL_LANGUAGE, "plpgsql", true),
    ] {
        rows.add([
            ("oid", Value::Oid(oid)),
            ("lanname", Value::text(name)),
            ("lanowner", Value::Oid(SUPERUSER_OID)),
            ("lanispl", Value::Bool(procedural)),
            ("lanpltrusted", Value::Bool(true)),
            (
                "lanplcallfoid",
                Value::Oid(if procedural { PLPGSQL_HANDLER } else { 0 }),
            ),
        ]);
    }
}

/// The collations: oid, name, provider, and locale if it has one.
const COLLATIONS: [(u32, &str, &str, Option<&str>); 4] = [
    (100, "default", "d", None),
    (950, "C", "c", Some("C")),
    (951, "POSIX", "c", Some("POSIX")),
    (12340, "ucs_basic", "c", Some("C")),
];

/// Returns the oid of the collation with this name.
pub fn collation_oid(name: &str) -> Option<u32> {
    let mut all = COLLATIONS.iter();
    all.find(|(_, of, ..)| of.eq_ignore_ascii_case(name))
        .map(|(oid, ..)| *oid)
}

/// Returns the name of the collation with this oid.
pub fn collation_name(oid: u32) -> Option<&'static str> {
    let mut all = COLLATIONS.iter();
    all.find(|(of, ..)| *of == oid).map(|(_, name, ..)| *name)
}

/// Adds the rows of `pg_collation`.
pub fn collations(rows: &mut Rows, _: &RowInputs<'_>) {
    for (oid, name, provider, collate) in COLLATIONS {
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
