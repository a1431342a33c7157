//! The table locks that DDL statements take before they read the tables, as in PostgreSQL.
//!
//! The locks exclude statements that could not continue after the change, and wait for transactions
//! that have used the tables. Views and sequences are locked like tables, including the dependent
//! ones of a DROP. If the role may not make the change, the statement takes no locks, so it blocks
//! no other statement. A table is locked with its partitions, and with the tables that it
//! references if these change, too.

use std::sync::Arc;

use fencepost_sql::advisory::{LockKey, LockMode, LockScope};
use fencepost_sql::bound::{
    AlterAction, AlterTable, CreateTable, NewForeignKey, Refresh, Statement, TriggerChange,
};
use fencepost_sql::catalog::{CatalogView, Snapshot, TableDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;
use fencepost_sql::table_locks::TableUse;

use super::authorize::Authorizer;
use super::drop_locks::DropLocks;
use super::hierarchy_keys::keys_to_wholes;

/// Takes the locks of a DDL statement, one after the other, and holds them until the transaction
/// ends. Takes none outside a session. Takes none if the role may not run the statement;
/// [`super::run_ddl`] refuses it.
///
/// # Errors
/// 40P01 for the session that closes a cycle of waits; 55P03 after `lock_timeout`.
pub async fn lock_for_ddl(
    statement: &Statement,
    catalog: &Snapshot,
    eval: &EvalContext,
) -> Result<(), SqlError> {
    let Some(locks) = &eval.advisory else {
        return Ok(());
    };
    let asker = Authorizer::of_session(eval, catalog)?;
    if asker.check(statement, &eval.database).is_err() {
        return Ok(());
    }
    let database = eval.database_oid();
    for used in ddl_locks(statement, catalog, eval) {
        let key = LockKey::Table(database, used.table);
        let scope = LockScope::Transaction;
        locks.lock(key, used.mode, scope, true).await?;
    }
    Ok(())
}

/// Returns the locks that a DDL statement takes, in the order in which it takes them.
fn ddl_locks(statement: &Statement, catalog: &Snapshot, eval: &EvalContext) -> Vec<TableUse> {
    let mut locks = Locks {
        catalog,
        all: Vec::new(),
    };
    match statement {
        Statement::AlterTable(alter) => locks.alter(alter),
        Statement::DropTable(drop) => {
            let tables = drop.tables.iter();
            let named = tables.flat_map(|table| {
                let leaves = table.leaves().iter().map(|leaf| leaf.id);
                std::iter::once(table.id).chain(leaves)
            });
            locks.drop_all(&DropLocks::of(named, drop.cascade, catalog));
        }
        Statement::Truncate(truncate) => {
            let tables = truncate.tables.iter();
            tables.for_each(|table| locks.add_all(table, LockMode::AccessExclusive));
        }
        Statement::CreateIndex(create) => {
            let mode = match create.concurrently {
                true => LockMode::ShareUpdateExclusive,
                false => LockMode::Share,
            };
            locks.add_all(&create.table, mode);
        }
        Statement::DropIndex(drop) => {
            let mode = match drop.concurrently {
                true => LockMode::ShareUpdateExclusive,
                false => LockMode::AccessExclusive,
            };
            let tables = drop.indexes.iter();
            tables.for_each(|(table, _)| locks.add_all(table, mode));
        }
        Statement::CreateTable(create) => locks.create(create),
        Statement::RefreshView(refresh) => {
            let mode = match refresh.how {
                Refresh::Concurrently(_) => LockMode::Exclusive,
                Refresh::Anew(_) | Refresh::Empty => LockMode::AccessExclusive,
            };
            locks.add_all(&refresh.table, mode);
        }
        Statement::CreateView(create) => {
            let name = (Some(create.schema.as_str()), create.name.as_str());
            if let Ok(Some(view)) = catalog.view(name.0, name.1) {
                locks.add(view.id, LockMode::AccessExclusive);
            }
        }
        Statement::AlterView(alter) => {
            let views = alter.view.iter();
            views.for_each(|view| locks.add(view.id, LockMode::AccessExclusive));
        }
        Statement::DropView(drop) => {
            let named = drop.views.iter().map(|view| view.id);
            locks.drop_all(&DropLocks::of(named, drop.cascade, catalog));
        }
        Statement::RenameView(of) => locks.change(of.object.as_ref().map(|of| of.object.id)),
        Statement::AlterSequence(alter) => {
            let mode = match alter.rename {
                Some(_) => LockMode::AccessExclusive,
                None => LockMode::ShareRowExclusive,
            };
            locks.add_sequence((alter.schema.as_deref(), &alter.name), mode);
        }
        Statement::DropSequence(drop) => {
            for (schema, name) in &drop.names {
                locks.add_sequence((schema.as_deref(), name), LockMode::AccessExclusive);
            }
        }
        Statement::DropSchema(drop) if drop.cascade => {
            locks.drop_all(&DropLocks::with_schemas(&drop.names, catalog));
        }
        Statement::DropOwned(drop) => locks.drop_all(&DropLocks::owned(drop, catalog, eval)),
        Statement::AlterOwner(alter) => locks.change(alter.object.as_ref().map(|of| of.object.id)),
        Statement::SetSchema(of) => locks.change(of.object.as_ref().map(|of| of.object.id)),
        // Other statements change no tables that statements use, or plans detect their changes by
        // object versions.
        _ => {}
    }
    locks.all
}

struct Locks<'a> {
    catalog: &'a Snapshot,
    all: Vec<TableUse>,
}

