//! CREATE and DROP SCHEMA.

use super::role::RoleRef;

/// CREATE SCHEMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSchema {
    /// The name; that of the owner where there is none.
    pub name: Option<String>,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
    /// AUTHORIZATION
    pub owner: Option<RoleRef>,
    /// The statements that make what is in it, in the order in which they run.
    pub elements: Vec<String>,
}

/// ALTER SCHEMA … RENAME TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameSchema {
    /// The name.
    pub name: String,
    /// The new one.
    pub to: String,
}

/// DROP SCHEMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropSchema {
    /// The names.
    pub names: Vec<String>,
    /// They may be missing.
    pub if_exists: bool,
    /// What is in them goes, too.
    pub cascade: bool,
}
