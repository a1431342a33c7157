//! Conditions that reject rows in which one side of an outer join is all NULL.

use fencepost_sql::bound::{BoolTest, Expr, Node};

use crate::slots::SlotSet;

/// Returns whether `condition` is not true for any row in which all of these slots are NULL.
pub fn rejects_nulls(condition: &Expr, slots: &impl SlotSet) -> bool {
    match &condition.node {
        Node::And(parts) => parts.iter().any(|part| rejects_nulls(part, slots)),
        Node::Or(parts) => !parts.is_empty() && parts.iter().all(|part| rejects_nulls(part, slots)),
        Node::IsNull {
            negated: true,
            input,
        } => is_null_with(input, slots),
        Node::BoolTest {
            test: BoolTest::True | BoolTest::False,
            negated: false,
            input,
        } => is_null_with(input, slots),
        _ => is_null_with(condition, slots),
    }
}

/// Returns whether an expression is NULL wherever all of these slots are NULL.
fn is_null_with(expr: &Expr, slots: &impl SlotSet) -> bool {
    match &expr.node {
        Node::Column(slot) => slots.contains(*slot),
        Node::Compare { left, right, .. } | Node::Arith { left, right, .. } => {
            is_null_with(left, slots) || is_null_with(right, slots)
        }
        Node::Negate { input, .. } | Node::Not(input) | Node::Cast { input, .. } => {
            is_null_with(input, slots)
        }
        Node::InList { input, list, .. } => !list.is_empty() && is_null_with(input, slots),
        Node::Like { input, pattern, .. } => {
            is_null_with(input, slots) || is_null_with(pattern, slots)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_sql::bound::{CompareClass, CompareOp};
    use fencepost_sql::types::{Type, TypeKind};
    use fencepost_sql::value::Value;

    fn column(slot: usize) -> Expr {
        Expr::column(Type::of(TypeKind::Int4), slot)
    }

    fn equal(left: Expr, right: Expr) -> Expr {
        let node = Node::Compare {
            op: CompareOp::Eq,
            class: CompareClass::Int,
            left: Box::new(left),
            right: Box::new(right),
        };
        Expr::new(Type::BOOL, node)
    }

    #[test]
    fn comparison_with_a_slot_rejects_nulls() {
        let condition = equal(
            column(3),
            Expr::constant(Type::of(TypeKind::Int4), Value::Int4(1)),
        );
        assert!(rejects_nulls(&condition, &(3, 4)));
        assert!(!rejects_nulls(&condition, &(0, 3)));
    }

    #[test]
    fn is_null_accepts_nulls() {
        let node = Node::IsNull {
            negated: false,
            input: Box::new(column(3)),
        };
        assert!(!rejects_nulls(&Expr::new(Type::BOOL, node), &(3, 4)));
    }

    #[test]
    fn every_branch_of_an_or_must_reject() {
        let or = |parts| Expr::new(Type::BOOL, Node::Or(parts));
        let both = or(vec![
            equal(column(3), column(0)),
            equal(column(3), column(1)),
        ]);
        assert!(rejects_nulls(&both, &(3, 4)));
        let one = or(vec![
            equal(column(3), column(0)),
            equal(column(1), column(0)),
        ]);
        assert!(!rejects_nulls(&one, &(3, 4)));
    }
}
