//! The session's functions for split statements ([`crate::ship`]): collecting parts, and running
//! one.

use std::pin::pin;
use std::sync::Arc;

use fencepost_planner::{Plan, RemoteParts, RowSink, run_part};
use fencepost_sql::counts::Event;
use fencepost_sql::error::SqlError;
use fencepost_sql::settings::ShipMode;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::{Mode, Work};

use super::run::interruptible;
use super::{Session, cx};
use crate::prepared::{Body, PlannedStatement, PreparedStatement};
use crate::ship::{Part, PartSink, PartitionsByMachine, ShippedParts, spread};

impl Session {
    /// Returns the machines among which a statement would be split, or `None` if all of it runs
    /// here. The transaction must be one that `only_reads`, because remote reads cannot be
    /// validated. A statement of another machine's session is not split again.
    pub(super) fn spread_of(
        &self,
        planned: &PlannedStatement,
        only_reads: bool,
    ) -> Option<PartitionsByMachine> {
        let shipping = self.eval.settings.shipping;
        if shipping == ShipMode::Off
            || self.db.ship.is_none()
            || self.serves
            || planned.is_volatile
            || planned.is_bound_here
            || !only_reads
        {
            return None;
        }
        spread(plan_of(planned)?, shipping, &self.db.machine)
    }

    /// Returns the parts of a statement of the open transaction that other machines have to run.
    pub(super) fn parts_of<'a>(
        &'a mut self,
        planned: &'a PlannedStatement,
        params: &'a [Value],
    ) -> Work<'a, Result<Option<Box<dyn RemoteParts>>, StatementStop>> {
        Box::pin(async move {
            let only_reads = |tx: &fencepost_txn::Transaction| tx.mode() == Mode::ReadOnly;
            let only_reads = self.tx.as_ref().is_some_and(only_reads);
            let (Some(plan), Some(ship)) = (plan_of(planned), self.shipper()) else {
                return Ok(None);
            };
            let roots = plan.split_roots().unwrap_or_default();
            if !only_reads || self.db.machine.meet(&roots).await.is_err() {
                return Ok(None);
            }
            let (Some(split), Some(fingerprint)) = (plan.split(), plan.fingerprint()) else {
                return Ok(None);
            };
            let (Some(spread), Some(tx)) = (self.spread_of(planned, only_reads), &mut self.tx)
            else {
                return Ok(None);
            };
            let part = Part {
                r: tx.share_snapshot().await?,
                transaction_start: self.eval.transaction_start,
                statement_start: self.eval.statement_start,
                fingerprint,
                partitions: Vec::new(),
            };
            let what = (planned, params, &split.columns[..]);
            let gathering = ShippedParts::of(ship, self, what, (spread, &part));
            Ok(gathering.map(|gathering| Box::new(gathering) as Box<dyn RemoteParts>))
        })
    }

    /// Runs a part of a statement of another machine's session. Returns the number of its rows, or
    /// `None` if the part cannot run here.
    ///
    /// # Errors
    /// The error of the statement.
    pub(crate) async fn run_part(
        &mut self,
        prepared: &PreparedStatement,
        params: &[Value],
        part: &Part,
        sink: &mut PartSink,
    ) -> Result<Option<u64>, SqlError> {
        self.start_statement();
        self.enter();
        self.eval.transaction_start = part.transaction_start;
        self.eval.statement_start = part.statement_start;
        let mut tx = self.coordinator.begin_at(part.r);
        tx.set_synchronous(self.eval.settings.synchronous_commit);
        self.unsettled = false;
        self.tx = Some(tx);
        let mut ended = self.run_part_at(prepared, params, part, sink).await;
        if ended.is_ok()
            && let Err(halt) = self.commit_transaction().await
        {
            ended = Err(halt);
        }
        // Statistics count only the sender's transaction.
        if ended.is_ok() {
            self.scratch.counting.event(Event::Commits, u64::MAX);
        }
        match ended {
            Ok(count) => Ok(count),
            Err(halt @ StatementStop::Error(_)) => Err(self.fail_with(halt).await),
            Err(StatementStop::Stop(_) | StatementStop::Stale) => {
                self.fail();
                Ok(None)
            }
        }
    }

    /// Runs the part in the open transaction.
    async fn run_part_at(
        &mut self,
        prepared: &PreparedStatement,
        params: &[Value],
        part: &Part,
        sink: &mut PartSink,
    ) -> Result<Option<u64>, StatementStop> {
        let mut planned = match &prepared.planned.body {
            Body::Explain {
                planned: Some(planned),
                ..
            } => Arc::clone(planned),
            _ => Arc::clone(&prepared.planned),
        };
        if plan_of(&planned).is_none() {
            return Ok(None);
        }
        if !self.guard(&planned).await? {
            planned = match self.plan_anew(&planned).await {
                // The sender has planned the statement, and reports planning errors itself.
                Err(StatementStop::Error(_)) => return Ok(None),
                planned => planned?,
            };
            if plan_of(&planned).is_none() || !self.guard(&planned).await? {
                return Ok(None);
            }
            self.keep(&planned);
        }
        let (Some(plan), Some(tx)) = (plan_of(&planned), &mut self.tx) else {
            return Ok(None);
        };
        let Some(split) = plan
            .split()
            .filter(|_| plan.fingerprint() == Some(part.fingerprint))
        else {
            return Ok(None);
        };
        sink.begin(&split.columns);
        let mut cx = cx(
            tx,
            params,
            &self.eval,
            &self.cancel,
            &mut self.scratch,
            self.deadline,
            false,
        );
        cx.part = Some(part.partitions.clone());
        let sink: &mut dyn RowSink = sink;
        let work = pin!(run_part(plan, &mut cx, sink));
        let count = interruptible(&self.cancel, self.deadline, work).await?;
        Ok(Some(count))
    }
}

fn plan_of(planned: &PlannedStatement) -> Option<&Plan> {
    match &planned.body {
        Body::Plan(plan, _) => Some(plan),
        _ => None,
    }
}
