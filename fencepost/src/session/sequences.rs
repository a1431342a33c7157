//! Sequences of a session: takes ranges of values for the machine, in separate transactions.

use std::pin::pin;

use fencepost_sql::catalog::{Catalog, CatalogView, SequenceState, ValueRange};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::sequences::{CellLock, SetValue, wanted_range};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{Mode, Outcome, Stop, Transaction, Work};

use super::Session;
use super::run::{back_off, interruptible, refit};
use crate::prepared::Portal;

/// The largest number of attempts to take a range before the client gets the conflict.
const ATTEMPTS_MAX: u32 = 64;

/// A change of a sequence's cell.
#[derive(Clone, Copy)]
enum CellChange {
    Take(u64),
    Set(SequenceState),
}

/// The result of a change.
#[derive(Clone, Copy)]
struct Answer {
    /// The values, if the change is a take.
    taken: Option<ValueRange>,
    /// True if the open transaction has made the change.
    is_private: bool,
}

impl Session {
    /// Begins a statement for the sequences. An INSERT is expected to draw a value for each row of
    /// its VALUES.
    pub(super) fn begin_sequences(&self, portal: &Portal) {
        let rows = portal.rows_of_values();
        self.eval.sequences.begin_in(self.modes.read_only, rows);
    }

    /// Returns the sequence whose values a statement waits for, if its error says so.
    pub(super) fn wanted_range<T>(&self, result: &Result<T, StatementStop>) -> Option<u32> {
        match result {
            Err(StatementStop::Error(error)) => wanted_range(error),
            _ => None,
        }
    }

    /// Takes a range of values of the sequence `id`, for a statement that is repeated now as a
    /// whole or in its last part. The statement gets the values again that it has already drawn.
    pub(super) fn take_range(&mut self, id: u32) -> Work<'_, Result<(), StatementStop>> {
        Box::pin(async move {
            // The statement may have called `setval` before.
            self.set_sequences().await?;
            let _lock = self.lock_cell(id).await?;
            if let Some(count) = self.eval.sequences.wanted(id) {
                let answer = self.ask(id, CellChange::Take(count)).await?;
                if let Some(taken) = answer.taken {
                    match answer.is_private {
                        true => self.eval.sequences.add_private(id, &taken),
                        false => self.eval.sequences.add(id, &taken),
                    }
                }
            }
            self.eval.sequences.rewind();
            Ok(())
        })
    }

    /// Executes the pending calls of `setval`.
    pub(super) fn set_sequences(&mut self) -> Work<'_, Result<(), StatementStop>> {
        Box::pin(async move {
            for set in self.eval.sequences.take_sets() {
                let SetValue {
                    id,
                    value,
                    was_given,
                } = set;
                let _lock = self.lock_cell(id).await?;
                self.ask(id, CellChange::Set(SequenceState { value, was_given }))
                    .await?;
                self.eval.sequences.forget(id);
            }
            Ok(())
        })
    }

    async fn lock_cell(&self, id: u32) -> Result<CellLock, StatementStop> {
        let lock = async { Ok(self.eval.sequences.lock(id).await) };
        interruptible(&self.cancel, self.deadline, pin!(lock)).await
    }

    /// Makes the change in a separate transaction. Uses the open transaction if only that one sees
    /// the current definition of the sequence.
    async fn ask(&mut self, id: u32, ask: CellChange) -> Result<Answer, StatementStop> {
        if self.eval.sequences.is_private(id) {
            return self.ask_privately(id, ask).await;
        }
        let mut coordinator = self.db.machine.coordinator();
        for attempt in 0..ATTEMPTS_MAX {
            self.cancel.check()?;
            let mut tx = coordinator.begin(Mode::ReadWrite);
            tx.set_synchronous(self.eval.settings.synchronous_commit);
            match asked(&mut tx, &self.served.catalog, id, ask).await {
                Ok(None) => {
                    tx.abort();
                    return self.ask_privately(id, ask).await;
                }
                Ok(Some(taken)) => match tx.commit().await? {
                    Outcome::Committed(_) => {
                        return Ok(Answer {
                            taken,
                            is_private: false,
                        });
                    }
                    Outcome::Aborted(_) => {}
                },
                Err(StatementStop::Stop(Stop::Retry(_))) => tx.abort(),
                Err(halt) => return Err(halt),
            }
            Box::pin(back_off(attempt)).await;
        }
        Err(SqlError::internal("the sequence is in use").into())
    }

    async fn ask_privately(&mut self, id: u32, ask: CellChange) -> Result<Answer, StatementStop> {
        let taken = match &mut self.tx {
            Some(tx) => asked(tx, &self.served.catalog, id, ask).await?,
            None => None,
        };
        let Some(taken) = taken else {
            return Err(self.no_sequence(id)?.into());
        };
        Ok(Answer {
            taken,
            is_private: true,
        })
    }

    /// Plans the statement of a portal on the catalog that the transaction sees, and stores the
    /// plan.
    pub(super) async fn replan(&mut self, portal: &mut Portal) -> Result<(), StatementStop> {
        let planned = portal.prepared.current();
        let again = self.plan_again(&planned, &portal.prepared).await?;
        portal.prepared.replace(&again);
        refit(&mut portal.params, &again.params, &self.eval)?;
        self.keep_again(&again, &portal.prepared);
        Ok(())
    }

    /// Returns the error for a missing sequence: 42809 for the oid of a table, 42P01 for a dropped
    /// sequence.
    fn no_sequence(&self, id: u32) -> Result<SqlError, SqlError> {
        Ok(match self.snapshot().0.table_by_id(id)? {
            Some(table) => SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a sequence", table.name),
            ),
            None => SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation with OID {id} does not exist"),
            ),
        })
    }
}

/// Makes the change in `tx`. Returns `None` if `tx` does not see the sequence.
async fn asked(
    tx: &mut Transaction,
    catalog: &Catalog,
    id: u32,
    ask: CellChange,
) -> Result<Option<Option<ValueRange>>, StatementStop> {
    // Read the definition in `tx`: another session may have altered it since this session read it.
    let snapshot = catalog.snapshot(tx).await?;
    let Some(sequence) = snapshot.sequence_by_id(id)? else {
        return Ok(None);
    };
    match ask {
        CellChange::Take(count) => Ok(sequence.take(tx, count).await?.map(Some)),
        CellChange::Set(reached) => {
            let done = sequence.set(tx, reached).await?;
            Ok(done.then_some(None))
        }
    }
}

/// Returns whether the error is 42P01, as for a dropped sequence.
pub(super) fn is_undefined(halt: &StatementStop) -> bool {
    matches!(halt, StatementStop::Error(error) if error.sqlstate() == SqlState::UNDEFINED_TABLE)
}
