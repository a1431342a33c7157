//! Operators that sqlparser gives too much: in `a IS DISTINCT FROM b AND c` it takes `b AND c` for what a is compared with,
//! and in `-a ^ b` the minus for that of the power.

use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

use super::lexer::{Kind, Token};
use crate::walk::{TreeMut, VisitorMut};

/// Groups the operators of a tree as PostgreSQL does, where its text has such.
pub(super) fn regroup(tree: &mut impl TreeMut, text: &str, tokens: &[Token]) {
    let concerns = |i: usize| {
        let distinct = tokens[i].is(text, "distinct") && i > 0;
        let behind = |word: &str| distinct && tokens[i - 1].is(text, word);
        let power = tokens[i].kind == Kind::Operator && tokens[i].text(text).contains('^');
        behind("is") || behind("not") || power
    };
    if (0..tokens.len()).any(concerns) {
        // It looks at everything.
        let _ = tree.walk_mut(&mut Regrouped);
    }
}

struct Regrouped;

impl VisitorMut for Regrouped {
    /// Parts come before what they are parts of.
    fn expr_end(&mut self, expr: &mut Expr) {
        give_back(expr);
    }
}

/// Does an operator bind less than what stands before its left side?
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

/// The last operand.
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

/// Leaves its last operand only what stands before a weaker operator, which takes its place.
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
