//! Sequences of a session: ranges of values taken for the machine, in transactions of their own.

use std::sync::Arc;

use fencepost_sql::catalog::{CatalogView, SequenceDef, Taken};
use fencepost_sql::error::SqlError;
use fencepost_sql::sequences::{SetValue, wanted_range};
use fencepost_sql::stop::Halt;
use fencepost_txn::{Mode, Outcome, Stop, Transaction, Work};

use super::Session;
use super::run::back_off;

/// Tries to take a range before others' luck is the client's conflict.
const ATTEMPTS_MAX: u32 = 64;

/// What is done with a sequence.
#[derive(Clone, Copy)]
enum Ask {
    Take(u64),
    Set(SetValue),
}

impl Session {
    /// The sequence that a statement has used up the values of, if that is why it has ended.
    pub(super) fn wanted_range<T>(&self, result: &Result<T, Halt>) -> Option<u32> {
        match result {
            Err(Halt::Error(error)) => wanted_range(error),
            _ => None,
        }
    }

    /// Takes a range of values of the sequence `id`. What the statement has drawn is given back if it is run `again`,
    /// and counts if it goes on.
    pub(super) fn take_range<'a>(&'a mut self, id: u32, again: bool) -> Work<'a, Result<(), Halt>> {
        Box::pin(async move {
            let sequences = &self.eval.sequences;
            let count = sequences.wanted(id);
            match again {
                true => sequences.give_back(),
                false => sequences.begin(),
            }
            let sequence = self.sequence(id).await?;
            let (taken, private) = self.ask(&sequence, Ask::Take(count)).await?;
            if let Some(taken) = taken {
                let increment = sequence.increment;
                self.eval.sequences.add(id, increment, taken, private);
            }
            Ok(())
        })
    }

    /// Does what `setval` has asked for.
    pub(super) fn set_sequences<'a>(&'a mut self) -> Work<'a, Result<(), Halt>> {
        Box::pin(async move {
            for set in self.eval.sequences.take_sets() {
                let sequence = self.sequence(set.id).await?;
                self.ask(&sequence, Ask::Set(set)).await?;
                self.eval.sequences.forget(set.id);
            }
            Ok(())
        })
    }

    /// The definition, as the transaction sees it, or the newest.
    async fn sequence(&mut self, id: u32) -> Result<Arc<SequenceDef>, Halt> {
        let known = self.snapshot().0.sequence_by_id(id)?;
        let found = match (known, &mut self.tx) {
            (Some(known), _) => Some(known),
            (None, Some(tx)) => {
                let snapshot = self.served.catalog.snapshot(tx).await?;
                snapshot.sequence_by_id(id)?
            }
            (None, None) => None,
        };
        found.ok_or_else(|| SqlError::internal("the sequence is gone").into())
    }

    /// Asks in a transaction of its own; where that does not see the sequence, in the open one. Whether it was that.
    async fn ask(
        &mut self,
        sequence: &SequenceDef,
        ask: Ask,
    ) -> Result<(Option<Taken>, bool), Halt> {
        let mut coordinator = self.db.machine.coordinator();
        for attempt in 0..ATTEMPTS_MAX {
            self.cancel.check()?;
            let mut tx = coordinator.begin(Mode::ReadWrite);
            tx.set_synchronous(self.eval.settings.synchronous_commit);
            match asked(&mut tx, sequence, ask).await {
                Ok(None) => {
                    tx.abort();
                    let Some(own) = &mut self.tx else {
                        break;
                    };
                    return match asked(own, sequence, ask).await? {
                        Some(taken) => Ok((taken, true)),
                        None => Err(SqlError::internal("the sequence is gone").into()),
                    };
                }
                Ok(Some(taken)) => match tx.commit().await? {
                    Outcome::Committed(_) => return Ok((taken, false)),
                    Outcome::Aborted(_) => {}
                },
                Err(Halt::Stop(Stop::Retry(_))) => tx.abort(),
                Err(halt) => return Err(halt),
            }
            Box::pin(back_off(attempt)).await;
        }
        Err(SqlError::internal("the sequence is gone").into())
    }
}

/// What came of it; `None` where `tx` does not see the sequence.
async fn asked(
    tx: &mut Transaction,
    sequence: &SequenceDef,
    ask: Ask,
) -> Result<Option<Option<Taken>>, Halt> {
    match ask {
        Ask::Take(count) => Ok(sequence.take(tx, count).await?.map(Some)),
        Ask::Set(set) => {
            let done = sequence.set(tx, set.value, set.was_given).await?;
            Ok(done.then_some(None))
        }
    }
}
