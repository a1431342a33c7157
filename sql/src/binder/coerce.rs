//! Type coercion of expressions, and the common type of several expressions.

use std::sync::Arc;

use super::Binder;
use crate::bound::{Expr, Node, Volatility};
use crate::catalog::ColumnDef;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::functions::{
    CastContext, EvaluationOutcome, cast_context, cast_volatility, checked, eval, in_parts, no_cast,
};
use crate::types::{Enum, EnumValue, Type, TypeCategory, TypeKind};
use crate::value::Value;

/// Returns whether values of type `from` have an implicit cast to type `to`.
pub(super) fn implicitly(from: TypeKind, to: TypeKind) -> bool {
    cast_context(from, to) == Some(CastContext::Implicit)
}

impl Binder<'_> {
    /// Converts the expression to type `to`; the cast must be allowed in `context`.
    pub(super) fn coerce(
        &mut self,
        expr: Expr,
        to: Type,
        context: CastContext,
    ) -> Result<Expr, SqlError> {
        if let TypeKind::Domain(domain) = to.kind {
            return self.as_value_of(expr, domain, context);
        }
        if expr.ty == to {
            return Ok(expr);
        }
        if expr.ty == Type::UNKNOWN {
            return self.tell(expr, to, context);
        }
        if let (TypeKind::Record, TypeKind::Composite(of)) = (expr.ty.kind, to.kind) {
            let row = self.row_as(&expr, of, context)?;
            return row.ok_or_else(|| no_cast(&expr.ty, &to));
        }
        if expr.ty.kind != to.kind {
            match cast_context(expr.ty.kind, to.kind) {
                Some(needed) if needed <= context => {}
                _ => return Err(no_cast(&expr.ty, &to)),
            }
        }
        Ok(self.cast_node(expr, to, context))
    }

    /// Builds a cast that is known to be allowed.
    fn cast_node(&self, mut expr: Expr, to: Type, context: CastContext) -> Expr {
        // These types share their representation: a char(n) is stored without its padding.
        let relabel = expr.ty.kind == to.kind
            || to.kind == TypeKind::Record
            || (expr.ty.kind == TypeKind::Cidr && to.kind == TypeKind::Inet)
            || (expr.ty.kind.is_string() && matches!(to.kind, TypeKind::Text | TypeKind::VarChar));
        // A cast keeps its own result type: with another type the node would perform another
        // conversion.
        let is_cast = matches!(expr.node, Node::Cast { .. })
            && (expr.ty.kind != to.kind || expr.ty.typmod != -1);
        if relabel && to.typmod == -1 && !is_cast {
            expr.ty = to;
            return expr;
        }
        self.fold(Expr::new(
            to,
            Node::Cast {
                explicit: context == CastContext::Explicit,
                input: Box::new(expr),
            },
        ))
    }

    /// Gives a literal or parameter of unknown type the type that its context requires.
    fn tell(&mut self, expr: Expr, to: Type, context: CastContext) -> Result<Expr, SqlError> {
        let plain = Type::of(to.kind);
        match expr.node {
            // The executor looks up object names, so such a parameter is sent as text.
            Node::Param(index) if to.kind.is_object() => {
                self.params.set(index, Type::TEXT)?;
                Ok(self.cast_node(Expr::new(Type::TEXT, Node::Param(index)), to, context))
            }
            Node::Param(index) => {
                self.params.set(index, plain)?;
                let typed = checked(Expr::new(plain, Node::Param(index)));
                if to == plain {
                    return Ok(typed);
                }
                Ok(self.cast_node(typed, to, context))
            }
            Node::Const(Value::Null) => {
                self.note_type(to);
                Ok(Expr::constant(to, Value::Null))
            }
            node => {
                self.note_type(to);
                let cast = Expr::new(
                    to,
                    Node::Cast {
                        explicit: context == CastContext::Explicit,
                        input: Box::new(Expr::new(Type::UNKNOWN, node)),
                    },
                );
                let as_it_is = !matches!(to.kind, TypeKind::BpChar | TypeKind::JsonPath);
                if to.kind.is_string() && to.typmod == -1 && as_it_is {
                    if let Node::Cast { input, .. } = cast.node {
                        return Ok(Expr::new(to, input.node));
                    }
                    return Ok(cast);
                }
                // An invalid literal fails now. A literal that depends on settings stays a cast,
                // which is evaluated again under the settings of each execution.
                let fixed = self
                    .literal_settings
                    .as_ref()
                    .filter(|_| is_fixed_time(&cast));
                let fixed = fixed.map(|of| EvalContext::new(Arc::clone(of), 0, 0));
                let cx = fixed.as_ref().unwrap_or(self.cx);
                let value = match in_parts(cx, || eval(&cast, &[], &[], cx)) {
                    // A long document is parsed when the statement runs.
                    EvaluationOutcome::Long { .. } => return Ok(cast),
                    EvaluationOutcome::Done(value) => value,
                };
                let value = match (value, to.kind, &cast.node) {
                    (Err(e), TypeKind::Enum(of), Node::Cast { input, .. })
                        if self.params.are_bound_before() =>
                    {
                        let former = former_value(of, &input.node);
                        former.map(Value::Enum).ok_or(e)?
                    }
                    (value, _, _) => value?,
                };
                match cast_volatility(Type::UNKNOWN, to) {
                    _ if fixed.is_some() || is_steady(&value, &cast) => {
                        Ok(Expr::constant(to, value))
                    }
                    Volatility::Immutable => Ok(Expr::constant(to, value)),
                    _ => Ok(cast),
                }
            }
        }
    }

    /// Converts an expression that is still of unknown type to text.
    pub(super) fn unknown_to_text(&mut self, expr: Expr) -> Result<Expr, SqlError> {
        if expr.ty == Type::UNKNOWN {
            return self.coerce(expr, Type::TEXT, CastContext::Implicit);
        }
        Ok(expr)
    }

    /// Converts the expression to the type of a column by assignment, with its length limit; 42804
    /// if there is no such cast.
    pub(super) fn assign(&mut self, expr: Expr, column: &ColumnDef) -> Result<Expr, SqlError> {
        let from = expr.ty;
        if from != Type::UNKNOWN
            && !(from.kind == TypeKind::Record && column.ty.kind.is_row())
            && cast_context(from.kind, column.ty.kind).is_none_or(|c| c > CastContext::Assignment)
        {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" is of type {} but expression is of type {}",
                    column.name, column.ty.kind, from.kind
                ),
            )
            .hint("You will need to rewrite or cast the expression."));
        }
        self.coerce(expr, column.ty, CastContext::Assignment)
    }

    /// Checks that a condition is boolean; 42804 unless it is.
    pub(super) fn condition(&mut self, expr: Expr, clause: &str) -> Result<Expr, SqlError> {
        if expr.ty == Type::UNKNOWN || expr.ty == Type::BOOL {
            return self.coerce(expr, Type::BOOL, CastContext::Implicit);
        }
        Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "argument of {clause} must be type boolean, not type {}",
                expr.ty.kind
            ),
        ))
    }

    /// Converts all expressions to their common type; `what` names the construct in messages.
    pub(super) fn unify(
        &mut self,
        exprs: Vec<Expr>,
        what: &str,
    ) -> Result<(Type, Vec<Expr>), SqlError> {
        let ty = common_type(&exprs, what)?;
        let mut unified = Vec::with_capacity(exprs.len());
        for expr in exprs {
            unified.push(self.coerce(expr, ty, CastContext::Implicit).map_err(|e| {
                match e.sqlstate() == SqlState::CANNOT_COERCE {
                    true => SqlError::new(
                        SqlState::CANNOT_COERCE,
                        format!("{what} could not convert to type {}", ty.kind),
                    ),
                    false => e,
                }
            })?);
        }
        Ok((ty, unified))
    }
}

