//! CALL and DO of a client: they may end their transaction, and continue in the next one.

use std::sync::Arc;

use fencepost_sql::bound::{RoutineCall, Statement};
use fencepost_sql::catalog::{GuardScope, Language, guard_routine};
use fencepost_sql::error::SqlError;
use fencepost_sql::plpgsql::{Header, compile};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;
use fencepost_txn::Work;

use super::Owner;
use super::call::{CompiledRoutine, compiled, run_routine};
use super::machine::{Body, BodyExecution, Step};
use super::prepared::snapshot;
use super::returned::RoutineOutput;
use crate::exec::Cx;

/// The state of a running CALL or DO.
#[derive(Debug)]
pub struct Procedure(State);

#[derive(Debug)]
enum State {
    Machine(Box<BodyExecution>),
    /// The routine has already run: an SQL procedure, for example, ends no transactions.
    Over(Option<Vec<Value>>),
}

/// The reason for which a call has stopped.
#[derive(Debug)]
pub enum CallState {
    /// It has ended, and returns this row.
    Done(Option<Vec<Value>>),
    /// COMMIT, with or without AND CHAIN.
    Commit {
        /// Whether AND CHAIN was given.
        chain: bool,
    },
    /// ROLLBACK, with or without AND CHAIN.
    Rollback {
        /// Whether AND CHAIN was given.
        chain: bool,
    },
    /// The sequence with this oid has no reserved values on this machine.
    Range(u32),
}

/// Compiles the code of a DO.
pub async fn anonymous(body: &str, cx: &mut Cx<'_>) -> Result<Body, StatementStop> {
    const NAME: &str = "inline_code_block";
    let result = fencepost_sql::catalog::RoutineResult {
        ty: Type::of(TypeKind::Void),
        set: false,
        trigger: false,
        columns: Vec::new(),
        record: false,
    };
    let header = Header {
        name: NAME,
        args: &[],
        result: &result,
        procedure: true,
        polymorphic: false,
    };
    let known = snapshot(cx, false).await?;
    let code = match compile(body, header, &*known, cx.eval) {
        Ok(code) => code,
        Err(_) => {
            let newest = snapshot(cx, true).await?;
            compile(body, header, &*newest, cx.eval)?
        }
    };
    let owner = Owner {
        name: NAME.into(),
        writes: true,
    };
    Ok(Body::new(code, owner, None))
}

impl Procedure {
    /// Begins a CALL or DO. `ends` states whether it may end transactions.
    pub fn begin<'a>(
        statement: &'a Statement,
        ends: bool,
        cx: &'a mut Cx<'_>,
    ) -> Work<'a, Result<Procedure, StatementStop>> {
        Box::pin(async move {
            let mut machine = match statement {
                Statement::Do(body) => {
                    BodyExecution::new(&Arc::new(anonymous(body, cx).await?), Vec::new())
                }
                Statement::Call(call) => match Procedure::called(call, cx).await? {
                    State::Machine(machine) => *machine,
                    over => return Ok(Procedure(over)),
                },
                _ => return Err(SqlError::internal("not a call").into()),
            };
            machine.ends = ends;
            Ok(Procedure(State::Machine(Box::new(machine))))
        })
    }

    async fn called(call: &RoutineCall, cx: &mut Cx<'_>) -> Result<State, StatementStop> {
        if !guard_routine(cx.tx, &call.routine, GuardScope::Statement).await? {
            return Err(StatementStop::Stale);
        }
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(cx.deep_value(arg, &[]).await?);
        }
        // A SECURITY DEFINER procedure, or one with settings, cannot end transactions either.
        let own = call.routine.definer || !call.routine.settings.is_empty();
        if call.routine.language == Language::Sql || own {
            let ran = run_routine(&call.routine, args, &call.columns, cx).await?;
            return Ok(State::Over(match ran {
                RoutineOutput::Row(row) => row,
                RoutineOutput::Set(_) => None,
            }));
        }
        let CompiledRoutine::PlPgSql(body) = compiled(&call.routine, cx).await? else {
            return Err(SqlError::internal("a procedure of another language").into());
        };
        let mut machine = BodyExecution::new(&body, call.columns.clone());
        machine.give(args, cx.eval)?;
        Ok(State::Machine(Box::new(machine)))
    }

    /// Continues until it stops.
    pub fn run<'a>(&'a mut self, cx: &'a mut Cx<'_>) -> Work<'a, Result<CallState, StatementStop>> {
        Box::pin(async move {
            match &mut self.0 {
                State::Over(row) => Ok(CallState::Done(row.take())),
                State::Machine(machine) => {
                    cx.scratch.routines.enter()?;
                    let ran = machine.run(cx).await;
                    cx.scratch.routines.leave();
                    Ok(match ran? {
                        Step::Commit { chain } => CallState::Commit { chain },
                        Step::Rollback { chain } => CallState::Rollback { chain },
                        Step::Range(id) => CallState::Range(id),
                        Step::Done(RoutineOutput::Row(row)) => CallState::Done(row),
                        Step::Done(RoutineOutput::Set(_)) | Step::Go => CallState::Done(None),
                    })
                }
            }
        })
    }

    /// Returns whether it has met a conflict that its transaction cannot survive.
    pub fn must_abort(&self) -> bool {
        matches!(&self.0, State::Machine(machine) if machine.doomed)
    }

    /// Continues in a new transaction.
    pub fn renew(&mut self) {
        if let State::Machine(machine) = &mut self.0 {
            machine.doomed = false;
        }
    }
}
