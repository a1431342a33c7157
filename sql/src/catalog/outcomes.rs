//! How transactions ended, for whoever could not hear it: a client whose connection, or whose machine, was lost while
//! its COMMIT was under way.
//!
//! ```text
//! tree   number of a transaction -> [COMMITTED or GIVEN UP, 0]
//! number | microseconds from 2000-01-01, when it was drawn 53 | machine 10 |
//! ```
//! Only transactions that were asked for their number (`txid_current()`) leave a trace: they enter it as committed, in the
//! same commit. Who asks later, on any machine, and finds no entry makes one that says that it was given up; then
//! it cannot commit any more. So an answer is final, whatever the transaction was just about to do.
//!
//! *Invariant.* OUTCOME-1: what is told of a transaction is so for ever, and everybody is told the same. Entries that are
//! older than anybody is told of are removed by later transactions.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fencepost_btree::{BTree, Direction, IndexError, Insert, ScanBatch};
use fencepost_storage::Addr;
use fencepost_txn::{Machine, Mode, Outcome, Stop, Transaction};

use crate::error::{SqlError, SqlState};
use crate::stop::Halt;

const MACHINE_BITS: u32 = 10;
const SECOND_US: i64 = 1_000_000;
/// For how long outcomes are told.
const TOLD_US: i64 = 3600 * SECOND_US;
/// After how long they are removed: the clocks of machines differ by less than the difference.
const KEPT_US: i64 = 2 * TOLD_US;
/// How far ahead another machine's clock may be.
const AHEAD_US: i64 = 60 * SECOND_US;
/// One in so many transactions removes old entries, so many at most.
const REMOVES_ONE_IN: i64 = 64;
const REMOVED: usize = 256;

const COMMITTED: u64 = 1;
const GIVEN_UP: u64 = 2;

/// When the last number was drawn in this process.
static LAST: AtomicI64 = AtomicI64::new(0);

/// A number for a transaction that begins at `now`, in microseconds from 2000-01-01, on a machine; positive, and
/// nobody else's.
pub fn draw(now: i64, machine: u32) -> i64 {
    let machine = i64::from(machine) & ((1 << MACHINE_BITS) - 1);
    let after = |last: i64| now.max(last.saturating_add(1));
    let (Ok(last) | Err(last)) = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(after(last))
    });
    (after(last) << MACHINE_BITS) | machine
}

/// When a number was drawn.
fn drawn_at(number: i64) -> i64 {
    number >> MACHINE_BITS
}

/// How a transaction ended, as [`Outcomes::settle`] tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has committed.
    Committed,
    /// It has not, and will not.
    Aborted,
}

/// The outcomes that are kept.
#[derive(Clone, Copy, Debug)]
pub struct Outcomes {
    tree: BTree,
}

impl Outcomes {
    pub(super) fn of(tree: BTree) -> Outcomes {
        Outcomes { tree }
    }

    /// The tree in which they are.
    pub fn tree(&self) -> BTree {
        self.tree
    }

    pub(super) fn root(&self) -> Addr {
        self.tree.root()
    }

    /// Has the transaction leave word that it has committed, if it does.
    ///
    /// # Errors
    /// 40001 where somebody has asked for its outcome already.
    pub async fn record(&self, tx: &mut Transaction, number: i64) -> Result<(), Halt> {
        match self.tree.insert(tx, &key(number), [COMMITTED, 0]).await? {
            Insert::Done => Ok(()),
            Insert::Exists(_) => Err(SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                format!("transaction {number} was given up when its outcome was asked for"),
            )
            .into()),
        }
    }

    /// How a transaction ended, by a transaction of its own; `None` where that is too long ago. `now` is the time in
    /// microseconds from 2000-01-01.
    ///
    /// # Errors
    /// 22023 for a number that cannot have been drawn yet; otherwise where the database cannot be written.
    pub async fn settle(
        &self,
        machine: &Arc<Machine>,
        number: i64,
        now: i64,
    ) -> Result<Option<Ending>, Halt> {
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
                Ok(Insert::Exists([COMMITTED, _])) => Ending::Committed,
                Ok(_) => Ending::Aborted,
                Err(IndexError::Stop(Stop::Retry(_))) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Outcome::Committed(_) = tx.commit().await? {
                return Ok(Some(ending));
            }
        }
    }

    /// Whether a transaction with this number is to [`Self::forget`] old entries once it has committed.
    pub fn is_turn(number: i64) -> bool {
        drawn_at(number) % REMOVES_ONE_IN == 0
    }

    /// Removes some entries that nobody is told of any more.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; nothing depends on it.
    pub async fn forget(&self, tx: &mut Transaction, now: i64) -> Result<(), Halt> {
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
