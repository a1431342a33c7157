//! CREATE and ALTER DOMAIN.

use std::sync::Arc;

use crate::catalog::TypeDef;
use crate::types::Type;

/// CREATE DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDomain {
    /// The schema of the new domain.
    pub schema: String,
    /// The name of the new domain.
    pub name: String,
    /// The base type.
    pub base: Type,
    /// Whether the domain is NOT NULL.
    pub not_null: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// CHECK constraints.
    pub checks: Vec<NewDomainCheck>,
}

/// A new constraint of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDomainCheck {
    /// The name; `None` lets the catalog choose one.
    pub name: Option<String>,
    /// The condition as SQL text, over VALUE.
    pub text: String,
    /// Whether existing values must satisfy it.
    pub validate: bool,
}

/// ALTER DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterDomain {
    /// The domain.
    pub ty: Arc<TypeDef>,
    /// The change of the domain.
    pub change: DomainChange,
}

/// A change by ALTER DOMAIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainChange {
    /// SET DEFAULT, DROP DEFAULT
    Default(Option<String>),
    /// SET NOT NULL, DROP NOT NULL
    NotNull(bool),
    /// ADD CHECK
    AddCheck(NewDomainCheck),
    /// DROP CONSTRAINT
    DropCheck {
        /// The name of the constraint.
        name: String,
        /// Whether a missing constraint is only a notice.
        if_exists: bool,
    },
    /// VALIDATE CONSTRAINT
    Validate(String),
    /// RENAME CONSTRAINT
    RenameCheck {
        /// The present name of the constraint.
        from: String,
        /// The new name of the constraint.
        to: String,
    },
    /// RENAME TO
    Rename(String),
    /// SET SCHEMA
    SetSchema(String),
}