impl Locks<'_> {
    fn add(&mut self, table: u32, mode: LockMode) {
        let includes = |used: &TableUse| used.table == table && used.mode.includes(mode);
        if !self.all.iter().any(includes) {
            self.all.push(TableUse { table, mode });
        }
    }

    /// Adds a table and its partitions.
    fn add_all(&mut self, table: &TableDef, mode: LockMode) {
        self.add(table.id, mode);
        table
            .leaves()
            .iter()
            .for_each(|leaf| self.add(leaf.id, mode));
    }

    /// Adds the sequence with this name, if it exists.
    fn add_sequence(&mut self, (schema, name): (Option<&str>, &str), mode: LockMode) {
        if let Ok(Some(sequence)) = self.catalog.sequence(schema, name) {
            self.add(sequence.id, mode);
        }
    }

    /// Adds a table to drop, and the tables that refer to it or that it refers to.
    fn drop(&mut self, table: &TableDef) {
        self.add_all(table, LockMode::AccessExclusive);
        if let Some(of) = table.partition_of_table() {
            self.add(of.parent, LockMode::AccessExclusive);
        }
        for key in &table.rules.foreign_keys {
            self.add(key.parent, LockMode::AccessExclusive);
        }
    }

    fn drop_all(&mut self, dropped: &DropLocks) {
        for id in &dropped.going {
            match self.catalog.table_by_id(*id) {
                Ok(Some(table)) => self.drop(&table),
                Ok(None) | Err(_) => self.add(*id, LockMode::AccessExclusive),
            }
        }
        let keyless = dropped.keyless.iter();
        keyless.for_each(|id| self.add(*id, LockMode::AccessExclusive));
    }

    /// Adds the table, view or sequence with this oid, if it is one of these.
    fn change(&mut self, object: Option<u32>) {
        let Some(id) = object else {
            return;
        };
        let is_sequence = || matches!(self.catalog.sequence_by_id(id), Ok(Some(_)));
        if let Ok(Some(table)) = self.catalog.table_by_id(id) {
            self.add_all(&table, LockMode::AccessExclusive);
        } else if self.catalog.views().any(|view| view.id == id) || is_sequence() {
            self.add(id, LockMode::AccessExclusive);
        }
    }

    fn create(&mut self, create: &CreateTable) {
        if let Some(of) = &create.partition_of {
            self.add(of.parent.id, LockMode::AccessExclusive);
        }
        self.reference(&create.foreign_keys);
    }

    fn reference(&mut self, keys: &[NewForeignKey]) {
        for parent in keys.iter().filter_map(|key| key.parent.as_ref()) {
            self.add_all(parent, LockMode::ShareRowExclusive);
        }
    }

    fn alter(&mut self, alter: &AlterTable) {
        let Some(table) = &alter.table else {
            return;
        };
        // The actions of later passes are not bound yet: the strongest mode covers them.
        let later = (!alter.later.is_empty()).then_some(LockMode::AccessExclusive);
        let modes = alter.actions.iter().map(mode_of_action).chain(later);
        if let Some(mode) = modes.max() {
            match is_of_whole(&alter.actions) {
                true => self.add(table.id, mode),
                false => self.add_all(table, mode),
            }
        }
        for action in &alter.actions {
            self.alter_others(table, action);
        }
    }

    /// Adds the other tables that an action changes.
    fn alter_others(&mut self, table: &Arc<TableDef>, action: &AlterAction) {
        match action {
            AlterAction::AddForeignKey(key, _) => self.reference(std::slice::from_ref(key)),
            AlterAction::AddColumn(added) => self.reference(&added.foreign_keys),
            AlterAction::AttachPartition(of) => {
                self.add(of.parent.id, LockMode::ShareUpdateExclusive);
            }
            AlterAction::DetachPartition(partition) => {
                self.add_all(partition, LockMode::AccessExclusive);
                let keys = keys_to_wholes(self.catalog, partition).unwrap_or_default();
                for key in keys {
                    self.add_all(&key.child, LockMode::Share);
                }
            }
            AlterAction::DropConstraint { name, .. } => {
                let keys = table.rules.foreign_keys.iter();
                for key in keys.filter(|key| key.name == *name) {
                    self.add(key.parent, LockMode::AccessExclusive);
                }
            }
            AlterAction::ValidateForeignKey { name } => {
                let keys = table.rules.foreign_keys.iter();
                for key in keys.filter(|key| key.name == *name) {
                    self.add(key.parent, LockMode::RowShare);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether the actions do not affect the rows of partitions.
fn is_of_whole(actions: &[AlterAction]) -> bool {
    let is_of_whole = |action: &AlterAction| {
        matches!(
            action,
            AlterAction::Comment { .. }
                | AlterAction::DetachPartition(_)
                | AlterAction::AttachIndex { .. }
                | AlterAction::RenameTable(_)
                | AlterAction::RenameIndex { .. }
        )
    };
    actions.iter().all(is_of_whole)
}

fn mode_of_action(action: &AlterAction) -> LockMode {
    match action {
        AlterAction::Comment { .. }
        | AlterAction::ValidateCheck { .. }
        | AlterAction::ValidateForeignKey { .. }
        | AlterAction::RenameIndex { .. }
        | AlterAction::AttachIndex { .. }
        | AlterAction::Keep { .. } => LockMode::ShareUpdateExclusive,
        AlterAction::AddForeignKey(..) => LockMode::ShareRowExclusive,
        AlterAction::Trigger(change) => match change {
            TriggerChange::Create { .. } | TriggerChange::Enable { .. } => {
                LockMode::ShareRowExclusive
            }
            TriggerChange::Comment { .. } => LockMode::ShareUpdateExclusive,
            TriggerChange::Drop { .. } | TriggerChange::Rename { .. } => LockMode::AccessExclusive,
        },
        AlterAction::Notice(..) => LockMode::AccessShare,
        _ => LockMode::AccessExclusive,
    }
}
