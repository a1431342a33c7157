//! Inlining of WITH queries: a query that exactly one relation reads becomes a subquery, which
//! produces its rows on demand. All other WITH queries run once and materialize their rows.

use std::collections::HashMap;

use fencepost_sql::bound::{
    CopySource, From, InsertSource, Lateral, Leaf, LeafSource, Select, Statement,
};

/// Replaces each WITH query that is read once by a subquery at the place where it is read.
pub fn inline_queries(statement: &mut Statement) {
    let mut readers: HashMap<usize, usize> = HashMap::new();
    statement.for_each_leaf(&mut |leaf| {
        if let LeafSource::Cte(cte) = leaf.source.inner() {
            let kept = cte.materialized || cte.volatile;
            *readers.entry(cte.id).or_default() += if kept { 2 } else { 1 };
        }
    });
    if readers.is_empty() {
        return;
    }
    let once = |id: usize| readers.get(&id) == Some(&1);
    in_statement(statement, &once);
}

fn in_statement(statement: &mut Statement, once: &dyn Fn(usize) -> bool) {
    match statement {
        Statement::Select(select) => in_select(select, once),
        Statement::Insert(insert) => {
            if let InsertSource::Select { select, .. } = &mut insert.source {
                in_select(select, once);
            }
        }
        Statement::Update(update) => update.from.iter_mut().for_each(|from| in_from(from, once)),
        Statement::Delete(delete) => delete.using.iter_mut().for_each(|from| in_from(from, once)),
        Statement::Merge(merge) => in_from(&mut merge.source, once),
        Statement::Copy(copy) => {
            if let CopySource::Query(select) = &mut copy.source {
                in_select(select, once);
            }
        }
        Statement::With(changes) => {
            let first = changes.first.iter_mut().map(|(_, statement)| statement);
            first.for_each(|statement| in_statement(statement, once));
            in_statement(&mut changes.main, once);
        }
        Statement::Explain(explain) => inline_queries(&mut explain.statement),
        Statement::Declare(declare) => inline_queries(&mut declare.query),
        _ => {}
    }
}

fn in_select(select: &mut Select, once: &dyn Fn(usize) -> bool) {
    in_from(&mut select.from, once);
}

fn in_from(from: &mut From, once: &dyn Fn(usize) -> bool) {
    from.for_each_leaf_mut(&mut |leaf| in_leaf(leaf, once));
}

fn in_leaf(leaf: &mut Leaf, once: &dyn Fn(usize) -> bool) {
    if let LeafSource::Cte(cte) = &leaf.source
        && once(cte.id)
    {
        let mut query = Select::clone(&cte.query);
        in_select(&mut query, once);
        let query = LeafSource::Subquery(Box::new(query));
        leaf.source = match cte.args.is_empty() {
            true => query,
            false => LeafSource::Lateral(Box::new(Lateral {
                args: cte.args.clone(),
                source: query,
            })),
        };
        return;
    }
    // The recursive term and LATERAL sources run repeatedly, so their WITH queries stay
    // materialized.
    match &mut leaf.source {
        LeafSource::Subquery(select) => in_select(select, once),
        LeafSource::Set(set) => {
            in_select(&mut set.left, once);
            in_select(&mut set.right, once);
        }
        LeafSource::Recursive(recursive) => in_select(&mut recursive.base, once),
        _ => {}
    }
}
