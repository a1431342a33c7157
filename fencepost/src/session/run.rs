//! Running portals: plans in transactions, with the retries that a client never sees.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use fencepost_planner::{CancelFlag, CopyInput, Execution, Plan, Progress, RowSink, TablePlan};
use fencepost_sql::binder::ParamTypes;
use fencepost_sql::bound::Copy;
use fencepost_sql::catalog::guard_table;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::sequences::wanted_range;
use fencepost_sql::stop::Halt;
use fencepost_sql::types::Type;
use fencepost_txn::Stop;

use super::copy::CopyIn;
use super::protocol::{Completion, block_failed};
use super::{Block, Session, cx};
use crate::front::{parse_single, plan_statement};
use crate::prepared::{Body, Column, Planned, Portal};

/// Runs of what may be run again unseen before its conflict is the client's.
pub(crate) const ATTEMPTS_MAX: u32 = 64;
/// From this attempt on a statement queues for its rows as those of a block do.
const ATTEMPTS_BEFORE_INTENTS: u32 = 2;
/// Plans of one statement before a catalog that keeps changing is the client's.
const PLANS_MAX: u32 = 8;

/// How a run of a statement stands in line for rows.
#[derive(Clone, Copy)]
struct Line {
    /// It takes intents.
    intents: bool,
    /// It gives way to others, and is run again.
    yields: bool,
}

