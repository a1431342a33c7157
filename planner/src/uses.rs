//! The tables that a plan uses, and the table locks that its statement takes, as in PostgreSQL.
//!
//! | The statement | Its lock |
//! |---|---|
//! | reads the table | ACCESS SHARE |
//! | locks rows of it, or looks up rows for a foreign key | ROW SHARE |
//! | changes rows of it, directly or through a foreign key | ROW EXCLUSIVE |
//! | draws a value from the sequence | ROW EXCLUSIVE |
//! | names the view | ACCESS SHARE |
//!
//! If rows of a partitioned table change, its leaf partitions are locked with it.

use std::sync::Arc;

use fencepost_sql::advisory::LockMode;
use fencepost_sql::bound::CopySource;
use fencepost_sql::catalog::{Dependencies, GuardScope, Referential, TableDef};
use fencepost_sql::table_locks::TableUse;

use crate::plan::TablePlan;
use crate::statement::Plan;
use crate::write::References;

/// The tables that a plan uses.
#[derive(Debug)]
pub struct UsedTables {
    /// The tables, each once.
    pub plans: Vec<Arc<TablePlan>>,
    /// The locks that the statement takes, one for each table.
    pub locks: Box<[TableUse]>,
    /// How long the other objects that the plan depends on must stay as planned.
    pub others: GuardScope,
    /// How long the guard of each of `plans` must hold.
    holds: Box<[GuardScope]>,
}

impl UsedTables {
    /// Returns the tables, and how long each must stay as planned.
    pub fn guarded(&self) -> impl Iterator<Item = (&TableDef, GuardScope)> {
        let tables = self.plans.iter().map(|table| &*table.def);
        tables.zip(self.holds.iter().copied())
    }
}

impl Plan {
    /// Returns the tables that the plan uses. The statement also depends on `others`.
    pub fn used(&self, others: &Dependencies) -> UsedTables {
        let plans = self.tables();
        let mode = match self.locks_rows() {
            true => LockMode::RowShare,
            false => LockMode::AccessShare,
        };
        let mut locks = Locks(Vec::with_capacity(plans.len()));
        plans.iter().for_each(|table| locks.add(table.def.id, mode));
        locks.add_changes(self);
        let uses = others.uses().iter();
        uses.for_each(|used| locks.add(used.table, used.mode));
        let holds = plans.iter().map(|table| locks.hold(table.def.id)).collect();
        let others = match self.is_write() {
            true => GuardScope::Commit,
            false => GuardScope::Statement,
        };
        UsedTables {
            plans,
            locks: locks.0.into(),
            others,
            holds,
        }
    }
}

struct Locks(Vec<TableUse>);

impl Locks {
    fn add(&mut self, table: u32, mode: LockMode) {
        match self.0.iter_mut().find(|used| used.table == table) {
            Some(used) => used.mode = used.mode.max(mode),
            None => self.0.push(TableUse { table, mode }),
        }
    }

    /// Returns how long the guard of a table must hold: up to the commit if its rows change.
    fn hold(&self, table: u32) -> GuardScope {
        let changes = |used: &TableUse| used.table == table && used.mode >= LockMode::RowExclusive;
        match self.0.iter().any(changes) {
            true => GuardScope::Commit,
            false => GuardScope::Statement,
        }
    }

    /// Adds the tables whose rows the plan changes, and those that foreign keys connect with them.
    fn add_changes(&mut self, plan: &Plan) {
        match plan {
            Plan::Insert(insert) => {
                self.add_changed(&insert.table.def);
                self.add_references(insert.references.as_deref());
            }
            Plan::Update(change) | Plan::Delete(change) | Plan::Merge(change) => {
                self.add_changed(&change.table.def);
                self.add_references(change.references.as_deref());
            }
            Plan::CopyIn(copy) => {
                if let CopySource::Table {
                    table, integrity, ..
                } = &copy.source
                {
                    self.add_changed(table);
                    for related in &integrity.related {
                        self.add(related.table.id, LockMode::RowShare);
                    }
                }
            }
            Plan::Row(_) | Plan::Point(_) | Plan::Select(_) | Plan::CopyOut(..) => {}
        }
        if let Some(queries) = plan.queries() {
            let changes = queries.changes.iter();
            changes.for_each(|change| self.add_changes(&change.plan));
        }
    }

    fn add_changed(&mut self, table: &TableDef) {
        self.add(table.id, LockMode::RowExclusive);
        for leaf in table.leaves() {
            self.add(leaf.id, LockMode::RowExclusive);
        }
    }

    fn add_references(&mut self, references: Option<&References>) {
        let Some(references) = references else {
            return;
        };
        for table in &references.tables {
            self.add(table.def.id, LockMode::RowShare);
        }
        let changes = |action| match action {
            Referential::Cascade | Referential::SetNull | Referential::SetDefault => true,
            Referential::NoAction | Referential::Restrict => false,
        };
        for key in &references.keys {
            if changes(key.def.on_delete) || changes(key.def.on_update) {
                let parent_changes = references.tables[key.parent].def.id;
                let is_changed = |used: &TableUse| {
                    used.table == parent_changes && used.mode == LockMode::RowExclusive
                };
                if self.0.iter().any(is_changed) {
                    self.add_changed(&references.tables[key.child].def);
                }
            }
        }
    }
}
