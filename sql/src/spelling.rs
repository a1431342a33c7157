//! The text of a tree, which parses to the same tree.
//!
//! sqlparser writes a prefix operator and its operand without a space: `- - a` would become `--a`,
//! a comment, and `@ -a` would become `@-a`, another operator. Parentheses around the operand keep
//! the two apart.

use sqlparser::ast::{CastKind, Expr, Query};

use crate::walk::{TreeMut, VisitorMut};

/// Returns the text of an expression.
pub(crate) fn expression_text(expr: &Expr) -> String {
    let mut expr = expr.clone();
    // The visitor never stops early.
    let _ = expr.walk_mut(&mut OperandParentheses);
    expr.to_string()
}

/// Returns the text of a query.
pub(crate) fn query_text(query: &Query) -> String {
    let mut query = query.clone();
    // The visitor never stops early.
    let _ = query.walk_mut(&mut OperandParentheses);
    query.to_string()
}

/// A visitor that puts operands of prefix operators in parentheses if they begin with an operator.
struct OperandParentheses;

impl VisitorMut for OperandParentheses {
    fn expr_end(&mut self, expr: &mut Expr) {
        if let Expr::UnaryOp { expr: operand, .. } = expr
            && begins_with_operator(operand)
        {
            let bare = std::mem::replace(&mut **operand, Expr::value(sqlparser::ast::Value::Null));
            **operand = Expr::Nested(Box::new(bare));
        }
    }
}

/// Returns whether the text of an expression begins with a prefix operator.
fn begins_with_operator(mut expr: &Expr) -> bool {
    loop {
        expr = match expr {
            Expr::UnaryOp { .. } => return true,
            Expr::BinaryOp { left, .. } => left,
            Expr::Collate { expr, .. } => expr,
            Expr::AtTimeZone { timestamp, .. } => timestamp,
            Expr::Cast {
                kind: CastKind::DoubleColon,
                expr,
                ..
            } => expr,
            Expr::CompoundFieldAccess { root, .. } => root,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse_expression;

    #[test]
    fn text_parses_to_same_operators() {
        for (text, expected) in [
            ("- - a", "-(-a)"),
            ("- - - a", "-(-(-a))"),
            ("@ - a + b", "@(-a + b)"),
            ("~ - a::int", "~(-a::INT)"),
            ("-(-a)", "-(-a)"),
            ("2 - -a", "2 - -a"),
            ("- abs(- - a)", "-abs(-(-a))"),
            ("NOT NOT a", "NOT (NOT a)"),
        ] {
            let parsed = parse_expression(text).expect(text);
            let spelled = expression_text(&parsed);
            assert_eq!(spelled, expected);
            let again = parse_expression(&spelled).expect(&spelled);
            assert_eq!(expression_text(&again), spelled);
        }
    }
}
