//! A client: its transactions one after the other, and their outcomes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::Random;
use fencepost_txn::{AbortReason, Coordinator, Isolation, Machine, Mode, Outcome, Stop, Timestamp};

use super::cut_off::cut_off;
use super::step::{Halt, Step};
use crate::attempt::{Attempt, Stage};
use crate::crash_state::CrashState;
use crate::history::{NEVER, ObservedTransaction};
use crate::levels::Execution;
use crate::lists::Contents;
use crate::plan::Plan;
use crate::sim::Sim;
use crate::world::World;

/// The records of all clients of a run.
#[derive(Debug, Default)]
pub struct ClientRecords {
    numbers: u64,
    markers: usize,
    /// The transactions whose outcome is known.
    pub history: Vec<ObservedTransaction>,
    /// The transactions that were dropped during their commit.
    pub doubtful: Vec<Attempt>,
    /// The contents of lists that were read.
    pub lists: Vec<Contents>,
    /// The executions of transactions over the ledger.
    pub executions: Vec<Execution>,
    /// The numbers of transactions, by outcome or reason of abort.
    pub ends: BTreeMap<&'static str, u64>,
}

impl ClientRecords {
    /// Returns the number of the next transaction.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Records a transaction whose client learned the outcome.
    pub fn note(&mut self, mut attempt: Attempt, ended: u64) {
        self.lists.append(&mut attempt.lists);
        self.executions.extend(attempt.take_execution(ended));
        self.history.push(attempt.seen(ended));
    }

    /// Records a transaction whose client did not learn the outcome, once it is known.
    pub fn note_resolved(&mut self, mut attempt: Attempt, committed: Option<Timestamp>) {
        match committed {
            Some(at) => attempt.committed(at),
            None => attempt.stage = Stage::Aborted,
        }
        self.note(attempt, NEVER);
    }

    fn count(&mut self, end: &'static str) {
        *self.ends.entry(end).or_default() += 1;
    }

    /// Takes an unused marker, if there is one.
    fn marker(&mut self, world: &World) -> Option<usize> {
        let free = Some(self.markers).filter(|marker| *marker < world.markers.len());
        self.markers += usize::from(free.is_some());
        free
    }
}

/// A client that runs transactions on one machine.
pub struct Client {
    /// The number of the client.
    pub number: usize,
    /// The machine, and its index from 0.
    pub machine: (usize, Arc<Machine>),
    /// The objects of the run.
    pub world: Rc<World>,
    /// The plan of the run.
    pub plan: Rc<Plan>,
    /// The simulated environment.
    pub sim: Sim,
    /// The record of transactions.
    pub log: Rc<RefCell<ClientRecords>>,
    /// The client's random numbers.
    pub random: Random,
    /// The crash state of its machine.
    pub crash_state: CrashState,
}

/// The planned end of a transaction.
#[derive(Clone, Copy)]
enum PlannedEnd {
    Commit,
    Abort,
    Rollback,
    /// The transaction is dropped at this poll, before its commit.
    Drop(u64),
    /// The transaction is dropped at this poll of its commit.
    DropCommit(u64),
}

impl Client {
    /// Runs all transactions of the client.
    pub async fn run(mut self) {
        let mut coordinator = self.machine.1.coordinator();
        for _ in 0..self.plan.transactions {
            if self.crash_state.has_crashed() || self.machine.1.is_to_part() {
                return;
            }
            let thought = self.random.below(self.plan.think_ns);
            self.sim.nap(thought).await;
            self.attempt(&mut coordinator).await;
            if self.random.one_in(16) {
                self.machine.1.tidy();
            }
            self.sim.progress();
        }
    }

    fn ending(&mut self) -> PlannedEnd {
        if self.random.one_in(self.plan.drop_one_in) {
            let polls = 1 + self.random.below(10);
            return match self.random.below(3) {
                0 => PlannedEnd::Drop(polls),
                _ => PlannedEnd::DropCommit(polls),
            };
        }
        match self.random.below(20) {
            0 => PlannedEnd::Abort,
            1 => PlannedEnd::Rollback,
            _ => PlannedEnd::Commit,
        }
    }

