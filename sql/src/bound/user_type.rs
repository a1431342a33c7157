//! CREATE, ALTER and DROP TYPE.

/// CREATE TYPE … AS ENUM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateEnum {
    /// The schema, if given; the binder fills it in.
    pub schema: Option<String>,
    /// The name of the new type.
    pub name: String,
    /// The labels, in order.
    pub labels: Vec<String>,
}

/// ALTER TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType {
    /// The schema, if given; the binder fills in the schema of the type.
    pub schema: Option<String>,
    /// The name of the type.
    pub name: String,
    /// The change of the type.
    pub action: AlterTypeAction,
}

/// A change by ALTER TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTypeAction {
    /// ADD VALUE
    AddValue {
        /// The label.
        label: String,
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// The position of the label: BEFORE (false) or AFTER (true) another label.
        beside: Option<(bool, String)>,
    },
    /// RENAME VALUE
    RenameValue {
        /// The existing label.
        from: String,
        /// The new label.
        to: String,
    },
    /// RENAME TO
    Rename(String),
    /// SET SCHEMA
    SetSchema(String),
}

/// DROP TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropType {
    /// The schemas and names; the binder fills in the schemas of existing types.
    pub names: Vec<(Option<String>, String)>,
    /// IF EXISTS: a missing type is only a notice.
    pub if_exists: bool,
    /// CASCADE: dependent objects are dropped, too.
    pub cascade: bool,
    /// Whether the statement is DROP DOMAIN.
    pub domain: bool,
}
