//! The syntax trees of statements about composite types.

use sqlparser::ast;

/// A CREATE TYPE or ALTER TYPE statement for a composite type.
#[derive(Clone, Debug)]
pub struct CompositeSyntax {
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// The action of the statement.
    pub does: CompositeAction,
}

/// The action of a statement on a composite type.
#[derive(Clone, Debug)]
pub enum CompositeAction {
    /// CREATE TYPE … AS (…): the attributes.
    Create(Vec<(String, ast::DataType)>),
    /// ALTER TYPE … ATTRIBUTE: the actions, in their order.
    Alter(Vec<AttributeSyntax>),
}

/// An ALTER TYPE action on an attribute.
#[derive(Clone, Debug)]
pub enum AttributeSyntax {
    /// ADD ATTRIBUTE
    Add(String, ast::DataType),
    /// DROP ATTRIBUTE; true for IF EXISTS
    Drop(String, bool),
    /// ALTER ATTRIBUTE … TYPE
    Type(String, ast::DataType),
    /// RENAME ATTRIBUTE … TO …
    Rename(String, String),
}
