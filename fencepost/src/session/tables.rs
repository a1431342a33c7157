//! Table locks of statements, and new plans after a table has changed.
//!
//! ```text
//! simple query:  bind ─► await_tables ─► the client gets the columns ─► run
//! all others:    bind ─► the client gets the columns ─► run: lock_tables_of, then guard
//! ```
//! PostgreSQL locks the tables of a simple query before it reads their columns. So a query that has
//! waited for DDL has the new columns of the table.
//!
//! *Failure.* A statement that closes a cycle of waits ends with 40P01, and `lock_timeout` ends it
//! with 55P03. The locks end with the transaction.

use std::pin::pin;
use std::sync::Arc;

use fencepost_sql::binder::ParamTypes;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_txn::Work;

use super::run::interruptible;
use super::{Block, Session};
use crate::prepare_pipeline::{parse_single, plan_statement};
use crate::prepared::{Body, Column, PlannedStatement, PreparedStatement};

impl Session {
    /// Returns whether a simple query must call [`Self::await_tables`] before its columns are
    /// reported.
    #[inline]
    pub fn waits_for_tables(&self, prepared: &PreparedStatement) -> bool {
        match &prepared.planned.body {
            Body::Plan(_, used) => {
                let database = self.served.catalog.database();
                self.locks.waits_for(database, &used.locks)
            }
            Body::Empty
            | Body::Explain { .. }
            | Body::ExplainExecute { .. }
            | Body::Declare(_)
            | Body::Utility(_) => false,
        }
    }

    /// Locks the tables of a simple query, and prepares it again, because they may have changed
    /// meanwhile.
    ///
    /// # Errors
    /// 40P01 if this request closes a cycle of waits; 55P03 after `lock_timeout`; 57014 when the
    /// statement is cancelled; errors of preparing the statement.
    pub async fn await_tables(
        &mut self,
        prepared: &PreparedStatement,
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        self.start_statement();
        self.enter();
        match self.prepare_after_wait(prepared).await {
            Ok(prepared) => Ok(prepared),
            Err(halt) => Err(self.fail_with(halt).await),
        }
    }

    async fn prepare_after_wait(
        &mut self,
        prepared: &PreparedStatement,
    ) -> Result<Arc<PreparedStatement>, StatementStop> {
        let alone = self.block == Block::Implicit && self.statements == 0;
        self.lock_tables_of(&prepared.planned).await?;
        self.begin_statement(alone).await?;
        let again = self.plan_anew(&prepared.planned).await?;
        self.keep_again(&again, prepared);
        Ok(PreparedStatement::new(again, prepared.literals.clone()))
    }

    /// Locks the tables of a plan until the transaction ends, if no lock needs a wait. Returns
    /// whether all are locked; if not, [`Self::lock_tables_of`] waits for them.
    #[inline]
    pub(super) fn lock_tables_at_once(&self, planned: &PlannedStatement) -> bool {
        let Body::Plan(_, used) = &planned.body else {
            return true;
        };
        let database = self.served.catalog.database();
        self.locks.use_at_once(database, &used.locks)
    }

    /// Locks the tables of a plan until the transaction ends.
    #[cold]
    pub(super) fn lock_tables_of<'a>(
        &'a mut self,
        planned: &'a PlannedStatement,
    ) -> Work<'a, Result<(), StatementStop>> {
        Box::pin(async move {
            let Body::Plan(_, used) = &planned.body else {
                return Ok(());
            };
            let database = self.served.catalog.database();
            let locks = Arc::clone(&self.locks);
            let had = async { Ok(locks.use_tables(database, &used.locks).await?) };
            interruptible(&self.cancel, self.deadline, pin!(had)).await
        })
    }

    /// Plans a statement on the catalog that the transaction sees. Fails if its columns differ
    /// from the columns that the client knows.
    pub(super) fn plan_again<'a>(
        &'a mut self,
        planned: &'a PlannedStatement,
        prepared: &'a PreparedStatement,
    ) -> Work<'a, Result<Arc<PlannedStatement>, StatementStop>> {
        Box::pin(async move {
            let again = match prepared.is_named() {
                true => self.plan_named(planned).await?,
                false => self.plan_anew(planned).await?,
            };
            if !same_shape(again.columns.as_deref(), planned.columns.as_deref()) {
                // The plan is right for the next session that parses the text.
                self.keep_again(&again, prepared);
                return Err(SqlError::plan_changed().into());
            }
            Ok(again)
        })
    }

    /// Plans a statement on the catalog that the transaction sees.
    pub(super) fn plan_anew<'a>(
        &'a mut self,
        planned: &'a PlannedStatement,
    ) -> Work<'a, Result<Arc<PlannedStatement>, StatementStop>> {
        self.plan_by(planned, &|types| types)
    }

    /// Stores the new plan of a statement for other sessions. A plan is not shared if its literals
    /// may have kept an older meaning.
    pub(super) fn keep_again(&self, planned: &Arc<PlannedStatement>, prepared: &PreparedStatement) {
        if !prepared.is_named() || planned.depends.types().is_empty() {
            self.keep(planned);
        }
    }

    /// Does the same as [`Session::plan_anew`], for a named statement, whose literals keep their
    /// values.
    fn plan_named<'a>(
        &'a mut self,
        planned: &'a PlannedStatement,
    ) -> Work<'a, Result<Arc<PlannedStatement>, StatementStop>> {
        self.plan_by(planned, &ParamTypes::bound_before)
    }

    fn plan_by<'a>(
        &'a mut self,
        planned: &'a PlannedStatement,
        params: &'a (dyn Fn(ParamTypes) -> ParamTypes + Send + Sync),
    ) -> Work<'a, Result<Arc<PlannedStatement>, StatementStop>> {
        Box::pin(async move {
            let Some(tx) = &mut self.tx else {
                return Err(SqlError::internal("no transaction").into());
            };
            let snapshot = self.served.catalog.snapshot(tx).await?;
            let Some(tree) = parse_single(&planned.text)? else {
                return Err(SqlError::internal("a plan without a text").into());
            };
            let types = params(ParamTypes::declared_in(planned.params.clone(), &snapshot));
            let mut again = plan_statement(tree, &snapshot, (types, &[]), &self.eval)?;
            // The key belongs to another role's plan, so this plan is not stored under it.
            again.key = planned.key.clone().filter(|_| planned.names == again.names);
            Ok(match &again.body {
                Body::Declare(declared) => Arc::clone(&declared.planned),
                Body::Explain {
                    planned: Some(explained),
                    ..
                } => Arc::clone(explained),
                _ => Arc::new(again),
            })
        })
    }
}

/// Returns whether two results have the same column names and types.
fn same_shape(a: Option<&[Column]>, b: Option<&[Column]>) -> bool {
    let shape = |columns: &[Column]| -> Vec<(String, Type)> {
        columns.iter().map(|c| (c.name.clone(), c.ty)).collect()
    };
    a.map(shape) == b.map(shape)
}
