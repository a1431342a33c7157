//! CREATE and ALTER DOMAIN.

use std::sync::Arc;

use crate::catalog::TypeDef;
use crate::types::Type;

/// CREATE DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDomain {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// What it is over.
    pub base: Type,
    /// NOT NULL
    pub not_null: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// CHECK constraints.
    pub checks: Vec<NewDomainCheck>,
}

/// A constraint that a domain is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDomainCheck {
    /// Its name, if it is given one.
    pub name: Option<String>,
    /// The condition as SQL text, over VALUE.
    pub text: String,
    /// Values that there are have to satisfy it.
    pub validate: bool,
}

/// ALTER DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterDomain {
    /// The domain.
    pub ty: Arc<TypeDef>,
    /// What happens to it.
    pub change: DomainChange,
}

/// What ALTER DOMAIN does.
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
        /// Which.
        name: String,
        /// It may be missing.
        if_exists: bool,
    },
    /// VALIDATE CONSTRAINT
    Validate(String),
    /// RENAME CONSTRAINT
    RenameCheck {
        /// Which.
        from: String,
        /// What it is to be called.
        to: String,
    },
    /// RENAME TO
    Rename(String),
    /// SET SCHEMA
    SetSchema(String),
}
