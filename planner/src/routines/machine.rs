//! The interpreter of a PL/pgSQL body: it executes compiled code step by step.
//!
//! Its state contains no references. So it can stop between two steps for a COMMIT, and continue in
//! another transaction.

use std::sync::Arc;

use fencepost_sql::catalog::RoutineDef;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{Code, Op, VariableKind};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use parking_lot::Mutex;

use super::Owner;
use super::handlers::Try;
use super::loops::{Loop, statements_of};
use super::prepared::{self, PreparedBody};
use super::returned::{RoutineOutput, check_query, check_types, fit, fit_row, unpacked};
use super::variables::{Row, Slot, Slots};
use crate::exec::{CollectedMemory, Cx};

/// A compiled body with the prepared statements of its texts.
#[derive(Debug)]
pub struct Body {
    pub code: Code,
    pub owner: Owner,
    pub routine: Option<Arc<RoutineDef>>,
    /// The prepared statements, by number of the text.
    pub(super) prepared: Mutex<Vec<Option<Arc<PreparedBody>>>>,
    /// The types of the parameters `$1` and so on.
    pub(super) given: Vec<Type>,
}

impl Body {
    pub fn new(code: Code, owner: Owner, routine: Option<Arc<RoutineDef>>) -> Body {
        let args = routine.iter().flat_map(|routine| &routine.args);
        Body {
            prepared: Mutex::new(vec![None; code.texts.len()]),
            given: args.map(|arg| arg.ty).collect(),
            code,
            owner,
            routine,
        }
    }
}

/// The reason for which the interpreter stops.
#[derive(Debug)]
pub enum Step {
    /// No reason: it continues with the next step.
    Go,
    /// The body has ended.
    Done(RoutineOutput),
    /// COMMIT.
    Commit { chain: bool },
    /// ROLLBACK.
    Rollback { chain: bool },
    /// A sequence has no reserved values on this machine: the step must be repeated once it has.
    Range(u32),
}

/// The state of a running body.
#[derive(Debug)]
pub struct BodyExecution {
    pub body: Arc<Body>,
    pub slots: Slots,
    /// The columns that it returns; empty for a single value without a name.
    pub columns: Vec<(String, Type)>,
    /// The position of the next operation.
    pub next: usize,
    pub loops: Vec<Loop>,
    /// The blocks with handlers that are active.
    pub tries: Vec<Try>,
    /// The errors that active handlers are handling.
    pub errors: Vec<SqlError>,
    /// The value of ROW_COUNT.
    pub row_count: u64,
    /// The rows of a set-returning function.
    pub set: Vec<Vec<Value>>,
    pub gathered: CollectedMemory,
    /// Whether it may end transactions.
    pub ends: bool,
    /// Whether the transaction has met a conflict and cannot continue.
    pub doomed: bool,
}

impl BodyExecution {
    pub fn new(body: &Arc<Body>, columns: Vec<(String, Type)>) -> BodyExecution {
        BodyExecution {
            slots: Slots::new(&body.code),
            columns,
            next: 0,
            loops: (0..body.code.loops).map(|_| Loop::None).collect(),
            tries: Vec::new(),
            errors: Vec::new(),
            row_count: 0,
            set: Vec::new(),
            gathered: CollectedMemory::default(),
            ends: false,
            doomed: false,
            body: Arc::clone(body),
        }
    }

    /// Sets the arguments.
    pub fn give(&mut self, args: Vec<Value>, eval: &EvalContext) -> Result<(), SqlError> {
        let body = Arc::clone(&self.body);
        let all = body.routine.iter().flat_map(|routine| &routine.args);
        let mut args = args.into_iter();
        for (arg, variable) in all.zip(&body.code.args) {
            if arg.mode.is_input() {
                let value = args.next().unwrap_or_default();
                if let (VariableKind::Row(of), Value::Record(row)) =
                    (&body.code.variables[*variable].kind, &value)
                {
                    self.slots.0[*variable] = Slot::Row(Some(Row::holding(*of, row)));
                    continue;
                }
                if let (VariableKind::Record, Value::Record(row)) =
                    (&body.code.variables[*variable].kind, &value)
                {
                    self.slots.0[*variable] = Slot::Row(Some(Row::of_record(row)));
                    continue;
                }
                let value = fit(value, &arg.ty, &arg.ty, eval)?;
                self.slots.put(*variable, value);
            }
        }
        self.slots.put(body.code.found, Value::Bool(false));
        Ok(())
    }

