//! Roles, ownership and privileges.
//!
//! SEC-1: a plan belongs to one role. A change of any answer of this module raises the versions of
//! the tables and routines whose plans depend on the answer. So a plan that is still valid is still
//! permitted, and executions check nothing.

use std::sync::Arc;

use foldhash::HashMap;

use super::about::{DefaultAcl, Object, ObjectAttributes, ObjectKind};
use super::acl::{Acl, PUBLIC, Privileges, grant, same};
use super::def::RoleDef;
use super::store::SUPERUSER_OID;
use crate::error::{SqlError, SqlState};
use crate::order::StableSort;

/// The oid of the role whose only member is the owner of the database.
pub const DATABASE_OWNER: u32 = 6171;
const READ_ALL_DATA: u32 = 6181;
const WRITE_ALL_DATA: u32 = 6182;
/// The oid of the role whose members may run CHECKPOINT.
pub const CHECKPOINT: u32 = 4544;
/// The oid of the role whose members may cancel statements of other sessions.
pub const SIGNAL_BACKEND: u32 = 4200;

/// The predefined roles of PostgreSQL that have an effect here.
const PREDEFINED: [(u32, &str); 5] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (CHECKPOINT, "pg_checkpoint"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
];

/// The first oid of user-created roles.
const FIRST_MADE: u32 = 16384;

/// Returns the predefined roles.
pub(super) fn predefined() -> impl Iterator<Item = RoleDef> {
    PREDEFINED
        .into_iter()
        .map(|(id, name)| RoleDef::new(id, name))
}

/// The roles, owners and privileges of one catalog version.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The oid of the database.
    database: u32,
    roles: HashMap<u32, Arc<RoleDef>>,
    abouts: HashMap<(u32, u32), Arc<ObjectAttributes>>,
    defaults: Vec<Arc<DefaultAcl>>,
    /// The owners of routines, which store them themselves.
    routine_owners: HashMap<u32, u32>,
}

impl Security {
    pub(super) fn set_database(&mut self, database: u32) {
        self.database = database;
    }

