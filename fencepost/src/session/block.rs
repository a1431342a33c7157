//! Transaction blocks: BEGIN, COMMIT, ROLLBACK, savepoints.

use std::sync::Arc;

use fencepost_planner::Notice;
use fencepost_sql::bound::{Isolation, TransactionModes};
use fencepost_sql::catalog::Outcomes;
use fencepost_sql::counts::Event;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{AbortReason, Mode, Outcome, Stop, Work};

use super::level::Modes;
use super::{Block, OpenSavepoint, Session};
use crate::advisory::LockMark;

impl Session {
    /// Opens the implicit transaction of a statement outside a block.
    pub(super) fn enter(&mut self) {
        if self.block == Block::Idle {
            self.block = Block::Implicit;
            self.open_block();
        }
    }

    fn open_block(&mut self) {
        self.transaction += 1;
        self.eval.forget_number();
        self.statements = 0;
        self.must_roll_back = false;
        self.history.forget();
        self.modes = self.default_modes;
        self.before = None;
        self.eval.transaction_start = self.eval.statement_start;
    }

    /// Commits the open transaction.
    pub(super) async fn commit_transaction(&mut self) -> Result<(), StatementStop> {
        if !self.deferred.is_empty()
            && let Err(halt) = self.check_all_deferred().await
        {
            self.abort_transaction();
            return Err(halt);
        }
        if !self.cursors.is_empty()
            && let Err(halt) = Box::pin(self.hold_cursors()).await
        {
            self.abort_transaction();
            return Err(halt);
        }
        self.take_on_commit();
        if !self.on_commit.is_empty()
            && let Err(halt) = self.end_temporary().await
        {
            self.abort_transaction();
            return Err(halt);
        }
        if self.eval.notifications.are_said()
            && let Err(halt) = Box::pin(self.lock_notify_commit()).await
        {
            self.abort_transaction();
            return Err(halt);
        }
        let tracked =
            self.eval.settings.track_outcomes && self.tx.as_ref().is_some_and(|tx| tx.has_writes());
        let number = match tracked {
            true => Some(self.eval.transaction_number()),
            false => self.eval.drawn_number(),
        };
        let mut outcome = match number {
            Some(number) => self.commit_numbered(number).await,
            None => self.commit_below().await,
        };
        while let Err(halt) = &outcome
            && self.may_replay(halt)
        {
            outcome = self.replay_and_commit(halt.clone(), number).await;
        }
        // Without its outcome record, the transaction must not stay open.
        self.tx = None;
        let committed = outcome.is_ok();
        self.unsettled |= !committed;
        let private = self.eval.private();
        self.eval.set_private(None);
        if let Some(private) = private {
            if committed {
                self.served.catalog.publish(&private);
                // Statements that are parsed from now on use the new catalog, and may have other
                // columns.
                self.served.plans.clear();
                self.db.reclaimer.ask();
            }
            self.catalog_changed();
        }
        if committed && self.eval.notifications.are_pending() {
            Box::pin(self.tell_notifications()).await;
        }
        self.close_block(committed);
        if committed && number.is_some_and(Outcomes::is_removal_due) {
            self.forget_outcomes().await;
        }
        outcome
    }

