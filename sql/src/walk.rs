//! Walks over what sqlparser has parsed.
//!
//! What it derives for a walk is some hundreds of functions a type of visitor, and was half of what this crate is compiled to. So
//! all visitors are of one type, behind a reference, and nothing else is walked with.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

use crate::error::SqlError;

/// Has a visitor see all parts of a tree.
///
/// # Errors
/// What the visitor breaks off with.
pub(crate) fn walk(
    tree: &impl Visit,
    visitor: &mut dyn Visitor<Break = SqlError>,
) -> Result<(), SqlError> {
    ended(tree.visit(&mut Walk(visitor)))
}

/// Has a visitor see, and change, all parts of a tree.
///
/// # Errors
/// What the visitor breaks off with.
pub(crate) fn walk_mut(
    tree: &mut impl VisitMut,
    visitor: &mut dyn VisitorMut<Break = SqlError>,
) -> Result<(), SqlError> {
    ended(tree.visit(&mut WalkMut(visitor)))
}

fn ended(walk: ControlFlow<SqlError>) -> Result<(), SqlError> {
    match walk {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Walk<'a>(&'a mut dyn Visitor<Break = SqlError>);
struct WalkMut<'a>(&'a mut dyn VisitorMut<Break = SqlError>);

/// Passes each part on.
macro_rules! passed_on {
    ($($see:ident $part:ty,)*) => {
        impl Visitor for Walk<'_> {
            type Break = SqlError;

            $(fn $see(&mut self, part: &$part) -> ControlFlow<SqlError> {
                self.0.$see(part)
            })*
        }

        impl VisitorMut for WalkMut<'_> {
            type Break = SqlError;

            $(fn $see(&mut self, part: &mut $part) -> ControlFlow<SqlError> {
                self.0.$see(part)
            })*
        }
    };
}

passed_on! {
    pre_visit_query Query,
    post_visit_query Query,
    pre_visit_select Select,
    post_visit_select Select,
    pre_visit_relation ObjectName,
    post_visit_relation ObjectName,
    pre_visit_table_factor TableFactor,
    post_visit_table_factor TableFactor,
    pre_visit_expr Expr,
    post_visit_expr Expr,
    pre_visit_statement Statement,
    post_visit_statement Statement,
    pre_visit_value ValueWithSpan,
    post_visit_value ValueWithSpan,
}
