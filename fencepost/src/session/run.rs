//! Runs portals: executes plans in transactions, with retries that clients do not see.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use fencepost_planner::{
    CancelFlag, CopyInput, MaterializedRows, MaterializedRowsSink, Notice, Plan, Progress, RowSink,
    Tag,
};
use fencepost_sql::bound::Copy;
use fencepost_sql::catalog::{guard_routine, guard_table};
use fencepost_sql::context::EvalContext;
use fencepost_sql::counts::Event;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::assign;
use fencepost_sql::sequences::wanted_range;
use fencepost_sql::stack::polled;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::{Stop, Work};

use super::copy::CopyIn;
use super::history::{RowDigest, keeps_history};
use super::protocol::{Completion, block_failed};
use super::resumed::ResumingSink;
use super::sequences::is_undefined;
use super::{Block, Session, cx};
use crate::prepared::{Body, PlannedStatement, Portal, UnsentRows};

/// The largest number of transparent retries before the client gets the conflict.
pub(crate) const ATTEMPTS_MAX: u32 = 64;
/// The attempt from which a statement takes intents on its rows, as statements of a block do.
const ATTEMPTS_BEFORE_INTENTS: u32 = 2;
/// The number of plans made for one statement before the client gets the error of a changing
/// catalog.
const PLANS_MAX: u32 = 8;

/// The row-lock behavior of one run of a statement.
#[derive(Clone, Copy)]
pub(super) struct RowLockMode {
    /// True if the run takes intents.
    pub intents: bool,
    /// True if the run yields to other transactions, and is then retried.
    pub yields: bool,
    /// True if the run takes a new snapshot in a transaction that continues.
    pub renews: bool,
}

