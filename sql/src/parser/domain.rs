//! The syntax trees of statements about domains.

use sqlparser::ast;

use crate::bound::DomainChange;

/// A CREATE DOMAIN or ALTER DOMAIN statement.
#[derive(Clone, Debug)]
pub enum DomainSyntax {
    /// CREATE DOMAIN
    Create {
        /// The schema, if it is named.
        schema: Option<String>,
        /// The name.
        name: String,
        /// The base type.
        base: ast::DataType,
        /// The constraints, default and collation, in the order of the text.
        rules: Vec<DomainRule>,
    },
    /// ALTER DOMAIN
    Alter {
        /// The schema, if it is named.
        schema: Option<String>,
        /// The name.
        name: String,
        /// The change.
        change: DomainRuleChange,
    },
}

/// A property that a domain adds to its base type.
#[derive(Clone, Debug)]
pub enum DomainRule {
    /// NOT NULL (true), or NULL (false)
    NotNull(bool),
    /// DEFAULT
    Default(Box<ast::Expr>),
    /// COLLATE
    Collate(String),
    /// CHECK
    Check(DomainCheckSyntax),
    /// A property that only tables can have.
    Refused(String),
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct DomainCheckSyntax {
    /// The name, if one is given.
    pub name: Option<String>,
    /// The condition.
    pub condition: Box<ast::Expr>,
    /// Whether existing values are checked; false for NOT VALID.
    pub validate: bool,
}

/// An action of ALTER DOMAIN.
#[derive(Clone, Debug)]
pub enum DomainRuleChange {
    /// SET DEFAULT, or DROP DEFAULT (`None`)
    Default(Option<Box<ast::Expr>>),
    /// ADD
    Add(DomainRule),
    /// A change that contains nothing to bind.
    Bound(DomainChange),
}
