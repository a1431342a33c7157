//! Statements of several parts, all of which see the tables as they were before the first of them changed anything.
//!
//! Such a statement marks where its transaction is, and its scans look back to that; whoever writes, and the functions
//! and triggers that run meanwhile, see what is so now. Others need no mark: they read before they write.

use std::collections::HashSet;

use fencepost_sql::bound::{Changes, InsertSource, LeafSource, Select, Statement};
use foldhash::fast::FixedState;

/// Might a part of the statement read what another part has changed by then?
pub fn looks_back(statement: &Statement) -> bool {
    if let Statement::With(changes) = statement {
        let parts = || {
            changes
                .first
                .iter()
                .map(|(_, part)| part)
                .chain([&changes.main])
        };
        let mut reads = false;
        // Also what triggers and foreign keys change is not to be seen, so it may be any table.
        statement.for_each_leaf(&mut |leaf| {
            reads |= matches!(leaf.source.inner(), LeafSource::Table(_));
        });
        let finds_rows = |part: &Statement| {
            matches!(
                part,
                Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)
            )
        };
        let puts_over =
            |part: &Statement| matches!(part, Statement::Insert(i) if i.on_conflict.is_some());
        let last = !unread_changes(changes).is_empty();
        return last || reads || parts().any(|part| finds_rows(part) || puts_over(part));
    }
    let Some(table) = statement.changed_table() else {
        return false;
    };
    let mut found = false;
    let mut check = |select: &Select| {
        select.for_each_table(&mut |read| found |= read.id == table.id);
    };
    let asked = statement.view_checks().iter();
    let asked = asked.map(|check| &check.condition);
    let returned = statement.returning().iter().map(|target| &target.expr);
    for expr in returned.chain(asked) {
        expr.for_each_subquery(&mut |sub| sub.query.for_each_query(&mut check));
    }
    if let Statement::Insert(insert) = statement
        && !matches!(&insert.source, InsertSource::Values(rows) if rows.len() == 1)
        && let Some(update) = insert.on_conflict.iter().find_map(|c| c.update.as_ref())
    {
        let values = update.assignments.iter().map(|a| &a.value);
        for expr in values.chain(&update.filter) {
            expr.for_each_subquery(&mut |sub| sub.query.for_each_query(&mut check));
        }
    }
    found
}

/// The parts whose rows nobody reads, and that change the table that the statement itself changes: they come last.
pub fn unread_changes(changes: &Changes) -> HashSet<usize, FixedState> {
    let mut last = HashSet::default();
    let Some(table) = changes.main.changed_table() else {
        return last;
    };
    for (id, change) in &changes.first {
        if change.changed_table().is_some_and(|of| of.id == table.id) {
            last.insert(*id);
        }
    }
    let parts = changes.first.iter().map(|(_, part)| part);
    for part in parts.chain([&changes.main]) {
        part.for_each_leaf(&mut |leaf| {
            if let LeafSource::Cte(cte) = leaf.source.inner() {
                last.remove(&cte.id);
            }
        });
    }
    last
}
