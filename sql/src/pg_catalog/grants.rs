//! The privilege views of `information_schema`.

use super::RowInputs;
use super::rows::Rows;
use crate::catalog::acl::{Acl, PUBLIC};
use crate::catalog::{Object, ObjectKind, Security};
use crate::value::Value;

fn yes(it_is: bool) -> Value {
    Value::text(if it_is { "YES" } else { "NO" })
}

fn role(security: &Security, role: u32) -> Value {
    match role {
        PUBLIC => Value::text("PUBLIC"),
        role => Value::text(security.role_name(role)),
    }
}

/// Returns the grantor, grantee, privilege and grant option of each privilege in a list.
fn granted(security: &Security, acl: &Acl, owner: u32) -> Vec<[(&'static str, Value); 4]> {
    let mut all = Vec::new();
    for item in acl {
        for (one, name) in item.privileges.each() {
            all.push([
                ("grantor", role(security, item.grantor)),
                ("grantee", role(security, item.grantee)),
                ("privilege_type", Value::text(name)),
                (
                    "is_grantable",
                    yes(item.options.has(one) || item.grantee == owner),
                ),
            ]);
        }
    }
    all
}

/// Returns tables and views with schema, name and the names of their columns.
fn relations(around: &RowInputs<'_>) -> Vec<(Object, String, String, Vec<String>)> {
    let mut all = Vec::new();
    for table in around.snapshot.tables() {
        let columns = table.columns.iter().map(|c| c.name.clone()).collect();
        let object = Object::new(ObjectKind::Table, table.id);
        all.push((object, table.schema.clone(), table.name.clone(), columns));
    }
    for view in around.snapshot.views() {
        let columns = view.columns.iter().map(|(name, _)| name.clone()).collect();
        let object = Object::new(ObjectKind::View, view.id);
        all.push((object, view.schema.clone(), view.name.clone(), columns));
    }
    all
}

/// Adds the rows of `table_privileges` and `role_table_grants`.
pub fn tables(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    for (object, schema, name, _) in relations(around) {
        let owner = security.owner(object);
        for one in granted(security, &security.acl(object), owner) {
            let reads = one[2].1.as_text() == Some("SELECT");
            let own = [
                ("table_catalog", Value::text(around.database)),
                ("table_schema", Value::text(&schema)),
                ("table_name", Value::text(&name)),
                ("with_hierarchy", yes(reads)),
            ];
            rows.add(own.into_iter().chain(one));
        }
    }
}

/// Adds the rows of `column_privileges` and `role_column_grants`: privileges on whole tables and on
/// single columns.
pub fn columns(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    for (object, schema, name, columns) in relations(around) {
        let owner = security.owner(object);
        let mut whole = security.acl(object);
        for item in &mut whole {
            item.privileges = item.privileges.within(ObjectKind::OF_COLUMNS);
        }
        let about = security.about(object);
        for (number, column) in (1..).zip(&columns) {
            let of = about.and_then(|about| about.columns.iter().find(|(of, _)| *of == number));
            let mut all = granted(security, &whole, owner);
            for one in of.iter().flat_map(|(_, acl)| granted(security, acl, owner)) {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
            for one in all {
                let own = [
                    ("table_catalog", Value::text(around.database)),
                    ("table_schema", Value::text(&schema)),
                    ("table_name", Value::text(&name)),
                    ("column_name", Value::text(column)),
                ];
                rows.add(own.into_iter().chain(one));
            }
        }
    }
}

/// Adds the rows of `routine_privileges` and `role_routine_grants`.
pub fn routines(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    for routine in around.snapshot.all_routines() {
        let object = Object::new(routine.kind.into(), routine.id);
        for one in granted(security, &security.acl(object), security.owner(object)) {
            let specific = format!("{}_{}", routine.name, routine.id);
            let own = [
                ("specific_catalog", Value::text(around.database)),
                ("specific_schema", Value::text(&routine.schema)),
                ("specific_name", Value::text(specific)),
                ("routine_catalog", Value::text(around.database)),
                ("routine_schema", Value::text(&routine.schema)),
                ("routine_name", Value::text(&routine.name)),
            ];
            rows.add(own.into_iter().chain(one));
        }
    }
}

/// Adds the rows of `usage_privileges` and `role_usage_grants`, for sequences.
pub fn usage(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    for sequence in around.snapshot.sequences() {
        let object = Object::new(ObjectKind::Sequence, sequence.id);
        for one in granted(security, &security.acl(object), security.owner(object)) {
            if one[2].1.as_text() != Some("USAGE") {
                continue;
            }
            let own = [
                ("object_catalog", Value::text(around.database)),
                ("object_schema", Value::text(&sequence.schema)),
                ("object_name", Value::text(&sequence.name)),
                ("object_type", Value::text("SEQUENCE")),
            ];
            rows.add(own.into_iter().chain(one));
        }
    }
}

/// Adds the rows of `applicable_roles`: the memberships of roles.
pub fn applicable(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    for member in around.snapshot.roles() {
        for of in &member.member_of {
            rows.add([
                ("grantee", Value::text(&member.name)),
                ("role_name", Value::text(security.role_name(of.role))),
                ("is_grantable", yes(of.admin)),
            ]);
        }
    }
}
