//! The syntax trees of statements about privileges, owners and comments.

use super::routine::RoutineName;
use crate::bound::RoleRef;
use crate::catalog::ObjectKind;

/// A statement about privileges, owners or comments, whose objects must be looked up.
#[derive(Clone, Debug)]
pub enum SecuritySyntax {
    /// GRANT, REVOKE
    Grant(GrantSyntax),
    /// ALTER … OWNER TO
    Owner {
        /// The object.
        object: ObjectName,
        /// Whether IF EXISTS is given.
        if_exists: bool,
        /// The new owner.
        to: RoleRef,
    },
    /// ALTER … SET SCHEMA
    Schema {
        /// The object to move.
        object: ObjectName,
        /// Whether IF EXISTS is given.
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
        /// Whether IF EXISTS is given.
        if_exists: bool,
        /// The column to rename; `None` renames the view.
        column: Option<String>,
        /// The new name.
        to: String,
    },
    /// COMMENT ON
    Comment {
        /// The object.
        object: ObjectName,
        /// The column or constraint of the object, if the comment is on one.
        part: Option<String>,
        /// The text; `None` removes the comment.
        text: Option<String>,
    },
}

/// The name of an object in a statement.
#[derive(Clone, Debug)]
pub struct ObjectName {
    /// The kind of the object. A table may turn out to be a view or a sequence.
    pub kind: ObjectKind,
    /// The schema and name, and the arguments of a routine.
    pub name: RoutineName,
}

/// GRANT and REVOKE of privileges.
#[derive(Clone, Debug)]
pub struct GrantSyntax {
    /// True for REVOKE, false for GRANT.
    pub revoke: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR
    pub option: bool,
    /// The privileges, each with its columns; empty for ALL.
    pub privileges: Vec<(String, Vec<String>)>,
    /// The objects.
    pub objects: GrantTargets,
    /// The roles; `None` is PUBLIC.
    pub grantees: Vec<Option<RoleRef>>,
    /// CASCADE
    pub cascade: bool,
    /// GRANTED BY
    pub by: Option<RoleRef>,
}

/// The objects of a GRANT or REVOKE.
#[derive(Clone, Debug)]
pub enum GrantTargets {
    /// The named objects.
    Named(Vec<ObjectName>),
    /// ALL objects of a kind IN SCHEMA, and those of the second kind.
    AllIn(ObjectKind, Option<ObjectKind>, Vec<String>),
}
