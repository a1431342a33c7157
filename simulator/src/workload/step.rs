//! One step of a transaction, and its parameters.

use std::cell::RefCell;

use fencepost_btree::IndexError as TreeError;
use fencepost_fabric::Random;
use fencepost_hashtable::IndexError as TableError;
use fencepost_txn::{Mode, Stop, Transaction};

use crate::attempt::Attempt;
use crate::history::{Object, ReadVersion};
use crate::plan::Plan;
use crate::sim::Sim;
use crate::world::World;

/// A time after which leases of tens of milliseconds have expired, and the recovery is done.
const OUTLAST_NS: u64 = 100_000_000;

/// A time in which many transactions of other clients complete.
const LONG_NS: u64 = 2_000_000;

/// The reason why a step did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The transaction was stopped.
    Stop(Stop),
    /// An invariant is violated.
    Broken(String),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Halt {
        Halt::Stop(stop)
    }
}

impl From<String> for Halt {
    fn from(what: String) -> Halt {
        Halt::Broken(what)
    }
}

impl From<TreeError> for Halt {
    fn from(error: TreeError) -> Halt {
        match error {
            TreeError::Stop(stop) => Halt::Stop(stop),
            error => Halt::Broken(error.to_string()),
        }
    }
}

impl From<TableError> for Halt {
    fn from(error: TableError) -> Halt {
        match error {
            TableError::Stop(stop) => Halt::Stop(stop),
            error => Halt::Broken(error.to_string()),
        }
    }
}

/// The parameters of a step.
pub struct Step<'a> {
    /// The transaction.
    pub tx: &'a mut Transaction,
    /// The record of the transaction.
    pub attempt: &'a RefCell<Attempt>,
    /// The objects of the run.
    pub world: &'a World,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The simulated environment.
    pub sim: &'a Sim,
    /// The client's random numbers.
    pub random: &'a mut Random,
    /// The machine of the transaction, from 0.
    pub machine: usize,
}

impl Step<'_> {
    /// Returns a random number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Returns a random index below `count`.
    pub fn one_of(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    /// Returns whether the transaction may write.
    pub fn writes(&self) -> bool {
        self.tx.mode() == Mode::ReadWrite
    }

    /// Returns the number of the transaction.
    pub fn id(&self) -> u64 {
        self.attempt.borrow().id
    }

    /// Records a read.
    pub fn saw(&self, object: Object, saw: ReadVersion) -> Result<(), Halt> {
        let at = self.tx.read_timestamp();
        Ok(self.attempt.borrow_mut().saw(object, saw, at)?)
    }

    /// Records a write.
    pub fn wrote(&self, object: Object, stays: bool, needs: Option<bool>) -> Result<(), Halt> {
        Ok(self.attempt.borrow_mut().wrote(object, stays, needs)?)
    }

    /// Waits while other clients do much work, or, in runs with faults, perhaps until a crashed
    /// machine is replaced.
    pub async fn outlast(&mut self) {
        let longest = match self.plan.faults.is_empty() {
            true => LONG_NS,
            false => OUTLAST_NS,
        };
        let ns = self.random.below(longest);
        self.sim.nap(ns).await;
    }

    /// Yields to other tasks now and then.
    pub async fn pause(&mut self) {
        if self.random.one_in(3) {
            let most = self.plan.think_ns / 4 + 1;
            let ns = self.random.below(most);
            self.sim.nap(ns).await;
        }
    }
}
