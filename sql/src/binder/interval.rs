//! Interval literals: `interval '1 day'`, with an optional field specification.

use sqlparser::ast;

use super::Binder;
use super::expr::ExprContext;
use crate::bound::Expr;
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::{Type, TypeKind, interval};

impl Binder<'_> {
    /// Binds an interval literal.
    pub(super) fn interval_literal(
        &mut self,
        literal: &ast::Interval,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        let text = self.expr(&literal.value, around)?;
        let position = self.position_near(&literal.value);
        let first = literal.leading_field.as_ref().map(ToString::to_string);
        let last = literal.last_field.as_ref().map(ToString::to_string);
        let digits = match first.as_deref() {
            None => literal.leading_precision,
            Some("SECOND") => literal
                .leading_precision
                .or(literal.fractional_seconds_precision),
            Some(_) => literal.fractional_seconds_precision,
        };
        let to = interval_type(first.as_deref(), last.as_deref(), digits)?;
        self.coerce(text, to, CastContext::Explicit)
            .map_err(|e| e.or_at(position))
    }
}

/// Returns the `interval` type with the fields and precision of the declaration.
pub(super) fn interval_type(
    first: Option<&str>,
    last: Option<&str>,
    digits: Option<u64>,
) -> Result<Type, SqlError> {
    interval::typmod(first, last, digits)
        .map(|typmod| Type::with(TypeKind::Interval, typmod))
        .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "invalid fields of an interval"))
}
