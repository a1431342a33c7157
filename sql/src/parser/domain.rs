//! The syntax trees of statements about domains.

use sqlparser::ast;

use crate::bound::DomainChange;

/// A statement about domains.
#[derive(Clone, Debug)]
pub enum DomainSyntax {
    /// CREATE DOMAIN
    Create {
        /// The schema, if it is named.
        schema: Option<String>,
        /// The name.
        name: String,
        /// What it is over.
        base: ast::DataType,
        /// What it is more than that, in the order of the text.
        rules: Vec<DomainRule>,
    },
    /// ALTER DOMAIN
    Alter {
        /// The schema, if it is named.
        schema: Option<String>,
        /// The name.
        name: String,
        /// What happens to it.
        change: DomainRuleChange,
    },
}

/// What a domain is more than its base.
#[derive(Clone, Debug)]
pub enum DomainRule {
    /// NOT NULL, or NULL (false)
    NotNull(bool),
    /// DEFAULT
    Default(Box<ast::Expr>),
    /// COLLATE
    Collate(String),
    /// CHECK
    Check(DomainCheckSyntax),
    /// What only tables can have.
    Refused(String),
}

/// CHECK
#[derive(Clone, Debug)]
pub struct DomainCheckSyntax {
    /// Its name, if it is given one.
    pub name: Option<String>,
    /// The condition.
    pub condition: Box<ast::Expr>,
    /// Values that there are have to satisfy it: it is not NOT VALID.
    pub validate: bool,
}

/// What ALTER DOMAIN does.
#[derive(Clone, Debug)]
pub enum DomainRuleChange {
    /// SET DEFAULT, DROP DEFAULT
    Default(Option<Box<ast::Expr>>),
    /// ADD
    Add(DomainRule),
    /// What has nothing to be bound in it.
    Bound(DomainChange),
}