    /// Replays the statements after a conflict of the commit, and commits.
    fn replay_and_commit(
        &mut self,
        conflict: StatementStop,
        number: Option<i64>,
    ) -> Work<'_, Result<(), StatementStop>> {
        Box::pin(async move {
            self.replay(conflict, None).await?;
            if !self.deferred.is_empty() {
                self.check_all_deferred().await?;
            }
            match number {
                Some(number) => self.commit_numbered(number).await,
                None => self.commit_below().await,
            }
        })
    }

    /// Commits the underlying transaction together with a record of its outcome under its number.
    fn commit_numbered(&mut self, number: i64) -> Work<'_, Result<(), StatementStop>> {
        Box::pin(async move {
            self.record_outcome(number).await?;
            self.commit_below().await
        })
    }

    /// Checks all deferred constraints; at READ COMMITTED on a current snapshot.
    async fn check_all_deferred(&mut self) -> Result<(), StatementStop> {
        if self.has_old_snapshot() {
            self.renew_snapshot().await?;
        }
        self.check_deferred(true).await
    }

    /// Writes the outcome record into the open transaction. A read-only transaction is committed
    /// first, and another one writes the record.
    fn record_outcome<'a>(&'a mut self, number: i64) -> Work<'a, Result<(), StatementStop>> {
        Box::pin(async move {
            if self
                .tx
                .as_ref()
                .is_some_and(|tx| tx.mode() == Mode::ReadOnly)
            {
                self.commit_below().await?;
            }
            let coordinator = &mut self.coordinator;
            let begin = || coordinator.begin(Mode::ReadWrite);
            let tx = self.tx.get_or_insert_with(begin);
            self.served.catalog.outcomes().record(tx, number).await
        })
    }

    /// Commits the underlying transaction, if there is one.
    async fn commit_below(&mut self) -> Result<(), StatementStop> {
        let Some(mut tx) = self.tx.take() else {
            return Ok(());
        };
        tx.set_synchronous(self.eval.settings.synchronous_commit);
        let writes = tx.has_writes();
        match tx.commit().await? {
            Outcome::Committed(at) => {
                if writes {
                    self.scratch.counting.committed(at.raw(), self.writer);
                }
                Ok(())
            }
            Outcome::Aborted(reason) => Err(StatementStop::Stop(Stop::Retry(reason))),
        }
    }

    /// Removes some expired outcome records. If that fails, another session will do it.
    fn forget_outcomes<'a>(&'a mut self) -> Work<'a, ()> {
        Box::pin(async move {
            let mut tx = self.coordinator.begin(Mode::ReadWrite);
            let outcomes = self.served.catalog.outcomes();
            let now = self.eval.clock_now();
            if outcomes.forget(&mut tx, now).await.is_ok() {
                // A conflict means that another session does the same.
                let _ = tx.commit().await;
            }
        })
    }

    /// Aborts the open transaction.
    pub(super) fn abort_transaction(&mut self) {
        self.abort_below();
        let changed = self.eval.has_private();
        self.eval.set_private(None);
        self.close_block(false);
        if changed {
            self.catalog_changed();
        }
    }

    /// Aborts the open transaction before an immediate retry. The retry inherits the places in
    /// row-lock queues, also for rows that were read before their turn. After a deadlock the places
    /// are released. If memory was full, waits until the memory of dropped tables is free.
    ///
    /// # Errors
    /// The statement is cancelled while it waits.
    pub(super) fn abort_to_run_again<'a>(
        &'a mut self,
        halt: &'a StatementStop,
    ) -> Work<'a, Result<(), StatementStop>> {
        if !matches!(halt, StatementStop::Stop(Stop::Deadlock))
            && let Some(tx) = self.tx.take()
        {
            tx.abort_to_run_again();
        }
        self.abort_unseen();
        Box::pin(async move {
            if is_full(halt) {
                self.wait_for_reclaimer().await?;
            }
            Ok(())
        })
    }

    /// Returns whether the statement may succeed in a new transaction: after a conflict, or if the
    /// memory of dropped tables is being freed.
    pub(super) fn can_run_again(&self, halt: &StatementStop) -> bool {
        halt.is_retryable() || is_full(halt) && self.db.reclaimer.is_busy()
    }

    /// Aborts the open transaction as if it had never begun.
    pub(super) fn abort_unseen(&mut self) {
        self.abort_transaction();
        // The abort, or the failed commit, was counted as a rollback.
        self.scratch.counting.event(Event::Rollbacks, u64::MAX);
    }

    /// Aborts the underlying transaction of the block, whose effects are not visible to the client
    /// yet. The block stays open.
    pub(super) fn begin_anew(&mut self) {
        self.abort_below();
        if self.eval.has_private() {
            self.eval.set_private(None);
            self.catalog_changed();
        }
        self.deferred.clear();
        self.eval.sequences.end_transaction(false);
        self.eval.sequences.rewind();
    }

    fn abort_below(&mut self) {
        if let Some(mut tx) = self.tx.take() {
            tx.set_synchronous(self.eval.settings.synchronous_commit);
            tx.abort();
            self.unsettled = true;
        }
    }

    /// Waits until all data is durable that an aborted transaction has read. Called before its end
    /// is reported (SES-4).
    pub(super) async fn wait_until_durable(&mut self) -> Result<(), StatementStop> {
        if self.unsettled && self.tx.is_none() {
            self.coordinator.wait_until_durable().await?;
            self.unsettled = false;
        }
        Ok(())
    }

    fn close_block(&mut self, committed: bool) {
        if self.block != Block::Idle {
            let end = match committed {
                true => Event::Commits,
                false => Event::Rollbacks,
            };
            self.scratch.counting.event(end, 1);
        }
        self.block = Block::Idle;
        self.end_cursors(committed);
        self.savepoints.clear();
        self.history.lose();
        self.contention.give_back();
        if committed && self.modes.isolation == Isolation::Serializable {
            self.contention.note_commit();
        }
        self.deferred.clear();
        self.eval.sequences.end_transaction(committed);
        self.eval.notifications.end(false);
        self.locks.back_to(LockMark::default());
        self.exports.end();
        self.transaction += 1;
        let after = match (committed, self.before.take()) {
            (false, Some(before)) => before,
            _ => Arc::clone(&self.lasting),
        };
        if !Arc::ptr_eq(&after, &self.eval.settings) {
            self.eval.settings = Arc::clone(&after);
            self.settings_changed();
        }
        self.lasting = after;
    }

    /// Prepares for the report of an error: the implicit transaction ends, a block fails. Also to
    /// be called after the future of a statement was dropped. The next [`Session::sync`] waits
    /// until all data that the transaction has read is durable.
    pub fn fail(&mut self) {
        match self.block {
            Block::Idle | Block::Failed => {}
            Block::Implicit => self.abort_transaction(),
            Block::Explicit => {
                self.block = Block::Failed;
                self.history.lose();
                self.contention.give_back();
                // Like PostgreSQL, which ends the innermost subtransaction at once.
                let mark = self.savepoints.last().map(|savepoint| savepoint.locks);
                self.locks.back_to(mark.unwrap_or_default());
                // A doomed transaction cannot be saved, so it must not block others.
                if self.must_roll_back {
                    self.abort_below();
                }
            }
        }
    }

    /// Ends the statements of a simple query, or those before a Sync: commits the implicit
    /// transaction. Returns once the commit is as durable as the tier promises. An open block stays
    /// open.
    ///
    /// # Errors
    /// The errors of a commit, as of [`Session::query`]: 40001, deferred constraints, and 08007 if
    /// the outcome is unknown. The transaction has ended then.
    pub async fn sync(&mut self) -> Result<(), SqlError> {
        let done = match self.block {
            Block::Implicit => self.commit_transaction().await,
            Block::Idle if self.unsettled => self.wait_until_durable().await,
            _ => Ok(()),
        };
        let done = match done {
            Ok(()) => Ok(()),
            Err(halt) => Err(self.fail_with(halt).await),
        };
        if self.locks.owes() {
            Box::pin(self.locks.wait_until_released()).await;
        }
        done
    }

    pub(super) fn begin_block(
        &mut self,
        start: bool,
        modes: &TransactionModes,
    ) -> Result<&'static str, SqlError> {
        let tag = if start { "START TRANSACTION" } else { "BEGIN" };
        if self.block == Block::Explicit {
            self.notices.push(Notice::warning(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
            return Ok(tag);
        }
        self.enter();
        self.block = Block::Explicit;
        if self.statements == 0 && self.tx.is_none() {
            self.history.begin();
        }
        self.set_modes(modes)?;
        Ok(tag)
    }

    /// Executes COMMIT. Returns its tag, which is ROLLBACK in a failed block.
    pub(super) async fn commit_block(
        &mut self,
        chain: bool,
    ) -> Result<&'static str, StatementStop> {
        let modes = self.modes;
        let tag = match self.block {
            Block::Failed => {
                self.abort_transaction();
                self.wait_until_durable().await?;
                "ROLLBACK"
            }
            Block::Explicit => {
                self.commit_transaction().await?;
                "COMMIT"
            }
            Block::Idle | Block::Implicit => {
                self.no_transaction(chain, "COMMIT")?;
                self.commit_transaction().await?;
                "COMMIT"
            }
        };
        self.chain(chain, modes);
        Ok(tag)
    }

    /// Executes ROLLBACK.
    pub(super) async fn rollback_block(
        &mut self,
        chain: bool,
    ) -> Result<&'static str, StatementStop> {
        let modes = self.modes;
        if matches!(self.block, Block::Idle | Block::Implicit) {
            self.no_transaction(chain, "ROLLBACK")?;
        }
        self.abort_transaction();
        self.wait_until_durable().await?;
        self.chain(chain, modes);
        Ok("ROLLBACK")
    }

    fn no_transaction(&mut self, chain: bool, command: &str) -> Result<(), SqlError> {
        if chain {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{command} AND CHAIN can only be used in transaction blocks"),
            ));
        }
        self.notices.push(Notice::warning(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "there is no transaction in progress",
        ));
        Ok(())
    }

    fn chain(&mut self, chain: bool, modes: Modes) {
        if chain {
            self.block = Block::Explicit;
            self.open_block();
            self.history.begin();
            self.modes = modes;
        }
    }

    pub(super) fn savepoint(&mut self, name: &str) -> Result<&'static str, SqlError> {
        self.in_block("SAVEPOINT")?;
        let point = self.tx.as_mut().map(|tx| tx.savepoint());
        self.savepoints.push(OpenSavepoint {
            name: name.to_owned(),
            statements: self.history.entries().len(),
            point,
            deferred: self.deferred.mark(),
            cursors: self.cursors_mark(),
            locks: self.locks.mark(),
            notified: self.eval.notifications.mark(),
            sequences: self.eval.sequences.mark(),
            lasting: Arc::clone(&self.lasting),
            current: Arc::clone(&self.eval.settings),
            modes: self.modes,
        });
        Ok("SAVEPOINT")
    }

    pub(super) fn release(&mut self, name: &str) -> Result<&'static str, SqlError> {
        self.in_block("RELEASE SAVEPOINT")?;
        let found = self.find_savepoint(name)?;
        let mut released = self.savepoints.drain(found..);
        if let (Some(first), Some(tx)) = (released.next(), &mut self.tx)
            && let Some(point) = first.point
        {
            tx.release(point);
        }
        Ok("RELEASE")
    }

    /// Executes ROLLBACK TO SAVEPOINT.
    pub(super) async fn rollback_to(&mut self, name: &str) -> Result<&'static str, StatementStop> {
        if self.block != Block::Failed {
            self.in_block("ROLLBACK TO SAVEPOINT")?;
        }
        let found = self.find_savepoint(name)?;
        if self.must_roll_back {
            return Err(StatementStop::Stop(Stop::Retry(AbortReason::Requested)));
        }
        self.savepoints.truncate(found + 1);
        let savepoint = &self.savepoints[found];
        if let (Some(point), Some(tx)) = (&savepoint.point, &mut self.tx) {
            tx.rollback_to(point);
        }
        self.deferred.back_to(savepoint.deferred);
        let cursors = savepoint.cursors;
        self.locks.back_to(savepoint.locks);
        self.eval.notifications.back_to(savepoint.notified);
        self.eval.sequences.back_to(savepoint.sequences);
        self.lasting = Arc::clone(&savepoint.lasting);
        self.eval.settings = Arc::clone(&savepoint.current);
        self.modes = savepoint.modes;
        self.settings_changed();
        self.take_cursors_back(cursors);
        self.block = Block::Explicit;
        if self.eval.has_private()
            && let Some(tx) = &mut self.tx
        {
            let private = self.served.catalog.snapshot(tx).await?;
            self.eval.set_private(Some(private));
            self.catalog_changed();
        }
        Ok("ROLLBACK")
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints
            .iter()
            .rposition(|s| s.name == name)
            .ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_SAVEPOINT,
                    format!("savepoint \"{name}\" does not exist"),
                )
            })
    }

    /// Fails with 25P01 outside a block.
    pub(super) fn in_block(&self, command: &str) -> Result<(), SqlError> {
        match self.block {
            Block::Explicit | Block::Failed => Ok(()),
            Block::Idle | Block::Implicit => Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{command} can only be used in transaction blocks"),
            )),
        }
    }
}

/// Returns whether a statement has failed because memory was full.
fn is_full(halt: &StatementStop) -> bool {
    matches!(halt, StatementStop::Stop(Stop::OutOfMemory))
}
