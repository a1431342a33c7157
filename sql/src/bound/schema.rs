//! CREATE and DROP SCHEMA.

/// CREATE SCHEMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSchema {
    /// The name.
    pub name: String,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
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
