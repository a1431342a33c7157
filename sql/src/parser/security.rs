//! The syntax trees of statements about privileges, owners and comments.

use super::routine::RoutineName;
use crate::bound::RoleRef;
use crate::catalog::ObjectKind;

/// A statement about privileges, owners or comments, whose objects have to be found.
#[derive(Clone, Debug)]
pub enum SecuritySyntax {
    /// GRANT, REVOKE
    Grant(GrantSyntax),
    /// ALTER … OWNER TO
    Owner {
        /// Whose owner changes.
        object: ObjectName,
        /// It may be missing.
        if_exists: bool,
        /// The new owner.
        to: RoleRef,
    },
    /// ALTER … SET SCHEMA
    Schema {
        /// What moves.
        object: ObjectName,
        /// It may be missing.
        if_exists: bool,
        /// The new schema.
        to: String,
        /// The command tag.
        tag: &'static str,
    },
    /// ALTER VIEW … RENAME
    RenameView {
        /// The view.
        object: ObjectName,
        /// It may be missing.
        if_exists: bool,
        /// The column; `None` is the view.
        column: Option<String>,
        /// The new name.
        to: String,
    },
    /// COMMENT ON
    Comment {
        /// What it is on.
        object: ObjectName,
        /// A column of it, or a constraint.
        part: Option<String>,
        /// The text; `None` takes it away.
        text: Option<String>,
    },
}

/// An object as a statement names it.
#[derive(Clone, Debug)]
pub struct ObjectName {
    /// What it is; a table may turn out to be a view or a sequence.
    pub kind: ObjectKind,
    /// Schema and name, and the arguments of a routine.
    pub name: RoutineName,
}

/// GRANT and REVOKE of privileges.
#[derive(Clone, Debug)]
pub struct GrantSyntax {
    /// REVOKE
    pub revoke: bool,
    /// WITH GRANT OPTION, GRANT OPTION FOR
    pub option: bool,
    /// The privileges, ALL is empty, each with the columns that it is of.
    pub privileges: Vec<(String, Vec<String>)>,
    /// Of what.
    pub objects: Granted,
    /// Who gets or loses them; `None` is PUBLIC.
    pub grantees: Vec<Option<RoleRef>>,
    /// CASCADE
    pub cascade: bool,
    /// GRANTED BY
    pub by: Option<RoleRef>,
}

/// What privileges are of.
#[derive(Clone, Debug)]
pub enum Granted {
    /// These.
    Named(Vec<ObjectName>),
    /// ALL of a kind IN SCHEMA; those that are also of the second kind.
    AllIn(ObjectKind, Option<ObjectKind>, Vec<String>),
}
