//! The outcomes of transactions, for clients that lost the connection or the machine while their
//! COMMIT was in progress.
//!
//! ```text
//! tree     number of a transaction -> [COMMITTED or GIVEN_UP, 0]
//! number   | time of assignment in microseconds from 2000-01-01: 53 bits | machine: 10 bits |
//! ```
//! Only a transaction that was asked for its number (`txid_current()`) leaves an entry: it inserts
//! the entry COMMITTED in its own commit. A later query for the outcome, on any machine, inserts
//! the entry GIVEN_UP if it finds none; then the transaction cannot commit any more. So an answer
//! is final, whatever the transaction was about to do.
//!
//! *Invariant.* OUTCOME-1: the outcome reported for a transaction never changes, and is the same
//! for every client. Later transactions remove entries that are too old to be reported.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fencepost_btree::{BTree, Direction, IndexError, Insert, ScanBatch};
use fencepost_txn::{Machine, Mode, Outcome, Stop, Transaction};

use crate::error::{SqlError, SqlState};
use crate::stop::StatementStop;

const MACHINE_BITS: u32 = 10;
const SECOND_US: i64 = 1_000_000;
/// The age up to which outcomes are reported.
const TOLD_US: i64 = 3600 * SECOND_US;
/// The age from which entries are removed. The clocks of machines must differ by less than the
/// difference of both ages.
const KEPT_US: i64 = 2 * TOLD_US;
/// The largest accepted difference by which another machine's clock is ahead.
const AHEAD_US: i64 = 60 * SECOND_US;
/// One in `REMOVES_ONE_IN` transactions removes old entries, at most `REMOVED` of them.
const REMOVES_ONE_IN: i64 = 64;
const REMOVED: usize = 256;

const COMMITTED: u64 = 1;
const GIVEN_UP: u64 = 2;

/// The time of the last number that this process has assigned.
static LAST: AtomicI64 = AtomicI64::new(0);

/// Returns a unique positive number for a transaction that begins at `now`, in microseconds from
/// 2000-01-01, on a machine.
pub fn draw(now: i64, machine: u32) -> i64 {
    let machine = i64::from(machine) & ((1 << MACHINE_BITS) - 1);
    let after = |last: i64| now.max(last.saturating_add(1));
    let (Ok(last) | Err(last)) = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(after(last))
    });
    (after(last) << MACHINE_BITS) | machine
}

/// Returns the time at which a number was assigned.
fn drawn_at(number: i64) -> i64 {
    number >> MACHINE_BITS
}

/// The outcome of a transaction, which [`Outcomes::outcome_of`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// The transaction has committed.
    Committed,
    /// The transaction has not committed, and never will.
    Aborted,
}

/// The stored outcomes.
#[derive(Clone, Copy, Debug)]
pub struct Outcomes {
    tree: BTree,
}

impl Outcomes {
    pub(super) fn of(tree: BTree) -> Outcomes {
        Outcomes { tree }
    }

    /// Returns the tree that contains the outcomes.
    pub fn tree(&self) -> BTree {
        self.tree
    }

    /// Records that the transaction commits, in the same commit.
    ///
    /// # Errors
    /// 40001 if a query for its outcome has given the transaction up.
    pub async fn record(&self, tx: &mut Transaction, number: i64) -> Result<(), StatementStop> {
        match self.tree.insert(tx, &key(number), [COMMITTED, 0]).await? {
            Insert::Done => Ok(()),
            Insert::Exists(_) => Err(SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                format!("transaction {number} was given up when its outcome was asked for"),
            )
            .into()),
        }
    }

    /// Returns the outcome of a transaction, in a transaction of its own; `None` if it is too long
    /// ago. `now` is the time in microseconds from 2000-01-01.
    ///
    /// # Errors
    /// 22023 for a number that cannot have been assigned yet; also an error if the database cannot
    /// be written.
    pub async fn outcome_of(
        &self,
        machine: &Arc<Machine>,
        number: i64,
        now: i64,
    ) -> Result<Option<TransactionOutcome>, StatementStop> {
        if number <= 0 || drawn_at(number) > now.saturating_add(AHEAD_US) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("transaction ID {number} is in the future"),
            )
            .into());
        }
        if now.saturating_sub(drawn_at(number)) > TOLD_US {
            return Ok(None);
        }
        let mut coordinator = machine.coordinator();
        loop {
            let mut tx = coordinator.begin(Mode::ReadWrite);
            let ending = match self.tree.insert(&mut tx, &key(number), [GIVEN_UP, 0]).await {
                Ok(Insert::Exists([COMMITTED, _])) => TransactionOutcome::Committed,
                Ok(_) => TransactionOutcome::Aborted,
                Err(IndexError::Stop(Stop::Retry(_))) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Outcome::Committed(_) = tx.commit().await? {
                return Ok(Some(ending));
            }
        }
    }

    /// Returns whether the transaction with this number must call [`Self::forget`] after its
    /// commit.
    pub fn is_removal_due(number: i64) -> bool {
        drawn_at(number) % REMOVES_ONE_IN == 0
    }

    /// Removes some entries that are too old to be reported.
    ///
    /// # Errors
    /// The errors of [`Transaction::commit`]; no caller depends on the removal.
    pub async fn forget(&self, tx: &mut Transaction, now: i64) -> Result<(), StatementStop> {
        let oldest = now.saturating_sub(KEPT_US).max(0) << MACHINE_BITS;
        let end = key(oldest);
        let mut cursor = self.tree.scan(
            Bound::Unbounded,
            Bound::Excluded(end.as_slice()),
            Direction::Forward,
        );
        let mut batch = ScanBatch::new();
        cursor.next_batch(tx, &mut batch, REMOVED).await?;
        for at in 0..batch.len() {
            self.tree.remove(tx, batch.key(at)).await?;
        }
        Ok(())
    }
}

fn key(number: i64) -> [u8; 8] {
    number.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_once_and_say_when() {
        let now = 800_000_000 * SECOND_US;
        let numbers: Vec<i64> = (0..5).map(|_| draw(now, 1027)).collect();
        for (at, number) in numbers.iter().enumerate() {
            assert!(*number > 0 && drawn_at(*number) >= now, "{number}");
            assert_eq!(number & 1023, 3, "the machine");
            assert!(!numbers[..at].contains(number));
        }
        let earlier = draw(now - SECOND_US, 3);
        assert!(earlier > numbers[4], "no clock makes one come again");
    }
}
