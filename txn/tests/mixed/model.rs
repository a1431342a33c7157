//! The records of what transactions saw, and the check against one serial order.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_txn::Timestamp;

/// The state that committed transactions change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The keys of the set.
    pub keys: BTreeSet<u64>,
    /// The numbers of the objects behind the cells.
    pub cells: BTreeMap<usize, u64>,
}

/// One operation of a transaction, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Insert(u64, bool),
    Remove(u64, bool),
    Scan(u64, u64, Vec<u64>),
    Read(usize, Option<u64>),
    Write(usize, u64),
    Free(usize),
    Savepoint,
    Rollback,
}

/// The record of one transaction.
#[derive(Clone, Debug)]
pub struct TransactionRecord {
    pub number: u64,
    pub steps: Vec<Step>,
    /// The snapshot at the end of its last step.
    pub r: Timestamp,
    /// The write timestamp; `None` if the transaction changed nothing or was aborted.
    pub w: Option<Timestamp>,
}

impl State {
    /// Applies the steps, and compares their results with the recorded ones.
    pub fn tell(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut saved = Vec::new();
        for step in steps {
            let right = match step {
                Step::Insert(key, new) => self.keys.insert(*key) == *new,
                Step::Remove(key, was) => self.keys.remove(key) == *was,
                Step::Scan(low, high, seen) => self.keys.range(low..high).eq(seen),
                Step::Read(cell, seen) => self.cells.get(cell) == seen.as_ref(),
                Step::Write(cell, number) => {
                    self.cells.insert(*cell, *number);
                    true
                }
                Step::Free(cell) => self.cells.remove(cell).is_some(),
                Step::Savepoint => {
                    saved.push(self.clone());
                    true
                }
                Step::Rollback => {
                    *self = saved.pop().ok_or("a rollback without a savepoint")?;
                    true
                }
            };
            if !right {
                return Err(format!("{step:?} against {self:?}"));
            }
        }
        Ok(())
    }
}

/// Applies every committed transaction at its write timestamp, and checks every other one,
/// including aborted ones, at its snapshot. Returns the state at the end.
pub fn check(mut stories: Vec<TransactionRecord>) -> Result<State, String> {
    let bad = |story: &TransactionRecord, why| format!("{why} in {story:?}");
    let mut state = State::default();
    // A snapshot at R includes the writes at R.
    stories.sort_by_key(|story| story.w.map_or((story.r, 1), |w| (w, 0)));
    for story in &stories {
        if story.w.is_some() {
            state.tell(&story.steps).map_err(|why| bad(story, why))?;
        } else {
            state
                .clone()
                .tell(&story.steps)
                .map_err(|why| bad(story, why))?;
        }
    }
    Ok(state)
}
