//! CREATE TYPE … AS (…) and ALTER TYPE … ATTRIBUTE.

use std::sync::Arc;

use crate::catalog::TypeDef;
use crate::types::Type;

/// CREATE TYPE … AS (…).
#[derive(Clone, Debug, PartialEq)]
pub struct CreateComposite {
    /// The schema of the new type.
    pub schema: String,
    /// The name of the new type.
    pub name: String,
    /// The names and declared types of the attributes.
    pub attributes: Vec<(String, Type)>,
}

/// ALTER TYPE … ATTRIBUTE.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterComposite {
    /// The type.
    pub ty: Arc<TypeDef>,
    /// The changes, in order.
    pub changes: Vec<AttributeChange>,
}

/// A change of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeChange {
    /// ADD ATTRIBUTE
    Add(String, Type),
    /// DROP ATTRIBUTE; true with IF EXISTS.
    Drop(String, bool),
    /// ALTER ATTRIBUTE … TYPE
    Type(String, Type),
    /// RENAME ATTRIBUTE … TO …
    Rename(String, String),
}
