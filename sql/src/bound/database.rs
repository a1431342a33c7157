//! CREATE, ALTER and DROP DATABASE. Their names are looked up when they run.

use super::role::RoleRef;

/// CREATE DATABASE; what is `None` was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateDatabase {
    /// The name.
    pub name: String,
    /// OWNER
    pub owner: Option<RoleRef>,
    /// TEMPLATE
    pub template: Option<String>,
    /// LC_COLLATE
    pub collate: Option<String>,
    /// LC_CTYPE
    pub ctype: Option<String>,
    /// TABLESPACE
    pub tablespace: Option<String>,
    /// The rest.
    pub options: DatabaseOptions,
}

/// What CREATE and ALTER DATABASE set; `None` keeps what is, or the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// IS_TEMPLATE
    pub is_template: Option<bool>,
    /// ALLOW_CONNECTIONS
    pub connects: Option<bool>,
    /// CONNECTION LIMIT
    pub connections: Option<i32>,
}

/// DROP DATABASE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropDatabase {
    /// The name.
    pub name: String,
    /// It may be missing.
    pub if_exists: bool,
    /// FORCE: sessions of it are ended.
    pub force: bool,
}

/// ALTER DATABASE, but for OWNER TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterDatabase {
    /// The name.
    pub name: String,
    /// What becomes of it.
    pub change: DatabaseChange,
}

/// What ALTER DATABASE does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseChange {
    /// RENAME TO
    Rename(String),
    /// WITH …
    Options(DatabaseOptions),
    /// What sessions begin with.
    Setting(SettingChange),
}

/// What sessions begin with from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// SET: this value; `None` forgets it.
    Set(String, Option<String>),
    /// SET … FROM CURRENT
    SetCurrent(String),
    /// RESET ALL
    ResetAll,
}