    /// Runs until it stops. Settings that the body changes apply to the steps after the change.
    pub async fn run(&mut self, cx: &mut Cx<'_>) -> Result<Step, StatementStop> {
        loop {
            if !cx.eval.is_unsettled()
                && let Some(step) = self.run_settled(cx).await?
            {
                return Ok(step);
            }
            let eval = cx.eval.apply_setting_changes()?;
            let params = cx.params;
            let mut inner = cx.within(params);
            inner.eval = &eval;
            let ran = Box::pin(self.run_settled(&mut inner)).await;
            let held = inner.held;
            cx.held += held;
            cx.eval.end_setting_changes(eval);
            if let Some(step) = ran? {
                return Ok(step);
            }
        }
    }

    /// Runs until it stops; returns `None` if settings have changed.
    async fn run_settled(&mut self, cx: &mut Cx<'_>) -> Result<Option<Step>, StatementStop> {
        loop {
            if cx.eval.is_unsettled() {
                return Ok(None);
            }
            cx.breathe().await?;
            let at = self.next;
            // A step that must be repeated is rolled back first.
            let op = self.body.code.ops.get(at);
            let brackets = matches!(op, Some(Op::Try { .. } | Op::EndTry));
            let before = (self.ends && !brackets && !self.doomed).then(|| cx.tx.savepoint());
            if self.ends {
                cx.eval.sequences.begin_part();
            }
            let ran = self.step(cx).await;
            let range = match &ran {
                Err(StatementStop::Error(error)) => fencepost_sql::sequences::wanted_range(error),
                _ => None,
            };
            if let Some(before) = before {
                if range.is_some() {
                    cx.tx.rollback_to(&before);
                }
                if !matches!(ran, Err(StatementStop::Stop(_))) {
                    cx.tx.release(before);
                }
            }
            match ran {
                Ok(Step::Go) => {}
                Ok(step) => {
                    if matches!(step, Step::Done(_)) {
                        self.end_loops(cx);
                    }
                    return Ok(Some(step));
                }
                Err(_) if self.ends && range.is_some() => {
                    self.next = at;
                    return Ok(Some(Step::Range(range.unwrap_or(0))));
                }
                Err(halt) => {
                    let halt = self.placed(halt, at);
                    self.catch(halt, cx).await?;
                }
            }
        }
    }

    /// Adds the location in the body to an error.
    fn placed(&self, halt: StatementStop, at: usize) -> StatementStop {
        let StatementStop::Error(error) = halt else {
            return halt;
        };
        if prepared::is_inner(&error) {
            return StatementStop::Error(error);
        }
        let (line, what) = self.body.code.places.get(at).copied().unwrap_or((0, ""));
        let name = &self.body.owner.name;
        StatementStop::Error(
            error.within(&format!("PL/pgSQL function {name} line {line} at {what}")),
        )
    }

