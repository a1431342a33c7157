//! Owners, privileges and comments in the system catalogs.

use super::extensions::first_comment;
use super::rows::Rows;
use super::{PUBLIC_NAMESPACE, RowInputs, class};
use crate::catalog::acl::{Acl, AclItem, PUBLIC, letters};
use crate::catalog::{Object, ObjectKind, Security, Snapshot};
use crate::functions::quote_ident;
use crate::value::{Array, Value};

/// Returns the oid of an object's owner.
pub fn owner(snapshot: &Snapshot, kind: ObjectKind, id: u32) -> Value {
    Value::Oid(snapshot.security().owner(Object::new(kind, id)))
}

/// Returns the name of an object's owner.
pub fn owner_name(snapshot: &Snapshot, kind: ObjectKind, id: u32) -> Value {
    let security = snapshot.security();
    Value::text(security.role_name(security.owner(Object::new(kind, id))))
}

/// Returns the privileges on an object; NULL if none were granted or revoked.
pub fn acl(snapshot: &Snapshot, kind: ObjectKind, id: u32) -> Value {
    let security = snapshot.security();
    let object = Object::new(kind, id);
    if object.key() == (class::SCHEMA, PUBLIC_NAMESPACE) {
        return acl_value(security, &security.acl(object));
    }
    let about = security.about(object);
    about
        .and_then(|about| about.acl.as_ref())
        .map_or(Value::Null, |acl| acl_value(security, acl))
}

/// Returns the privileges on a column; NULL if none were granted.
pub fn column_acl(snapshot: &Snapshot, kind: ObjectKind, id: u32, column: i16) -> Value {
    let security = snapshot.security();
    let about = security.about(Object::new(kind, id));
    let acl = about.and_then(|about| about.columns.iter().find(|(of, _)| *of == column));
    acl.map_or(Value::Null, |(_, acl)| acl_value(security, acl))
}

/// Returns a list of privileges as PostgreSQL shows it.
pub fn acl_value(security: &Security, acl: &Acl) -> Value {
    let items = acl
        .iter()
        .map(|item| Value::text(acl_item_text(security, item)));
    Array::of(items.collect()).into()
}

fn acl_item_text(security: &Security, item: &AclItem) -> String {
    let name = |role: u32| match role {
        PUBLIC => String::new(),
        role => quote_ident(&security.role_name(role)),
    };
    format!(
        "{}={}/{}",
        name(item.grantee),
        letters(item),
        name(item.grantor)
    )
}

/// Adds the rows of `pg_auth_members`.
pub fn members(rows: &mut Rows, around: &RowInputs<'_>) {
    for member in around.snapshot.roles() {
        for of in &member.member_of {
            rows.add([
                ("roleid", Value::Oid(of.role)),
                ("member", Value::Oid(member.id)),
                ("grantor", Value::Oid(of.grantor)),
                ("admin_option", Value::Bool(of.admin)),
            ]);
        }
    }
}

/// Adds the rows of `pg_group`: the roles without LOGIN.
pub fn groups(rows: &mut Rows, around: &RowInputs<'_>) {
    let roles = around.snapshot.roles();
    for group in roles.iter().filter(|role| !role.login) {
        let members = roles
            .iter()
            .filter(|role| role.membership(group.id).is_some());
        let members = members.map(|role| Value::Oid(role.id)).collect();
        rows.add([
            ("groname", Value::text(&group.name)),
            ("grosysid", Value::Oid(group.id)),
            ("grolist", Array::of(members).into()),
        ]);
    }
}

/// Adds the rows of `pg_default_acl`.
pub fn defaults(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    for of in security.defaults() {
        let letter = match of.kind {
            ObjectKind::Sequence => "S",
            ObjectKind::Function => "f",
            ObjectKind::Type => "T",
            ObjectKind::Schema => "n",
            _ => "r",
        };
        rows.add([
            ("oid", Value::Oid(of.id)),
            ("defaclrole", Value::Oid(of.role)),
            ("defaclnamespace", Value::Oid(of.schema)),
            ("defaclobjtype", Value::text(letter)),
            ("defaclacl", acl_value(security, &of.acl)),
        ]);
    }
}

/// Adds the row of `pg_init_privs`: the initial privileges of the schema `public`.
pub fn initial(rows: &mut Rows, around: &RowInputs<'_>) {
    if !around.snapshot.has_first_public() {
        return;
    }
    let object = Object::new(ObjectKind::Schema, PUBLIC_NAMESPACE);
    let acl = object.first_acl(object.first_owner());
    rows.add([
        ("objoid", Value::Oid(PUBLIC_NAMESPACE)),
        ("classoid", Value::Oid(class::SCHEMA)),
        ("privtype", Value::text("i")),
        ("initprivs", acl_value(around.snapshot.security(), &acl)),
    ]);
}

/// Returns whether all databases share the objects of a class.
fn is_shared(class: u32) -> bool {
    matches!(class, class::DATABASE | class::ROLE)
}

/// Adds the rows of `pg_description`, except those of tables and their columns.
pub fn descriptions(rows: &mut Rows, around: &RowInputs<'_>) {
    if let Some((id, text)) = first_comment(around.snapshot) {
        rows.add([
            ("objoid", Value::Oid(id)),
            ("classoid", Value::Oid(class::EXTENSION)),
            ("objsubid", Value::Int4(0)),
            ("description", Value::text(text)),
        ]);
    }
    for about in around.snapshot.security().abouts() {
        for (column, text) in about.comments.iter().filter(|_| !is_shared(about.class)) {
            rows.add([
                ("objoid", Value::Oid(about.id)),
                ("classoid", Value::Oid(about.class)),
                ("objsubid", Value::Int4(i32::from(*column))),
                ("description", Value::text(text)),
            ]);
        }
    }
}

/// Adds the rows of `pg_shdescription`.
pub fn shared_descriptions(rows: &mut Rows, around: &RowInputs<'_>) {
    for about in around.snapshot.security().abouts() {
        for (_, text) in about.comments.iter().filter(|_| is_shared(about.class)) {
            rows.add([
                ("objoid", Value::Oid(about.id)),
                ("classoid", Value::Oid(about.class)),
                ("description", Value::text(text)),
            ]);
        }
    }
}

/// Returns the comment on an object that is not a table; of any class if `class` is `None`.
pub fn comment(snapshot: &Snapshot, class: Option<u32>, id: u32, column: i16) -> Option<String> {
    let is_extension = class.is_none_or(|class| class == class::EXTENSION);
    let first = first_comment(snapshot).filter(|(of, _)| *of == id && is_extension);
    if let Some((_, text)) = first.filter(|_| column == 0) {
        return Some(text.to_owned());
    }
    let abouts = snapshot.security().abouts();
    let mut of = abouts
        .iter()
        .filter(|about| about.id == id && class.is_none_or(|class| class == about.class));
    of.find_map(|about| {
        let mut comments = about.comments.iter();
        let found = comments.find(|(of, _)| *of == column);
        found.map(|(_, text)| text.clone())
    })
}
