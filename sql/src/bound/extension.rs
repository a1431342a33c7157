//! CREATE, ALTER and DROP EXTENSION.

/// CREATE EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateExtension {
    /// The name.
    pub name: String,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
    /// The schema that its objects go to; `None` where none was said and none is there to create in.
    pub schema: Option<String>,
    /// VERSION
    pub version: Option<String>,
}

/// DROP EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropExtension {
    /// The names.
    pub names: Vec<String>,
    /// They may be missing.
    pub if_exists: bool,
    /// What needs them goes, too.
    pub cascade: bool,
}

/// ALTER EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterExtension {
    /// The name.
    pub name: String,
    /// What changes.
    pub change: ExtensionChange,
}

/// What ALTER EXTENSION changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtensionChange {
    /// UPDATE, to a version or to the newest.
    Update(Option<String>),
    /// SET SCHEMA
    Schema(String),
}

/// DROP … IF EXISTS of something of a kind that there is nothing of.
#[derive(Clone, Debug, PartialEq)]
pub struct DropAbsent {
    /// The command.
    pub command: &'static str,
    /// What is said.
    pub notice: String,
}
