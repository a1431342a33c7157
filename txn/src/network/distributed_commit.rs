//! The distributed commit (SOSP'15 §4), step for step, at its coordinator: the commit of a
//! transaction with more than one participating machine.
//!
//! ```text
//!  reserve ─► LOCK ─► W ─► VALIDATE ─► COMMIT-BACKUP ─► COMMIT-PRIMARY ─► report ─► TRUNCATE
//!    │ space    │ replies               (LOCK-MOVED)       │ first ack
//!    └──────────┴──────── may still abort ┘ all acks       from here on it may not fail
//! ```
//! # Invariants
//! * DISTRIBUTED-1: COMMIT-PRIMARY is written only when every backup has acknowledged its
//!   COMMIT-BACKUP, and every primary has the new values of its objects (PRIMARY-3). Success is
//!   reported only when one primary has acknowledged its COMMIT-PRIMARY.
//! * DISTRIBUTED-2: each machine that received a LOCK receives a COMMIT-PRIMARY or an ABORT, also
//!   where the commit unwinds.
//! * DISTRIBUTED-3: a task that waits for locks of a commit that awaits its peers lets other tasks
//!   run (MOMENT-1).
//!
//! COMMIT-BACKUP of a large transaction is sent in parts. Backups copy the parts out of the log as
//! they arrive, so log space becomes free without further commits, and none is reserved. No backup
//! has the whole record before its end (COMMIT_BACKUP_LAST). All backups receive the end at once;
//! those for which one record suffices receive their COMMIT-BACKUP at the same time.
//!
//! Objects whose primary is the coordinator's own machine are locked and replaced as on a machine
//! that is alone.

use std::borrow::BorrowMut;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Completion, FabricError, MachineId, RingFull};
use fencepost_storage::Timestamp;

use super::Network;
use super::in_flight::{CommitCompletion, DecisionWait};
use super::participants::{COMMIT_BACKUP, LOCK};
use super::peer_sender::PeerSender;
use crate::backoff::yield_now;
use crate::commit::CommitResult;
use crate::context::Context;
use crate::counters::Event;
use crate::fault::{self, Fault};
use crate::lock::LockFailure;
use crate::machine::Machine;
use crate::record::{self, TxnId};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

/// Attempts of a commit to reserve space in the participants' logs before it aborts.
const SPACE_ROUNDS: u32 = 1 << 14;
/// Sleep between two attempts, after many attempts without sleep.
const BACKOFF: Duration = Duration::from_micros(50);

/// The reason why a commit does not continue.
enum CommitFailure {
    /// The commit had no effect.
    Failed(LockFailure),
    /// Recovery decides whether the commit takes effect.
    InDoubt,
}

impl From<LockFailure> for CommitFailure {
    fn from(failure: LockFailure) -> CommitFailure {
        CommitFailure::Failed(failure)
    }
}

/// The failure of a commit if another configuration was applied before other machines could have
/// seen it.
const RECONFIGURED: LockFailure = LockFailure::Abort(AbortReason::Unreachable);

