//! Statements about privileges, owners and comments. Role names are resolved when the statements
//! run.

use super::role::RoleRef;
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind};

/// An object that a statement names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedObject {
    /// The object.
    pub object: Object,
    /// The name in messages.
    pub name: String,
}

/// GRANT and REVOKE of privileges.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// REVOKE
    pub revoke: bool,
    /// WITH GRANT OPTION, GRANT OPTION FOR
    pub option: bool,
    /// The privileges, or `None` for ALL, each with the names of its columns.
    pub privileges: Vec<(Option<Privileges>, Vec<String>)>,
    /// The objects of the privileges.
    pub objects: Vec<NamedObject>,
    /// The roles that gain or lose them; `None` is PUBLIC.
    pub grantees: Vec<Option<RoleRef>>,
    /// CASCADE
    pub cascade: bool,
    /// GRANTED BY
    pub by: Option<RoleRef>,
}

/// GRANT and REVOKE of membership in roles.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRole {
    /// REVOKE
    pub revoke: bool,
    /// WITH ADMIN OPTION, ADMIN OPTION FOR
    pub admin: bool,
    /// The roles.
    pub roles: Vec<String>,
    /// The roles that become members, or cease to be members.
    pub members: Vec<RoleRef>,
    /// GRANTED BY
    pub by: Option<RoleRef>,
}

/// ALTER … OWNER TO
#[derive(Clone, Debug, PartialEq)]
pub struct AlterOwner {
    /// The object; `None` if it is missing and IF EXISTS allows that.
    pub object: Option<NamedObject>,
    /// The object kind and the name as the statement gives them.
    pub name: (ObjectKind, String),
    /// The new owner.
    pub to: RoleRef,
}

/// DROP OWNED BY
#[derive(Clone, Debug, PartialEq)]
pub struct DropOwned {
    /// The roles whose objects are dropped.
    pub roles: Vec<RoleRef>,
    /// CASCADE: dependent objects are dropped, too.
    pub cascade: bool,
}

/// ALTER … SET SCHEMA of a table, view or sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SetSchema {
    /// The object; `None` if it is missing and IF EXISTS allows that.
    pub object: Option<NamedObject>,
    /// The name as the statement gives it.
    pub name: String,
    /// The new schema, which exists.
    pub to: String,
    /// The command tag.
    pub tag: &'static str,
}

/// ALTER VIEW … RENAME
#[derive(Clone, Debug, PartialEq)]
pub struct RenameView {
    /// The view; `None` if it is missing and IF EXISTS allows that.
    pub object: Option<NamedObject>,
    /// The name as the statement gives it.
    pub name: String,
    /// The column that is renamed; `None` for the view itself.
    pub column: Option<String>,
    /// The new name.
    pub to: String,
}

/// COMMENT ON an object that is neither a table nor a column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    /// The object that the comment is on.
    pub object: NamedObject,
    /// The object whose owner may set the comment, which may be another one.
    pub of: Object,
    /// The attribute number of the column that the comment is on; 0 for the whole object.
    pub column: i16,
    /// The text; `None` removes the comment.
    pub text: Option<String>,
}

/// ALTER DEFAULT PRIVILEGES
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultPrivileges {
    /// FOR ROLE; empty for the current role.
    pub roles: Vec<RoleRef>,
    /// IN SCHEMA
    pub schemas: Vec<String>,
    /// REVOKE
    pub revoke: bool,
    /// WITH GRANT OPTION, GRANT OPTION FOR
    pub option: bool,
    /// The privileges; `None` is ALL.
    pub privileges: Option<Privileges>,
    /// The kind of the created objects.
    pub kind: ObjectKind,
    /// The roles that gain or lose them; `None` is PUBLIC.
    pub grantees: Vec<Option<RoleRef>>,
    /// CASCADE
    pub cascade: bool,
}

/// REASSIGN OWNED BY … TO
#[derive(Clone, Debug, PartialEq)]
pub struct ReassignOwned {
    /// The roles whose objects get a new owner.
    pub roles: Vec<RoleRef>,
    /// The new owner.
    pub to: RoleRef,
}
