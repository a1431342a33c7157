//! CREATE, ALTER and DROP TYPE.

/// CREATE TYPE … AS ENUM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateEnum {
    /// The schema, if given; binding gives one.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// The labels, in order.
    pub labels: Vec<String>,
}

/// ALTER TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType {
    /// The schema, if given; binding gives that of the type.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// What happens to it.
    pub action: AlterTypeAction,
}

/// What ALTER TYPE does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTypeAction {
    /// ADD VALUE
    AddValue {
        /// The label.
        label: String,
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// BEFORE or AFTER (true) which label.
        beside: Option<(bool, String)>,
    },
    /// RENAME VALUE
    RenameValue {
        /// The label that there is.
        from: String,
        /// What it is to be.
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
    /// Schemas and names; binding gives the schemas of those that there are.
    pub names: Vec<(Option<String>, String)>,
    /// They may be missing.
    pub if_exists: bool,
    /// What depends on them goes, too.
    pub cascade: bool,
    /// DROP DOMAIN: they are domains.
    pub domain: bool,
}
