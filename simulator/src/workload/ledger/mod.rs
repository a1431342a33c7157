//! Statements over the ledger, as SQL runs them at each isolation level.
//!
//! ```text
//! SELECT                      find rows in the snapshot
//! SELECT FOR UPDATE / SHARE   find, lock each row, read it anew if it has changed, guard it
//! UPDATE                      find, lock each row, read it anew, move the snapshot, append to each
//! INSERT ON CONFLICT UPDATE   find one row, append to it as UPDATE does, or insert a row
//! ```
//! The ledger is a B-tree whose keys point to rows. A row has the elements that were appended under
//! its key. A row that has outgrown its place moves to a larger one.
//!
//! At READ COMMITTED each statement but the first renews the snapshot. `planner/src/exec/anew.rs`
//! and `planner/src/write/find.rs` are the code whose rules these statements follow.
//!
//! A scan may move the snapshot if the transaction has patches of an index node that other
//! transactions have split meanwhile. At READ COMMITTED the rows that it finds later are then of a
//! newer snapshot: they are noted as those of a further statement.
//!
//! # Invariants
//! * An execution notes contents without the elements of its own transaction, which must be all
//!   that it has appended so far.

mod rows;

use fencepost_txn::{Isolation, Strength, Timestamp};

use super::step::{Halt, Step};
use crate::history::Object;
use crate::levels::{Execution, Statement, element, writer_of};
use crate::lists::Contents;
use rows::{Row, RowLock};

/// Returns the list under a key of the ledger.
const fn ledger(key: u64) -> Object {
    Object("ledger", key)
}

/// The point of the execution to which a read belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPoint {
    /// The snapshot of its statement.
    Snapshot,
    /// Its commit, because the row is locked.
    Locked,
}

