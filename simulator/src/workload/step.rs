//! One step of a transaction, and what it has at hand.

use std::cell::RefCell;

use fencepost_btree::IndexError as TreeError;
use fencepost_fabric::Random;
use fencepost_hashtable::IndexError as TableError;
use fencepost_txn::{Mode, Stop, Transaction};

use crate::attempt::Attempt;
use crate::history::{Object, Saw};
use crate::plan::Plan;
use crate::sim::Sim;
use crate::world::World;

/// Leases of tens of milliseconds run out within it, and what follows is done.
const OUTLAST_NS: u64 = 100_000_000;

/// Many transactions of others are through in it.
const LONG_NS: u64 = 2_000_000;

/// Why a step did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The transaction stopped.
    Stop(Stop),
    /// Something is as it must not be.
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

/// What a step has at hand.
pub struct Step<'a> {
    /// The transaction.
    pub tx: &'a mut Transaction,
    /// What is written down of it.
    pub attempt: &'a RefCell<Attempt>,
    /// What there is.
    pub world: &'a World,
    /// How much of it.
    pub plan: &'a Plan,
    /// Where it is.
    pub sim: &'a Sim,
    /// The client's draws.
    pub random: &'a mut Random,
    /// Which machine the transaction runs on, from 0.
    pub machine: usize,
}

impl Step<'_> {
    /// A draw.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A draw of one of some that are numbered.
    pub fn one_of(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    /// Whether the transaction may write.
    pub fn writes(&self) -> bool {
        self.tx.mode() == Mode::ReadWrite
    }

    /// Number of the transaction.
    pub fn id(&self) -> u64 {
        self.attempt.borrow().id
    }

    /// Writes down what was read.
    pub fn saw(&self, object: Object, saw: Saw) -> Result<(), Halt> {
        let at = self.tx.read_timestamp();
        Ok(self.attempt.borrow_mut().saw(object, saw, at)?)
    }

    /// Writes down what was written.
    pub fn wrote(&self, object: Object, stays: bool, needs: Option<bool>) -> Result<(), Halt> {
        Ok(self.attempt.borrow_mut().wrote(object, stays, needs)?)
    }

    /// Waits while others do a lot, or, where a machine crashes, maybe until it is replaced.
    pub async fn outlast(&mut self) {
        let longest = match self.plan.faults.is_empty() {
            true => LONG_NS,
            false => OUTLAST_NS,
        };
        let ns = self.random.below(longest);
        self.sim.nap(ns).await;
    }

    /// Lets others go on now and then.
    pub async fn pause(&mut self) {
        if self.random.one_in(3) {
            let most = self.plan.think_ns / 4 + 1;
            let ns = self.random.below(most);
            self.sim.nap(ns).await;
        }
    }
}
