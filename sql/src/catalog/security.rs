//! Who may do what: roles, whose objects are, and what was granted.
//!
//! SEC-1: whatever changes an answer of this gives those tables and routines a new version that plans were made with by that
//! answer; a plan is of one role. So a plan that runs is allowed, and nothing is asked at each run.

use std::sync::Arc;

use foldhash::HashMap;

use super::about::{About, DefaultAcl, Object, ObjectKind};
use super::acl::{Acl, PUBLIC, Privileges, grant, same};
use super::def::RoleDef;
use super::store::SUPERUSER_OID;
use crate::error::{SqlError, SqlState};
use crate::order::InOrder;

/// The role whose only member is the owner of the database.
pub const DATABASE_OWNER: u32 = 6171;
const READ_ALL_DATA: u32 = 6181;
const WRITE_ALL_DATA: u32 = 6182;
/// The role whose members may do CHECKPOINT.
pub const CHECKPOINT: u32 = 4544;
/// The role whose members may end others' statements.
pub const SIGNAL_BACKEND: u32 = 4200;

/// The roles that PostgreSQL has from the beginning, of which something depends here.
const PREDEFINED: [(u32, &str); 5] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (CHECKPOINT, "pg_checkpoint"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
];

/// First oid of a role that somebody made.
const FIRST_MADE: u32 = 16384;

/// The roles that nobody made.
pub(super) fn predefined() -> impl Iterator<Item = RoleDef> {
    PREDEFINED
        .into_iter()
        .map(|(id, name)| RoleDef::new(id, name))
}

/// Roles, owners and privileges of one catalog version.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The oid of the database.
    database: u32,
    roles: HashMap<u32, Arc<RoleDef>>,
    abouts: HashMap<(u32, u32), Arc<About>>,
    defaults: Vec<Arc<DefaultAcl>>,
    /// Of routines, which say it themselves.
    routine_owners: HashMap<u32, u32>,
}

impl Security {
    pub(super) fn set_database(&mut self, database: u32) {
        self.database = database;
    }

    pub(super) fn set_roles<'a>(&mut self, roles: impl Iterator<Item = &'a Arc<RoleDef>>) {
        self.roles = roles.map(|role| (role.id, Arc::clone(role))).collect();
    }

    pub(super) fn set_abouts(&mut self, abouts: Vec<About>) {
        let keyed = |about: About| ((about.class, about.id), Arc::new(about));
        self.abouts = abouts.into_iter().map(keyed).collect();
    }

    pub(super) fn set_defaults(&mut self, mut defaults: Vec<DefaultAcl>) {
        defaults.order_by_key(|of| of.id);
        self.defaults = defaults.into_iter().map(Arc::new).collect();
    }

    pub(super) fn set_routine_owner(&mut self, routine: u32, owner: u32) {
        self.routine_owners.insert(routine, owner);
    }

    /// The database whose objects these are.
    pub fn database(&self) -> Object {
        Object::new(ObjectKind::Database, self.database)
    }

    /// The role with an oid.
    pub fn role(&self, id: u32) -> Option<&Arc<RoleDef>> {
        self.roles.get(&id)
    }

    /// The name of a role, or its number.
    pub fn role_name(&self, id: u32) -> String {
        let role = self.role(id);
        role.map_or_else(|| id.to_string(), |role| role.name.clone())
    }

    /// Does it pass every check?
    pub fn is_superuser(&self, role: u32) -> bool {
        self.role(role).is_some_and(|role| role.superuser)
    }

    /// What is said about an object.
    pub fn about(&self, object: Object) -> Option<&Arc<About>> {
        self.abouts.get(&object.key())
    }

    /// All that is said about objects, by class and oid.
    pub fn abouts(&self) -> Vec<Arc<About>> {
        let mut all: Vec<_> = self.abouts.values().cloned().collect();
        all.order_by_key(|about| (about.class, about.id));
        all
    }

    /// All of ALTER DEFAULT PRIVILEGES.
    pub fn defaults(&self) -> &[Arc<DefaultAcl>] {
        &self.defaults
    }

    /// Whose an object is.
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

    /// Who may do what with it.
    pub fn acl(&self, object: Object) -> Acl {
        let said = self.about(object).and_then(|about| about.acl.clone());
        said.unwrap_or_else(|| object.first_acl(self.owner(object)))
    }

    /// The roles that `member` is one of, itself first: all, or only those whose privileges it has without SET ROLE.
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

    /// Has it the privileges of `role`?
    pub fn has_privileges_of(&self, member: u32, role: u32) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, true).contains(&role)
    }

    /// May it become `role`?
    pub fn is_member_of(&self, member: u32, role: u32) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, false).contains(&role)
    }

    /// May it make others members of `role`?
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

    /// May it do what only the owner may?
    pub fn owns(&self, role: u32, object: Object) -> bool {
        self.has_privileges_of(role, self.owner(object))
    }

    /// 42501 for others than the owner.
    pub fn check_owner(&self, role: u32, object: Object, name: &str) -> Result<(), SqlError> {
        match self.owns(role, object) {
            true => Ok(()),
            false => Err(denied(format!(
                "must be owner of {} {name}",
                object.kind.name()
            ))),
        }
    }

    /// What of `wanted` it may do with an object.
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

    /// What these roles may by a list, and what of it they may give on.
    fn allowed_by(&self, acl: &Acl, roles: &[u32]) -> (Privileges, Privileges) {
        let of = |grantee: u32| grantee == PUBLIC || roles.contains(&grantee);
        let items = acl.iter().filter(|item| of(item.grantee));
        items.fold(
            (Privileges::NONE, Privileges::NONE),
            |(all, options), item| (all.and(item.privileges), options.and(item.options)),
        )
    }

    /// What of `wanted` it may do with a column by what was granted of that alone.
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

    /// Has it this of some column?
    pub fn allowed_any_column(&self, role: u32, object: Object, wanted: Privileges) -> bool {
        let columns = self.about(object).map_or(&[][..], |about| &about.columns);
        let mut columns = columns.iter();
        columns.any(|(column, _)| !self.allowed_column(role, object, *column, wanted).is_none())
    }

    /// Who gives where `role` grants of a list, and what it may give: the owner if it can be that, else one of its roles
    /// that has the most of the right to give `wanted` on.
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

    /// May it give these on?
    pub fn may_grant(&self, role: u32, object: Object, wanted: Privileges) -> bool {
        let (_, options) = self.grantor(role, (object, &self.acl(object)), wanted);
        options.has(wanted)
    }

    /// 42501 where something of `wanted` is not allowed.
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

    /// What a new object of a role begins with, if that is not what its kind has by default.
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

    /// Was the role there from the beginning?
    pub fn is_predefined(role: u32) -> bool {
        role < FIRST_MADE && role != SUPERUSER_OID
    }
}

/// 42501
pub fn no_privilege(kind: ObjectKind, name: &str) -> SqlError {
    denied(format!("permission denied for {} {name}", kind.name()))
}

/// 42501
pub fn denied(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
