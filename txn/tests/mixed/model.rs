//! What transactions saw, and the one order in which it must all make sense.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_txn::Timestamp;

/// The state that transactions move from one version to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The keys of the set.
    pub keys: BTreeSet<u64>,
    /// The objects behind the cells, by the number in them.
    pub cells: BTreeMap<usize, u64>,
}

/// One thing that a transaction did, with what it was told.
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

/// One transaction.
#[derive(Clone, Debug)]
pub struct Story {
    pub number: u64,
    pub steps: Vec<Step>,
    /// The snapshot at the end of its last step.
    pub r: Timestamp,
    /// When its changes took effect; `None` if it has none, or was given up.
    pub w: Option<Timestamp>,
}

impl State {
    /// Does what the steps say, and compares what they say was seen.
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

/// Every committed change at its write timestamp, on top of the ones before; everything else, aborted
/// transactions too, at its snapshot. The state at the end.
pub fn check(mut stories: Vec<Story>) -> Result<State, String> {
    let bad = |story: &Story, why| format!("{why} in {story:?}");
    let mut state = State::default();
    // A snapshot at R has what was written at R.
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
