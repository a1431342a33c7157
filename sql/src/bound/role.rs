//! Statements that change roles. Role names are resolved when the statements run.

use super::database::SettingChange;

/// A reference to a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleRef {
    /// The role of this name.
    Named(String),
    /// CURRENT_USER, CURRENT_ROLE or SESSION_USER: the role of the session.
    Own,
}

/// The options of CREATE ROLE and ALTER ROLE. `None` keeps the present value, or means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// SUPERUSER or NOSUPERUSER
    pub superuser: Option<bool>,
    /// LOGIN or NOLOGIN
    pub login: Option<bool>,
    /// PASSWORD: plain text or a verifier; NULL removes the password.
    pub password: Option<Option<String>>,
    /// INHERIT or NOINHERIT
    pub inherit: Option<bool>,
    /// CREATEROLE or NOCREATEROLE
    pub create_role: Option<bool>,
    /// CREATEDB or NOCREATEDB
    pub create_db: Option<bool>,
    /// REPLICATION or NOREPLICATION
    pub replication: Option<bool>,
    /// BYPASSRLS or NOBYPASSRLS
    pub bypass_rls: Option<bool>,
    /// CONNECTION LIMIT
    pub connections: Option<i32>,
    /// VALID UNTIL, as the statement gives it.
    pub valid_until: Option<String>,
    /// IN ROLE: the roles of which the new role becomes a member.
    pub member_of: Vec<String>,
    /// ROLE: the roles that become members of the new role.
    pub members: Vec<RoleRef>,
    /// ADMIN: the members that may also grant the membership.
    pub admins: Vec<RoleRef>,
    /// Whether SYSID is given, which raises a notice.
    pub sysid: bool,
}

/// CREATE ROLE, CREATE USER, CREATE GROUP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    /// The name of the new role.
    pub name: String,
    /// The options; LOGIN is set for a user.
    pub options: RoleOptions,
}

/// ALTER ROLE, ALTER USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    /// The role.
    pub role: RoleRef,
    /// The change of the role.
    pub change: RoleChange,
}

/// A change by ALTER ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChange {
    /// WITH …
    Options(RoleOptions),
    /// RENAME TO
    Rename(String),
    /// A change of the settings with which sessions start, in the database of this name or in any.
    Setting(Option<String>, SettingChange),
    /// The same change for all roles.
    SettingOfAll(Option<String>, SettingChange),
}

/// DROP ROLE, DROP USER, DROP GROUP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRole {
    /// The names of the roles.
    pub names: Vec<String>,
    /// IF EXISTS: a missing role is only a notice.
    pub if_exists: bool,
}
