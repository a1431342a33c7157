//! CREATE, ALTER and DROP DATABASE. Database names are resolved when the statements run.

use super::role::RoleRef;

/// CREATE DATABASE; an option that the statement omits is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateDatabase {
    /// The name of the new database.
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
    /// The options that ALTER DATABASE has, too.
    pub options: DatabaseOptions,
}

/// The options of CREATE and ALTER DATABASE. `None` keeps the present value, or means the default.
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
    /// The name of the database.
    pub name: String,
    /// IF EXISTS: a missing database is only a notice.
    pub if_exists: bool,
    /// FORCE: the sessions of the database are terminated.
    pub force: bool,
}

/// ALTER DATABASE, except OWNER TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterDatabase {
    /// The name of the database.
    pub name: String,
    /// The change of the database.
    pub change: DatabaseChange,
}

/// A change by ALTER DATABASE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseChange {
    /// RENAME TO
    Rename(String),
    /// WITH …
    Options(DatabaseOptions),
    /// A change of the settings with which sessions start.
    Setting(SettingChange),
}

/// A change of the settings with which new sessions start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// SET name TO value; `None` removes the setting.
    Set(String, Option<String>),
    /// SET … FROM CURRENT
    SetCurrent(String),
    /// RESET ALL
    ResetAll,
}
