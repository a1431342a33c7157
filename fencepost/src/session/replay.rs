//! Transparent replay of serializable blocks that met a conflict.
//!
//! ```text
//!  a statement, or COMMIT, meets a conflict
//!      │ abort the underlying transaction, keep its places in row-lock queues
//!      ▼
//!  run the statements of the history in a new transaction ──a row or a tag differs──▶ 40001
//!      │ all results are the same
//!      ▼
//!  continue: the statement again, or COMMIT
//! ```
//! Every result that the client received holds in the new transaction, too, so the client cannot
//! distinguish the two.
//!
//! *Failure.* If results differ, or conflicts do not end, the client gets the first conflict.

use std::iter::Peekable;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use std::vec::IntoIter;

use fencepost_sql::bound::Isolation;
use fencepost_sql::counts::Event;
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{Stop, Work};

use super::history::{Entry, History};
use super::protocol::Completion;
use super::run::{RowLockMode, back_off, interruptible};
use super::{Block, OpenSavepoint, Session};
use crate::prepared::{PlannedStatement, Portal};

/// The largest number of replays of a block before the client gets the conflict.
const REPLAYS_MAX: u32 = 16;

/// The row-lock behavior of a replayed statement: the same as in its first run.
const LINE: RowLockMode = RowLockMode {
    intents: true,
    yields: false,
    renews: false,
};

/// Returns whether the same statements may succeed in a new transaction. A deadlock is reported,
/// because it may occur again.
fn is_conflict(halt: &StatementStop) -> bool {
    matches!(
        halt,
        StatementStop::Stale | StatementStop::Stop(Stop::Retry(_))
    )
}

impl Session {
    /// Returns whether the open transaction keeps its statements and digests of their results.
    #[inline]
    pub(super) fn keeps_history(&self) -> bool {
        self.block == Block::Explicit
            && self.modes.isolation == Isolation::Serializable
            && !self.modes.read_only
            && self.history.is_whole()
    }

    /// Returns whether a writing serializable block begins in a session whose blocks met conflicts.
    pub(super) fn is_contended_block(&self) -> bool {
        self.tx.is_none()
            && self.contention.is_high()
            && self.block == Block::Explicit
            && self.modes.isolation == Isolation::Serializable
            && !self.modes.read_only
    }

    /// Waits until the block may begin.
    ///
    /// # Errors
    /// 57014 if the statement is cancelled meanwhile.
    pub(super) fn take_retry_turn(&mut self) -> Work<'_, Result<(), StatementStop>> {
        Box::pin(async move {
            let turns = Arc::clone(&self.db.retry_turns);
            let deadline = self.deadline;
            let taken = async {
                self.contention.take_turn(&turns, deadline).await;
                Ok(())
            };
            interruptible(&self.cancel, deadline, pin!(taken)).await?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.cancel.time_out();
            }
            self.cancel.check()?;
            Ok(())
        })
    }

    /// Returns whether the open transaction can be replayed after `halt`.
    pub(super) fn may_replay(&self, halt: &StatementStop) -> bool {
        is_conflict(halt)
            && self.keeps_history()
            && self.history.replays() < REPLAYS_MAX
            && self.history.runs_with(&self.eval.settings)
            && self.on_commit.is_empty()
            && !self.db.machine.is_evicted()
    }

    /// Replays the statements of the open transaction in a new one, after a conflict of the
    /// statement `running`, or of the commit.
    ///
    /// # Errors
    /// `conflict` if the result of a statement differs, or conflicts do not end.
    pub(super) fn replay<'a>(
        &'a mut self,
        conflict: StatementStop,
        running: Option<&'a PlannedStatement>,
    ) -> Work<'a, Result<(), StatementStop>> {
        Box::pin(async move {
            let about = self.last_conflict();
            if !self.history.is_worth_a_run() {
                self.history.lose_over(about);
                return Err(conflict);
            }
            let mut history = std::mem::take(&mut self.history);
            let (began, notices) = (self.eval.statement_start, self.notices.len());
            let same = self.replay_until_done(&mut history).await;
            self.eval.statement_start = began;
            self.eval.sequences.end();
            self.notices.truncate(notices);
            self.history = history;
            if let Ok(same) = same {
                self.history.note_run(same);
            }
            match same {
                Ok(true) => {
                    self.scratch.counting.event(Event::Replays, 1);
                    let tables = self.history.tables(running);
                    let about = (&conflict, about);
                    self.count_unseen(about, self.running_text(), &tables).await;
                    Ok(())
                }
                Ok(false) => {
                    self.cancel.check()?;
                    self.history.lose_over(about);
                    Err(conflict)
                }
                Err(halt) => Err(halt),
            }
        })
    }

    /// Replays until the block succeeds. Returns whether each statement has returned the same
    /// result again.
    async fn replay_until_done(&mut self, history: &mut History) -> Result<bool, StatementStop> {
        loop {
            self.give_up_to_replay();
            match self.replay_once(history).await {
                Err(halt) if is_conflict(&halt) && history.replays() < REPLAYS_MAX => {
                    self.cancel.check()?;
                    back_off(history.replays()).await;
                }
                Err(
                    StatementStop::Error(_)
                    | StatementStop::Stale
                    | StatementStop::Stop(Stop::Retry(_) | Stop::Deadlock),
                ) => {
                    return Ok(false);
                }
                done => return done,
            }
        }
    }

    /// Aborts the underlying transaction. The next one inherits its places in row-lock queues.
    fn give_up_to_replay(&mut self) {
        if let Some(mut tx) = self.tx.take() {
            tx.set_synchronous(self.eval.settings.synchronous_commit);
            tx.abort_to_run_again();
            self.unsettled = true;
        }
        self.deferred.clear();
    }

    async fn replay_once(&mut self, history: &mut History) -> Result<bool, StatementStop> {
        history.count_replay();
        let mut savepoints = std::mem::take(&mut self.savepoints).into_iter().peekable();
        let mut same = Ok(true);
        for (before, entry) in history.entries().iter().enumerate() {
            self.reopen(&mut savepoints, before);
            same = self.repeat(entry, history).await;
            if !matches!(same, Ok(true)) {
                break;
            }
        }
        self.reopen(&mut savepoints, usize::MAX);
        same
    }

    /// Reopens those of `savepoints` that were preceded by at most `statements` statements.
    fn reopen(&mut self, savepoints: &mut Peekable<IntoIter<OpenSavepoint>>, statements: usize) {
        while let Some(mut savepoint) = savepoints.next_if(|s| s.statements <= statements) {
            savepoint.point = self.tx.as_mut().map(|tx| tx.savepoint());
            savepoint.deferred = self.deferred.mark();
            self.savepoints.push(savepoint);
        }
    }

    /// Runs a statement again, and returns whether its result is the same.
    async fn repeat(&mut self, entry: &Entry, history: &History) -> Result<bool, StatementStop> {
        self.eval.statement_start = entry.began;
        self.eval.sequences.begin_again(&entry.drawn);
        let mut portal = Portal::new(Arc::clone(&entry.prepared), entry.params.clone());
        portal.transaction = Some(self.transaction);
        let mut digest = history.digest();
        match self.attempt(&mut portal, 0, &mut digest, false, LINE).await {
            Ok(Completion::Complete(tag)) => Ok(digest.result(tag) == entry.result),
            Ok(Completion::Suspended | Completion::Empty | Completion::CopyIn(_)) => Ok(false),
            Err(halt) => Err(self.doubted(halt).await),
        }
    }
}
