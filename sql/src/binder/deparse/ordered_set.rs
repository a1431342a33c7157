//! Deparsing of calls with WITHIN GROUP.

use sqlparser::ast;

use super::call_pieces::suffix;
use super::tree::{Piece, SortBy, SortKey, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::bound::OrderedSet;
use crate::error::SqlError;
use crate::types::{Type, TypeKind};

impl Deparser<'_, '_> {
    /// Casts the direct arguments to the types that the aggregate takes.
    pub(super) fn direct(
        &mut self,
        kind: OrderedSet,
        args: Vec<DeparsedExpr>,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        if kind.is_hypothetical() {
            return Ok(args);
        }
        let args = args.into_iter().map(|arg| {
            let many = Type::FLOAT8.array().filter(|_| arg.ty.element().is_some());
            self.coerced(arg, many.unwrap_or(Type::FLOAT8), false)
        });
        args.collect()
    }

    /// Deparses the keys of WITHIN GROUP.
    pub(super) fn grouped_keys(
        &mut self,
        kind: Option<OrderedSet>,
        keys: &[ast::OrderByExpr],
        level: &Level,
    ) -> Result<Vec<SortKey>, SqlError> {
        let mut all = Vec::new();
        for key in keys {
            let mut deparsed = self.settled(&key.expr, level)?;
            if kind == Some(OrderedSet::PercentileCont) && deparsed.ty.kind != TypeKind::Interval {
                let cast = deparsed.ty != Type::FLOAT8;
                deparsed = self.coerced(deparsed, Type::FLOAT8, false)?;
                if cast {
                    // Such a cast is a function call, which sort keys display in parentheses.
                    let pieces = vec![Piece::Tree(deparsed.tree)];
                    let function = true;
                    deparsed = DeparsedExpr::new(Tree::Call { pieces, function }, Type::FLOAT8);
                }
            }
            all.push(SortKey {
                by: SortBy::Tree(deparsed.tree),
                suffix: suffix(key),
            });
        }
        Ok(all)
    }
}