    /// Returns the level of the next transaction, if it is over the ledger.
    fn level(&mut self) -> Option<Isolation> {
        const LEVELS: [Isolation; 3] = [
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Serializable,
        ];
        let levels = self.plan.levels?;
        let over = self.random.below(100) < levels.share_percent;
        over.then(|| LEVELS[self.random.below(3) as usize])
    }

    async fn attempt(&mut self, coordinator: &mut Coordinator) {
        let ending = self.ending();
        let mode = match self.random.below(4) {
            0 => Mode::ReadOnly,
            _ => Mode::ReadWrite,
        };
        let marker = match (ending, mode) {
            (PlannedEnd::DropCommit(_), Mode::ReadWrite) => {
                self.log.borrow_mut().marker(&self.world)
            }
            (_, Mode::ReadWrite) if !self.plan.faults.is_empty() => {
                self.log.borrow_mut().marker(&self.world)
            }
            _ => None,
        };
        // A transaction without a marker must learn its outcome.
        let ending = match (ending, marker) {
            (PlannedEnd::DropCommit(_), None) => PlannedEnd::Commit,
            (ending, _) => ending,
        };
        let id = self.log.borrow_mut().number();
        let began = self.sim.moment();
        let mut attempt = Attempt::new(id, began, marker);
        attempt.execution = self.level().map(|level| Execution::begin(id, level, began));
        let attempt = RefCell::new(attempt);
        let committing = || attempt.borrow().stage == Stage::Committing;
        let (polls, only_commit) = match ending {
            PlannedEnd::Drop(polls) => (polls, false),
            PlannedEnd::DropCommit(polls) => (polls, true),
            _ => (u64::MAX, true),
        };
        let (sim, crash_state) = (self.sim.clone(), self.crash_state.clone());
        let ended = {
            let counts = || only_commit == committing();
            let leaves = || marker.is_some() && committing() && crash_state.is_dismissed();
            let run = self.transaction(coordinator, mode, &attempt, ending);
            let run = cut_off(cut_off(run, polls, counts), 1, leaves);
            crash_state.or_cut(async { run.await.flatten() }).await
        };
        let mut log = self.log.borrow_mut();
        let mut attempt = attempt.into_inner();
        if !self.machine.1.is_answering() {
            attempt.lost_touch();
        }
        match ended {
            Some(Ok(end)) => log.count(end),
            // The client does not know the outcome.
            Some(Err(Halt::Stop(Stop::InDoubt)))
                if attempt.marker.is_some() && attempt.stage == Stage::Committing =>
            {
                log.count("unknown");
                log.lists.append(&mut attempt.lists);
                log.doubtful.push(attempt);
                return;
            }
            Some(Err(Halt::Broken(what))) => sim.report(format!("transaction {id}: {what}")),
            Some(Err(Halt::Stop(stop))) => {
                let evicted = self.machine.1.is_evicted();
                if !may_stop(stop, mode, &self.plan, evicted) {
                    sim.report(format!("transaction {id}, {mode:?}, stopped: {stop}"));
                }
                log.count(name(stop));
            }
            // The commit may have ended at the time of the machine's crash.
            None if attempt.marker.is_some()
                && matches!(attempt.stage, Stage::Committing | Stage::Committed) =>
            {
                log.count("dropped in commit");
                log.lists.append(&mut attempt.lists);
                log.doubtful.push(attempt);
                return;
            }
            None => log.count("dropped"),
        }
        if attempt.stage != Stage::Committed {
            attempt.stage = Stage::Aborted;
        }
        let ended = sim.moment();
        log.note(attempt, ended);
    }

