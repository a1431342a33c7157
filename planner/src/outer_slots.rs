//! The outer slots of a statement: those that exist, and those on which a query depends.

use fencepost_sql::bound::{Expr, LeafSource, Node, Select, Statement, Subquery, SubqueryKind};
use foldhash::{HashSet, HashSetExt};

/// Returns the number of outer slots of a statement: all slots in use are below it.
pub fn outer_slots(statement: &Statement) -> usize {
    let mut count = 0;
    let mut note = |slot: usize| count = count.max(slot + 1);
    statement.for_each_subquery(&mut |sub| slots_of(sub).into_iter().for_each(&mut note));
    statement.for_each_leaf(&mut |leaf| {
        if let LeafSource::Lateral(lateral) = &leaf.source {
            lateral.args.iter().for_each(|(slot, _)| note(*slot));
        }
        if let LeafSource::Cte(cte) = leaf.source.inner() {
            cte.args.iter().for_each(|(slot, _)| note(*slot));
        }
    });
    count
}

/// Returns whether a CTE of the statement reads outer slots.
pub fn has_outer_ctes(statement: &Statement) -> bool {
    let mut found = false;
    statement.for_each_leaf(&mut |leaf| {
        if let LeafSource::Cte(cte) = leaf.source.inner() {
            found |= !cte.args.is_empty();
        }
    });
    found
}

/// Returns the outer slots that `query` reads and that no part of it sets.
pub fn free_slots(query: &Select) -> Vec<usize> {
    let (mut read, mut set) = (Vec::new(), HashSet::new());
    query.for_each_query(&mut |query| {
        query.for_each_expr(&mut |expr| {
            read_slots(expr, &mut read);
            expr.for_each_subquery(&mut |sub| set.extend(slots_of(sub)));
        });
        query.from.for_each_leaf(&mut |leaf| {
            if let LeafSource::Lateral(lateral) = &leaf.source {
                set.extend(lateral.args.iter().map(|(slot, _)| *slot));
            }
            if let LeafSource::Cte(cte) = leaf.source.inner() {
                set.extend(cte.args.iter().map(|(slot, _)| *slot));
            }
        });
    });
    read.sort_unstable();
    read.dedup();
    read.retain(|slot| !set.contains(slot));
    read
}

fn read_slots(expr: &Expr, read: &mut Vec<usize>) {
    if let Node::Outer(slot) = expr.node {
        read.push(slot);
    }
    expr.for_each_part(|part| read_slots(part, read));
}

fn slots_of(sub: &Subquery) -> Vec<usize> {
    let mut slots: Vec<usize> = sub.args.iter().map(|(slot, _)| *slot).collect();
    slots.push(sub.result);
    if let SubqueryKind::Any { columns, .. } = &sub.kind {
        slots.extend(columns);
    }
    slots
}
