//! CREATE TYPE … AS (…) and ALTER TYPE … ATTRIBUTE.

use std::sync::Arc;

use crate::catalog::TypeDef;
use crate::types::Type;

/// CREATE TYPE … AS (…).
#[derive(Clone, Debug, PartialEq)]
pub struct CreateComposite {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// The names of its attributes, and what they are declared to be.
    pub attributes: Vec<(String, Type)>,
}

/// ALTER TYPE … ATTRIBUTE.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterComposite {
    /// The type.
    pub ty: Arc<TypeDef>,
    /// What happens to it, in order.
    pub changes: Vec<AttributeChange>,
}

/// What ALTER TYPE does to an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeChange {
    /// ADD ATTRIBUTE
    Add(String, Type),
    /// DROP ATTRIBUTE, which may be missing (true)
    Drop(String, bool),
    /// ALTER ATTRIBUTE … TYPE
    Type(String, Type),
    /// RENAME ATTRIBUTE … TO …
    Rename(String, String),
}
