//! The sides of one join: their slots, and the conditions between them.

use fencepost_sql::bound::{CompareClass, CompareOp, Expr, Node};

use super::graph::Unit;
use crate::slots::Slots;
use crate::terms::{reads_any, reads_only};

/// The sides of a join, as the choice of its method sees them.
pub struct JoinSides<'g> {
    /// The slots of the left side.
    pub left_slots: Slots,
    /// The slots of the right side.
    pub right_slots: Slots,
    /// The conditions that the join evaluates.
    pub between: Vec<Expr>,
    /// The right side, if it is one unit.
    pub right_unit: Option<&'g Unit>,
}

/// Decides whether a hash table can serve an expression as a key.
pub type IsKey<'a> = &'a dyn Fn(&Expr) -> bool;

impl JoinSides<'_> {
    /// Returns whether a condition is an equality that a hash table can serve.
    pub fn has_keys(&self, is_key: IsKey<'_>) -> bool {
        let sides = (&self.left_slots, &self.right_slots);
        let mut conditions = self.between.iter();
        conditions.any(|condition| key_pair(condition, sides, is_key).is_some())
    }
}

/// Returns the two sides of an equality between the left and the right source, if a hash table can
/// serve it.
pub fn key_pair<'e>(
    condition: &'e Expr,
    sides: (&Slots, &Slots),
    is_key: IsKey<'_>,
) -> Option<(&'e Expr, &'e Expr)> {
    let Node::Compare {
        op: CompareOp::Eq,
        class: CompareClass::Int | CompareClass::Same,
        left,
        right,
    } = &condition.node
    else {
        return None;
    };
    if condition.has_subquery() {
        return None;
    }
    let fits = |a: &Expr, b: &Expr| {
        reads_any(a, sides.0)
            && reads_only(a, sides.0)
            && reads_any(b, sides.1)
            && reads_only(b, sides.1)
    };
    let pair = if fits(left, right) {
        (&**left, &**right)
    } else if fits(right, left) {
        (&**right, &**left)
    } else {
        return None;
    };
    (is_key(pair.0) && is_key(pair.1)).then_some(pair)
}
