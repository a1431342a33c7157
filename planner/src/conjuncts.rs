//! A condition as a list of conjuncts, and back.
//!
//! Conjuncts that all branches of an OR have in common become conjuncts of their own, where an
//! index or a hash join can use them:
//!
//! ```text
//! (a = b AND x) OR (a = b AND y)   becomes   a = b AND (x OR y)
//! a OR (a AND x)                   becomes   a
//! ```
//!
//! Both are equal in three-valued logic. Conjuncts with a volatile function stay in their branches,
//! because the function is called again for each branch.

use fencepost_sql::bound::{Expr, Node, Volatility};
use fencepost_sql::types::Type;

use crate::slots::Slots;
use crate::terms::reads_only;

/// Appends the conjuncts of a condition to `out`.
pub fn conjuncts(condition: Option<Expr>, out: &mut Vec<Expr>) {
    let Some(condition) = condition else {
        return;
    };
    match condition.node {
        Node::And(parts) => parts
            .into_iter()
            .for_each(|part| conjuncts(Some(part), out)),
        Node::Or(branches) => factored(branches, out),
        node => out.push(Expr { node, ..condition }),
    }
}

/// Returns the conjuncts of a condition.
pub fn conjuncts_of(condition: Option<Expr>) -> Vec<Expr> {
    let mut all = Vec::new();
    conjuncts(condition, &mut all);
    all
}

/// Combines several conditions into one with AND.
pub fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::new(Type::BOOL, Node::And(parts))),
    }
}

/// Returns the condition on the columns in `slots` alone that an OR implies: in each branch those
/// conjuncts hold that read nothing else.
///
/// ```text
/// (a = 1 AND x) OR (a = 2 AND y)   implies   a = 1 OR a = 2
/// ```
/// Returns `None` if a branch has no such conjunct.
pub fn implied(condition: &Expr, slots: &Slots) -> Option<Expr> {
    let Node::Or(branches) = &condition.node else {
        return None;
    };
    let of_slots = |part: &&Expr| {
        part.has_columns()
            && reads_only(part, slots)
            && !part.has_subquery()
            && part.volatility() < Volatility::Volatile
    };
    let mut of_branches = Vec::with_capacity(branches.len());
    for branch in branches {
        let parts = plain_conjuncts(branch).filter(of_slots).cloned().collect();
        of_branches.push(conjunction(parts)?);
    }
    Some(Expr::new(Type::BOOL, Node::Or(of_branches)))
}

/// Appends the conjuncts that all `branches` have in common, and the OR of what remains of the
/// branches, to `out`.
fn factored(branches: Vec<Expr>, out: &mut Vec<Expr>) {
    let common = common_conjuncts(&branches);
    if common.is_empty() {
        out.push(Expr::new(Type::BOOL, Node::Or(branches)));
        return;
    }
    let mut remaining = Vec::with_capacity(branches.len());
    for branch in branches {
        let mut parts = Vec::new();
        conjuncts(Some(branch), &mut parts);
        parts.retain(|part| !common.contains(part));
        remaining.push(conjunction(parts));
    }
    out.extend(common);
    // A branch without a rest is true wherever the common conjuncts are, and so is the OR.
    if let Some(remaining) = remaining.into_iter().collect::<Option<Vec<Expr>>>() {
        out.push(Expr::new(Type::BOOL, Node::Or(remaining)));
    }
}

/// Returns the conjuncts that all branches of an OR have in common.
fn common_conjuncts(branches: &[Expr]) -> Vec<Expr> {
    let Some((first, others)) = branches.split_first() else {
        return Vec::new();
    };
    let mut common = Vec::new();
    for part in plain_conjuncts(first) {
        let everywhere = others
            .iter()
            .all(|branch| plain_conjuncts(branch).any(|other| other == part));
        if everywhere && !common.contains(part) && part.volatility() < Volatility::Volatile {
            common.push(part.clone());
        }
    }
    common
}

/// Returns the conjuncts of a branch as they are written.
fn plain_conjuncts(branch: &Expr) -> impl Iterator<Item = &Expr> {
    match &branch.node {
        Node::And(parts) => parts.iter(),
        _ => std::slice::from_ref(branch).iter(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_sql::types::TypeKind;

    fn column(slot: usize) -> Expr {
        Expr::column(Type::of(TypeKind::Bool), slot)
    }

    fn and<const N: usize>(slots: [usize; N]) -> Expr {
        let parts = slots.map(column).to_vec();
        Expr::new(Type::BOOL, Node::And(parts))
    }

    fn or<const N: usize>(branches: [Expr; N]) -> Expr {
        Expr::new(Type::BOOL, Node::Or(branches.to_vec()))
    }

    fn split(condition: Expr) -> Vec<Expr> {
        let mut out = Vec::new();
        conjuncts(Some(condition), &mut out);
        out
    }

    #[test]
    fn common_conjunct_leaves_the_branches() {
        let condition = or([and([0, 1]), and([2, 0])]);
        assert_eq!(split(condition), [column(0), or([column(1), column(2)])]);
    }

    #[test]
    fn branch_without_rest_absorbs_the_others() {
        assert_eq!(split(or([column(0), and([0, 1])])), [column(0)]);
    }

    #[test]
    fn branches_without_common_conjunct_stay() {
        let condition = or([and([0, 1]), and([2, 3])]);
        assert_eq!(split(condition.clone()), [condition]);
    }

    #[test]
    fn disjunction_implies_what_each_branch_says_of_a_column() {
        let condition = or([and([0, 1]), and([2, 0])]);
        let mut slots = Slots::default();
        slots.add((1, 3));
        let expected = or([column(1), column(2)]);
        assert_eq!(implied(&condition, &slots), Some(expected));
        let mut slots = Slots::default();
        slots.add((1, 2));
        assert_eq!(implied(&condition, &slots), None);
        assert_eq!(implied(&and([1, 1]), &slots), None);
    }

    #[test]
    fn nested_conditions_are_factored() {
        let inner = or([and([1, 2]), and([1, 3])]);
        let condition = Expr::new(Type::BOOL, Node::And(vec![column(0), inner]));
        let expected = [column(0), column(1), or([column(2), column(3)])];
        assert_eq!(split(condition), expected);
    }
}
