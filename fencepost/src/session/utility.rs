//! Statements that change the session or the catalog.

use std::pin::pin;
use std::sync::Arc;

use fencepost_fabric::Random;
use fencepost_planner::{
    DdlCx, RowSink, Tag, await_catalog_lock, command_alone, ddl_command, lock_for_ddl,
    makes_temporary, run_ddl,
};
use fencepost_sql::binder::ParamTypes;
use fencepost_sql::bound::{DiscardKind, Expr, Maintenance, Statement};
use fencepost_sql::catalog::{CHECKPOINT, CatalogView, denied};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{CastContext, assign, cast_context, eval};
use fencepost_sql::notify::{ListenChange, Notification};
use fencepost_sql::parser;
use fencepost_sql::sequences::wanted_range;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::table_locks::TableLocks;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::{Isolation, Work};

use super::analyze::RequestPosition;
use super::protocol::Completion;
use super::run::interruptible;
use super::{Block, Session, cx};
use crate::prepare_pipeline::plan_statement;
use crate::prepared::{Body, PlannedStatement, Portal, PreparedStatement};

/// The largest number of runs of a DDL statement outside a block before the client gets the
/// conflict.
const ATTEMPTS_MAX: u32 = 16;

impl Session {
    pub(super) fn run_utility<'a>(
        &'a mut self,
        statement: &'a Statement,
        portal: &'a mut Portal,
        max_rows: usize,
        sink: &'a mut dyn RowSink,
        last: bool,
    ) -> Work<'a, Result<Completion, StatementStop>> {
        Box::pin(async move {
            let tag = match statement {
                Statement::Begin { start, modes } => self.begin_block(*start, modes)?,
                Statement::Commit { chain } => self.commit_block(*chain).await?,
                Statement::Rollback { chain } => self.rollback_block(*chain).await?,
                Statement::Savepoint(name) => self.savepoint(name)?,
                Statement::Release(name) => self.release(name)?,
                Statement::RollbackTo(name) => self.rollback_to(name).await?,
                Statement::SetTransaction(modes) => {
                    self.in_block_or_warn("SET TRANSACTION");
                    self.enter();
                    self.set_modes(modes)?;
                    "SET"
                }
                Statement::SetSnapshot(name) => {
                    self.in_block_or_warn("SET TRANSACTION");
                    self.enter();
                    self.import_snapshot(name)?;
                    "SET"
                }
                Statement::SetSessionCharacteristics(modes) => {
                    self.set_characteristics(modes)?;
                    "SET"
                }
                Statement::SetConstraints { names, deferred } => {
                    self.in_block_or_warn("SET CONSTRAINTS");
                    self.enter();
                    Box::pin(self.set_constraints(names, *deferred)).await?;
                    "SET CONSTRAINTS"
                }
                Statement::Set(set) => {
                    self.enter();
                    self.set(set)?;
                    "SET"
                }
                Statement::Reset(name) => {
                    self.enter();
                    self.reset(name.as_deref())?;
                    "RESET"
                }
                Statement::Show(name) => {
                    for row in self.show(name)? {
                        sink.row(&row)?;
                    }
                    "SHOW"
                }
                Statement::Prepare {
                    name,
                    param_types,
                    text,
                } => {
                    let prepare = &portal.prepared.planned.text;
                    self.prepare_named(name, param_types, text, prepare)?
                }
                Statement::Execute { name, args } => {
                    return self
                        .execute_named(name, args, portal, max_rows, sink, last)
                        .await;
                }
                Statement::Deallocate(name) => self.deallocate(name.as_deref())?,
                Statement::Discard(kind) => Box::pin(self.discard(*kind)).await?,
                Statement::Fetch(fetch) => {
                    return self.fetch(fetch, &portal.prepared, sink).await;
                }
                Statement::Close(name) => self.close_cursors(name.as_deref())?,
                Statement::Maintenance(maintenance) => {
                    Box::pin(self.maintain(maintenance, last.into())).await?
                }
                Statement::LockTables(locks) => self.lock_tables(locks).await?,
                Statement::Checkpoint => self.checkpoint().await?,
                Statement::AlterSystem(change) => self.alter_system(change)?,
                Statement::DrainMachine(machine) => self.drain_machine(*machine)?,
                Statement::RemoveMachine(machine) => self.remove_machine(*machine).await?,
                Statement::Listen(change) => {
                    self.enter();
                    self.eval.notifications.listen(change.clone());
                    match change {
                        ListenChange::To(_) => "LISTEN",
                        ListenChange::NoMore(_) | ListenChange::ToNothing => "UNLISTEN",
                    }
                }
                Statement::Notify(Notification { channel, payload }) => {
                    self.enter();
                    self.eval.notifications.notify(channel, payload)?;
                    "NOTIFY"
                }
                Statement::Call(_) | Statement::Do(_) => {
                    return self.run_call(portal, sink, last).await;
                }
                other => match ddl_command(other) {
                    Some(command) => {
                        let tag = self.run_ddl(command, portal, last).await?;
                        return Ok(Completion::Complete(tag));
                    }
                    None => return Err(SqlError::internal("unrecognized statement").into()),
                },
            };
            Ok(Completion::Complete(Tag::plain(tag)))
        })
    }

    /// Waits until the memory of dropped tables is free, unless readers still use the tables.
    pub(super) async fn wait_for_reclaimer(&self) -> Result<(), StatementStop> {
        let wait = async {
            self.db.reclaimer.wait_until_idle().await;
            Ok(())
        };
        interruptible(&self.cancel, self.deadline, pin!(wait)).await
    }

    /// Executes VACUUM and other maintenance commands. Returns the tag.
    async fn maintain(
        &mut self,
        maintenance: &Maintenance,
        position: RequestPosition,
    ) -> Result<&'static str, StatementStop> {
        Ok(match maintenance {
            Maintenance::Vacuum { analyzes } => {
                self.outside_block("VACUUM")?;
                self.wait_for_reclaimer().await?;
                self.db.machine.tidy();
                if let Some(targets) = analyzes {
                    self.analyze(targets, position).await?;
                }
                "VACUUM"
            }
            Maintenance::Analyze(targets) => {
                self.analyze(targets, position).await?;
                "ANALYZE"
            }
            Maintenance::Reindex { alone } => {
                if let Some(command) = alone {
                    self.outside_block(command)?;
                }
                "REINDEX"
            }
            Maintenance::Cluster { alone } => {
                if *alone {
                    self.outside_block("CLUSTER")?;
                }
                "CLUSTER"
            }
        })
    }

    /// Executes LOCK TABLE.
    async fn lock_tables(&mut self, wanted: &TableLocks) -> Result<&'static str, StatementStop> {
        self.in_block("LOCK TABLE")?;
        self.enter();
        let had = async { wanted.take(&self.eval).await.map_err(StatementStop::Error) };
        interruptible(&self.cancel, self.deadline, pin!(had)).await?;
        self.begin_transaction(false, false);
        if let Some(tx) = &mut self.tx {
            // The former holder may have changed the table before it released the lock.
            match tx.isolation() {
                Isolation::ReadCommitted => tx.refresh().await?,
                Isolation::RepeatableRead | Isolation::Serializable => tx.freshen().await,
            }
        }
        Ok("LOCK TABLE")
    }

    /// Runs DDL in the open transaction. Binds the statement again if the catalog has changed.
    async fn run_ddl(
        &mut self,
        command: &str,
        portal: &Portal,
        last: bool,
    ) -> Result<Tag, StatementStop> {
        let planned = &portal.prepared.planned;
        if let Body::Utility(statement) = &planned.body
            && let Some(command) = command_alone(statement)
        {
            self.outside_block(command)?;
        }
        self.enter();
        if self.modes.read_only {
            return Err(SqlError::read_only(command).into());
        }
        self.settle_cursors().await?;
        // If the transaction begins with this statement, it has no visible effects, so it may begin
        // again.
        let first = match self.block {
            Block::Explicit => self.tx.is_none(),
            _ => self.statements == 0,
        };
        self.eval.sequences.begin_in(false, 0);
        let mut attempt = 0;
        loop {
            let mut result = self.ddl_attempt(planned, &portal.params).await;
            if let Some(id) = self.wanted_range(&result) {
                self.take_range(id).await?;
                continue;
            }
            if result.is_ok() {
                result = self.set_sequences().await.and(result);
            }
            if let Err(halt) = result {
                result = Err(self.doubted(halt).await);
            }
            if result.is_ok() && last && self.block == Block::Implicit {
                result = self.commit_transaction().await.and(result);
            }
            match result {
                Ok(tag) => {
                    self.statements += 1;
                    self.eval.sequences.end();
                    return Ok(tag);
                }
                Err(halt) if halt.is_retryable() && first && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    match self.block {
                        Block::Explicit => self.begin_anew(),
                        _ => {
                            self.abort_unseen();
                            self.eval.sequences.rewind();
                            self.enter();
                        }
                    }
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Runs a DDL command once, with its tables locked. Its reads must still hold at the commit, at
    /// every isolation level: a new index or constraint holds for all rows. An existing constraint
    /// already checks concurrent writes, so its validation needs only a current snapshot.
    async fn ddl_attempt(
        &mut self,
        planned: &PlannedStatement,
        params: &[Value],
    ) -> Result<Tag, StatementStop> {
        if let Body::Utility(statement) = &planned.body {
            let (catalog, _) = self.snapshot();
            let locked = async {
                let locked = lock_for_ddl(statement, &catalog, &self.eval);
                locked.await.map_err(StatementStop::Error)
            };
            interruptible(&self.cancel, self.deadline, pin!(locked)).await?;
        }
        self.begin_statement(false).await?;
        let is_unnoticed = matches!(&planned.body, Body::Utility(statement)
            if matches!(&**statement, Statement::AlterTable(alter) if alter.keeps_plans()));
        let tx = self.tx.as_ref();
        let renews = tx.is_some_and(|tx| tx.isolation() == Isolation::ReadCommitted);
        if is_unnoticed && renews {
            return self.ddl_command(planned, params).await;
        }
        let level = self.set_isolation(Isolation::Serializable);
        let done = self.ddl_command(planned, params).await;
        self.set_isolation(level);
        done
    }

    async fn ddl_command(
        &mut self,
        planned: &PlannedStatement,
        params: &[Value],
    ) -> Result<Tag, StatementStop> {
        if let Body::Utility(statement) = &planned.body
            && makes_temporary(statement)
        {
            Box::pin(self.open_temporary()).await?;
        }
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
        let lock = await_catalog_lock(&mut cx, &self.served.catalog);
        interruptible(&self.cancel, self.deadline, pin!(lock)).await?;
        let snapshot = self.served.catalog.snapshot(cx.tx).await?;
        let Some(tree) = parser::parse(&planned.text)?.pop() else {
            return Err(SqlError::internal("DDL without a text").into());
        };
        let types = ParamTypes::declared_in(planned.params.clone(), &snapshot);
        let again = plan_statement(tree, &snapshot, (types, &[]), &self.eval)?;
        let Body::Utility(statement) = &again.body else {
            return Err(SqlError::internal("not DDL").into());
        };
        let mut notices = Vec::new();
        let mut ddl = DdlCx {
            catalog: &self.served.catalog,
            snapshot: &snapshot,
            notices: &mut notices,
            rows: None,
            salt: fresh_salt(),
        };
        let deferred = self.deferred.mark();
        cx.deferred = Some(&mut self.deferred);
        let sequences = cx.eval.sequences.mark();
        let before = cx.tx.savepoint();
        let work = run_ddl(statement, &mut cx, &mut ddl);
        let ran = interruptible(&self.cancel, self.deadline, pin!(work)).await;
        if let Err(StatementStop::Error(error)) = &ran
            && wanted_range(error).is_some()
        {
            // The command is repeated in the same transaction.
            cx.tx.rollback_to(&before);
            if let Some(all) = &mut cx.deferred {
                all.back_to(deferred);
            }
            cx.eval.sequences.back_to(sequences);
        }
        cx.tx.release(before);
        let command = ran?;
        let tag = match ddl.rows {
            Some(rows) => Tag::counted("SELECT", rows),
            None => Tag::plain(command),
        };
        let private = self.served.catalog.snapshot(cx.tx).await?;
        self.eval.set_private(Some(private));
        self.notices.append(&mut notices);
        self.note_on_commit(statement, &snapshot);
        self.catalog_changed();
        Ok(tag)
    }

    /// Executes CHECKPOINT: waits until it is on disk. Does nothing in the memory tier.
    async fn checkpoint(&mut self) -> Result<&'static str, StatementStop> {
        let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
        let (catalog, _) = self.snapshot();
        let asking = catalog.role(&self.eval.user)?;
        let security = catalog.security();
        if !asking.is_some_and(|role| security.has_privileges_of(role.id, CHECKPOINT)) {
            return Err(denied(message).into());
        }
        if let Some(wait) = self.db.machine.ask_checkpoint() {
            let taken = pin!(async { Ok(wait.await) });
            interruptible(&self.cancel, self.deadline, taken)
                .await?
                .map_err(|error| {
                    SqlError::new(SqlState::IO_ERROR, "checkpoint request failed")
                        .detail(error.to_string())
                })?;
        }
        Ok("CHECKPOINT")
    }

    /// Returns the statement that EXECUTE names, and the arguments converted to its parameters'
    /// types.
    pub(super) fn arguments(
        &self,
        name: &str,
        args: &[Expr],
        own: &[Value],
    ) -> Result<(Arc<PreparedStatement>, Vec<Value>), SqlError> {
        let prepared = Arc::clone(self.named(name)?);
        let types = self.parameter_types(&prepared);
        if types.len() != args.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!(
                "Expected {} parameters but got {}.",
                types.len(),
                args.len()
            )));
        }
        let mut params = Vec::with_capacity(args.len());
        for (at, (arg, ty)) in args.iter().zip(types.iter()).enumerate() {
            let cast = cast_context(arg.ty.kind, ty.kind);
            if cast.is_none_or(|context| context > CastContext::Assignment) {
                return Err(no_coercion(at + 1, &arg.ty, ty));
            }
            let value = eval(arg, &[], own, &self.eval)?;
            params.push(assign(value, &arg.ty, ty, &self.eval)?);
        }
        Ok((prepared, params))
    }

    async fn execute_named(
        &mut self,
        name: &str,
        args: &[Expr],
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, StatementStop> {
        let (prepared, params) = self.arguments(name, args, &portal.params)?;
        let mut inner = self.bind(&prepared, params)?;
        std::mem::swap(&mut inner.execution, &mut portal.execution);
        inner.transaction = portal.transaction;
        inner.ahead = portal.ahead.take();
        let done = match &prepared.planned.body {
            Body::Plan(..) => self.run_plan(&mut inner, max_rows, sink, last).await,
            _ => Err(SqlError::unsupported("EXECUTE of a utility statement").into()),
        };
        portal.execution = std::mem::take(&mut inner.execution);
        portal.transaction = inner.transaction;
        portal.ahead = inner.ahead.take();
        done
    }

    async fn discard(&mut self, kind: DiscardKind) -> Result<&'static str, StatementStop> {
        Ok(match kind {
            DiscardKind::All => {
                self.outside_block("DISCARD ALL")?;
                self.discard_temporary().await?;
                self.forget_statements();
                self.close_cursors(None)?;
                self.enter();
                self.reset(None)?;
                self.become_default(false, "session_authorization")?;
                self.eval.notifications.listen(ListenChange::ToNothing);
                self.locks.unlock_session().await;
                "DISCARD ALL"
            }
            DiscardKind::Plans => {
                self.served.plans.clear();
                "DISCARD PLANS"
            }
            DiscardKind::Sequences => {
                self.eval.sequences.discard();
                "DISCARD SEQUENCES"
            }
            DiscardKind::Temp => {
                self.discard_temporary().await?;
                "DISCARD TEMP"
            }
        })
    }

    /// Fails with 42501 unless the role is a superuser.
    pub(super) fn superuser_only(&mut self, message: &str) -> Result<(), SqlError> {
        let asking = self.snapshot().0.role(&self.eval.user)?;
        match asking.is_some_and(|role| role.superuser) {
            true => Ok(()),
            false => Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)),
        }
    }

    /// Fails with 25001 inside a block.
    pub(super) fn outside_block(&self, command: &str) -> Result<(), SqlError> {
        match self.block {
            Block::Idle | Block::Implicit => Ok(()),
            Block::Explicit | Block::Failed => Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{command} cannot run inside a transaction block"),
            )),
        }
    }
}

/// Returns a random salt for a password hash.
pub(crate) fn fresh_salt() -> [u8; 16] {
    let mut salt = [0; 16];
    Random::from_entropy().fill(&mut salt);
    salt
}

/// Returns the error 42804 for an argument of EXECUTE.
fn no_coercion(number: usize, from: &Type, to: &Type) -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "parameter ${number} of type {} cannot be coerced to the expected type {}",
            from.kind, to.kind
        ),
    )
    .hint("You will need to rewrite or cast the expression.")
}
