//! `pg_shdepend`: the roles that own objects of the database, and the roles in their privileges.
//!
//! Built-in roles are pinned, as in PostgreSQL, and have no rows.

use std::collections::BTreeSet;

use super::super::rows::Rows;
use super::super::{RowInputs, class};
use crate::binder::ObjectPart;
use crate::catalog::acl::Acl;
use crate::catalog::{FIRST_USER_OID, Object};
use crate::value::Value;

const OWNER: &str = "o";
const ACL: &str = "a";

/// Adds the rows of `pg_shdepend`.
pub fn dependencies(rows: &mut Rows, around: &RowInputs<'_>) {
    let security = around.snapshot.security();
    let mut add = |(class, id, part): ObjectPart, role: u32, kind: &str| {
        if u64::from(role) < FIRST_USER_OID {
            return;
        }
        let database = match class {
            class::DATABASE => 0,
            _ => around.snapshot.database(),
        };
        rows.add([
            ("dbid", Value::Oid(database)),
            ("classid", Value::Oid(class)),
            ("objid", Value::Oid(id)),
            ("objsubid", Value::Int4(i32::from(part))),
            ("refclassid", Value::Oid(class::ROLE)),
            ("refobjid", Value::Oid(role)),
            ("deptype", Value::text(kind)),
        ]);
    };
    for role in around.snapshot.roles() {
        for object in around.snapshot.owned_by(role.id) {
            let (class, id) = object.key();
            add((class, id, 0), role.id, OWNER);
        }
    }
    for about in security.abouts() {
        let Some(object) = around.snapshot.object_of(about.class, about.id) else {
            continue;
        };
        let owner = security.owner(Object::new(object.kind, object.id));
        let whole = about.acl.iter().map(|acl| (0, acl));
        let columns = about.columns.iter().map(|(column, acl)| (*column, acl));
        for (part, acl) in whole.chain(columns) {
            for role in members(acl, owner) {
                add((about.class, about.id, part), role, ACL);
            }
        }
    }
    for default in security.defaults() {
        let of = (class::DEFAULT_ACL, default.id, 0);
        add(of, default.role, OWNER);
        for role in members(&default.acl, default.role) {
            add(of, role, ACL);
        }
    }
}

/// Returns the roles in a list of privileges, except the owner.
fn members(acl: &Acl, owner: u32) -> BTreeSet<u32> {
    let named = acl.iter().flat_map(|item| [item.grantee, item.grantor]);
    named.filter(|role| *role != owner).collect()
}
