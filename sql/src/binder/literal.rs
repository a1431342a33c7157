//! Literals and parameters, and the folding of constants.

use sqlparser::ast;

use super::Binder;
use crate::bound::{Expr, Node, Volatility};
use crate::error::{SqlError, SqlState};
use crate::functions::{EvaluationOutcome, eval, in_parts};
use crate::types::{Type, numeric};
use crate::value::Value;

/// The lower bound of the numbers that numeric cannot hold.
const NUMERIC_END: f64 = 1e28;

/// The largest parameter number.
const PARAM_NUMBER_MAX: usize = 65_535;

impl Binder<'_> {
    /// Binds a literal or a parameter.
    pub(super) fn literal(&mut self, value: &ast::ValueWithSpan) -> Result<Expr, SqlError> {
        let position = self.position(value.span);
        match &value.value {
            ast::Value::Number(text, _) => number(text).map_err(|e| e.or_at(position)),
            ast::Value::Null => Ok(Expr::constant(Type::UNKNOWN, Value::Null)),
            ast::Value::Boolean(b) => Ok(Expr::constant(Type::BOOL, Value::Bool(*b))),
            ast::Value::Placeholder(text) => self.parameter(text).map_err(|e| e.or_at(position)),
            other => match string_of(other) {
                Some(text) => Ok(Expr::constant(Type::UNKNOWN, Value::text(text))),
                None => Err(SqlError::unsupported(format!("the literal {other}")).or_at(position)),
            },
        }
    }

    fn parameter(&mut self, text: &str) -> Result<Expr, SqlError> {
        let number: Option<usize> = text.strip_prefix('$').and_then(|n| n.parse().ok());
        match number {
            Some(n @ 1..=PARAM_NUMBER_MAX) => {
                let ty = self.params.note(n - 1).plain();
                Ok(Expr::new(ty, Node::Param(n - 1)))
            }
            _ => Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {text}"),
            )),
        }
    }

    /// Evaluates an expression whose operands are constants. An expression that fails is left
    /// unevaluated: execution may never reach it.
    pub(super) fn fold(&self, expr: Expr) -> Expr {
        let mut constant = expr_is_foldable(&expr);
        expr.for_each_part(|part| constant &= matches!(part.node, Node::Const(_)));
        if !constant {
            return expr;
        }
        // A long evaluation is deferred until the statement runs.
        match in_parts(self.cx, || eval(&expr, &[], &[], self.cx)) {
            EvaluationOutcome::Done(Ok(value)) => Expr::constant(expr.ty, value),
            EvaluationOutcome::Done(Err(_)) | EvaluationOutcome::Long { .. } => expr,
        }
    }
}

fn expr_is_foldable(expr: &Expr) -> bool {
    match &expr.node {
        Node::Const(_) | Node::Column(_) | Node::Param(_) => false,
        Node::Outer(_) | Node::Subquery(_) | Node::Routine(_) => false,
        Node::Call { function, .. } => function.volatility == Volatility::Immutable,
        Node::Cast { input, .. } => {
            crate::functions::cast_volatility(input.ty, expr.ty) == Volatility::Immutable
        }
        _ => true,
    }
}

/// Returns the text of a string literal in any of its forms.
pub(super) fn string_of(value: &ast::Value) -> Option<&str> {
    match value {
        ast::Value::SingleQuotedString(text)
        | ast::Value::EscapedStringLiteral(text)
        | ast::Value::UnicodeStringLiteral(text)
        | ast::Value::NationalStringLiteral(text) => Some(text),
        ast::Value::DollarQuotedString(quoted) => Some(&quoted.value),
        _ => None,
    }
}

/// Binds a numeric literal with the first of the types integer, bigint and numeric that can hold
/// it.
pub(super) fn number(text: &str) -> Result<Expr, SqlError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        if let Ok(v) = text.parse::<i32>() {
            return Ok(Expr::constant(Type::INT4, Value::Int4(v)));
        }
        if let Ok(v) = text.parse::<i64>() {
            return Ok(Expr::constant(Type::INT8, Value::Int8(v)));
        }
    }
    match numeric::parse(text) {
        Ok(value) => Ok(Expr::constant(Type::NUMERIC, Value::Numeric(value))),
        // A literal beyond the range of numeric has type float8.
        Err(error) => match text.parse::<f64>() {
            Ok(float) if float.is_finite() && float.abs() >= NUMERIC_END => {
                Ok(Expr::constant(Type::FLOAT8, Value::Float8(float)))
            }
            _ => Err(error),
        },
    }
}