impl Session {
    /// Runs a portal on, giving at most `max_rows` rows (0: all) to `sink`. The implicit
    /// transaction stays open for the statements up to the next [`Session::sync`].
    pub async fn run(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, SqlError> {
        self.run_portal(portal, max_rows, sink, false).await
    }

    /// As [`Session::run`], for the last statement before a sync: outside a block it has committed
    /// when this returns, and conflicts are dealt with unseen as long as `sink` can rewind.
    pub async fn run_last(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, SqlError> {
        self.run_portal(portal, max_rows, sink, true).await
    }

    async fn run_portal(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, SqlError> {
        if self.block == Block::Failed && !portal.prepared.ends_block() {
            return Err(block_failed());
        }
        self.start_statement();
        let prepared = Arc::clone(&portal.prepared);
        let result = match &prepared.planned.body {
            Body::Empty => Ok(Completion::Empty),
            Body::Plan(..) => self.run_plan(portal, max_rows, sink, last).await,
            Body::Utility(statement) => {
                Box::pin(self.run_utility(statement, portal, max_rows, sink, last)).await
            }
            Body::Explain { planned, analyze } => {
                Box::pin(self.run_explain(planned.as_ref(), *analyze, portal, sink, last)).await
            }
        };
        let result = match result {
            // SES-5
            Ok(done) if self.tx.is_some() && !self.db.machine.is_answering() => {
                let told = Box::pin(self.db.machine.admitted()).await;
                told.map(|()| done).map_err(Halt::Stop)
            }
            result => result,
        };
        match result {
            Ok(done) => Ok(done),
            Err(halt) => Err(Box::pin(self.fail_with(halt)).await),
        }
    }

    /// Runs a portal of a plan, again and again where conflicts allow it (SES-1).
    pub(super) async fn run_plan(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, Halt> {
        if portal.transaction.is_some_and(|t| t != self.transaction) {
            return Err(
                SqlError::new(SqlState::INVALID_CURSOR_NAME, "the portal is closed").into(),
            );
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
        let alone = self.block == Block::Implicit && self.statements == 0;
        let begun = self.transaction;
        // A statement that commits at once, and is run again if it does not, takes no intents itself.
        let single = alone && last;
        let mut intents = !single;
        let mut attempt = 0;
        loop {
            portal.transaction = Some(self.transaction);
            let line = Line {
                intents: intents || attempt >= ATTEMPTS_BEFORE_INTENTS,
                yields: single && attempt < ATTEMPTS_MAX,
            };
            let mut result = self.attempt(portal, max_rows, sink, last, line).await;
            if let Some(id) = self.wanted_range(&result)
                && sink.rewind()
            {
                Box::pin(self.take_range(id, true)).await?;
                portal.execution = Execution::default();
                continue;
            }
            if let Err(halt) = result {
                result = Err(Box::pin(self.doubted(halt)).await);
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
                Err(halt) if halt.is_retryable() && alone && attempt < ATTEMPTS_MAX => {
                    if !sink.rewind() {
                        return Err(halt);
                    }
                    self.cancel.check()?;
                    Box::pin(back_off(attempt)).await;
                    attempt += 1;
                    intents |= halt.is_held_by_intent();
                    self.eval.sequences.give_back();
                    self.abort_to_run_again(&halt);
                    self.enter();
                    portal.execution = Execution::default();
                }
                Ok(done) => {
                    if self.transaction == begun {
                        self.statements += 1;
                    }
                    return Ok(done);
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    /// What cannot be done because this machine is no member any more succeeds at no other attempt.
    fn of_member(&self, halt: Halt) -> Halt {
        match halt {
            Halt::Stop(Stop::Retry(_)) if self.db.machine.is_evicted() => {
                Halt::Stop(Stop::NotMember)
            }
            halt => halt,
        }
    }

    /// One run of a portal's plan in the open transaction.
    async fn attempt(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
        line: Line,
    ) -> Result<Completion, Halt> {
        let mut planned = portal.prepared.current();
        let Body::Plan(plan, _) = &planned.body else {
            return Err(SqlError::internal("not a plan").into());
        };
        if self.modes.read_only && plan.is_write() {
            return Err(read_only(plan.command()).into());
        }
        let alone = last && max_rows == 0 && self.block == Block::Implicit && self.statements == 0;
        self.begin_transaction(alone && plan.is_snapshot_read());
        if let Some(tx) = &mut self.tx {
            tx.set_yielding(line.yields);
        }
        for _ in 0..PLANS_MAX {
            let Body::Plan(_, tables) = &planned.body else {
                return Err(SqlError::internal("not a plan").into());
            };
            if self.guard(tables).await? {
                return self
                    .run_guarded(&planned, portal, max_rows, sink, line.intents)
                    .await;
            }
            if portal.execution.has_begun() {
                // The table changed under an open portal: there is no going on with it.
                return Err(Halt::Stale);
            }
            planned = Box::pin(self.plan_again(&planned)).await?;
            portal.prepared.replace(&planned);
            self.keep(&planned);
        }
        Err(Halt::Stale)
    }

    /// Puts the tables' guards into the read set; false where one is not as it was planned with
    /// (SES-2).
    pub(super) async fn guard(&mut self, tables: &[Arc<TablePlan>]) -> Result<bool, Halt> {
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        for table in tables {
            if !guard_table(tx, &table.def).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Plans a statement on the catalog as the transaction sees it, for a client that knows its columns.
    async fn plan_again(&mut self, planned: &Planned) -> Result<Arc<Planned>, Halt> {
        let again = self.plan_anew(planned).await?;
        if !same_shape(again.columns.as_deref(), planned.columns.as_deref()) {
            // It is right for whoever parses the text next.
            self.keep(&again);
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            )
            .into());
        }
        Ok(again)
    }

    /// Plans a statement on the catalog as the transaction sees it.
    pub(super) async fn plan_anew(&mut self, planned: &Planned) -> Result<Arc<Planned>, Halt> {
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        let snapshot = self.db.catalog.snapshot(tx).await?;
        let Some(tree) = parse_single(&planned.text)? else {
            return Err(SqlError::internal("a plan without a text").into());
        };
        let types = ParamTypes::declared(planned.params.clone());
        let mut again = plan_statement(tree, &snapshot, types, &self.eval)?;
        again.key = planned.key.clone();
        Ok(Arc::new(again))
    }

    async fn run_guarded(
        &mut self,
        planned: &Planned,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        intents: bool,
    ) -> Result<Completion, Halt> {
        let Body::Plan(plan, _) = &planned.body else {
            return Err(SqlError::internal("not a plan").into());
        };
        if let Plan::CopyIn(copy) = &**plan {
            return self.begin_copy(copy).map_err(Halt::Error);
        }
        let mut parts = None;
        if plan.split().is_some() && max_rows == 0 && !portal.execution.has_begun() {
            parts = Box::pin(self.parts_of(planned, &portal.params)).await?;
        }
        if planned.is_volatile {
            self.eval.sequences.begin();
        }
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        // Pinned where it is made: it is long.
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
            // A statement that draws from sequences may have to be run again.
            let before = planned.is_volatile.then(|| cx.tx.savepoint());
            let progress = {
                let work = pin!(portal.execution.run(plan, &mut cx, sink, max_rows));
                interruptible(&self.cancel, self.deadline, work).await
            };
            if let Some(before) = before {
                let again = matches!(&progress, Err(Halt::Error(e)) if wanted_range(e).is_some());
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
            Box::pin(self.set_sequences()).await?;
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

/// Do two results have the same names and types?
fn same_shape(a: Option<&[Column]>, b: Option<&[Column]>) -> bool {
    let shape = |columns: &[Column]| -> Vec<(String, Type)> {
        columns.iter().map(|c| (c.name.clone(), c.ty)).collect()
    };
    a.map(shape) == b.map(shape)
}

/// Runs `work` to its end, or to the poll that follows a cancel or the deadline: a statement that
/// waits in line for a row, or for its client to take rows, does not look at them itself.
pub(super) async fn interruptible<T>(
    cancel: &CancelFlag,
    deadline: Option<Instant>,
    mut work: Pin<&mut impl Future<Output = Result<T, Halt>>>,
) -> Result<T, Halt> {
    poll_fn(|task| {
        let done = work.as_mut().poll(task);
        if done.is_pending() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                cancel.time_out();
            }
            cancel.check()?;
        }
        done
    })
    .await
}

/// 25006
pub(super) fn read_only(command: &str) -> SqlError {
    SqlError::new(
        SqlState::READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {command} in a read-only transaction"),
    )
}

/// Lets other tasks of the thread run, longer from attempt to attempt.
pub(crate) async fn back_off(attempt: u32) {
    let mut turns = 1u32 << attempt.min(6);
    poll_fn(|task| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        std::thread::yield_now();
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