    pub(super) fn set_roles<'a>(&mut self, roles: impl Iterator<Item = &'a Arc<RoleDef>>) {
        self.roles = roles.map(|role| (role.id, Arc::clone(role))).collect();
    }

    pub(super) fn set_abouts(&mut self, abouts: Vec<ObjectAttributes>) {
        let keyed = |about: ObjectAttributes| ((about.class, about.id), Arc::new(about));
        self.abouts = abouts.into_iter().map(keyed).collect();
    }

    pub(super) fn set_defaults(&mut self, mut defaults: Vec<DefaultAcl>) {
        defaults.order_by_key(|of| of.id);
        self.defaults = defaults.into_iter().map(Arc::new).collect();
    }

    pub(super) fn set_routine_owner(&mut self, routine: u32, owner: u32) {
        self.routine_owners.insert(routine, owner);
    }

    /// Returns the database of these objects.
    pub fn database(&self) -> Object {
        Object::new(ObjectKind::Database, self.database)
    }

    /// Returns the role with this oid.
    pub fn role(&self, id: u32) -> Option<&Arc<RoleDef>> {
        self.roles.get(&id)
    }

    /// Returns the name of a role, or its oid if the role does not exist.
    pub fn role_name(&self, id: u32) -> String {
        let role = self.role(id);
        role.map_or_else(|| id.to_string(), |role| role.name.clone())
    }

    /// Returns whether the role is a superuser, which passes every check.
    pub fn is_superuser(&self, role: u32) -> bool {
        self.role(role).is_some_and(|role| role.superuser)
    }

    /// Returns the stored owner, privileges and comments of an object.
    pub fn about(&self, object: Object) -> Option<&Arc<ObjectAttributes>> {
        self.abouts.get(&object.key())
    }

    /// Returns the entries of all objects, in the order of system catalog and oid.
    pub fn abouts(&self) -> Vec<Arc<ObjectAttributes>> {
        let mut all: Vec<_> = self.abouts.values().cloned().collect();
        all.order_by_key(|about| (about.class, about.id));
        all
    }

    /// Returns all entries of ALTER DEFAULT PRIVILEGES.
    pub fn defaults(&self) -> &[Arc<DefaultAcl>] {
        &self.defaults
    }

    /// Returns the owner of an object.
    pub fn owner(&self, object: Object) -> u32 {
        let said = self.about(object).and_then(|about| about.owner);
        let routine = || match object.kind {
            ObjectKind::Function | ObjectKind::Procedure => {
                self.routine_owners.get(&object.id).copied()
            }
            _ => None,
        };
        said.or_else(routine)
            .unwrap_or_else(|| object.first_owner())
    }

    /// Returns the access control list of an object.
    pub fn acl(&self, object: Object) -> Acl {
        let said = self.about(object).and_then(|about| about.acl.clone());
        said.unwrap_or_else(|| object.first_acl(self.owner(object)))
    }

    /// Returns the roles of which `member` is a member, itself first. With `inherited` only those
    /// whose privileges it has without SET ROLE.
    pub fn roles_of(&self, member: u32, inherited: bool) -> Vec<u32> {
        let mut all = vec![member];
        let mut next = 0;
        while let Some(of) = all.get(next).copied() {
            next += 1;
            if let Some(role) = self.role(of)
                && (role.inherit || !inherited)
            {
                for membership in &role.member_of {
                    if !all.contains(&membership.role) {
                        all.push(membership.role);
                    }
                }
            }
            if of == self.owner(self.database()) && !all.contains(&DATABASE_OWNER) {
                all.push(DATABASE_OWNER);
            }
        }
        all
    }

    /// Returns whether the member has the privileges of `role`.
    pub fn has_privileges_of(&self, member: u32, role: u32) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, true).contains(&role)
    }

    /// Returns whether the member may SET ROLE to `role`.
    pub fn is_member_of(&self, member: u32, role: u32) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, false).contains(&role)
    }

    /// Returns whether the member may grant membership in `role`.
    pub fn is_admin_of(&self, member: u32, role: u32) -> bool {
        let mut roles = self.roles_of(member, false).into_iter();
        self.is_superuser(member)
            || roles.any(|of| {
                let of = self.role(of);
                of.is_some_and(|of| {
                    let mut all = of.member_of.iter();
                    all.any(|membership| membership.role == role && membership.admin)
                })
            })
    }

    /// Returns whether the role may perform the actions that are reserved for the owner.
    pub fn owns(&self, role: u32, object: Object) -> bool {
        self.has_privileges_of(role, self.owner(object))
    }

    /// Checks that the role owns the object; 42501 otherwise.
    pub fn check_owner(&self, role: u32, object: Object, name: &str) -> Result<(), SqlError> {
        match self.owns(role, object) {
            true => Ok(()),
            false => Err(denied(format!(
                "must be owner of {} {name}",
                object.kind.name()
            ))),
        }
    }

    /// Returns the privileges among `wanted` that the role has on an object.
    pub fn allowed(&self, role: u32, object: Object, wanted: Privileges) -> Privileges {
        if self.is_superuser(role) {
            return wanted;
        }
        let roles = self.roles_of(role, true);
        let (mut allowed, _) = self.allowed_by(&self.acl(object), &roles);
        let all_data = [READ_ALL_DATA, WRITE_ALL_DATA];
        if object.kind == ObjectKind::Schema && all_data.iter().any(|of| roles.contains(of)) {
            allowed = allowed.and(Privileges::USAGE);
        }
        if matches!(
            object.kind,
            ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence
        ) {
            if roles.contains(&READ_ALL_DATA) {
                allowed = allowed.and(Privileges::SELECT);
            }
            if roles.contains(&WRITE_ALL_DATA) {
                let rows = Privileges::INSERT.and(Privileges::UPDATE);
                allowed = allowed.and(rows.and(Privileges::DELETE));
            }
        }
        allowed.within(wanted)
    }

    /// Returns the privileges of these roles in a list, and those that they hold with grant option.
    fn allowed_by(&self, acl: &Acl, roles: &[u32]) -> (Privileges, Privileges) {
        let of = |grantee: u32| grantee == PUBLIC || roles.contains(&grantee);
        let items = acl.iter().filter(|item| of(item.grantee));
        items.fold(
            (Privileges::NONE, Privileges::NONE),
            |(all, options), item| (all.and(item.privileges), options.and(item.options)),
        )
    }

    /// Returns the privileges among `wanted` that the role has on a column by column grants alone.
    pub fn allowed_column(
        &self,
        role: u32,
        object: Object,
        column: i16,
        wanted: Privileges,
    ) -> Privileges {
        if self.is_superuser(role) {
            return wanted;
        }
        let about = self.about(object);
        let acl = about.and_then(|about| about.columns.iter().find(|(of, _)| *of == column));
        let Some((_, acl)) = acl else {
            return Privileges::NONE;
        };
        let (allowed, _) = self.allowed_by(acl, &self.roles_of(role, true));
        allowed.within(wanted)
    }

    /// Returns whether the role has one of these privileges on some column.
    pub fn allowed_any_column(&self, role: u32, object: Object, wanted: Privileges) -> bool {
        let columns = self.about(object).map_or(&[][..], |about| &about.columns);
        let mut columns = columns.iter();
        columns.any(|(column, _)| !self.allowed_column(role, object, *column, wanted).is_none())
    }

    /// Returns the grantor when `role` grants privileges of a list, and the privileges that it can
    /// grant. The grantor is the owner if `role` has its privileges, else the role of `role` with
    /// the most grant options among `wanted`.
    pub fn grantor(
        &self,
        role: u32,
        (object, acl): (Object, &Acl),
        wanted: Privileges,
    ) -> (u32, Privileges) {
        let owner = self.owner(object);
        if self.has_privileges_of(role, owner) {
            return (owner, wanted);
        }
        let mut best = (role, Privileges::NONE);
        for of in self.roles_of(role, true) {
            let (_, options) = self.allowed_by_one(acl, of);
            let options = options.within(wanted);
            if options.0.count_ones() > best.1.0.count_ones() {
                best = (of, options);
            }
        }
        best
    }

    fn allowed_by_one(&self, acl: &Acl, role: u32) -> (Privileges, Privileges) {
        let items = acl.iter().filter(|item| item.grantee == role);
        items.fold(
            (Privileges::NONE, Privileges::NONE),
            |(all, options), item| (all.and(item.privileges), options.and(item.options)),
        )
    }

    /// Returns whether the role may grant these privileges.
    pub fn may_grant(&self, role: u32, object: Object, wanted: Privileges) -> bool {
        let (_, options) = self.grantor(role, (object, &self.acl(object)), wanted);
        options.has(wanted)
    }

    /// Checks that the role has all privileges in `wanted`; 42501 otherwise.
    pub fn check(
        &self,
        role: u32,
        object: Object,
        wanted: Privileges,
        name: &str,
    ) -> Result<(), SqlError> {
        match self.allowed(role, object, wanted).has(wanted) {
            true => Ok(()),
            false => Err(no_privilege(object.kind, name)),
        }
    }

    /// Returns the initial privileges of a new object of a role; `None` for those that are the
    /// default of its kind.
    pub fn new_acl(&self, role: u32, schema: u32, object: Object) -> Option<Acl> {
        let of = |schema: u32| {
            let mut all = self.defaults.iter();
            let kind = match object.kind {
                ObjectKind::View => ObjectKind::Table,
                ObjectKind::Procedure => ObjectKind::Function,
                kind => kind,
            };
            all.find(|of| of.role == role && of.schema == schema && of.kind == kind)
        };
        let (whole, added) = (of(0), (schema != 0).then(|| of(schema)).flatten());
        if whole.is_none() && added.is_none() {
            return None;
        }
        let mut acl = whole.map_or_else(|| object.first_acl(role), |of| of.acl.clone());
        for item in added.iter().flat_map(|of| &of.acl) {
            let pair = (item.grantor, item.grantee);
            grant(&mut acl, pair, item.privileges, false);
            grant(&mut acl, pair, item.options, true);
        }
        acl.order_by_key(|item| (item.grantee, item.grantor));
        Some(acl).filter(|acl| !same(acl, &object.first_acl(role)))
    }

    /// Returns whether the role is predefined.
    pub fn is_predefined(role: u32) -> bool {
        role < FIRST_MADE && role != SUPERUSER_OID
    }
}

/// Returns the error 42501 for a missing privilege on an object.
pub fn no_privilege(kind: ObjectKind, name: &str) -> SqlError {
    denied(format!("permission denied for {} {name}", kind.name()))
}

/// Returns the error 42501 with this message.
pub fn denied(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
