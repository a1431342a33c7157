//! Walks over what sqlparser has parsed: each query, relation and expression of a statement, from the outside in.
//!
//! What sqlparser derives for a walk is thousands of functions, for each field of all that it can read, and was a sixth of
//! what this crate is compiled to. This goes where the binder goes: what the binder refuses to read may be left out.
//! `statements.rs` and `parts.rs` say once where to go, for those that look and those that change.

#[macro_use]
mod parts;
#[macro_use]
mod statements;

use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, Select,
    SetExpr, Statement, TableFactor,
};

use crate::error::SqlError;
use crate::stack;

parts! {
    /// Sees the parts of a tree.
    Visitor,
    /// Goes through a tree.
    Walk,
}

parts! {
    /// Sees, and changes, the parts of a tree.
    VisitorMut,
    /// Goes through a tree that is changed.
    WalkMut,
    mut
}

statements! { Walk }
statements! { WalkMut mut }

/// What texts are parsed to.
pub(crate) trait TreeMut {
    /// Has a visitor see, and change, all parts.
    ///
    /// # Errors
    /// What the visitor breaks off with.
    fn walk_mut(&mut self, visitor: &mut dyn VisitorMut) -> Result<(), SqlError>;
}

impl TreeMut for Statement {
    fn walk_mut(&mut self, visitor: &mut dyn VisitorMut) -> Result<(), SqlError> {
        WalkMut(visitor).statement(self)
    }
}

impl TreeMut for Query {
    fn walk_mut(&mut self, visitor: &mut dyn VisitorMut) -> Result<(), SqlError> {
        WalkMut(visitor).query(self)
    }
}

impl TreeMut for Expr {
    fn walk_mut(&mut self, visitor: &mut dyn VisitorMut) -> Result<(), SqlError> {
        WalkMut(visitor).expr(self)
    }
}

#[cfg(test)]
mod tests;