    async fn step(&mut self, cx: &mut Cx<'_>) -> Result<Step, StatementStop> {
        let body = Arc::clone(&self.body);
        let code = &body.code;
        let Some(op) = code.ops.get(self.next) else {
            return Err(SqlError::internal("a jump out of the code").into());
        };
        self.next += 1;
        match op {
            Op::Jump(to) => self.next = *to,
            Op::Unless { condition, to } => {
                if !self.holds(*condition, cx).await? {
                    self.next = *to;
                }
            }
            Op::Declare { variable, value } => self.declare(*variable, *value, cx).await?,
            Op::Assign { target, value } => {
                let (value, ty) = self.value(*value, cx).await?;
                self.assign(target, value, ty, cx).await?;
            }
            Op::Run {
                text,
                into,
                perform,
            } => self.statement(*text, into.as_ref(), *perform, cx).await?,
            Op::Execute { text, using, into } => {
                let text = self.dynamic_text(*text, cx).await?;
                let mut parts = statements_of(&text)?.into_iter().peekable();
                while let Some(part) = parts.next() {
                    let into = into.as_ref().filter(|_| parts.peek().is_none());
                    let query = self.dynamic_of(&part, using, cx).await?;
                    self.run_dynamic(query, into, cx).await?;
                }
            }
            Op::RangeStart { .. }
            | Op::RangeNext { .. }
            | Op::RowsStart { .. }
            | Op::RowsNext { .. }
            | Op::ArrayStart { .. }
            | Op::ArrayNext { .. }
            | Op::LoopEnd { .. } => Box::pin(self.loop_step(op, cx)).await?,
            Op::Try { handlers } => self.enter(*handlers, cx),
            Op::EndTry => self.leave(cx),
            Op::EndHandler => {
                self.errors.pop();
            }
            Op::Raise(raise) => Box::pin(self.raise(raise, cx)).await?,
            Op::Reraise => return Err(self.reraised().into()),
            Op::Assert { condition, message } => {
                Box::pin(self.check(*condition, *message, cx)).await?;
            }
            Op::Diagnostics { items, stacked } => {
                for (target, item) in items {
                    let value = self.diagnostic(*item, *stacked)?;
                    let ty = match value {
                        Value::Int8(_) => Type::INT8,
                        _ => Type::TEXT,
                    };
                    self.assign(target, value, ty, cx).await?;
                }
            }
            Op::NoCase => {
                return Err(SqlError::new(SqlState::new(b"20000"), "case not found")
                    .hint("CASE statement is missing ELSE part.")
                    .into());
            }
            Op::Return(value) => return self.returns(*value, cx).await,
            Op::ReturnRow(row) => return self.returns_row(*row, cx).map_err(StatementStop::Error),
            Op::ReturnNext(value) => {
                let row = match value {
                    Some(value) => {
                        let (value, ty) = self.value(*value, cx).await?;
                        let routine = self.body.routine.as_ref();
                        match routine.is_some_and(|of| of.gives_row()) {
                            true => {
                                let width = self.columns.len();
                                let row = unpacked(value, &self.columns, cx.eval)?;
                                row.unwrap_or_else(|| vec![Value::Null; width])
                            }
                            false => vec![fit(value, &ty, &self.lone_type(), cx.eval)?],
                        }
                    }
                    None => self.outputs(cx.eval)?,
                };
                self.gather(row, cx)?;
            }
            Op::ReturnNextRow(variable) => {
                let mut row = self.slots.row(code, *variable)?.clone();
                let to = self.wanted_columns();
                row.values.resize(row.columns.len(), Value::Null);
                check_types(&row.columns, &to)?;
                let row = fit_row(row.values, &row.columns, &to, cx.eval)?;
                self.gather(row, cx)?;
            }
            Op::ReturnQuery(source) => {
                let rows = Box::pin(self.rows_of(source, cx)).await?;
                check_query(&rows.columns, &self.wanted_columns())?;
                let count = rows.rows.len() as u64;
                let to = self.wanted_columns();
                for row in rows.rows {
                    let row = fit_row(row, &rows.columns, &to, cx.eval)?;
                    self.gather(row, cx)?;
                }
                self.found(count);
            }
            Op::Open { .. } | Op::Fetch { .. } | Op::Close(_) => {
                Box::pin(self.cursor_step(op, cx)).await?;
            }
            Op::Commit { chain } | Op::Rollback { chain } => {
                if !self.ends {
                    return Err(
                        SqlError::new(TERMINATION, "invalid transaction termination").into(),
                    );
                }
                if !self.tries.is_empty() {
                    let what = match op {
                        Op::Commit { .. } => "commit",
                        _ => "roll back",
                    };
                    let message = format!("cannot {what} while a subtransaction is active");
                    return Err(SqlError::new(TERMINATION, message).into());
                }
                let chain = *chain;
                return Ok(match op {
                    Op::Commit { .. } => Step::Commit { chain },
                    _ => Step::Rollback { chain },
                });
            }
            Op::End => return self.ended(cx.eval).map_err(StatementStop::Error),
        }
        Ok(Step::Go)
    }

    /// Sets FOUND and ROW_COUNT.
    pub fn found(&mut self, count: u64) {
        self.row_count = count;
        let found = self.body.code.found;
        self.slots.put(found, Value::Bool(count > 0));
    }
}

/// SQLSTATE 2D000, `invalid_transaction_termination`.
const TERMINATION: SqlState = SqlState::new(b"2D000");
