//! Reads DISTINCT with ORDER BY and LIMIT as groups, which may come in the order of an index.
//!
//! ```text
//! SELECT DISTINCT k, v FROM t ORDER BY k LIMIT 5
//!   becomes   SELECT k, v FROM t GROUP BY k, v ORDER BY k LIMIT 5
//! ```
//! The columns must be plain columns of one table whose rows are not spread over machines: a part
//! of a split query returns its first rows, but all of its groups.

use fencepost_sql::bound::{Expr, From, Grouping, LeafSource, Node, Select};

/// Replaces DISTINCT by GROUP BY.
pub fn group_distinct_rows(select: &mut Select) {
    let is_plain = select.distinct
        && select.limit.is_some()
        && !select.order_by.is_empty()
        && !select.with_ties
        && select.distinct_on.is_empty()
        && select.grouping.is_none()
        && select.windows.is_empty()
        && select.locking.is_none()
        && select.visible == select.targets.len();
    let targets = select.targets.iter();
    let mut columns = targets.map(|target| matches!(target.expr.node, Node::Column(_)));
    if !is_plain || !columns.all(|is_column| is_column) || !reads_one_table(&select.from) {
        return;
    }
    let mut keys: Vec<Expr> = Vec::new();
    for target in &mut select.targets {
        let known = keys.iter().position(|key| *key == target.expr);
        let key = known.unwrap_or(keys.len());
        let column = Expr::column(target.expr.ty, key);
        let expr = std::mem::replace(&mut target.expr, column);
        if known.is_none() {
            keys.push(expr);
        }
    }
    select.distinct = false;
    select.grouping = Some(Grouping {
        keys,
        sets: Vec::new(),
        aggregates: Vec::new(),
    });
}

fn reads_one_table(from: &From) -> bool {
    match from {
        From::Leaf(leaf) => match &leaf.source {
            LeafSource::Table(table) => table.partitioning.is_none() && !table.is_parent(),
            _ => false,
        },
        From::Nothing | From::Join(_) => false,
    }
}
