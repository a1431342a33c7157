//! Visitors for sqlparser's trees: every query, relation and expression of a statement, from the
//! outside in.
//!
//! sqlparser's derived visitor has thousands of functions, one for each field of everything that it
//! can parse; it was a sixth of the compiled code of this crate. This visitor covers the parts that
//! the binder accepts; parts that the binder rejects may be skipped. `statements.rs` and `parts.rs`
//! define the traversal once for both the reading and the changing visitors.

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
    /// A visitor of the parts of a tree.
    Visitor,
    /// A walk through a tree.
    Walk,
}

parts! {
    /// A visitor that can change the parts of a tree.
    VisitorMut,
    /// A walk through a tree that can change it.
    WalkMut,
    mut
}

statements! { Walk }
statements! { WalkMut mut }

/// A parsed tree.
pub(crate) trait TreeMut {
    /// Lets a visitor see and change all parts.
    ///
    /// # Errors
    /// The error with which the visitor stops.
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
