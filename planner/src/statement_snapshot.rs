//! Statement snapshots: statements of several parts whose parts all see the tables as they were
//! before the statement.
//!
//! Such a statement marks its position in its transaction, and its scans read the state at that
//! mark. Writes, functions and triggers that run meanwhile see the current state. Other statements
//! need no mark, because they read before they write.

use std::collections::HashSet;

use fencepost_sql::bound::{Changes, InsertSource, LeafSource, Select, Statement, Volatility};
use foldhash::fast::FixedState;

/// Returns whether a part of the statement may read rows that another part has already changed.
pub fn needs_statement_snapshot(statement: &Statement) -> bool {
    if let Statement::With(changes) = statement {
        let parts = || {
            changes
                .first
                .iter()
                .map(|(_, part)| part)
                .chain([&changes.main])
        };
        let mut reads = false;
        // Changes by triggers and foreign keys must stay invisible too, so any table that is read
        // counts.
        statement.for_each_leaf(&mut |leaf| {
            reads |= matches!(leaf.source.inner(), LeafSource::Table(_));
        });
        let puts_over =
            |part: &Statement| matches!(part, Statement::Insert(i) if i.on_conflict.is_some());
        let last = !unread_changes(changes).is_empty();
        return last || reads || parts().any(|part| finds_rows(part) || puts_over(part));
    }
    let Some(table) = statement.changed_table() else {
        return false;
    };
    // A row that a function changes meanwhile is detected by the mark.
    let mut found = finds_rows(statement) && calls_volatile(statement);
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

/// Returns whether a statement finds rows before it changes them.
fn finds_rows(part: &Statement) -> bool {
    matches!(
        part,
        Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)
    )
}

/// Returns whether a statement calls volatile functions, which may change rows. The functions of
/// its triggers do not count.
fn calls_volatile(statement: &Statement) -> bool {
    let mut found = false;
    statement.for_each_routine(&mut |call| {
        found |= call.routine.volatility == Volatility::Volatile;
    });
    found
}

/// Returns the parts that change the same table as the main statement and whose RETURNING rows no
/// part reads. They run last.
pub fn unread_changes(changes: &Changes) -> HashSet<usize, FixedState> {
    let Some(table) = changes.main.changed_table() else {
        return HashSet::default();
    };
    let mut last = unread(changes);
    for (id, change) in &changes.first {
        if change.changed_table().is_none_or(|of| of.id != table.id) {
            last.remove(id);
        }
    }
    last
}

/// Returns the positions of the parts in the order in which they run. Several updates and deletes
/// of one table whose RETURNING rows no part reads run in reverse order, as in PostgreSQL. If two
/// of them match the same row, only the last one changes it.
pub fn order_of_changes(changes: &Changes) -> Vec<usize> {
    let unread = unread(changes);
    let group = |at: &usize| {
        let (id, part) = &changes.first[*at];
        let finds = matches!(part, Statement::Update(_) | Statement::Delete(_));
        let table = part
            .changed_table()
            .filter(|_| finds && unread.contains(id));
        table.map(|table| table.id)
    };
    let mut order: Vec<usize> = (0..changes.first.len()).collect();
    for at in 0..order.len() {
        let Some(table) = group(&at) else {
            continue;
        };
        let of_table = (0..order.len()).filter(|other| group(other) == Some(table));
        let of_table: Vec<usize> = of_table.collect();
        let nth = of_table.iter().position(|other| *other == at);
        if let Some(mirrored) = nth.and_then(|nth| of_table.iter().rev().nth(nth)) {
            order[at] = *mirrored;
        }
    }
    order
}

/// Returns the parts that change rows and whose RETURNING rows no part reads.
fn unread(changes: &Changes) -> HashSet<usize, FixedState> {
    let ids = changes.first.iter().map(|(id, _)| *id);
    let mut last: HashSet<usize, FixedState> = ids.collect();
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
