//! Operators that the function library contains under their symbols.

use super::Binder;
use super::call::choose;
use super::operator::{no_operator, not_unique};
use crate::bound::Expr;
use crate::error::{SqlError, SqlState};
use crate::functions::{ScalarFunction, candidates};
use crate::types::{Type, TypeKind};

impl Binder<'_> {
    /// Binds a call of a function that implements an operator.
    pub(super) fn symbol_as(
        &mut self,
        function: &str,
        symbol: &str,
        left: Expr,
        right: Expr,
    ) -> Result<Expr, SqlError> {
        let types = [left.ty, right.ty];
        self.call(function, vec![left, right])
            .map_err(|e| match e.sqlstate() {
                SqlState::UNDEFINED_FUNCTION => no_operator(symbol, &types[0], &types[1]),
                _ => e,
            })
    }

    /// Binds a call of the operator that fits the types best.
    pub(super) fn symbol(
        &mut self,
        symbol: &str,
        left: Expr,
        right: Expr,
    ) -> Result<Expr, SqlError> {
        let types = [left.ty, right.ty];
        let function = match same_on_both_sides(symbol, &types) {
            Some(function) => function,
            None => choose(symbol, &types).map_err(|e| match e.sqlstate() {
                SqlState::AMBIGUOUS_FUNCTION => not_unique(symbol, &types[0], &types[1]),
                _ => no_operator(symbol, &types[0], &types[1]),
            })?,
        };
        self.call_of(function, vec![left, right])
    }
}

/// Returns the operator that takes the type of the known side on both sides; it is preferred if one
/// side is unknown.
fn same_on_both_sides(symbol: &str, types: &[Type; 2]) -> Option<&'static ScalarFunction> {
    let kind = match types.map(|t| t.kind) {
        [TypeKind::Unknown, known] | [known, TypeKind::Unknown] => known,
        _ => return None,
    };
    candidates(symbol).find(|f| f.args == [kind, kind])
}
