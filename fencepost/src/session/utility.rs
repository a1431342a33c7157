//! Statements of the session and the catalog.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use fencepost_fabric::Random;
use fencepost_planner::{
    Came, Collected, DdlCx, Known, Plan, RowSink, Tag, ddl_command, explain, run_ddl,
};
use fencepost_sql::binder::ParamTypes;
use fencepost_sql::bound::{DiscardKind, Expr, Statement};
use fencepost_sql::catalog::CatalogView;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{assign, eval};
use fencepost_sql::parser;
use fencepost_sql::stop::Halt;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::{FarCounts, MachineId, Mode, Transaction};

use super::protocol::Completion;
use super::run::{interruptible, read_only};
use super::{Block, Session, cx};
use crate::front::plan_statement;
use crate::prepared::{Body, Planned, Portal, Prepared};

/// Runs of a DDL statement outside a block before its conflict is the client's.
const ATTEMPTS_MAX: u32 = 16;

impl Session {
    pub(super) async fn run_utility(
        &mut self,
        statement: &Statement,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, Halt> {
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
            } => self.prepare_named(name, param_types, text)?,
            Statement::Execute { name, args } => {
                return self
                    .run_named(name, args, portal, max_rows, sink, last)
                    .await;
            }
            Statement::Deallocate(name) => self.deallocate(name.as_deref())?,
            Statement::Discard(kind) => self.discard(*kind)?,
            Statement::Close(None) => "CLOSE CURSOR ALL",
            Statement::Close(Some(name)) => {
                return Err(SqlError::new(
                    SqlState::INVALID_CURSOR_NAME,
                    format!("cursor \"{name}\" does not exist"),
                )
                .into());
            }
            Statement::Vacuum => {
                self.outside_block("VACUUM")?;
                self.db.machine.tidy();
                "VACUUM"
            }
            Statement::Analyze => "ANALYZE",
            Statement::Checkpoint => self.checkpoint().await?,
            Statement::DrainMachine(machine) => self.drain_machine(*machine)?,
            Statement::RemoveMachine(machine) => self.remove_machine(*machine).await?,
            Statement::Unlisten => "UNLISTEN",
            Statement::LockTable => {
                self.in_block("LOCK TABLE")?;
                "LOCK TABLE"
            }
            other => match ddl_command(other) {
                Some(command) => {
                    let tag = self.run_ddl(command, &portal.prepared, last).await?;
                    return Ok(Completion::Complete(tag));
                }
                None => return Err(SqlError::internal("a statement that nobody runs").into()),
            },
        };
        Ok(Completion::Complete(Tag::plain(tag)))
    }

    /// DDL in the open transaction, bound anew where the catalog has moved on.
    async fn run_ddl(
        &mut self,
        command: &str,
        prepared: &Prepared,
        last: bool,
    ) -> Result<Tag, Halt> {
        self.enter();
        if self.modes.read_only {
            return Err(read_only(command).into());
        }
        let alone = self.block == Block::Implicit && self.statements == 0;
        let mut attempt = 0;
        loop {
            let mut result = self.ddl_attempt(&prepared.planned).await;
            if let Err(halt) = result {
                result = Err(Box::pin(self.doubted(halt)).await);
            }
            if result.is_ok() && last && self.block == Block::Implicit {
                result = self.commit_transaction().await.and(result);
            }
            match result {
                Ok(tag) => {
                    self.statements += 1;
                    return Ok(tag);
                }
                Err(halt) if halt.is_retryable() && alone && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    self.abort_transaction();
                    self.enter();
                }
                Err(halt) => return Err(halt),
            }
        }
    }

    async fn ddl_attempt(&mut self, planned: &Planned) -> Result<Tag, Halt> {
        self.begin_transaction(false);
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        let snapshot = self.db.catalog.snapshot(tx).await?;
        let Some(tree) = parser::parse(&planned.text)?.pop() else {
            return Err(SqlError::internal("DDL without a text").into());
        };
        let again = plan_statement(tree, &snapshot, ParamTypes::new(), &self.eval)?;
        let Body::Utility(statement) = &again.body else {
            return Err(SqlError::internal("not DDL").into());
        };
        let mut notices = Vec::new();
        let mut ddl = DdlCx {
            catalog: &self.db.catalog,
            snapshot: &snapshot,
            notices: &mut notices,
            rows: None,
            salt: fresh_salt(),
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
        cx.deferred = Some(&mut self.deferred);
        let work = run_ddl(statement, &mut cx, &mut ddl);
        let command = interruptible(&self.cancel, self.deadline, pin!(work)).await?;
        let tag = match ddl.rows {
            Some(rows) => Tag::counted("SELECT", rows),
            None => Tag::plain(command),
        };
        self.eval.private = Some(self.db.catalog.snapshot(tx).await?);
        self.notices.append(&mut notices);
        Ok(tag)
    }

    /// CHECKPOINT: done when it is on disk; nothing to do in the memory tier.
    async fn checkpoint(&mut self) -> Result<&'static str, Halt> {
        self.superuser_only(
            "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
        )?;
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

    pub(super) async fn run_explain(
        &mut self,
        planned: Option<&Arc<Planned>>,
        analyze: bool,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, Halt> {
        let mut lines = match planned.map(|planned| (planned, &planned.body)) {
            Some((planned, Body::Plan(plan, _))) => {
                let only_reads = self.would_only_read(plan, last);
                if only_reads && analyze {
                    self.enter();
                    self.begin_transaction(true);
                }
                if let Some(roots) = plan.split_roots() {
                    // Where that is not known now is not said.
                    let _ = self.db.machine.meet(&roots).await;
                }
                let spread = self.spread_of(planned, only_reads);
                let known = Known {
                    params: &portal.params,
                    eval: &self.eval,
                    machine: &self.db.machine,
                    parts: spread.map_or_else(Vec::new, |s| s.machines(&self.db.machine)),
                };
                explain(plan, &known)
            }
            _ => vec!["Utility statements have no plan structure".into()],
        };
        if let Some(planned) = planned.filter(|_| !analyze)
            && let Some(home) = self.home_of(planned, portal)
        {
            lines.push(format!("Shipped to: {home}"));
        }
        if let Some(planned) = planned.filter(|_| analyze) {
            let started = Instant::now();
            let mut rows = Collected::default();
            let mut inner = Portal {
                prepared: Prepared::new(Arc::clone(planned), Vec::new()),
                params: portal.params.clone(),
                execution: Default::default(),
                transaction: None,
            };
            let before = self.far_counts();
            self.came.clear();
            self.run_plan(&mut inner, 0, &mut rows, false).await?;
            let after = self.far_counts();
            if let Some(first) = lines.first_mut() {
                first.push_str(&format!(" (actual rows={})", rows.rows.len()));
            }
            tell_returned(&mut lines, &self.came);
            if self.db.machine.number() != 0 {
                let reads = after.reads.saturating_sub(before.reads);
                let messages = after.messages.saturating_sub(before.messages);
                lines.push(format!("Fabric: reads={reads} messages={messages}"));
            }
            let elapsed = started.elapsed().as_secs_f64() * 1000.0;
            lines.push(format!("Execution Time: {elapsed:.3} ms"));
        }
        for line in lines {
            sink.row(&[Value::text(line)])?;
        }
        Ok(Completion::Complete(Tag::plain("EXPLAIN")))
    }

    /// Whether an explained statement's transaction only reads: that of a statement by itself, or a block's.
    fn would_only_read(&self, plan: &Plan, last: bool) -> bool {
        match &self.tx {
            Some(tx) => tx.mode() == Mode::ReadOnly,
            None if self.block == Block::Explicit => self.modes.read_only,
            None => {
                last && (self.block == Block::Idle || self.statements == 0)
                    && plan.is_snapshot_read()
            }
        }
    }

    /// What the open transaction has posted to other machines.
    fn far_counts(&self) -> FarCounts {
        self.tx
            .as_ref()
            .map(Transaction::far_counts)
            .unwrap_or_default()
    }

    fn prepare_named(
        &mut self,
        name: &str,
        param_types: &[Type],
        text: &str,
    ) -> Result<&'static str, SqlError> {
        self.check_name_free(name)?;
        let oids: Vec<u32> = param_types
            .iter()
            .map(|ty| match *ty {
                Type::UNKNOWN => 0,
                ty => ty.oid(),
            })
            .collect();
        let prepared = self.parse(text, &oids)?;
        self.keep_statement(name, prepared);
        Ok("PREPARE")
    }

    async fn run_named(
        &mut self,
        name: &str,
        args: &[Expr],
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, Halt> {
        let prepared = Arc::clone(self.named(name)?);
        let types = prepared.parameter_types();
        if types.len() != args.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!(
                "Expected {} parameters but got {}.",
                types.len(),
                args.len()
            ))
            .into());
        }
        let mut params = Vec::with_capacity(args.len());
        for (arg, ty) in args.iter().zip(types) {
            let value = eval(arg, &[], &portal.params, &self.eval)?;
            params.push(assign(value, &arg.ty, ty, &self.eval)?);
        }
        let mut inner = self.bind(&prepared, params)?;
        std::mem::swap(&mut inner.execution, &mut portal.execution);
        inner.transaction = portal.transaction;
        let done = match &prepared.planned.body {
            Body::Plan(..) => self.run_plan(&mut inner, max_rows, sink, last).await,
            _ => Err(SqlError::unsupported("EXECUTE of a utility statement").into()),
        };
        portal.execution = inner.execution;
        portal.transaction = inner.transaction;
        done
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<&'static str, SqlError> {
        let Some(name) = name else {
            self.named.clear();
            return Ok("DEALLOCATE ALL");
        };
        self.named(name)?;
        self.forget_statement(name);
        Ok("DEALLOCATE")
    }

    fn discard(&mut self, kind: DiscardKind) -> Result<&'static str, SqlError> {
        Ok(match kind {
            DiscardKind::All => {
                self.outside_block("DISCARD ALL")?;
                self.named.clear();
                self.reset(None)?;
                "DISCARD ALL"
            }
            DiscardKind::Plans => {
                self.db.plans.clear();
                "DISCARD PLANS"
            }
            DiscardKind::Sequences => {
                self.eval.sequences.discard();
                "DISCARD SEQUENCES"
            }
            DiscardKind::Temp => "DISCARD TEMP",
        })
    }

    /// 42501 for others than superusers.
    pub(super) fn superuser_only(&mut self, message: &str) -> Result<(), SqlError> {
        let asking = self.snapshot().0.role(&self.eval.user)?;
        match asking.is_some_and(|role| role.superuser) {
            true => Ok(()),
            false => Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)),
        }
    }

    /// 25001 inside a block.
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

/// What begins the line about the machines that a statement is split among.
const MACHINES: &str = "Machines: ";

/// Adds what came back of the parts of a statement, if any was waited for.
fn tell_returned(lines: &mut Vec<String>, came: &[Came]) {
    let told = |came: &Came| {
        let machine = MachineId(came.machine);
        match came.rows {
            Some((rows, bytes)) => format!("{machine} rows={rows} bytes={bytes}"),
            None => format!("{machine} none, run here"),
        }
    };
    let told: Vec<String> = came.iter().map(told).collect();
    let gather = (0..).zip(lines.iter()).find_map(|(at, line)| {
        let (indent, _) = line.split_once(MACHINES)?;
        indent
            .trim()
            .is_empty()
            .then(|| (at + 1, indent.to_owned()))
    });
    if let Some((at, indent)) = gather.filter(|_| !told.is_empty()) {
        lines.insert(at, format!("{indent}Returned: {}", told.join(", ")));
    }
}

/// Random bytes that no other password was hashed with.
fn fresh_salt() -> [u8; 16] {
    let mut salt = [0; 16];
    Random::from_entropy().fill(&mut salt);
    salt
}