impl Step<'_> {
    /// Runs the statements of a transaction over the ledger.
    pub async fn statements(&mut self) -> Result<(), Halt> {
        for _ in 0..1 + self.below(4) {
            if self.writes() && self.below(12) == 0 {
                self.rolled_back().await?;
            }
            self.statement().await?;
            self.pause().await;
            if self.random.one_in(16) {
                self.outlast().await;
            }
        }
        Ok(())
    }

    /// Runs a statement that ROLLBACK TO takes back.
    async fn rolled_back(&mut self) -> Result<(), Halt> {
        let before = self.attempt.borrow().execution.clone();
        let savepoint = self.tx.savepoint();
        self.statement().await?;
        self.tx.rollback_to(&savepoint);
        self.tx.release(savepoint);
        let ended = self.sim.moment();
        let mut attempt = self.attempt.borrow_mut();
        let drawn = attempt.execution.as_ref().map_or(0, |of| of.drawn);
        attempt.execution = before.map(|mut execution| {
            // The statement of ROLLBACK TO, which reads nothing: the next one is not the first.
            execution.statements.push(Statement {
                began: execution.began,
                ended,
                ..Statement::default()
            });
            Execution { drawn, ..execution }
        });
        Ok(())
    }

    /// Runs a statement of any kind.
    async fn statement(&mut self) -> Result<(), Halt> {
        let keys = self.ledger_keys()?;
        self.begin_statement().await?;
        let low = self.below(keys);
        let several = low..keys.min(low + 1 + self.below(3));
        let kind = if self.writes() { self.below(12) } else { 0 };
        match kind {
            0..3 => {
                let all = low..low + 1 + self.below(keys - low);
                self.find(all).await?;
            }
            3 => self.select_locked(several, Strength::Update).await?,
            4 => self.select_locked(several, Strength::Share).await?,
            5..8 => self.update(several).await?,
            8 => self.update_with_call(several).await?,
            _ => self.upsert(low).await?,
        }
        self.end_statement();
        Ok(())
    }

    /// Reads all lists in one statement.
    pub async fn select_all(&mut self) -> Result<(), Halt> {
        let keys = self.ledger_keys()?;
        self.begin_statement().await?;
        self.find(0..keys).await?;
        self.end_statement();
        Ok(())
    }

    fn ledger_keys(&self) -> Result<u64, Halt> {
        let keys = self.plan.levels.map(|levels| levels.keys);
        keys.ok_or_else(|| Halt::Broken("there is no ledger".into()))
    }

    /// Begins a statement; at READ COMMITTED it gets a new snapshot.
    async fn begin_statement(&mut self) -> Result<(), Halt> {
        let began = self.sim.moment();
        let first = self.execution(|execution| execution.statements.is_empty());
        if !first && self.tx.isolation() == Isolation::ReadCommitted {
            self.tx.renew().await?;
        }
        self.execution(|execution| {
            execution.statements.push(Statement {
                began: if first { execution.began } else { began },
                ..Statement::default()
            });
        });
        Ok(())
    }

    /// Records that the statement continues in a newer snapshot.
    fn split_statement(&self) {
        self.execution(|execution| {
            let began = execution.statements.last().map(|last| last.began);
            execution.statements.push(Statement {
                began: began.unwrap_or(execution.began),
                ..Statement::default()
            });
        });
    }

    fn end_statement(&mut self) {
        let ended = self.sim.moment();
        self.execution(|execution| {
            if let Some(statement) = execution.statements.last_mut() {
                statement.ended = ended;
            }
        });
    }

    /// Passes the execution to `f`; a transaction over the ledger has one.
    fn execution<T: Default>(&self, f: impl FnOnce(&mut Execution) -> T) -> T {
        let mut attempt = self.attempt.borrow_mut();
        attempt.execution.as_mut().map(f).unwrap_or_default()
    }

    /// Records the contents of a list. The transaction's own elements must all be there, after
    /// those of other transactions.
    fn note(&self, key: u64, elements: &[u64], reading: ReadPoint) -> Result<(), Halt> {
        let id = self.id();
        let foreign = elements.iter().filter(|element| writer_of(**element) != id);
        let (foreign, own) = elements.split_at(foreign.count());
        let list = ledger(key);
        let wrong = self.execution(|execution| {
            let appended = execution.appended.iter();
            let appended = appended.filter(|(other, _)| *other == list);
            if !appended.map(|(_, element)| element).eq(own) {
                return Some(format!(
                    "isolation levels: {id} read {elements:?} in {list}, not its own: {execution:?}"
                ));
            }
            if let Some(statement) = execution.statements.last_mut() {
                let contents = Contents {
                    list,
                    numbers: foreign.to_vec(),
                };
                match reading {
                    ReadPoint::Snapshot => statement.seen.push(contents),
                    ReadPoint::Locked => statement.locked.push(contents),
                }
            }
            None
        });
        match wrong {
            None => Ok(()),
            Some(wrong) => Err(Halt::Broken(wrong)),
        }
    }

    /// Records the contents of a locked row. At SERIALIZABLE they are those of the snapshot.
    fn note_locked(&self, key: u64, elements: &[u64]) -> Result<(), Halt> {
        match self.tx.isolation() {
            Isolation::Serializable => Ok(()),
            Isolation::ReadCommitted | Isolation::RepeatableRead => {
                self.note(key, elements, ReadPoint::Locked)
            }
        }
    }

    /// Returns the next element to append.
    fn next_element(&self) -> u64 {
        let id = self.id();
        self.execution(|execution| {
            execution.drawn += 1;
            element(id, execution.drawn)
        })
    }

    /// Runs SELECT FOR UPDATE, or FOR SHARE.
    async fn select_locked(
        &mut self,
        keys: std::ops::Range<u64>,
        strength: Strength,
    ) -> Result<(), Halt> {
        for row in self.find(keys).await? {
            self.pause().await;
            let row = match self.lock_anew(&row, strength).await? {
                RowLock::Same => row,
                RowLock::Changed(row) => row,
                RowLock::Out => continue,
            };
            self.note_locked(row.key, &row.elements)?;
            self.guard_row(&row).await?;
        }
        Ok(())
    }

    /// Runs UPDATE for the rows in a range of keys.
    async fn update(&mut self, keys: std::ops::Range<u64>) -> Result<(), Halt> {
        let rows = self.find(keys).await?;
        self.update_found(rows).await
    }

    /// Runs an UPDATE in which a function writes another row, after rows were found: the snapshot
    /// may move in between.
    async fn update_with_call(&mut self, keys: std::ops::Range<u64>) -> Result<(), Halt> {
        let end = keys.end;
        let rows = self.find(keys).await?;
        let all = self.ledger_keys()?;
        if end < all {
            let key = end + self.below(all - end);
            self.upsert_row(key).await?;
        }
        self.update_found(rows).await
    }

    /// Locks the rows that a statement has found, then appends to each.
    async fn update_found(&mut self, rows: Vec<Row>) -> Result<(), Halt> {
        let mut locked = Vec::new();
        let mut moves = false;
        for row in rows {
            self.pause().await;
            match self.lock_anew(&row, Strength::Update).await? {
                RowLock::Same => {
                    let latest = self.decided_by();
                    locked.push((row, latest));
                }
                RowLock::Changed(row) => {
                    moves = true;
                    locked.push((row, Timestamp::MAX));
                }
                RowLock::Out => {}
            }
        }
        if moves {
            self.tx.refresh().await?;
        }
        for (row, latest) in locked {
            self.append(row, latest).await?;
            self.pause().await;
        }
        Ok(())
    }

    /// Runs INSERT ON CONFLICT DO UPDATE.
    async fn upsert(&mut self, key: u64) -> Result<(), Halt> {
        self.upsert_row(key).await
    }

    async fn upsert_row(&mut self, key: u64) -> Result<(), Halt> {
        let mut found = self.find(key..key + 1).await?;
        let row = match found.pop() {
            Some(row) => row,
            None => match self.insert(key).await? {
                None => return Ok(()),
                Some(there) => there,
            },
        };
        self.update_found(vec![row]).await
    }
}