impl Session {
    /// Continues a portal and sends at most `max_rows` rows (0: all) to `sink`. The implicit
    /// transaction stays open for the statements up to the next [`Session::sync`].
    ///
    /// # Errors
    /// As of [`Session::query`]; 34000 if the transaction of the portal has ended; any error of
    /// `sink`.
    pub async fn run(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, SqlError> {
        self.run_portal(portal, max_rows, sink, false).await
    }

    /// Does the same as [`Session::run`], for the last statement before a Sync. Outside a block,
    /// the statement has committed when this returns. Conflicts are retried while `sink` can
    /// rewind.
    ///
    /// # Errors
    /// As of [`Session::run`], and errors of the commit.
    pub async fn run_last(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, SqlError> {
        self.run_portal(portal, max_rows, sink, true).await
    }

    pub(super) async fn run_portal(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, SqlError> {
        if !portal.prepared.ends_block() {
            self.check_not_failed()?;
        }
        self.start_statement();
        if let Some(registered) = &self.registered {
            let at = self.eval.statement_start;
            let transaction = match self.block {
                Block::Idle => at,
                _ => self.eval.transaction_start,
            };
            registered.begin(&portal.prepared, at, transaction);
        }
        let prepared = Arc::clone(&portal.prepared);
        if !keeps_history(&prepared.planned.body) {
            self.history.lose();
        }
        let result = match &prepared.planned.body {
            Body::Empty => Ok(Completion::Empty),
            Body::Plan(..) => self.run_plan(portal, max_rows, sink, last).await,
            Body::Utility(statement) => {
                self.run_utility(statement, portal, max_rows, sink, last)
                    .await
            }
            Body::Declare(declared) => self.declare_cursor(declared, portal, last).await,
            Body::Explain { planned, options } => {
                let params = &portal.params;
                self.run_explain(planned.as_ref(), params, *options, sink, last)
                    .await
            }
            Body::ExplainExecute {
                name,
                args,
                options,
            } => {
                self.explain_execute((name, args), *options, portal, sink, last)
                    .await
            }
        };
        let took = self.clock.end();
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.scratch.counting.event(Event::ActiveNs, ns);
        if let Ok(Completion::Complete(tag)) = &result {
            let planned = &prepared.planned;
            let session = self.eval.backend_pid;
            self.served
                .statistics
                .add(planned, session, took, tag.rows());
        }
        self.ended(result).await
    }

    /// Fails with 25P02 in a failed block.
    pub(super) fn check_not_failed(&self) -> Result<(), SqlError> {
        match self.block {
            Block::Failed => Err(block_failed()),
            _ => Ok(()),
        }
    }

    /// Completes a statement. Returns the result to report.
    pub(super) async fn ended(
        &mut self,
        result: Result<Completion, StatementStop>,
    ) -> Result<Completion, SqlError> {
        self.notices.append(&mut self.scratch.routines.notices);
        self.take_on_commit();
        self.note_portals();
        let result = match result {
            // SES-5
            Ok(done) if self.tx.is_some() && !self.db.machine.is_answering() => {
                let admitted = Box::pin(self.db.machine.admitted()).await;
                admitted.map(|()| done).map_err(StatementStop::Stop)
            }
            result => result,
        };
        let result = match result {
            Ok(done) => Ok(done),
            Err(halt) => Err(self.fail_with(halt).await),
        };
        if self.locks.owes() {
            Box::pin(self.locks.wait_until_released()).await;
        }
        result
    }

    /// Runs a portal of a plan, with retries after conflicts where they are allowed (SES-1).
    pub(super) async fn run_plan(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, StatementStop> {
        if portal.transaction.is_some_and(|t| t != self.transaction) {
            return Err(
                SqlError::new(SqlState::INVALID_CURSOR_NAME, "the portal is closed").into(),
            );
        }
        if max_rows > 0 && (portal.ahead.is_some() || portal.is_made_ahead()) {
            return self.run_ahead(portal, max_rows, sink).await;
        }
        if let Some(ship) = &self.db.ship
            && last
            && max_rows == 0
            && let Some(home) = self.home_of(&portal.prepared.current(), portal)
        {
            let ship = Arc::clone(ship);
            let portals = std::slice::from_mut(portal);
            if let Some(mut results) = Box::pin(self.ship(&ship, home, portals)).await? {
                let tag = results.give(0, sink).await;
                let none = || Err(SqlError::internal("a shipped statement has no result"));
                return Ok(Completion::Complete(tag.unwrap_or_else(none)?));
            }
        }
        self.enter();
        if self.is_contended_block() {
            self.take_retry_turn().await?;
        }
        if !self.cursors.is_empty() && portal.is_write() {
            Box::pin(self.settle_cursors()).await?;
        }
        self.begin_sequences(portal);
        let mut renews = portal.transaction.is_none() && self.has_old_snapshot();
        let alone = self.block == Block::Implicit && self.statements == 0;
        let begun = self.transaction;
        let portals = self.scratch.routines.portals.mark();
        // A statement that commits at once, and is retried on a conflict, takes no intents itself.
        let single = alone && last;
        let mut intents = !single;
        let (mut attempt, mut replanned) = (0, false);
        let keeps = self.keeps_history();
        let digest = keeps.then(|| Box::new(self.history.digest()));
        let mut sink = ResumingSink::new(sink, digest);
        loop {
            portal.transaction = Some(self.transaction);
            self.scratch.routines.notices.clear();
            self.scratch.routines.on_commit.clear();
            self.scratch.routines.portals.back_to(portals);
            let line = RowLockMode {
                intents: intents || attempt >= ATTEMPTS_BEFORE_INTENTS,
                yields: single && attempt < ATTEMPTS_MAX,
                renews,
            };
            let ran = self.attempt(portal, max_rows, &mut sink, last, line);
            let mut result = ran.await;
            if let Some(id) = self.wanted_range(&result) {
                sink.resume();
                renews = false;
                match self.take_range(id).await {
                    // A dropped sequence may have been created again under its name.
                    Err(halt) if !replanned && is_undefined(&halt) => {
                        replanned = true;
                        Box::pin(self.replan(portal)).await?;
                    }
                    taken => taken?,
                }
                portal.restart();
                continue;
            }
            if let Err(halt) = result {
                result = Err(self.doubted(halt).await);
            }
            let complete = matches!(result, Ok(Completion::Complete(_)));
            if complete
                && last
                && self.block == Block::Implicit
                && let Err(halt) = self.commit_transaction().await
            {
                result = Err(halt);
            }
            match result.map_err(|halt| self.of_member(halt)) {
                Err(halt) if alone && attempt < ATTEMPTS_MAX && self.can_run_again(&halt) => {
                    if !sink.rewind() {
                        return Err(halt);
                    }
                    self.cancel.check()?;
                    Box::pin(back_off(attempt)).await;
                    attempt += 1;
                    intents |= halt.is_held_by_intent();
                    self.note_conflict(&halt, &portal.prepared.planned).await;
                    self.eval.sequences.rewind();
                    self.locks.give_back();
                    self.abort_to_run_again(&halt).await?;
                    self.enter();
                    portal.restart();
                }
                Err(halt) if self.may_replay(&halt) => {
                    if !sink.rewind() {
                        return Err(halt);
                    }
                    let Some(drawn) = self.eval.sequences.drawn() else {
                        return Err(halt);
                    };
                    let planned = Arc::clone(&portal.prepared.planned);
                    self.locks.give_back();
                    self.replay(halt, Some(&planned)).await?;
                    self.eval.sequences.begin_again(&drawn);
                    portal.restart();
                }
                Ok(done) => {
                    if self.transaction == begun {
                        self.statements += 1;
                    }
                    if let Some(digest) = sink.digest() {
                        self.note_result(portal, digest, &done);
                    }
                    self.eval.sequences.end();
                    return Ok(done);
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Adds the statement of a portal and the digest of its result to the history.
    fn note_result(&mut self, portal: &Portal, digest: &RowDigest, done: &Completion) {
        match done {
            Completion::Complete(tag) => {
                let (began, result) = (self.eval.statement_start, digest.result(*tag));
                self.history.note(portal, began, result, &self.eval);
            }
            Completion::Suspended | Completion::Empty | Completion::CopyIn(_) => {
                self.history.lose();
            }
        }
    }

    /// Runs a portal to its end, but sends only the rows that are requested.
    fn run_ahead<'a>(
        &'a mut self,
        portal: &'a mut Portal,
        max_rows: usize,
        sink: &'a mut dyn RowSink,
    ) -> Work<'a, Result<Completion, StatementStop>> {
        Box::pin(async move {
            if portal.ahead.is_none() {
                let mut rows = MaterializedRows::new(&self.db.machine);
                let mut keeping = MaterializedRowsSink::of(&mut rows);
                Box::pin(self.run_plan(portal, 0, &mut keeping, false)).await?;
                portal.ahead = Some(Box::new(UnsentRows { rows, given: 0 }));
            }
            let Some(ahead) = &mut portal.ahead else {
                return Err(SqlError::internal("no rows are made ahead").into());
            };
            let mut given = 0;
            while given < max_rows
                && let Some(row) = ahead.rows.get(ahead.given + 1)
            {
                sink.row(row)?;
                given += 1;
                ahead.given += 1;
            }
            ahead.rows.pass(ahead.given);
            Ok(match ahead.given < ahead.rows.last() {
                true => Completion::Suspended,
                false => Completion::Complete(Tag::counted("SELECT", given as u64)),
            })
        })
    }

    /// Converts a retryable failure on an evicted machine, because no retry can succeed there.
    fn of_member(&self, halt: StatementStop) -> StatementStop {
        match halt {
            StatementStop::Stop(Stop::Retry(_)) if self.db.machine.is_evicted() => {
                StatementStop::Stop(Stop::NotMember)
            }
            halt => halt,
        }
    }

    /// Runs a portal's plan once in the open transaction.
    pub(super) async fn attempt(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
        line: RowLockMode,
    ) -> Result<Completion, StatementStop> {
        let mut planned = portal.prepared.current();
        let Body::Plan(plan, _) = &planned.body else {
            return Err(SqlError::internal("not a plan").into());
        };
        if self.modes.read_only && plan.is_write() {
            return Err(SqlError::read_only(plan.command()).into());
        }
        if self.modes.read_only && plan.locks_rows() {
            return Err(SqlError::read_only("SELECT FOR UPDATE").into());
        }
        let alone = last && max_rows == 0 && self.block == Block::Implicit && self.statements == 0;
        // The snapshot must be later than the wait.
        let waited = !self.lock_tables_at_once(&planned);
        if waited {
            self.lock_tables_of(&planned).await?;
        }
        if line.renews && (waited || portal.needs_snapshot()) {
            self.renew_snapshot().await?;
        }
        self.begin_transaction(alone && plan.is_snapshot_read(), alone);
        if let Some(tx) = &mut self.tx {
            tx.set_yielding(line.yields);
        }
        if plan.is_write() {
            self.writer = planned.number;
        }
        for _ in 0..PLANS_MAX {
            // A portal that has started was allowed to run.
            let allowed = planned.names == self.eval.names || portal.execution.has_begun();
            if allowed && self.guard(&planned).await? && self.guard_routines(&planned).await? {
                return self
                    .run_guarded(&planned, portal, max_rows, sink, line.intents)
                    .await;
            }
            if portal.execution.has_begun() {
                // The table has changed under an open portal, so the portal cannot continue.
                return Err(StatementStop::Stale);
            }
            planned = self.plan_again(&planned, &portal.prepared).await?;
            self.lock_tables_of(&planned).await?;
            portal.prepared.replace(&planned);
            refit(&mut portal.params, &planned.params, &self.eval)?;
            self.keep_again(&planned, &portal.prepared);
        }
        Err(StatementStop::Stale)
    }

    /// Adds the guards of a plan's tables, types and views to the read set. Returns false if one of
    /// them has another version than the plan (SES-2).
    pub(super) async fn guard(
        &mut self,
        planned: &PlannedStatement,
    ) -> Result<bool, StatementStop> {
        let (Some(tx), Body::Plan(_, used)) = (&mut self.tx, &planned.body) else {
            return Err(SqlError::internal("no transaction, or no plan").into());
        };
        let hold = used.others;
        let catalog = Some(&*self.served.catalog);
        if !planned.depends.hold(tx, catalog, hold).await? {
            return Ok(false);
        }
        for (table, hold) in used.guarded() {
            if !guard_table(tx, table, hold).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does the same as [`Session::guard`], for the users' functions that a plan calls.
    async fn guard_routines(&mut self, planned: &PlannedStatement) -> Result<bool, StatementStop> {
        let (Some(tx), Body::Plan(plan, used)) = (&mut self.tx, &planned.body) else {
            return Err(SqlError::internal("no transaction, or no plan").into());
        };
        for routine in plan.routines() {
            if !guard_routine(tx, routine, used.others).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn run_guarded(
        &mut self,
        planned: &PlannedStatement,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        intents: bool,
    ) -> Result<Completion, StatementStop> {
        let Body::Plan(plan, _) = &planned.body else {
            return Err(SqlError::internal("not a plan").into());
        };
        if let Plan::CopyIn(copy) = &**plan {
            return self.begin_copy(copy).map_err(StatementStop::Error);
        }
        let mut parts = None;
        if plan.split().is_some() && max_rows == 0 && !portal.execution.has_begun() {
            parts = self.parts_of(planned, &portal.params).await?;
        }
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        if planned.is_volatile {
            self.locks.begin();
        }
        // The future is large, so it is pinned where it is created.
        let progress = {
            let mut cx = cx(
                tx,
                &portal.params,
                &self.eval,
                &self.cancel,
                &mut self.scratch,
                self.deadline,
                intents,
            );
            cx.parts = parts;
            cx.deferred = Some(&mut self.deferred);
            // A statement that draws from sequences may have to be repeated.
            let before = planned.is_volatile.then(|| cx.tx.savepoint());
            let run = portal.execution.run(plan, &mut cx, sink, max_rows);
            let progress = match planned.deep.is_deep() {
                true => {
                    let work = pin!(polled(run));
                    interruptible(&self.cancel, self.deadline, work).await
                }
                false => {
                    let work = pin!(run);
                    interruptible(&self.cancel, self.deadline, work).await
                }
            };
            if let Some(before) = before {
                let again =
                    matches!(&progress, Err(StatementStop::Error(e)) if wanted_range(e).is_some());
                if again {
                    cx.tx.rollback_to(&before);
                }
                cx.tx.release(before);
            }
            let progress = progress?;
            if let Some(parts) = cx.parts {
                self.came = parts.came();
            }
            progress
        };
        self.take_set_config()?;
        if planned.is_volatile {
            self.set_sequences().await?;
            let warnings = self.eval.take_warnings().into_iter();
            self.notices.extend(warnings.map(Notice::of_warning));
        }
        Ok(match progress {
            Progress::Done(count) => Completion::Complete(plan.tag(count)),
            Progress::Suspended => Completion::Suspended,
        })
    }

    fn begin_copy(&mut self, copy: &Copy) -> Result<Completion, SqlError> {
        let input = CopyInput::new(copy)?;
        Ok(Completion::CopyIn(CopyIn::new(input, self.transaction)))
    }
}

/// Converts enum values to the current definition of their types. A value whose label has been
/// renamed is an error.
pub(super) fn refit(
    values: &mut [Value],
    types: &[Type],
    eval: &EvalContext,
) -> Result<(), SqlError> {
    for (value, ty) in values.iter_mut().zip(types) {
        if ty.kind.is_users() {
            *value = assign(std::mem::take(value), &Type::UNKNOWN, ty, eval)?;
        }
    }
    Ok(())
}

/// Runs `work` to its end, or to the first poll after a cancel or the deadline. A statement that
/// waits for a row lock, or for its client to read rows, does not check them itself.
pub(super) async fn interruptible<T>(
    cancel: &CancelFlag,
    deadline: Option<Instant>,
    mut work: Pin<&mut impl Future<Output = Result<T, StatementStop>>>,
) -> Result<T, StatementStop> {
    poll_fn(|task| {
        let done = work.as_mut().poll(task);
        if done.is_pending() {
            cancel.watch(task.waker());
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                cancel.time_out();
            }
            cancel.check()?;
        }
        done
    })
    .await
}

/// Yields to other tasks of the thread, more often with each attempt.
pub(crate) async fn back_off(attempt: u32) {
    let mut yields = 1u32 << attempt.min(6);
    poll_fn(|task| {
        if yields == 0 {
            return Poll::Ready(());
        }
        yields -= 1;
        std::thread::yield_now();
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
