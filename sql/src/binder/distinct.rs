//! DISTINCT ON: keeps the first row of each group of rows that agree in some expressions.
//!
//! The SELECT becomes an ordered subquery; the query around it keeps the first row of each group.

use sqlparser::ast;

use super::Binder;
use super::aggregate::Aggregates;
use super::expr::{Clause, ExprContext};
use super::scope::Scope;
use crate::bound::{Expr, From, Leaf, LeafSource, OrderKey, Select, Target};
use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};

impl Binder<'_> {
    /// Returns the targets that the expressions of DISTINCT ON refer to. An expression that is not
    /// in the target list is added as a hidden target.
    pub(super) fn first_keys(
        &mut self,
        keys: &[ast::Expr],
        scope: &Scope,
        aggregates: &mut Aggregates,
        (targets, visible): (&mut Vec<Target>, usize),
    ) -> Result<Vec<usize>, SqlError> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(target) = self.output_reference(key, &targets[..visible])? {
                found.push(target);
                continue;
            }
            let around = &mut ExprContext {
                scope,
                clause: Clause::OrderBy,
                aggregates: Some(&mut *aggregates),
            };
            let bound = self.expr(key, around)?;
            let bound = self.unknown_to_text(bound)?;
            let known = targets.iter().position(|t| t.expr == bound);
            found.push(known.unwrap_or_else(|| {
                targets.push(Target {
                    name: String::new(),
                    expr: bound,
                    origin: None,
                });
                targets.len() - 1
            }));
        }
        Ok(found)
    }
}

/// Checks that ORDER BY begins with the expressions of DISTINCT ON, in any order.
pub(super) fn check_first_keys(firsts: &[usize], order: &[OrderKey]) -> Result<(), SqlError> {
    let mut rest: Vec<usize> = firsts.to_vec();
    rest.sort_unstable();
    rest.dedup();
    for key in order {
        if rest.is_empty() {
            break;
        }
        match rest.iter().position(|first| *first == key.target) {
            Some(at) => {
                rest.remove(at);
            }
            None if firsts.contains(&key.target) => {}
            None => {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                ));
            }
        }
    }
    Ok(())
}

/// Returns the query that keeps the first row of each group of `select`, in the order of `select`.
pub(super) fn first_of_each(mut select: Select, firsts: Vec<usize>) -> Select {
    let visible = select.visible;
    select.visible = select.targets.len();
    let column = |(slot, target): (usize, &Target)| Target {
        name: target.name.clone(),
        expr: Expr::column(target.expr.ty, slot),
        origin: target.origin,
    };
    let targets: Vec<Target> = select.targets.iter().enumerate().map(column).collect();
    let leaf = Leaf {
        alias: "unique".to_owned(),
        column_names: targets.iter().map(|t| t.name.clone()).collect(),
        column_types: targets.iter().map(|t| t.expr.ty).collect(),
        first_slot: 0,
        source: LeafSource::Subquery(Box::new(select)),
    };
    Select {
        from: From::Leaf(leaf),
        filter: None,
        grouping: None,
        having: None,
        windows: Vec::new(),
        targets,
        visible,
        distinct: true,
        distinct_on: firsts,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        with_ties: false,
        gives_skipped: false,
        locking: None,
        places: false,
        view: None,
    }
}

const ORDERING: &str = "an ordering";

/// Checks that values of the type have an equality operator; 42883 otherwise.
pub(super) fn has_equality(ty: &Type) -> Result<(), SqlError> {
    compares(ty, "an equality")
}

/// Checks that values of the type have an ordering operator; 42883 otherwise.
pub(super) fn has_order(ty: &Type) -> Result<(), SqlError> {
    compares(ty, ORDERING)
}

fn compares(ty: &Type, operator: &str) -> Result<(), SqlError> {
    let element = ty.kind.element().unwrap_or(ty.kind);
    if let TypeKind::Composite(of) = element {
        let mut fields = of.definition().fields.iter();
        return fields.try_for_each(|field| compares(&field.ty.plain(), operator));
    }
    if element.has_order() || (operator != ORDERING && element.has_equality()) {
        return Ok(());
    }
    let message = format!(
        "could not identify {operator} operator for type {}",
        ty.kind
    );
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
}