    /// Runs one transaction; returns its outcome.
    async fn transaction(
        &mut self,
        coordinator: &mut Coordinator,
        mode: Mode,
        attempt: &RefCell<Attempt>,
        ending: PlannedEnd,
    ) -> Result<&'static str, Halt> {
        let mut tx = coordinator.begin(mode);
        tx.set_yielding(self.random.one_in(8));
        let level = attempt.borrow().execution.as_ref().map(|of| of.isolation);
        if let Some(level) = level {
            tx.set_isolation(level);
        }
        let (id, marker) = (attempt.borrow().id, attempt.borrow().marker);
        if let Some(marker) = marker {
            tx.write(self.world.markers[marker], &[id]).await?;
        }
        let mut step = Step {
            tx: &mut tx,
            attempt,
            world: &self.world,
            plan: &self.plan,
            sim: &self.sim,
            random: &mut self.random,
            machine: self.machine.0,
        };
        match level {
            Some(_) => step.statements().await?,
            None => step.several().await?,
        }
        match ending {
            PlannedEnd::Abort => {
                tx.abort();
                return Ok("aborted");
            }
            PlannedEnd::Rollback => {
                tx.rollback().await?;
                return Ok("rolled back");
            }
            _ => {}
        }
        begin_commit(attempt, &self.sim);
        match tx.commit().await? {
            Outcome::Committed(at) => {
                attempt.borrow_mut().committed(at);
                Ok("committed")
            }
            Outcome::Aborted(reason) => Err(Halt::Stop(Stop::Retry(reason))),
        }
    }
}

/// Records that a transaction begins its commit.
fn begin_commit(attempt: &RefCell<Attempt>, sim: &Sim) {
    let mut attempt = attempt.borrow_mut();
    attempt.stage = Stage::Committing;
    if let Some(execution) = &mut attempt.execution {
        execution.commits = sim.moment();
    }
}

impl Step<'_> {
    /// Carries out some steps of any kind.
    async fn several(&mut self) -> Result<(), Halt> {
        for _ in 0..1 + self.below(3) {
            if self.below(10) == 0 {
                self.taken_back().await?;
            }
            self.any().await?;
            self.pause().await;
            if self.random.one_in(12) {
                self.outlast().await;
            }
        }
        Ok(())
    }

    /// Carries out one step of any kind.
    async fn any(&mut self) -> Result<(), Halt> {
        if let Some(tables) = self.plan.tables
            && self.below(100) < tables.share_percent
        {
            return self.tables().await;
        }
        match self.below(22) {
            0..3 => self.registers().await,
            3 => self.skew().await,
            4 | 5 if self.writes() => self.transfer().await,
            4..7 => self.audit().await,
            7 => self.list().await,
            8 if self.below(3) == 0 => self.large().await,
            8..12 => self.rows().await,
            12 => self.range().await,
            13..16 => self.values().await,
            16 => self.all_values().await,
            17 => self.read_large_objects().await,
            _ => self.page().await,
        }
    }

    /// Carries out a step and rolls it back to a savepoint.
    async fn taken_back(&mut self) -> Result<(), Halt> {
        let before = self.attempt.borrow().clone();
        let savepoint = self.tx.savepoint();
        self.any().await?;
        self.tx.rollback_to(&savepoint);
        self.tx.release(savepoint);
        *self.attempt.borrow_mut() = before;
        Ok(())
    }
}

/// Returns whether a transaction may stop for this reason: without a fault of the code, or on an
/// evicted machine.
fn may_stop(stop: Stop, mode: Mode, plan: &Plan, evicted: bool) -> bool {
    match (stop, mode) {
        (Stop::NotMember | Stop::InDoubt, _) if evicted => true,
        // The new half of a node that was split from another machine's node has no old versions.
        (Stop::Retry(AbortReason::SnapshotTooOld), _) => plan.few_old_versions || plan.machines > 1,
        // A machine has failed and others are about to take over its regions, or a machine has
        // joined.
        (Stop::Retry(_), _) if !plan.faults.is_empty() || plan.join_after_ns.is_some() => true,
        (_, Mode::ReadOnly) => false,
        (Stop::Retry(AbortReason::Unreachable | AbortReason::Interrupted), _) => false,
        (Stop::Retry(_) | Stop::Deadlock | Stop::TooLarge(_), _) => true,
        _ => false,
    }
}

fn name(stop: Stop) -> &'static str {
    match stop {
        Stop::Retry(reason) => reason.name(),
        Stop::Deadlock => "deadlock",
        Stop::TooLarge(_) => "too large",
        _ => "failed",
    }
}
