//! Corrections of operator precedence. sqlparser reads `a IS DISTINCT FROM b AND c` as a comparison
//! with `b AND c`. In `-a ^ b` it applies the minus before the power.

use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

use super::lexer::{Kind, Token};
use crate::walk::{TreeMut, VisitorMut};

/// Regroups the operators of a tree as PostgreSQL does, if its text has such operators.
pub(super) fn regroup(tree: &mut impl TreeMut, text: &str, tokens: &[Token]) {
    let concerns = |i: usize| {
        let distinct = tokens[i].is(text, "distinct") && i > 0;
        let behind = |word: &str| distinct && tokens[i - 1].is(text, word);
        let power = tokens[i].kind == Kind::Operator && tokens[i].text(text).contains('^');
        behind("is") || behind("not") || power
    };
    if (0..tokens.len()).any(concerns) {
        // The visitor never stops early.
        let _ = tree.walk_mut(&mut Regrouper);
    }
}

struct Regrouper;

impl VisitorMut for Regrouper {
    /// Regroups an expression after its operands.
    fn expr_end(&mut self, expr: &mut Expr) {
        give_back(expr);
    }
}

/// Returns whether an operator binds less than the expression `than` that ends with its left
/// operand.
fn is_weaker(operator: &BinaryOperator, than: &Expr) -> bool {
    use BinaryOperator::{And, Or, PGExp};
    match than {
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => matches!(operator, And | Or),
        Expr::UnaryOp { op, .. } => match op {
            UnaryOperator::Not => matches!(operator, And | Or),
            UnaryOperator::Minus | UnaryOperator::Plus => matches!(operator, PGExp),
            _ => false,
        },
        Expr::BinaryOp { op: And, .. } => matches!(operator, Or),
        _ => false,
    }
}

/// Returns the last operand of an expression.
fn last(expr: &mut Expr) -> Option<&mut Box<Expr>> {
    match expr {
        Expr::IsDistinctFrom(_, right)
        | Expr::IsNotDistinctFrom(_, right)
        | Expr::UnaryOp { expr: right, .. }
        | Expr::BinaryOp { right, .. } => Some(right),
        _ => None,
    }
}

fn nothing() -> Expr {
    Expr::Identifier(ast::Ident::new(""))
}

/// Reduces the last operand to the part before a weaker operator, and makes that operator the root.
fn give_back(expr: &mut Expr) {
    let weaker =
        |expr: &Expr, of: &Expr| matches!(expr, Expr::BinaryOp { op, .. } if is_weaker(op, of));
    let Some(operand) = last(expr) else {
        return;
    };
    let mut top = std::mem::replace(&mut **operand, nothing());
    let mut place = &mut top;
    while weaker(place, expr) {
        let Expr::BinaryOp { left, .. } = place else {
            break;
        };
        place = left;
    }
    let first = std::mem::replace(place, nothing());
    if let Some(operand) = last(expr) {
        **operand = first;
    }
    *place = std::mem::replace(expr, nothing());
    *expr = top;
}
