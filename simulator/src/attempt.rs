//! What a client writes down of a transaction while it runs.

use std::collections::BTreeMap;

use fencepost_txn::Timestamp;

use crate::history::{Object, SOMETIME, Saw, Seen, Write};
use crate::levels::Execution;
use crate::lists::Contents;

/// How far a transaction has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It reads and writes.
    Running,
    /// It commits.
    Committing,
    /// It took effect.
    Committed,
    /// It had no effect.
    Aborted,
}

/// A transaction in the making.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its number.
    pub id: u64,
    began: u64,
    /// How far it has got.
    pub stage: Stage,
    /// Where it leaves its number, if its client may not be told of its end.
    pub marker: Option<usize>,
    at: Timestamp,
    /// Whether its machine could not say any more whether what it had was the newest.
    out_of_touch: bool,
    reads: Vec<(Object, Saw)>,
    writes: BTreeMap<Object, Write>,
    /// It has written what was there already: a version that nobody can tell from the one before.
    rewrote: bool,
    /// What it found in lists.
    pub lists: Vec<Contents>,
    /// Its execution over the ledger, if it is one of a level.
    pub execution: Option<Execution>,
}

impl Attempt {
    /// Begins one.
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

    /// It has met a version in the snapshot of `at`. A transaction must see what it has written itself:
    /// the error says what it saw instead.
    pub fn saw(&mut self, object: Object, saw: Saw, at: Timestamp) -> Result<(), String> {
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

    /// It has written; `stays` is whether the object is there afterwards, `needs` whether it was before.
    pub fn wrote(
        &mut self,
        object: Object,
        stays: bool,
        needs: Option<bool>,
    ) -> Result<(), String> {
        if let Some(own) = self.own(object)
            && needs.is_some_and(|needs| needs != (own != Saw::Absent))
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

    /// It has written what it has read there. For the history it has only read it, up to its write.
    pub fn rewrote(&mut self) {
        self.rewrote = true;
    }

    /// What it has left there itself.
    fn own(&self, object: Object) -> Option<Saw> {
        self.writes.get(&object).map(|write| match write.stays {
            true => Saw::By(self.id),
            false => Saw::Absent,
        })
    }

    /// Whether it has written there.
    pub fn owns(&self, object: Object) -> bool {
        self.writes.contains_key(&object)
    }

    /// The snapshot in which it has read last.
    pub fn snapshot(&self) -> Timestamp {
        self.at
    }

    /// It took effect, or read, at a timestamp.
    pub fn committed(&mut self, at: Timestamp) {
        self.stage = Stage::Committed;
        self.at = at;
    }

    /// Its machine has no lease at its end: what it has read may have been old unless it took effect.
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

    /// What its client saw; `ended` is [`crate::history::NEVER`] where it was not told
    /// of the end.
    pub fn seen(self, ended: u64) -> Seen {
        let committed = self.stage == Stage::Committed;
        let writes = self.writes.into_values().filter(|_| committed);
        let writes: Vec<Write> = writes.collect();
        let before_w = committed && self.rewrote && writes.is_empty();
        Seen {
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