/// Returns whether a literal, which `cast` converts to `value`, has this value under all settings.
///
/// An interval literal with a sign depends on IntervalStyle. A date depends on DateStyle unless its
/// year comes first.
fn is_steady(value: &Value, cast: &Expr) -> bool {
    let Node::Cast { input, .. } = &cast.node else {
        return false;
    };
    match value {
        Value::Interval(_) => !has_sign(input),
        Value::Date(_) | Value::Timestamp(_) => is_iso_time(input),
        _ => false,
    }
}

/// Returns whether the expression is a text constant that contains a minus sign.
fn has_sign(expr: &Expr) -> bool {
    matches!(&expr.node, Node::Const(Value::Text(text)) if text.contains('-'))
}

/// Returns whether the expression is a text constant such as `1994-01-31` or `1994-01-31 12:00:00`,
/// which is the same time under all settings.
fn is_iso_time(expr: &Expr) -> bool {
    let Node::Const(Value::Text(text)) = &expr.node else {
        return false;
    };
    let (date, time) = text.split_at_checked(10).unwrap_or((text, ""));
    let is_date = date.len() == 10
        && date.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let of_time = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    is_date && (time.is_empty() || time.starts_with(' ') && time[1..].bytes().all(of_time))
}

/// Returns the type to which all expressions can be cast. Unknown literals take the type of the
/// others; if all are unknown it is text.
pub(super) fn common_type(exprs: &[Expr], what: &str) -> Result<Type, SqlError> {
    let mut known = exprs.iter().map(|e| e.ty).filter(|t| *t != Type::UNKNOWN);
    let Some(first) = known.next() else {
        return Ok(Type::TEXT);
    };
    let mut chosen = first;
    for ty in known {
        if ty == chosen {
            continue;
        }
        if ty.kind == chosen.kind {
            chosen = Type::of(chosen.kind);
            continue;
        }
        if ty.kind.category() != chosen.kind.category() {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "{what} types {} and {} cannot be matched",
                    chosen.kind, ty.kind
                ),
            ));
        }
        let wider = !chosen.kind.is_preferred()
            && implicitly(chosen.kind, ty.kind)
            && !implicitly(ty.kind, chosen.kind);
        // varchar and char cast implicitly in both directions; then the first type stays.
        chosen = Type::of(if wider { ty.kind } else { chosen.kind });
    }
    Ok(chosen)
}

/// Returns the enum value whose label was `literal` before ALTER TYPE … RENAME VALUE.
fn former_value(of: Enum, literal: &Node) -> Option<EnumValue> {
    match literal {
        Node::Const(Value::Text(text)) => of.formerly(text),
        _ => None,
    }
}

/// Returns whether a date or time literal names a fixed time rather than the current one, as `now`
/// does.
fn is_fixed_time(cast: &Expr) -> bool {
    let Node::Cast { input, .. } = &cast.node else {
        return false;
    };
    let clock = ["now", "today", "tomorrow", "yesterday"];
    let Node::Const(Value::Text(text)) = &input.node else {
        return false;
    };
    let text = text.to_ascii_lowercase();
    let ty = cast.ty.element().unwrap_or(cast.ty);
    ty.kind.category() == TypeCategory::DateTime && !clock.iter().any(|word| text.contains(word))
}
