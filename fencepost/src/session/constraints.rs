//! Deferred constraints: SET CONSTRAINTS, and the check at the end of the transaction.

use std::pin::pin;

use fencepost_planner::Notice;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::Work;

use super::run::interruptible;
use super::{Block, Session, cx};

impl Session {
    /// Executes SET CONSTRAINTS; no names mean ALL. Checks constraints that are no longer deferred.
    pub(super) async fn set_constraints(
        &mut self,
        names: &[String],
        deferred: bool,
    ) -> Result<(), StatementStop> {
        let mut ids = Vec::new();
        for name in names {
            ids.extend(self.deferrable(name)?);
        }
        if names.is_empty() {
            self.deferred.say(None, deferred);
        }
        for id in ids {
            self.deferred.say(Some(id), deferred);
        }
        match deferred {
            true => Ok(()),
            false => self.check_deferred(false).await,
        }
    }

    /// Returns the foreign keys, unique constraints and constraint triggers called `name`.
    fn deferrable(&mut self, name: &str) -> Result<Vec<u32>, SqlError> {
        let (snapshot, _) = self.snapshot();
        let tables = snapshot.tables();
        let keys = tables.iter().flat_map(|t| &t.rules.foreign_keys);
        let keys = keys.filter(|key| key.name == name);
        let unique = tables.iter().flat_map(|t| &t.indexes);
        let unique = unique.filter(|index| index.name == name && index.more.deferrable.is_some());
        let unique = unique.map(|index| (index.id, true));
        let triggers = tables.iter().flat_map(|t| &t.rules.triggers);
        let triggers = triggers.filter(|trigger| trigger.name == name);
        let triggers = triggers.filter_map(|t| Some((t.id, t.constraint.as_ref()?.deferrable)));
        let mut keys: Vec<(u32, bool)> = keys
            .map(|key| (key.id, key.deferrable))
            .chain(triggers)
            .chain(unique)
            .collect();
        // Also the copies of these constraints in partitions.
        let mut at = 0;
        while let Some((id, deferrable)) = keys.get(at).copied() {
            for own in tables.iter().filter_map(|table| table.linked(id)) {
                if keys.iter().all(|(known, _)| *known != own) {
                    keys.push((own, deferrable));
                }
            }
            at += 1;
        }
        let of_another_kind = tables.iter().any(|table| table.has_constraint(name));
        if keys.is_empty() && !of_another_kind {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" does not exist"),
            ));
        }
        if keys.is_empty() || keys.iter().any(|(_, deferrable)| !deferrable) {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("constraint \"{name}\" is not deferrable"),
            ));
        }
        Ok(keys.into_iter().map(|(id, _)| id).collect())
    }

    /// Checks the pending constraints that are not deferred; at the `end` of the transaction, all
    /// of them.
    pub(super) fn check_deferred<'a>(
        &'a mut self,
        end: bool,
    ) -> Work<'a, Result<(), StatementStop>> {
        Box::pin(async move {
            self.eval.sequences.begin_part();
            loop {
                let mark = self.deferred.mark();
                let before = self.tx.as_mut().map(|tx| tx.savepoint());
                let checked = self.check_deferred_once(end).await;
                let wanted = self.wanted_range(&checked);
                if let (Some(tx), Some(before)) = (&mut self.tx, before) {
                    if wanted.is_some() {
                        tx.rollback_to(&before);
                    }
                    tx.release(before);
                }
                match wanted {
                    // A trigger has used up the values of a sequence: take more, and repeat the
                    // check.
                    Some(id) => {
                        self.deferred.back_to(mark);
                        self.take_range(id).await?;
                    }
                    None => return checked,
                }
            }
        })
    }

    async fn check_deferred_once(&mut self, end: bool) -> Result<(), StatementStop> {
        let mut deferred = std::mem::take(&mut self.deferred);
        let checked = match &mut self.tx {
            // The transaction has written nothing.
            None => Ok(()),
            Some(tx) => {
                let mut cx = cx(
                    tx,
                    &[],
                    &self.eval,
                    &self.cancel,
                    &mut self.scratch,
                    self.deadline,
                    true,
                );
                let work = pin!(deferred.run(&mut cx, end));
                interruptible(&self.cancel, self.deadline, work).await
            }
        };
        self.deferred = deferred;
        checked?;
        self.set_sequences().await
    }

    /// Adds a warning outside a block.
    pub(super) fn in_block_or_warn(&mut self, command: &str) {
        if self.block != Block::Explicit {
            self.notices.push(Notice::warning(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{command} can only be used in transaction blocks"),
            ));
        }
    }
}
