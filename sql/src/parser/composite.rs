//! The syntax trees of statements about composite types.

use sqlparser::ast;

/// A statement about a composite type.
#[derive(Clone, Debug)]
pub struct CompositeSyntax {
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// What it does.
    pub does: CompositeAction,
}

/// What such a statement does.
#[derive(Clone, Debug)]
pub enum CompositeAction {
    /// CREATE TYPE … AS (…)
    Create(Vec<(String, ast::DataType)>),
    /// ALTER TYPE … ATTRIBUTE, one after the other.
    Alter(Vec<AttributeSyntax>),
}

/// What ALTER TYPE does to an attribute.
#[derive(Clone, Debug)]
pub enum AttributeSyntax {
    /// ADD ATTRIBUTE
    Add(String, ast::DataType),
    /// DROP ATTRIBUTE, which may be missing (true)
    Drop(String, bool),
    /// ALTER ATTRIBUTE … TYPE
    Type(String, ast::DataType),
    /// RENAME ATTRIBUTE … TO …
    Rename(String, String),
}