impl Transaction {
    /// Runs LOCK to TRUNCATE of a commit with remote participants. On failure nothing of the commit
    /// is left.
    pub(crate) fn commit_distributed<'a>(
        &'a mut self,
        network: &'a Network,
    ) -> Work<'a, Result<CommitResult, LockFailure>> {
        Box::pin(async move {
            let admitted = network.admitted().await;
            admitted.map_err(LockFailure::Stop)?;
            let done = match self.lock_to_backups(network).await {
                Ok(w) => self.primaries(network, w).await,
                Err(halt) => Err(halt),
            };
            match done {
                Ok(done) => Ok(done),
                Err(CommitFailure::InDoubt) if fault::injected(Fault::AbortInDoubt) => {
                    Err(RECONFIGURED)
                }
                Err(CommitFailure::InDoubt) => self.await_recovery_decision(network).await,
                Err(CommitFailure::Failed(failure)) => {
                    self.context_mut().unlock();
                    let busy = LockFailure::is_busy;
                    if busy(&failure) {
                        self.back_off(network).await;
                    }
                    Err(failure)
                }
            }
        })
    }

    async fn lock_to_backups(&mut self, network: &Network) -> Result<Timestamp, CommitFailure> {
        self.find_regions(network).await?;
        self.context_mut().plan(network)?;
        if network.has_no_space(&self.context().remote) {
            return Err(LockFailure::Stop(Stop::DiskFull).into());
        }
        self.reserve_logs(network).await?;
        let context = self.context_mut();
        let current = context.remote.configuration;
        let during = &network.configured;
        let replies = during.during(current, || context.lock_elsewhere(network));
        let replies = replies.ok_or(RECONFIGURED)?;
        context.lock().await?;
        for (machine, reply) in replies {
            let answer = network.answered(self.machine(), reply);
            let Ok(reply) = answer.await else {
                return Err(LockFailure::Abort(AbortReason::Unreachable).into());
            };
            let context = self.context_mut();
            context.locked_elsewhere(machine, reply).await?;
        }
        let context = self.context_mut();
        context.give_way()?;
        let overwritten = context.newest_overwritten();
        let w = context.machine.write_timestamp(overwritten).await;
        let w = w.map_err(LockFailure::Abort)?;
        context.validate(w).await?;
        context.stamp(w);
        if fault::injected(Fault::UnlockTooEarly) {
            context.release_locks();
        }
        for at in 0..self.context().remote.participants.len() {
            if self.context().remote.participants[at].in_parts {
                self.commit_backup_in_parts(network, at, w).await?;
            }
        }
        let context = self.context_mut();
        let id = context.txn_id();
        // The records at other machines are valid only in the configuration in which they were
        // written.
        let current = match fault::injected(Fault::CommitInLaterConfiguration) {
            true => network.configured.id(),
            false => current,
        };
        let backed = during.during(current, || {
            context.lock_new();
            network.in_flight.begin(id, &context.remote.regions, w);
            context.lock_moved_elsewhere(network);
            context.commit_backup(network, w)?;
            context.keep_on_disk(network, w)
        });
        backed.ok_or(RECONFIGURED)??;
        if fault::injected(Fault::SkipBackupAck) {
            drop(context.remote.acks.pop());
        }
        match self.backed(network).await {
            true => Ok(w),
            false => Err(self.not_acknowledged(network, id).await),
        }
    }

    /// Waits until every backup has acknowledged its COMMIT-BACKUP. Returns `false` if that cannot
    /// be known any more.
    async fn backed(&mut self, network: &Network) -> bool {
        let context = self.context_mut();
        // The acks stay with the transaction: it may be dropped while it waits, and then continues
        // as an orphan.
        loop {
            let of_disk = context.remote.acks.len() <= context.remote.from_disks;
            let Some(ack) = context.remote.acks.last_mut() else {
                break;
            };
            let answer = match of_disk {
                true => (&mut *ack).await,
                false => network.answered(&context.machine, &mut *ack).await,
            };
            if answer.is_err() {
                *ack = Completion::done(Err(FabricError::Lost));
                return false;
            }
            context.remote.acks.pop();
        }
        context.remote.reach_all(network)
    }

    /// Returns whether every backup has acknowledged its COMMIT-BACKUP by now. Does not wait.
    pub(super) fn is_backed(&mut self, network: &Network) -> bool {
        let remote = &mut self.context_mut().remote;
        remote.acks.retain_mut(|ack| match ack.take() {
            Some(Err(lost)) => {
                *ack = Completion::done(Err(lost));
                true
            }
            answer => answer.is_none(),
        });
        remote.acks.is_empty() && remote.reach_all(network)
    }

    /// Waits until the region map has every written region, as during a region handover.
    async fn find_regions(&self, network: &Network) -> Result<(), LockFailure> {
        for at in 0..self.context().writes.writes.len() {
            let region = self.context().writes.writes[at].addr.region();
            if !network.knows(region) {
                let found = network.find(region).await;
                let there = found.map_err(|stop| match stop {
                    Stop::Retry(reason) => LockFailure::Abort(reason),
                    stop => LockFailure::Stop(stop),
                })?;
                if !there {
                    return Err(LockFailure::Stop(Stop::Damaged));
                }
            }
        }
        Ok(())
    }

    /// Handles a COMMIT-BACKUP without an ack. Where failed machines are replaced, the machine that
    /// did not acknowledge will be replaced.
    async fn not_acknowledged(&self, network: &Network, id: TxnId) -> CommitFailure {
        if network.replaces_machines() {
            network.configured.later_than(id.configuration).await;
            return CommitFailure::InDoubt;
        }
        let failure = if network.cannot_keep(&self.context().remote) {
            // All participants are told to abort, but the state of their disks is not known.
            network.in_flight.withdraw(id);
            LockFailure::Stop(Stop::Failed)
        } else if network.decides_later() {
            LockFailure::Stop(Stop::InDoubt)
        } else {
            LockFailure::Abort(AbortReason::Unreachable)
        };
        CommitFailure::Failed(failure)
    }

    /// Waits for the decision of recovery about a commit, and carries it out here.
    async fn await_recovery_decision(
        &mut self,
        network: &Network,
    ) -> Result<CommitResult, LockFailure> {
        let id = self.context().txn_id();
        let decision = network.in_flight.decision(id);
        let in_place = self.context().writes.is_empty();
        let _asking = in_place.then_some(DecisionWait { network, id });
        // An evicted machine never receives the recovery decision: report `InDoubt` now.
        if network.is_evicted() {
            return Err(LockFailure::Stop(Stop::InDoubt));
        }
        // An error means that this machine stops, so the outcome is unknown here.
        let decision = decision
            .await
            .map_err(|_| LockFailure::Stop(Stop::InDoubt))?;
        let context = self.context_mut();
        let done = match decision {
            Some(w) => {
                context.take_effect(w);
                let durable_at = None;
                Ok(CommitResult { w, durable_at })
            }
            None => {
                context.remote.participants.clear();
                context.unlock();
                Err(RECONFIGURED)
            }
        };
        network.in_flight.mark_done(id);
        done
    }

    /// Writes all parts of COMMIT-BACKUP of a large transaction to one backup, except the end. The
    /// parts have no effect without the end, so the commit may still be given up.
    async fn commit_backup_in_parts(
        &mut self,
        network: &Network,
        at: usize,
        w: Timestamp,
    ) -> Result<(), LockFailure> {
        let current = self.context().remote.configuration;
        let machine = self.context().remote.participants[at].machine;
        let Some(sender) = network.sender(machine) else {
            return Ok(());
        };
        self.context_mut().remote.participants[at].backed = true;
        let mut next = 0;
        while next < self.context().remote.participants[at].backup.len() {
            let (record, upto) = self.context().backup_part(network, at, next, w)?;
            next = upto;
            let mut round = 0;
            let ack = loop {
                let append = || sender.append_unpromised(record::COMMIT_BACKUP_PART, &record);
                match network.configured.during(current, append) {
                    None => return Err(RECONFIGURED),
                    Some(Ok(ack)) => break ack,
                    // Two large transactions may block each other.
                    Some(Err(RingFull)) if round == SPACE_ROUNDS => {
                        return Err(LockFailure::Abort(AbortReason::LockBusy));
                    }
                    Some(Err(RingFull)) => self.wait_a_moment(network, round).await,
                }
                round += 1;
            };
            self.context_mut().remote.acks.push(ack);
        }
        Ok(())
    }

    /// Reserves log space for all records of the commit at every participant, before the first
    /// record is written.
    async fn reserve_logs(&mut self, network: &Network) -> Result<(), LockFailure> {
        for at in 0..self.context().remote.participants.len() {
            let machine = self.context().remote.participants[at].machine;
            let Some(sender) = network.sender(machine) else {
                continue;
            };
            // A reader never sees records behind a hole. Where machines are replaced, one of the
            // two machines is about to be.
            let reaches = || sender.is_whole() || network.replaces_machines();
            if !sender.is_up().await || !reaches() {
                return Err(LockFailure::Abort(AbortReason::Unreachable));
            }
            let longest = network.longest_record();
            let mut sizes = self.context().record_sizes(at);
            if sizes[LOCK] > longest || !network.takes(&sizes) {
                self.context_mut().remote.participants[at].values_follow = true;
                sizes = self.context().record_sizes(at);
            }
            if sizes[COMMIT_BACKUP] > longest || !network.takes(&sizes) {
                sizes[COMMIT_BACKUP] = self.context().end_of_parts();
                self.context_mut().remote.participants[at].in_parts = true;
            }
            if sizes.iter().any(|words| *words > longest) || !network.takes(&sizes) {
                return Err(LockFailure::Stop(Stop::TooLarge(
                    "a transaction over several machines is larger than their logs take",
                )));
            }
            let mut round = 0;
            let current = self.context().remote.configuration;
            loop {
                let reserve = || sender.reserve(&sizes);
                match network.configured.during(current, reserve) {
                    None => return Err(RECONFIGURED),
                    Some(Ok(())) => break,
                    Some(Err(RingFull)) => {}
                }
                round += 1;
                if round > SPACE_ROUNDS {
                    return Err(LockFailure::Abort(AbortReason::LockBusy));
                }
                self.pause(network).await;
            }
            self.context_mut().remote.participants[at].promised = sizes;
        }
        Ok(())
    }

    /// Polls the peers' records, or yields to other tasks if there are none.
    async fn pause(&self, network: &Network) {
        if !network.poll(self.machine()) {
            yield_now().await;
        }
    }

    /// Polls the peers' records, or yields: first the thread's time slice or a short sleep, then
    /// the task.
    async fn wait_a_moment(&self, network: &Network, round: u32) {
        /// Attempts after which the thread sleeps instead of yielding.
        const SHORT: u32 = 4096;
        if network.poll(self.machine()) {
            return;
        }
        if !network.driven {
            match round > SHORT {
                true => std::thread::sleep(BACKOFF),
                false => std::thread::yield_now(),
            }
        }
        yield_now().await;
    }

    /// Backs off from locked objects for a pseudo-random time that differs between attempts, so
    /// that conflicting transactions do not repeat their conflict.
    async fn back_off(&self, network: &Network) {
        let id = self.context().txn_id();
        let mixed = (id.local ^ u64::from(id.thread) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for round in 0..(mixed >> 58) as u32 {
            self.wait_a_moment(network, round).await;
        }
    }

    /// Writes COMMIT-PRIMARY at every primary. The commit has taken effect when this returns `Ok`.
    async fn primaries(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Result<CommitResult, CommitFailure> {
        let id = self.context().txn_id();
        let has_local_locks = self.context().locked > 0;
        let machine = Arc::clone(self.machine());
        let (participants, acks) = self.show(network, w).ok_or(CommitFailure::InDoubt)?;
        let known = has_local_locks || acks.is_empty();
        let mut ending = CommitCompletion {
            network,
            regions: machine.regions(),
            id,
            participants,
            acks,
            lost: false,
            asks: false,
        };
        let mut acknowledged = known;
        while !acknowledged && let Some(ack) = ending.acks.first_mut() {
            let answer = network.answered(&machine, &mut *ack).await;
            acknowledged = answer.is_ok() && network.reaches(&ending.participants);
            ending.lost |= !acknowledged;
            drop(ending.acks.swap_remove(0));
        }
        ending.asks = !acknowledged && network.replaces_machines();
        drop(ending);
        let durable_at = None;
        match acknowledged {
            true => Ok(CommitResult { w, durable_at }),
            // All backups have the record, but this machine may be the only one of them.
            false if network.replaces_machines() => Err(CommitFailure::InDoubt),
            false => Err(LockFailure::Stop(Stop::InDoubt).into()),
        }
    }

    /// Writes COMMIT-PRIMARY and applies it locally. Returns the machines that have records of the
    /// commit and the pending acks; `None` if another configuration has been applied.
    fn show(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Option<(Vec<MachineId>, Vec<Completion<()>>)> {
        let context = self.context_mut();
        let id = context.txn_id();
        let current = match fault::injected(Fault::CommitInLaterConfiguration) {
            true => network.configured.id(),
            false => id.configuration,
        };
        let shown = network.configured.during(current, || {
            // The local new objects are installed before a pointer elsewhere leads to them.
            context.put_in_place(w);
            let acks = context.commit_primary_elsewhere(network, w);
            network.in_flight.show(id);
            acks
        });
        let acks = shown?;
        let participants = context.remote.participants.drain(..);
        let participants = participants.map(|participant| participant.machine);
        let participants = participants.collect();
        context.finish_commit(w);
        Some((participants, acks))
    }

    /// Continues an orphan to its end once every backup has its COMMIT-BACKUP. Returns the
    /// transaction as an error if another configuration has been applied.
    pub(super) fn go_on(mut self, network: &Network, w: Timestamp) -> Result<(), Transaction> {
        let id = self.context().txn_id();
        let machine = Arc::clone(self.machine());
        let Some((participants, acks)) = self.show(network, w) else {
            return Err(self);
        };
        drop(CommitCompletion {
            network,
            regions: machine.regions(),
            id,
            participants,
            acks,
            lost: false,
            asks: false,
        });
        self.finish();
        Ok(())
    }

    /// Carries out the decision of recovery about an orphan that was in doubt.
    pub(super) fn do_what_is_decided(mut self, outcome: Option<Timestamp>) {
        let context = self.context_mut();
        match outcome {
            Some(w) => {
                context.take_effect(w);
                self.finish();
            }
            None => {
                context.remote.participants.clear();
                self.give_up(AbortReason::Unreachable);
            }
        }
    }
}

impl Context {
    /// Applies COMMIT-PRIMARY to the objects whose primary is this machine.
    fn put_in_place(&mut self, w: Timestamp) {
        // From here on each lock is released by the version that replaces the locked one.
        self.locked = 0;
        self.remote.new_locked = false;
        self.commit_primary(w);
    }

    /// Finishes the local part of a commit that has taken effect, and clears the write set.
    fn finish_commit(&mut self, w: Timestamp) {
        self.slot.end_commit();
        self.truncate(w);
        // If the future is dropped from here on, the transaction must not undo these writes.
        self.writes.clear();
        self.machine.counters().count(self.lane, Event::CommitWrite);
    }

    /// Carries out locally the decision of recovery that a commit takes effect.
    pub(crate) fn take_effect(&mut self, w: Timestamp) {
        self.remote.participants.clear();
        // A commit that was shown before is already installed.
        if !self.writes.is_empty() {
            self.leave_out_what_came_back();
            self.put_in_place(w);
            self.finish_commit(w);
        }
    }
}

impl Network {
    /// Waits for a peer's reply. The caller polls by itself for a while, because that is cheaper
    /// than being woken.
    pub(super) async fn answered<T>(
        &self,
        machine: &Machine,
        mut reply: impl BorrowMut<Completion<T>>,
    ) -> Result<T, FabricError> {
        let reply = reply.borrow_mut();
        for _ in 0..self.looks() {
            if let Some(answer) = reply.take() {
                return answer;
            }
            if !self.poll(machine) {
                std::thread::yield_now();
                yield_now().await;
            }
        }
        reply.await
    }

    /// Returns whether no connection to these machines lost a write. Only then do they see the
    /// records that they acknowledge.
    pub(super) fn reaches(&self, machines: &[MachineId]) -> bool {
        let mut senders = machines.iter().filter_map(|machine| self.sender(*machine));
        senders.all(PeerSender::is_whole)
    }

    /// Returns how often a waiter polls for a reply before it relies on the poller to wake it.
    fn looks(&self) -> u32 {
        if self.driven || self.far { 0 } else { 4096 }
    }
}
