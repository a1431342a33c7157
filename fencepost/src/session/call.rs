//! CALL and DO: routines that may end transactions.
//!
//! A routine that forms a whole transaction may use COMMIT and ROLLBACK, and continues in the next
//! transaction. Before its first COMMIT or ROLLBACK it is retried transparently after a conflict,
//! like any statement (SES-1). After that, conflicts are errors that the routine has to handle.

use std::pin::pin;
use std::sync::Arc;

use fencepost_planner::{CallState, Procedure, RowSink, Tag};
use fencepost_sql::bound::Statement;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::{AbortReason, Stop};

use super::protocol::Completion;
use super::run::{ATTEMPTS_MAX, back_off, interruptible};
use super::{Block, Session, cx};
use crate::prepared::{Body, PlannedStatement, Portal};

/// The number of plans made for one call before the client gets the error of a changing catalog.
const PLANS_MAX: u32 = 8;

impl Session {
    pub(super) async fn run_call(
        &mut self,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, StatementStop> {
        self.enter();
        let alone = last && self.block == Block::Implicit && self.statements == 0;
        let portals = self.scratch.routines.portals.mark();
        let mut attempt = 0;
        self.eval.sequences.begin_in(self.modes.read_only, 0);
        loop {
            self.scratch.routines.notices.clear();
            self.scratch.routines.on_commit.clear();
            self.scratch.routines.portals.back_to(portals);
            self.begin_statement(alone).await?;
            let before = match (&mut self.tx, alone) {
                (Some(tx), false) => Some(tx.savepoint()),
                _ => None,
            };
            let mut ended = false;
            let mut result = self.call_once(portal, alone, &mut ended).await;
            let range = self.wanted_range(&result);
            if let (Some(before), Some(tx)) = (before, &mut self.tx) {
                if range.is_some() {
                    tx.rollback_to(&before);
                }
                tx.release(before);
            }
            if let Some(id) = range {
                self.take_range(id).await?;
                continue;
            }
            if let Err(halt) = result {
                result = Err(self.doubted(halt).await);
            }
            if result.is_ok() {
                self.take_set_config()?;
                self.set_sequences().await?;
                if last && self.block == Block::Implicit {
                    result = self.commit_transaction().await.and(result);
                }
            }
            match result {
                Ok((tag, row)) => {
                    if let Some(row) = row {
                        sink.row(&row)?;
                    }
                    if self.block != Block::Idle {
                        self.statements += 1;
                    }
                    self.eval.sequences.end();
                    return Ok(Completion::Complete(Tag::plain(tag)));
                }
                Err(halt) if halt.is_retryable() && alone && !ended && attempt < ATTEMPTS_MAX => {
                    self.cancel.check()?;
                    Box::pin(back_off(attempt)).await;
                    attempt += 1;
                    self.eval.sequences.rewind();
                    self.abort_to_run_again(&halt).await?;
                    self.enter();
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Runs the routine once; sets `ended` when it ends a transaction.
    async fn call_once(
        &mut self,
        portal: &mut Portal,
        alone: bool,
        ended: &mut bool,
    ) -> Result<(&'static str, Option<Vec<Value>>), StatementStop> {
        let mut planned = portal.prepared.current();
        let mut begun = None;
        for _ in 0..PLANS_MAX {
            match self.begin_call(&planned, &portal.params, alone).await {
                Ok(procedure) => {
                    begun = Some(procedure);
                    break;
                }
                Err(StatementStop::Stale) => planned = self.plan_anew(&planned).await?,
                Err(halt) => return Err(halt),
            }
        }
        let mut procedure = begun.ok_or(StatementStop::Stale)?;
        let tag = match statement(&planned)? {
            Statement::Do(_) => "DO",
            _ => "CALL",
        };
        loop {
            let paused = {
                let Some(tx) = &mut self.tx else {
                    return Err(SqlError::internal("no transaction").into());
                };
                let mut cx = cx(
                    tx,
                    &portal.params,
                    &self.eval,
                    &self.cancel,
                    &mut self.scratch,
                    self.deadline,
                    true,
                );
                cx.deferred = Some(&mut self.deferred);
                let paused = {
                    let work = pin!(procedure.run(&mut cx));
                    interruptible(&self.cancel, self.deadline, work).await
                };
                let held = std::mem::take(&mut cx.held);
                cx.tx.release_memory(held);
                paused?
            };
            let must_roll_back = procedure.must_abort();
            let modes = self.modes;
            let chain = match paused {
                CallState::Done(_) | CallState::Commit { .. } if must_roll_back => {
                    return Err(StatementStop::Stop(Stop::Retry(AbortReason::Requested)));
                }
                CallState::Done(row) => return Ok((tag, row)),
                CallState::Range(id) => {
                    self.take_range(id).await?;
                    continue;
                }
                CallState::Commit { chain } => {
                    self.take_set_config()?;
                    self.set_sequences().await?;
                    *ended = true;
                    self.commit_transaction().await?;
                    chain
                }
                CallState::Rollback { chain } => {
                    *ended = true;
                    self.abort_transaction();
                    self.wait_until_durable().await?;
                    chain
                }
            };
            self.enter();
            if chain {
                self.modes = modes;
            }
            self.begin_transaction(false, alone);
            procedure.renew();
        }
    }

    async fn begin_call(
        &mut self,
        planned: &Arc<PlannedStatement>,
        params: &[Value],
        alone: bool,
    ) -> Result<Procedure, StatementStop> {
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        let mut cx = cx(
            tx,
            params,
            &self.eval,
            &self.cancel,
            &mut self.scratch,
            self.deadline,
            true,
        );
        cx.deferred = Some(&mut self.deferred);
        let work = pin!(Procedure::begin(statement(planned)?, alone, &mut cx));
        interruptible(&self.cancel, self.deadline, work).await
    }
}

fn statement(planned: &PlannedStatement) -> Result<&Statement, SqlError> {
    match &planned.body {
        Body::Utility(statement) => Ok(statement),
        _ => Err(SqlError::internal("not a call")),
    }
}
