//! CREATE and DROP SCHEMA.

use super::role::RoleRef;

/// CREATE SCHEMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSchema {
    /// The name; `None` is the name of the owner.
    pub name: Option<String>,
    /// IF NOT EXISTS: an existing schema is only a notice.
    pub if_not_exists: bool,
    /// AUTHORIZATION
    pub owner: Option<RoleRef>,
    /// The statements that create the elements of the schema, in execution order.
    pub elements: Vec<String>,
}

/// ALTER SCHEMA … RENAME TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameSchema {
    /// The present name.
    pub name: String,
    /// The new name.
    pub to: String,
}

/// DROP SCHEMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropSchema {
    /// The names of the schemas.
    pub names: Vec<String>,
    /// IF EXISTS: a missing schema is only a notice.
    pub if_exists: bool,
    /// CASCADE: the objects in the schemas are dropped, too.
    pub cascade: bool,
}
