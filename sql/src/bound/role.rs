//! Bound statements that change roles. Their names are looked up when they run.

use super::database::SettingChange;

/// Which role a statement means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleRef {
    /// The one of this name.
    Named(String),
    /// CURRENT_USER, CURRENT_ROLE or SESSION_USER: the session's own.
    Own,
}

/// What CREATE ROLE and ALTER ROLE set; `None` keeps what is, or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// SUPERUSER or NOSUPERUSER
    pub superuser: Option<bool>,
    /// LOGIN or NOLOGIN
    pub login: Option<bool>,
    /// PASSWORD: plain or as a verifier; NULL takes it away.
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
    /// VALID UNTIL, as it was written.
    pub valid_until: Option<String>,
    /// IN ROLE: what the new role becomes a member of.
    pub member_of: Vec<String>,
    /// ROLE: who becomes a member of the new role.
    pub members: Vec<RoleRef>,
    /// ADMIN: the same, and may make others members.
    pub admins: Vec<RoleRef>,
    /// SYSID was written, of which a notice tells.
    pub sysid: bool,
}

/// CREATE ROLE, CREATE USER, CREATE GROUP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    /// The name.
    pub name: String,
    /// The options; LOGIN is set for a user.
    pub options: RoleOptions,
}

/// ALTER ROLE, ALTER USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    /// The role.
    pub role: RoleRef,
    /// What changes.
    pub change: RoleChange,
}

/// What ALTER ROLE changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChange {
    /// WITH …
    Options(RoleOptions),
    /// RENAME TO
    Rename(String),
    /// What sessions begin with, in the database of this name, or in any.
    Setting(Option<String>, SettingChange),
    /// The same for all roles, whichever the statement names.
    SettingOfAll(Option<String>, SettingChange),
}

/// DROP ROLE, DROP USER, DROP GROUP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRole {
    /// The names.
    pub names: Vec<String>,
    /// A missing one is a notice.
    pub if_exists: bool,
}
