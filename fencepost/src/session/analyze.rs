//! ANALYZE in a session.

use std::pin::pin;

use fencepost_planner::run_analyze;
use fencepost_sql::bound::AnalyzedTargets;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;

use super::run::interruptible;
use super::{ATTEMPTS_MAX, Block, Session, cx};

/// The position of a statement in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPosition {
    /// The last statement, which commits outside a block.
    Last,
    /// Another statement.
    Inner,
}

impl From<bool> for RequestPosition {
    /// Returns the position of a statement that `last` says to be the last one.
    fn from(last: bool) -> RequestPosition {
        if last {
            RequestPosition::Last
        } else {
            RequestPosition::Inner
        }
    }
}

impl Session {
    /// Executes ANALYZE. Statements that are planned afterwards use the new statistics.
    pub(super) async fn analyze(
        &mut self,
        targets: &AnalyzedTargets,
        position: RequestPosition,
    ) -> Result<(), StatementStop> {
        self.enter();
        if self.modes.read_only {
            return Err(SqlError::read_only("ANALYZE").into());
        }
        let is_first = self.block != Block::Explicit && self.statements == 0;
        let mut attempt = 0;
        loop {
            let mut result = self.analyze_once(targets).await;
            let is_last = position == RequestPosition::Last;
            if result.is_ok() && is_last && self.block == Block::Implicit {
                result = self.commit_transaction().await;
            }
            match result {
                Ok(()) => {
                    self.statements += 1;
                    self.served.plans.clear();
                    return Ok(());
                }
                Err(halt) if halt.is_retryable() && is_first && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    self.abort_unseen();
                    self.enter();
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    async fn analyze_once(&mut self, targets: &AnalyzedTargets) -> Result<(), StatementStop> {
        self.begin_statement(false).await?;
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        let mut cx = cx(
            tx,
            &[],
            &self.eval,
            &self.cancel,
            &mut self.scratch,
            self.deadline,
            true,
        );
        let work = run_analyze(targets, &mut cx);
        interruptible(&self.cancel, self.deadline, pin!(work)).await
    }
}
