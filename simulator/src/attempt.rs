//! The record that a client makes of a running transaction.

use std::collections::BTreeMap;

use fencepost_txn::Timestamp;

use crate::history::{Object, ObservedTransaction, ReadVersion, SOMETIME, Write};
use crate::levels::Execution;
use crate::lists::Contents;

/// The progress of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The transaction reads and writes.
    Running,
    /// The commit has begun.
    Committing,
    /// The transaction took effect.
    Committed,
    /// The transaction had no effect.
    Aborted,
}

/// The record of a running transaction.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The transaction's number.
    pub id: u64,
    began: u64,
    /// The progress of the transaction.
    pub stage: Stage,
    /// The marker object to which the transaction writes its number, if its client may not learn
    /// its outcome.
    pub marker: Option<usize>,
    at: Timestamp,
    /// Whether its machine had lost its lease, so that its reads may have been outdated.
    out_of_touch: bool,
    reads: Vec<(Object, ReadVersion)>,
    writes: BTreeMap<Object, Write>,
    /// Whether it has overwritten an object with the same content: a version that is
    /// indistinguishable from the previous one.
    rewrote: bool,
    /// The contents of lists that it has read.
    pub lists: Vec<Contents>,
    /// Its execution over the ledger, if it has an isolation level of a mixed run.
    pub execution: Option<Execution>,
}

impl Attempt {
    /// Begins the record of a transaction.
    pub fn new(id: u64, began: u64, marker: Option<usize>) -> Attempt {
        Attempt {
            id,
            began,
            stage: Stage::Running,
            marker,
            at: Timestamp::ZERO,
            out_of_touch: false,
            reads: Vec::new(),
            writes: BTreeMap::new(),
            rewrote: false,
            lists: Vec::new(),
            execution: None,
        }
    }

    /// Records a read of a version in the snapshot of `at`. Returns an error if the transaction
    /// does not see its own write.
    pub fn saw(&mut self, object: Object, saw: ReadVersion, at: Timestamp) -> Result<(), String> {
        match self.own(object) {
            None => {
                self.reads.push((object, saw));
                self.at = at;
                Ok(())
            }
            Some(own) if own == saw => Ok(()),
            Some(own) => Err(format!(
                "{} wrote {own:?} to {object} and then read {saw:?} there",
                self.id
            )),
        }
    }

    /// Records a write. `stays` is whether the object exists afterwards, `needs` whether it must
    /// have existed before.
    pub fn wrote(
        &mut self,
        object: Object,
        stays: bool,
        needs: Option<bool>,
    ) -> Result<(), String> {
        if let Some(own) = self.own(object)
            && needs.is_some_and(|needs| needs != (own != ReadVersion::Absent))
        {
            return Err(format!(
                "{} wrote {own:?} to {object} and then met the opposite",
                self.id
            ));
        }
        let write = Write {
            object,
            stays,
            needs,
        };
        self.writes.entry(object).or_insert(write).stays = stays;
        Ok(())
    }

    /// Records that it has overwritten an object with the content that it has read. For the history
    /// this is only a read, as of its commit.
    pub fn rewrote(&mut self) {
        self.rewrote = true;
    }

    /// Returns the version that the transaction itself has written.
    fn own(&self, object: Object) -> Option<ReadVersion> {
        self.writes.get(&object).map(|write| match write.stays {
            true => ReadVersion::By(self.id),
            false => ReadVersion::Absent,
        })
    }

    /// Returns whether the transaction has written the object.
    pub fn owns(&self, object: Object) -> bool {
        self.writes.contains_key(&object)
    }

    /// Returns the snapshot of the last read.
    pub fn snapshot(&self) -> Timestamp {
        self.at
    }

    /// Records that the transaction took effect, or that a reader read, at a timestamp.
    pub fn committed(&mut self, at: Timestamp) {
        self.stage = Stage::Committed;
        self.at = at;
    }

    /// Records that its machine had no lease at its end: its reads may be outdated, unless it took
    /// effect.
    pub fn lost_touch(&mut self) {
        self.out_of_touch = true;
    }

    /// Returns its execution over the ledger, with its end.
    pub fn take_execution(&mut self, ended: u64) -> Option<Execution> {
        let mut execution = self.execution.take()?;
        execution.ended = ended;
        execution.committed = self.stage == Stage::Committed;
        if self.out_of_touch && !execution.committed {
            execution.began = SOMETIME;
        }
        Some(execution)
    }

    /// Returns the transaction as its client saw it; `ended` is [`crate::history::NEVER`] if the
    /// client did not learn the outcome.
    pub fn seen(self, ended: u64) -> ObservedTransaction {
        let committed = self.stage == Stage::Committed;
        let writes = self.writes.into_values().filter(|_| committed);
        let writes: Vec<Write> = writes.collect();
        let before_w = committed && self.rewrote && writes.is_empty();
        ObservedTransaction {
            id: self.id,
            began: match self.out_of_touch && !committed {
                true => SOMETIME,
                false => self.began,
            },
            ended,
            reads: self.reads,
            writes,
            at: match before_w {
                true => Timestamp::from_raw(self.at.raw() - 1),
                false => self.at,
            },
        }
    }
}
