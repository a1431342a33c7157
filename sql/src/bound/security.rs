//! Bound statements about privileges, owners and comments. Roles are looked up when they run.

use super::role::RoleRef;
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind};

/// An object that a statement names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedObject {
    /// The object.
    pub object: Object,
    /// As messages call it.
    pub name: String,
}

/// GRANT and REVOKE of privileges.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// REVOKE
    pub revoke: bool,
    /// WITH GRANT OPTION, GRANT OPTION FOR
    pub option: bool,
    /// The privileges, `None` is ALL, each with the names of the columns that it is of.
    pub privileges: Vec<(Option<Privileges>, Vec<String>)>,
    /// Of what.
    pub objects: Vec<NamedObject>,
    /// Who gets or loses them; `None` is PUBLIC.
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
    /// Who becomes a member of them, or is none any more.
    pub members: Vec<RoleRef>,
    /// GRANTED BY
    pub by: Option<RoleRef>,
}

/// ALTER … OWNER TO
#[derive(Clone, Debug, PartialEq)]
pub struct AlterOwner {
    /// Whose owner changes; `None` where it is missing and may be.
    pub object: Option<NamedObject>,
    /// As it was named, and what for.
    pub name: (ObjectKind, String),
    /// The new owner.
    pub to: RoleRef,
}

/// DROP OWNED BY
#[derive(Clone, Debug, PartialEq)]
pub struct DropOwned {
    /// Whose.
    pub roles: Vec<RoleRef>,
    /// What others have of it goes, too.
    pub cascade: bool,
}

/// ALTER … SET SCHEMA of a table, view or sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SetSchema {
    /// What moves; `None` where it is missing and may be.
    pub object: Option<NamedObject>,
    /// As it was named.
    pub name: String,
    /// The schema that it moves to, which is there.
    pub to: String,
    /// The command tag.
    pub tag: &'static str,
}

/// ALTER VIEW … RENAME
#[derive(Clone, Debug, PartialEq)]
pub struct RenameView {
    /// The view; `None` where it is missing and may be.
    pub object: Option<NamedObject>,
    /// As it was named.
    pub name: String,
    /// The column that is renamed; `None` is the view.
    pub column: Option<String>,
    /// The new name.
    pub to: String,
}

/// COMMENT ON what is no table and no column of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    /// On what.
    pub object: NamedObject,
    /// Whose owner may say it, where that is another object.
    pub of: Object,
    /// The number of the column that it is on; 0 is the whole.
    pub column: i16,
    /// The text; `None` takes it away.
    pub text: Option<String>,
}

/// ALTER DEFAULT PRIVILEGES
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultPrivileges {
    /// FOR ROLE; none is who says it.
    pub roles: Vec<RoleRef>,
    /// IN SCHEMA
    pub schemas: Vec<String>,
    /// REVOKE
    pub revoke: bool,
    /// WITH GRANT OPTION, GRANT OPTION FOR
    pub option: bool,
    /// The privileges; `None` is ALL.
    pub privileges: Option<Privileges>,
    /// Of what is made.
    pub kind: ObjectKind,
    /// Who gets or loses them; `None` is PUBLIC.
    pub grantees: Vec<Option<RoleRef>>,
    /// CASCADE
    pub cascade: bool,
}

/// REASSIGN OWNED BY … TO
#[derive(Clone, Debug, PartialEq)]
pub struct ReassignOwned {
    /// Whose.
    pub roles: Vec<RoleRef>,
    /// Who gets it.
    pub to: RoleRef,
}
