//! Exception handlers: a block with handlers has a savepoint.

use std::sync::Arc;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::notify::NotifyMark;
use fencepost_sql::plpgsql::{Condition, Diagnostic, covers};
use fencepost_sql::sequences::SequenceMark;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::{Savepoint, Stop};

use super::machine::BodyExecution;
use super::prepared::is_inner;
use crate::exec::Cx;
use crate::write::DeferredMark;

/// An active block with handlers.
#[derive(Debug)]
pub struct Try {
    handlers: usize,
    point: Savepoint,
    deferred: Option<DeferredMark>,
    settings: usize,
    /// The mark of the cursors that were open before the block.
    portals: u64,
    /// The number of temporary tables with ON COMMIT before the block.
    on_commit: usize,
    notified: NotifyMark,
    sequences: SequenceMark,
    /// The number of errors that were being handled.
    errors: usize,
}

impl BodyExecution {
    /// Enters a block with handlers.
    pub fn enter(&mut self, handlers: usize, cx: &mut Cx<'_>) {
        self.tries.push(Try {
            handlers,
            point: cx.tx.savepoint(),
            deferred: cx.deferred.as_ref().map(|deferred| deferred.mark()),
            settings: cx.eval.changes_mark(),
            portals: cx.scratch.routines.portals.mark(),
            on_commit: cx.scratch.routines.on_commit.len(),
            notified: cx.eval.notifications.mark(),
            sequences: cx.eval.sequences.mark(),
            errors: self.errors.len(),
        });
    }

    /// Leaves a block with handlers.
    pub fn leave(&mut self, cx: &mut Cx<'_>) {
        if let Some(block) = self.tries.pop() {
            cx.tx.release(block.point);
        }
    }

    /// Rolls back to the start of the innermost block that handles the error, and continues with
    /// its handler. Returns the error if no block handles it.
    pub async fn catch(
        &mut self,
        halt: StatementStop,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let error = match halt {
            StatementStop::Error(error) if !is_inner(&error) => error,
            // ROUT-2: only a procedure that may end transactions sees a conflict.
            StatementStop::Stop(Stop::Retry(_) | Stop::Deadlock) if self.ends && !self.doomed => {
                return self.catch_conflict(halt);
            }
            halt => return Err(halt),
        };
        let body = Arc::clone(&self.body);
        while let Some(block) = self.tries.pop() {
            let handlers = &body.code.handlers[block.handlers];
            let fits = |(conditions, _): &&(Vec<Condition>, usize)| {
                conditions.iter().any(|c| is(*c, error.sqlstate()))
            };
            let Some((_, to)) = handlers.clauses.iter().find(fits) else {
                continue;
            };
            cx.tx.rollback_to(&block.point);
            cx.tx.release(block.point);
            if let (Some(deferred), Some(mark)) = (&mut cx.deferred, block.deferred) {
                deferred.back_to(mark);
            }
            cx.eval.changes_back_to(block.settings);
            cx.eval.notifications.back_to(block.notified);
            cx.scratch.routines.portals.back_to(block.portals);
            cx.scratch.routines.on_commit.truncate(block.on_commit);
            cx.eval.sequences.back_to(block.sequences);
            if cx.eval.has_private()
                && let Some(catalog) = cx.eval.database_catalog.clone()
            {
                let private = catalog.snapshot(cx.tx).await?;
                cx.eval.set_private(Some(private));
            }
            self.handle(error, block.errors, (handlers.state, handlers.message), *to);
            return Ok(());
        }
        Err(StatementStop::Error(error))
    }

    /// Passes a conflict to the handlers of a procedure that may end transactions.
    fn catch_conflict(&mut self, halt: StatementStop) -> Result<(), StatementStop> {
        let body = Arc::clone(&self.body);
        let error = halt.clone().into_error();
        while let Some(block) = self.tries.pop() {
            let handlers = &body.code.handlers[block.handlers];
            let fits = |(conditions, _): &&(Vec<Condition>, usize)| {
                conditions.iter().any(|c| is(*c, error.sqlstate()))
            };
            if let Some((_, to)) = handlers.clauses.iter().find(fits) {
                self.doomed = true;
                self.tries.clear();
                self.handle(error, block.errors, (handlers.state, handlers.message), *to);
                return Ok(());
            }
        }
        Err(halt)
    }

    fn handle(
        &mut self,
        error: SqlError,
        errors: usize,
        (state, message): (usize, usize),
        to: usize,
    ) {
        self.errors.truncate(errors);
        let code = Value::text(error.sqlstate().as_str());
        self.slots.put(state, code);
        self.slots.put(message, Value::text(error.message()));
        self.errors.push(error);
        self.next = to;
    }

    /// Returns the current error, for RAISE without parameters.
    pub fn reraised(&self) -> SqlError {
        self.errors.last().cloned().unwrap_or_else(|| {
            SqlError::new(
                SqlState::new(b"0Z002"),
                "RAISE without parameters cannot be used outside an exception handler",
            )
        })
    }

    /// Returns an item of GET DIAGNOSTICS.
    pub fn diagnostic(&self, item: Diagnostic, stacked: bool) -> Result<Value, SqlError> {
        match item {
            Diagnostic::RowCount => return Ok(Value::Int8(self.row_count as i64)),
            Diagnostic::Context => {
                let at = self.next.saturating_sub(1);
                let (line, what) = self.body.code.places.get(at).copied().unwrap_or((0, ""));
                let name = &self.body.owner.name;
                let place = format!("PL/pgSQL function {name} line {line} at {what}");
                return Ok(Value::text(place));
            }
            _ => {}
        }
        let Some(error) = self.errors.last().filter(|_| stacked) else {
            return Err(SqlError::new(
                SqlState::new(b"0Z002"),
                "GET STACKED DIAGNOSTICS cannot be used outside an exception handler",
            ));
        };
        let (fields, state) = (error.fields(), error.sqlstate());
        let text = match item {
            Diagnostic::State => Some(state.as_str()),
            Diagnostic::Message => Some(error.message()),
            Diagnostic::Detail => fields.detail.as_deref(),
            Diagnostic::Hint => fields.hint.as_deref(),
            Diagnostic::ExceptionContext => fields.context.as_deref(),
            Diagnostic::Column => fields.column.as_deref(),
            Diagnostic::Constraint => fields.constraint.as_deref(),
            Diagnostic::DataType => fields.data_type.as_deref(),
            Diagnostic::Table => fields.table.as_deref(),
            Diagnostic::Schema => fields.schema.as_deref(),
            Diagnostic::RowCount | Diagnostic::Context => None,
        };
        Ok(Value::text(text.unwrap_or("")))
    }
}

/// Returns whether a condition matches an error. OTHERS matches neither a cancelled query nor a
/// failed ASSERT.
fn is(condition: Condition, state: SqlState) -> bool {
    match condition {
        Condition::State(of) => covers(of, state),
        Condition::Others => state != SqlState::QUERY_CANCELED && state != SqlState::new(b"P0004"),
    }
}
