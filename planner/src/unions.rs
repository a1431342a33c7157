//! Chains of UNION as trees of small depth.
//!
//! ```text
//!   ((a ∪ b) ∪ c) ∪ d   becomes   (a ∪ b) ∪ (c ∪ d)
//! ```
//!
//! Each row passes through all operations above its side: n operations in a chain of n sides, log n
//! in the tree. If the last operation is UNION without ALL, the operations below it need not remove
//! duplicates.

use fencepost_sql::bound::{Expr, From, Leaf, LeafSource, Select, SetOp, SetOperation, Target};

/// Returns the operation with the sides of a chain in a balanced tree.
pub fn balanced(set: SetOperation) -> SetOperation {
    if set.op != SetOp::Union {
        return set;
    }
    let (all, mut left) = (set.all, set.left);
    let mut sides = vec![set.right];
    while let Some(inner) = chained(&mut left, all) {
        sides.push(inner.right);
        left = inner.left;
    }
    sides.push(left);
    sides.reverse();
    let right = sides.split_off(sides.len() / 2);
    SetOperation {
        op: SetOp::Union,
        all,
        left: tree(sides),
        right: tree(right),
    }
}

/// Takes the operation whose rows a side returns unchanged, if it can be part of the chain above.
fn chained(side: &mut Select, all: bool) -> Option<SetOperation> {
    let From::Leaf(leaf) = &side.from else {
        return None;
    };
    let LeafSource::Set(inner) = &leaf.source else {
        return None;
    };
    let fits = inner.op == SetOp::Union && (inner.all || !all);
    let column = |(slot, target): (usize, &Target)| {
        let ty = leaf.column_types.get(slot);
        ty.is_some_and(|ty| target.expr == Expr::column(*ty, slot))
    };
    let is_plain = leaf.first_slot == 0
        && side.visible == leaf.column_types.len()
        && side.targets.len() == side.visible
        && side.targets.iter().enumerate().all(column)
        && side.filter.is_none()
        && side.grouping.is_none()
        && side.having.is_none()
        && side.windows.is_empty()
        && !side.distinct
        && side.order_by.is_empty()
        && side.limit.is_none()
        && side.offset.is_none()
        && side.locking.is_none()
        && side.view.is_none();
    if !fits || !is_plain {
        return None;
    }
    match std::mem::replace(&mut side.from, From::Nothing) {
        From::Leaf(leaf) => match leaf.source {
            LeafSource::Set(inner) => Some(*inner),
            _ => None,
        },
        _ => None,
    }
}

/// Returns UNION ALL of several sides; there is at least one.
fn tree(mut sides: Vec<Select>) -> Select {
    if sides.len() < 2 {
        return sides
            .pop()
            .unwrap_or_else(|| Select::over(From::Nothing, Vec::new()));
    }
    let right = sides.split_off(sides.len() / 2);
    let (left, right) = (tree(sides), tree(right));
    let columns = left.columns().iter();
    let column = |(slot, column): (usize, &Target)| Target {
        name: column.name.clone(),
        expr: Expr::column(column.expr.ty, slot),
        origin: None,
    };
    let targets: Vec<Target> = columns.enumerate().map(column).collect();
    let set = SetOperation {
        op: SetOp::Union,
        all: true,
        left,
        right,
    };
    let leaf = Leaf {
        alias: "*SELECT*".to_owned(),
        column_names: targets.iter().map(|target| target.name.clone()).collect(),
        column_types: targets.iter().map(|target| target.expr.ty).collect(),
        first_slot: 0,
        source: LeafSource::Set(Box::new(set)),
    };
    Select::over(From::Leaf(leaf), targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn union(left: Select, right: Select) -> SetOperation {
        SetOperation {
            op: SetOp::Union,
            all: true,
            left,
            right,
        }
    }

    fn over(set: SetOperation) -> Select {
        let leaf = Leaf {
            alias: String::new(),
            column_names: Vec::new(),
            column_types: Vec::new(),
            first_slot: 0,
            source: LeafSource::Set(Box::new(set)),
        };
        Select::over(From::Leaf(leaf), Vec::new())
    }

    fn depth(select: &Select) -> usize {
        match &select.from {
            From::Leaf(leaf) => match &leaf.source {
                LeafSource::Set(set) => 1 + depth(&set.left).max(depth(&set.right)),
                _ => 0,
            },
            _ => 0,
        }
    }

    #[test]
    fn chain_of_unions_becomes_a_balanced_tree() {
        let side = || Select::over(From::Nothing, Vec::new());
        let mut chain = side();
        for _ in 1..100 {
            chain = over(union(chain, side()));
        }
        assert_eq!(depth(&chain), 99);
        let tree = over(balanced(union(chain, side())));
        assert_eq!(depth(&tree), 7);
    }
}
