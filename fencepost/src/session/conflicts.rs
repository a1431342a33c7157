//! Errors for conflicts with other transactions, and counters of conflicts.
//!
//! *Failure.* If the object of a conflict no longer exists, the error has no DETAIL.

use std::sync::Arc;

use fencepost_planner::TablePlan;
use fencepost_sql::bound::Isolation;
use fencepost_sql::counts::{ConflictKey, Event};
use fencepost_sql::error::SqlError;
use fencepost_sql::statements::stored_text;
use fencepost_sql::stop::StatementStop;
use fencepost_storage::Addr;
use fencepost_txn::{AbortReason, Stop, Work};

use super::Session;
use crate::conflict;
use crate::prepared::{Body, PlannedStatement};
use crate::sessions::Registration;

/// Returns the name of the kind of conflict that ended a statement; `None` if no conflict did.
fn kind_of(halt: &StatementStop) -> Option<&'static str> {
    match halt {
        StatementStop::Stop(Stop::Deadlock) => Some("deadlock"),
        StatementStop::Stop(Stop::Retry(reason)) => match reason {
            AbortReason::Interrupted | AbortReason::Unreachable | AbortReason::Requested => None,
            reason => Some(reason.name()),
        },
        _ => None,
    }
}

/// Returns the error for a commit in doubt, with the query that shows its outcome.
fn in_doubt(halt: StatementStop, number: i64) -> SqlError {
    halt.into_error()
        .detail(format!(
            "Whether transaction {number} has taken effect is not known here."
        ))
        .hint(format!(
            "SELECT txid_status({number}) says so on another machine."
        ))
}

impl Session {
    /// Does the same as [`fencepost_txn::Transaction::doubt`], for a result of the open
    /// transaction.
    pub(super) fn doubted<'a>(&'a mut self, halt: StatementStop) -> Work<'a, StatementStop> {
        Box::pin(async move {
            match (halt, &mut self.tx) {
                (StatementStop::Stop(stop @ Stop::Damaged), Some(tx)) => {
                    StatementStop::Stop(tx.doubt(stop).await)
                }
                (halt, _) => halt,
            }
        })
    }

    /// Does the same as [`Session::fail`]. Returns the error to report: that of `halt`, or another
    /// one if the data behind `halt` may not become durable.
    pub(crate) fn fail_with<'a>(&'a mut self, halt: StatementStop) -> Work<'a, SqlError> {
        Box::pin(async move {
            let halt = self.doubted(halt).await;
            self.must_roll_back |= !matches!(halt, StatementStop::Error(_));
            let conflict = self.history.conflict().or_else(|| self.last_conflict());
            let serializable = self.modes.isolation == Isolation::Serializable;
            self.fail();
            let halt = self.wait_until_durable().await.err().unwrap_or(halt);
            if let (StatementStop::Stop(Stop::InDoubt), Some(number)) =
                (&halt, self.eval.drawn_number())
            {
                return in_doubt(halt, number);
            }
            let Some(kind) = kind_of(&halt) else {
                return halt.into_error();
            };
            if serializable {
                self.contention.note_conflict();
            }
            let known = match conflict {
                Some(addr) => {
                    let catalog = &self.served.catalog;
                    conflict::describe(&self.db, catalog, addr, &self.eval.settings).await
                }
                None => None,
            };
            if matches!(halt, StatementStop::Stop(Stop::Deadlock)) {
                self.scratch.counting.event(Event::Deadlocks, 1);
            }
            let key = ConflictKey {
                table: known.as_ref().map_or(0, |known| known.table),
                kind: kind.to_owned(),
                statement: self.running_text(),
                winner: self.winner(&halt, conflict).await,
            };
            self.served.tallies.conflict(key, true);
            match known {
                Some(known) => halt.into_error_about(&known.what),
                None => halt.into_error(),
            }
        })
    }

    /// Counts a conflict that is resolved transparently by a retry of `planned`.
    #[cold]
    pub(super) fn note_conflict<'a>(
        &'a mut self,
        halt: &'a StatementStop,
        planned: &'a PlannedStatement,
    ) -> Work<'a, ()> {
        Box::pin(async move {
            let conflict = self.last_conflict();
            if let Body::Plan(_, used) = &planned.body {
                let text = stored_text(&planned.text).to_owned();
                self.count_unseen((halt, conflict), text, &used.plans).await;
            }
        })
    }

    /// Returns the object of the last conflict of the open transaction, or of the latest one.
    pub(super) fn last_conflict(&self) -> Option<Addr> {
        match &self.tx {
            Some(tx) => tx.conflict(),
            None => self.coordinator.conflict(),
        }
    }

    /// Counts a conflict of the statement `text` about the object at `conflict` that was resolved
    /// transparently. If the object belongs to a table, that is one of `tables`.
    pub(super) async fn count_unseen(
        &self,
        (halt, conflict): (&StatementStop, Option<Addr>),
        text: String,
        tables: &[Arc<TablePlan>],
    ) {
        let Some(kind) = kind_of(halt) else {
            return;
        };
        let table = match (tables, conflict) {
            ([one], _) => Some(one.def.id),
            (tables, Some(addr)) => {
                conflict::table_of(&self.db, addr, tables, &self.eval.settings).await
            }
            _ => None,
        };
        let key = ConflictKey {
            table: table.unwrap_or(0),
            kind: kind.to_owned(),
            statement: text,
            winner: self.winner(halt, conflict).await,
        };
        self.served.tallies.conflict(key, false);
    }

    /// Returns the text of the statement that has changed the object of a conflict, if a session of
    /// this machine has run it recently.
    async fn winner(&self, halt: &StatementStop, conflict: Option<Addr>) -> String {
        let changed = matches!(
            halt,
            StatementStop::Stop(Stop::Retry(
                AbortReason::WriteConflict
                    | AbortReason::ReadConflict
                    | AbortReason::RefreshFailed
                    | AbortReason::NodeConflict
            ))
        );
        let Some(addr) = conflict.filter(|_| changed) else {
            return String::new();
        };
        let at = conflict::written_at(&self.db, addr).await;
        let number = at.and_then(|at| self.served.tallies.statement_of(at));
        let text = number.and_then(|number| self.served.statistics.text_of(number));
        text.unwrap_or_default()
    }

    /// Returns the text of the running statement.
    pub(super) fn running_text(&self) -> String {
        let running = self.registered.as_ref().and_then(Registration::running);
        running.map_or_else(String::new, |prepared| {
            stored_text(&prepared.planned.text).to_owned()
        })
    }
}
