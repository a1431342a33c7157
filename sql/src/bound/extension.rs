//! CREATE, ALTER and DROP EXTENSION.

/// CREATE EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateExtension {
    /// The name of the extension.
    pub name: String,
    /// IF NOT EXISTS: an existing extension is only a notice.
    pub if_not_exists: bool,
    /// The schema of its objects; `None` if the statement gives none and the search path contains
    /// none to create in.
    pub schema: Option<String>,
    /// VERSION
    pub version: Option<String>,
}

/// DROP EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropExtension {
    /// The names of the extensions.
    pub names: Vec<String>,
    /// IF EXISTS: a missing extension is only a notice.
    pub if_exists: bool,
    /// CASCADE: dependent objects are dropped, too.
    pub cascade: bool,
}

/// ALTER EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterExtension {
    /// The name of the extension.
    pub name: String,
    /// The change of the extension.
    pub change: ExtensionChange,
}

/// A change by ALTER EXTENSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtensionChange {
    /// UPDATE, to a version or to the newest.
    Update(Option<String>),
    /// SET SCHEMA
    Schema(String),
}

/// A statement that only raises a notice: DROP … IF EXISTS of a kind of object of which none can
/// exist, or CREATE INDEX USING brin.
#[derive(Clone, Debug, PartialEq)]
pub struct DropAbsent {
    /// The command.
    pub command: &'static str,
    /// The text of the notice.
    pub notice: String,
}
