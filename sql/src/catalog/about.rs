//! Owners, privileges and comments of objects, which are stored apart from the definitions.
//!
//! An object without a row here belongs to the first superuser, and has the default privileges of
//! its kind. So objects without grants cost nothing. The statement that drops an object deletes its
//! row.

use super::acl::{Acl, PUBLIC, Privileges, default_acl, grant};
use super::routine::RoutineKind;
use super::store::SUPERUSER_OID;
use crate::pg_catalog::{PUBLIC_NAMESPACE, class};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A sequence.
    Sequence,
    /// An index.
    Index,
    /// A schema.
    Schema,
    /// A function.
    Function,
    /// A procedure.
    Procedure,
    /// A type.
    Type,
    /// The database.
    Database,
    /// A constraint.
    Constraint,
    /// A role.
    Role,
    /// An extension.
    Extension,
}

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The oid of the object.
    pub id: u32,
}

impl From<RoutineKind> for ObjectKind {
    fn from(kind: RoutineKind) -> ObjectKind {
        match kind {
            RoutineKind::Function => ObjectKind::Function,
            RoutineKind::Procedure => ObjectKind::Procedure,
        }
    }
}

impl ObjectKind {
    /// Returns the oid of the system catalog that contains objects of this kind.
    pub fn class(self) -> u32 {
        match self {
            ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence | ObjectKind::Index => {
                class::RELATION
            }
            ObjectKind::Schema => class::SCHEMA,
            ObjectKind::Function | ObjectKind::Procedure => class::ROUTINE,
            ObjectKind::Type => class::TYPE,
            ObjectKind::Database => class::DATABASE,
            ObjectKind::Constraint => class::CONSTRAINT,
            ObjectKind::Role => class::ROLE,
            ObjectKind::Extension => class::EXTENSION,
        }
    }

    /// Returns the name of the kind in messages.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::Sequence => "sequence",
            ObjectKind::Index => "index",
            ObjectKind::Schema => "schema",
            ObjectKind::Function => "function",
            ObjectKind::Procedure => "procedure",
            ObjectKind::Type => "type",
            ObjectKind::Database => "database",
            ObjectKind::Constraint => "constraint",
            ObjectKind::Role => "role",
            ObjectKind::Extension => "extension",
        }
    }

    /// Returns all privileges that apply to objects of this kind.
    pub fn privileges(self) -> Privileges {
        self.defaults().1
    }

    /// Returns the default privileges of PUBLIC and of the owner.
    pub fn defaults(self) -> (Privileges, Privileges) {
        use Privileges as P;
        match self {
            ObjectKind::Table | ObjectKind::View => {
                let rows = P::INSERT.and(P::SELECT).and(P::UPDATE).and(P::DELETE);
                let others = P::TRUNCATE.and(P::REFERENCES).and(P::TRIGGER);
                (P::NONE, rows.and(others))
            }
            ObjectKind::Sequence => (P::NONE, P::SELECT.and(P::UPDATE).and(P::USAGE)),
            ObjectKind::Schema => (P::NONE, P::USAGE.and(P::CREATE)),
            ObjectKind::Function | ObjectKind::Procedure => (P::EXECUTE, P::EXECUTE),
            ObjectKind::Type => (P::USAGE, P::USAGE),
            ObjectKind::Database => {
                let public = P::TEMPORARY.and(P::CONNECT);
                (public, public.and(P::CREATE))
            }
            ObjectKind::Index
            | ObjectKind::Constraint
            | ObjectKind::Role
            | ObjectKind::Extension => (P::NONE, P::NONE),
        }
    }

    /// The privileges that apply to columns.
    pub const OF_COLUMNS: Privileges = Privileges::INSERT
        .and(Privileges::SELECT)
        .and(Privileges::UPDATE)
        .and(Privileges::REFERENCES);
}

impl Object {
    /// Returns the object of this kind and oid.
    pub fn new(kind: ObjectKind, id: u32) -> Object {
        Object { kind, id }
    }

    /// Returns the oid of the object's system catalog and its own oid, which identify it.
    pub fn key(self) -> (u32, u32) {
        (self.kind.class(), self.id)
    }

    /// Returns the owner of an object for which none is stored.
    pub fn first_owner(self) -> u32 {
        match self.key() {
            (class::SCHEMA, PUBLIC_NAMESPACE) => super::security::DATABASE_OWNER,
            _ => SUPERUSER_OID,
        }
    }

    /// Returns the privileges on an object before any grant.
    pub fn first_acl(self, owner: u32) -> Acl {
        let (public, owners) = self.kind.defaults();
        let mut acl = default_acl(owner, (public, owners));
        if self.key() == (class::SCHEMA, PUBLIC_NAMESPACE) {
            grant(&mut acl, (owner, PUBLIC), Privileges::USAGE, false);
        }
        acl
    }
}

/// The owner, the privileges and the comments of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectAttributes {
    /// The oid of the object's system catalog.
    pub class: u32,
    /// The oid of the object.
    pub id: u32,
    /// The owner; `None` is the first superuser. Routines store their owner themselves.
    pub owner: Option<u32>,
    /// The privileges; `None` before the first GRANT or REVOKE.
    pub acl: Option<Acl>,
    /// The privileges on columns, by attribute number.
    pub columns: Vec<(i16, Acl)>,
    /// The comments on the object (0) or on its columns, by attribute number. Tables store theirs
    /// themselves.
    pub comments: Vec<(i16, String)>,
}

impl ObjectAttributes {
    /// Returns an entry without any property.
    pub fn of(object: Object) -> ObjectAttributes {
        let (class, id) = object.key();
        ObjectAttributes {
            class,
            id,
            ..ObjectAttributes::default()
        }
    }

    /// Returns whether the entry has no property, so that no row is needed.
    pub fn is_empty(&self) -> bool {
        self.owner.is_none()
            && self.acl.is_none()
            && self.columns.is_empty()
            && self.comments.is_empty()
    }

    /// Removes a dropped column; the numbers of the columns after it decrease by one.
    pub fn remove_column(&mut self, number: i16) {
        self.columns.retain(|(of, _)| *of != number);
        for (of, _) in &mut self.columns {
            *of -= i16::from(*of > number);
        }
    }
}

/// ALTER DEFAULT PRIVILEGES: the initial privileges of objects that a role creates.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultAcl {
    /// The oid of this entry.
    pub id: u32,
    /// The role that creates the objects.
    pub role: u32,
    /// The oid of the schema of the objects; 0 is any schema.
    pub schema: u32,
    /// The kind of the objects.
    pub kind: ObjectKind,
    /// The whole list for any schema; for one schema, the additions to that list.
    pub acl: Acl,
}
