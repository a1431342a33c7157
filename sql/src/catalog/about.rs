//! What the catalog says about objects besides their definitions: whose they are, who may do what with them, and comments.
//!
//! An object of which nothing is said has no row of this: it is the first superuser's, and its privileges are those that
//! its kind has by default. So what no privileges are given of costs nothing. Whoever drops an object drops its row.

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
    /// What it is.
    pub kind: ObjectKind,
    /// Its oid.
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
    /// The oid of the relation that such objects are in.
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

    /// As messages call it.
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

    /// All privileges that there are of such objects.
    pub fn privileges(self) -> Privileges {
        self.defaults().1
    }

    /// What everybody may by default, and what the owner may.
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
                let everybody = P::TEMPORARY.and(P::CONNECT);
                (everybody, everybody.and(P::CREATE))
            }
            ObjectKind::Index
            | ObjectKind::Constraint
            | ObjectKind::Role
            | ObjectKind::Extension => (P::NONE, P::NONE),
        }
    }

    /// Those that there are of columns.
    pub const OF_COLUMNS: Privileges = Privileges::INSERT
        .and(Privileges::SELECT)
        .and(Privileges::UPDATE)
        .and(Privileges::REFERENCES);
}

impl Object {
    /// An object.
    pub fn new(kind: ObjectKind, id: u32) -> Object {
        Object { kind, id }
    }

    /// The class and the oid that it is known by.
    pub fn key(self) -> (u32, u32) {
        (self.kind.class(), self.id)
    }

    /// Whose it is where nothing is said.
    pub fn first_owner(self) -> u32 {
        match self.key() {
            (class::SCHEMA, PUBLIC_NAMESPACE) => super::security::DATABASE_OWNER,
            _ => SUPERUSER_OID,
        }
    }

    /// Who may do what with it where nothing was granted.
    pub fn first_acl(self, owner: u32) -> Acl {
        let (everybody, owners) = self.kind.defaults();
        let mut acl = default_acl(owner, (everybody, owners));
        if self.key() == (class::SCHEMA, PUBLIC_NAMESPACE) {
            grant(&mut acl, (owner, PUBLIC), Privileges::USAGE, false);
        }
        acl
    }
}

/// What is said about an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// The oid of its class.
    pub class: u32,
    /// Its oid.
    pub id: u32,
    /// Whose it is, if not the first superuser's. Routines say it themselves.
    pub owner: Option<u32>,
    /// Who may do what with it, once something was granted or revoked.
    pub acl: Option<Acl>,
    /// Who may do what with its columns, by their numbers.
    pub columns: Vec<(i16, Acl)>,
    /// COMMENT ON it (0), or on a column of it by its number. Tables say it themselves.
    pub comments: Vec<(i16, String)>,
}

impl About {
    /// Nothing yet.
    pub fn of(object: Object) -> About {
        let (class, id) = object.key();
        About {
            class,
            id,
            ..About::default()
        }
    }

    /// Is nothing said?
    pub fn is_empty(&self) -> bool {
        self.owner.is_none()
            && self.acl.is_none()
            && self.columns.is_empty()
            && self.comments.is_empty()
    }

    /// A column is gone: those behind it move up.
    pub fn remove_column(&mut self, number: i16) {
        self.columns.retain(|(of, _)| *of != number);
        for (of, _) in &mut self.columns {
            *of -= i16::from(*of > number);
        }
    }
}

/// ALTER DEFAULT PRIVILEGES: what objects that a role makes begin with.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultAcl {
    /// Its oid.
    pub id: u32,
    /// The role that makes them.
    pub role: u32,
    /// The oid of the schema that they are made in; 0 is any.
    pub schema: u32,
    /// Their kind.
    pub kind: ObjectKind,
    /// Of any schema the whole list; of one schema what is added to it.
    pub acl: Acl,
}
