//! UNION, INTERSECT and EXCEPT.

use sqlparser::ast;

use super::distinct::has_equality;
use super::locking::clause_name;
use super::{Binder, SIDE_LEVELS};
use crate::bound::{Expr, Leaf, LeafSource, Select, SetOp, SetOperation, Target};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::Type;

impl Binder<'_> {
    /// Binds UNION, INTERSECT or EXCEPT.
    pub(super) fn set_operation(
        &mut self,
        set: (&ast::SetOperator, &ast::SetQuantifier),
        left: &ast::SetExpr,
        right: &ast::SetExpr,
        order_by: &[ast::OrderByExpr],
    ) -> Result<Select, SqlError> {
        let (op, all) = operation(set)?;
        let left = self.set_side(left)?;
        let right = self.set_side(right)?;
        let (left, right) = self.matched(op, left, right)?;
        if !all {
            let columns = left.columns().iter().map(|column| &column.expr.ty);
            columns.into_iter().try_for_each(has_equality)?;
        }
        let set = SetOperation {
            op,
            all,
            left,
            right,
        };
        self.over_set(LeafSource::Set(Box::new(set)), order_by)
    }

    /// Returns a query of all columns of a source that has the columns of its first query.
    pub(super) fn over_set(
        &mut self,
        source: LeafSource,
        order_by: &[ast::OrderByExpr],
    ) -> Result<Select, SqlError> {
        let first = match &source {
            LeafSource::Set(set) => &set.left,
            LeafSource::Recursive(recursive) => &recursive.base,
            _ => return Err(SqlError::internal("no queries to put together")),
        };
        let targets: Vec<Target> = first
            .columns()
            .iter()
            .enumerate()
            .map(|(slot, t)| Target {
                name: t.name.clone(),
                expr: Expr::column(t.expr.ty, slot),
                origin: None,
            })
            .collect();
        let leaf = Leaf {
            alias: "*SELECT*".to_owned(),
            column_names: targets.iter().map(|t| t.name.clone()).collect(),
            column_types: targets.iter().map(|t| t.expr.ty).collect(),
            first_slot: 0,
            source,
        };
        self.over_leaf(leaf, targets, order_by)
    }

    /// Binds one side. The type of an unknown literal or parameter in its target list comes from
    /// the other side.
    pub(super) fn set_side(&mut self, side: &ast::SetExpr) -> Result<Select, SqlError> {
        self.deeper_by(SIDE_LEVELS, |binder| match side {
            ast::SetExpr::Select(select) => {
                binder.unsettled = true;
                let bound = binder.select(select, &[], None);
                binder.unsettled = false;
                bound
            }
            ast::SetExpr::Values(values) => binder.values(values, &[]),
            ast::SetExpr::Query(query) => {
                refuse_locks(query)?;
                binder.unsettled = matches!(query.body.as_ref(), ast::SetExpr::Select(_));
                let bound = binder.query(query);
                binder.unsettled = false;
                bound
            }
            ast::SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => binder.set_operation((op, set_quantifier), left, right, &[]),
            _ => Err(SqlError::unsupported("this kind of query")),
        })
    }

    /// Converts the columns of both sides to their common types.
    pub(super) fn matched(
        &mut self,
        op: SetOp,
        mut left: Select,
        mut right: Select,
    ) -> Result<(Select, Select), SqlError> {
        if left.visible != right.visible {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "each {} query must have the same number of columns",
                    op.name()
                ),
            ));
        }
        for column in 0..left.visible {
            let sides = [&left, &right].map(|side| side.targets[column].expr.clone());
            let (ty, _) = self.unify(sides.to_vec(), op.name())?;
            for side in [&mut left, &mut right] {
                self.retype(side, column, ty)?;
            }
        }
        Ok((left, right))
    }

    /// Converts a column of a query to another type.
    pub(super) fn retype(
        &mut self,
        select: &mut Select,
        column: usize,
        ty: Type,
    ) -> Result<(), SqlError> {
        let target = &mut select.targets[column];
        if target.expr.ty != ty {
            let old = std::mem::replace(
                &mut target.expr,
                Expr::constant(ty, crate::value::Value::Null),
            );
            target.expr = self.coerce(old, ty, CastContext::Implicit)?;
        }
        Ok(())
    }

    /// Converts the columns of a query that are still of unknown type to text.
    pub(super) fn settle_columns(&mut self, select: &mut Select) -> Result<(), SqlError> {
        for column in 0..select.visible {
            if select.targets[column].expr.ty == Type::UNKNOWN {
                self.retype(select, column, Type::TEXT)?;
            }
        }
        Ok(())
    }
}

/// Returns the set operation, and whether ALL is given.
pub(super) fn operation(
    (op, quantifier): (&ast::SetOperator, &ast::SetQuantifier),
) -> Result<(SetOp, bool), SqlError> {
    let op = match op {
        ast::SetOperator::Union => SetOp::Union,
        ast::SetOperator::Intersect => SetOp::Intersect,
        ast::SetOperator::Except => SetOp::Except,
        other => return Err(SqlError::unsupported(other.to_string())),
    };
    let all = match quantifier {
        ast::SetQuantifier::All => true,
        ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
        other => return Err(SqlError::unsupported(format!("{} {other}", op.name()))),
    };
    Ok((op, all))
}

/// Refuses a branch of a set operation that has a row-locking clause, with 0A000.
fn refuse_locks(side: &ast::Query) -> Result<(), SqlError> {
    let Some(clause) = side.locks.first() else {
        return Ok(());
    };
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!(
            "{} is not allowed with UNION/INTERSECT/EXCEPT",
            clause_name(clause)
        ),
    ))
}
