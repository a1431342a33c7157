//! The commit of a transaction that more than one machine has part in: SOSP'15 §4, step for step, at
//! its coordinator.
//!
//! ```text
//!  reserve ─► LOCK ─► W ─► VALIDATE ─► COMMIT-BACKUP ─► COMMIT-PRIMARY ─► report ─► TRUNCATE
//!    │ room     │ replies               (LOCK-MOVED)       │ first ack
//!    └──────────┴──────── may still abort ┘ all acks       from here on it may not fail
//! ```
//! # Invariants
//! * SPREAD-1: COMMIT-PRIMARY is written only when every backup has acknowledged its COMMIT-BACKUP, and every
//!   primary has what its objects become (PRIMARY-3). Success is reported only when one primary has acknowledged its COMMIT-PRIMARY.
//! * SPREAD-2: whoever got a LOCK gets a COMMIT-PRIMARY or an ABORT, also where the commit unwinds.
//! * SPREAD-3: what waits for the locks of a commit that awaits its peers lets other tasks run (MOMENT-1).
//!
//! What backups get of a large transaction goes out in parts, which they copy out of the log as they come: so
//! room for them comes back without anybody's commit, and none is promised. No backup has all of it before its end
//! (COMMIT_BACKUP_LAST), which every one gets at once, with the COMMIT-BACKUP of those that get one record.
//!
//! Objects whose primary is the coordinator's own machine are locked and replaced as those of a machine
//! that is alone.

use std::borrow::BorrowMut;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Completion, FabricError, MachineId, RingFull};
use fencepost_storage::Timestamp;

use super::Network;
use super::committing::{Asking, Ending};
use super::link::Link;
use super::participants::{COMMIT_BACKUP, LOCK};
use crate::commit::Done;
use crate::counters::Event;
use crate::lock::LockFailure;
use crate::machine::Machine;
use crate::moment::let_others_run;
use crate::planted::{self, Planted};
use crate::record::{self, TxnId};
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Transaction};
use crate::work::Work;

/// Times that a commit asks for room in the logs of the others.
const ROOM_ROUNDS: u32 = 1 << 14;
/// A longer moment.
const NAP: Duration = Duration::from_micros(50);

/// Why a commit does not go on.
enum Halt {
    /// It had no effect.
    Failed(LockFailure),
    /// Whether it takes effect is for recovery to say.
    InDoubt,
}

impl From<LockFailure> for Halt {
    fn from(failure: LockFailure) -> Halt {
        Halt::Failed(failure)
    }
}

/// Another configuration was applied before others could have seen a commit.
const RECONFIGURED: LockFailure = LockFailure::Abort(AbortReason::Unreachable);

impl Transaction {
    /// LOCK to TRUNCATE of a commit that other machines have part in. Nothing is left of it where it
    /// fails.
    pub(crate) fn commit_spread<'a>(
        &'a mut self,
        network: &'a Network,
    ) -> Work<'a, Result<Done, LockFailure>> {
        Box::pin(async move {
            let admitted = network.admitted().await;
            admitted.map_err(LockFailure::Stop)?;
            let done = match self.lock_to_backups(network).await {
                Ok(w) => self.primaries(network, w).await,
                Err(halt) => Err(halt),
            };
            match done {
                Ok(done) => Ok(done),
                Err(Halt::InDoubt) if planted::is(Planted::AbortInDoubt) => Err(RECONFIGURED),
                Err(Halt::InDoubt) => self.settle(network).await,
                Err(Halt::Failed(failure)) => {
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

    async fn lock_to_backups(&mut self, network: &Network) -> Result<Timestamp, Halt> {
        self.find_regions(network).await?;
        self.context_mut().plan(network)?;
        if network.has_no_space(&self.context().spread) {
            return Err(LockFailure::Stop(Stop::DiskFull).into());
        }
        self.reserve_logs(network).await?;
        let context = self.context_mut();
        let current = context.spread.configuration;
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
        if planted::is(Planted::UnlockTooEarly) {
            context.release_locks();
        }
        for at in 0..self.context().spread.participants.len() {
            if self.context().spread.participants[at].in_parts {
                self.commit_backup_in_parts(network, at, w).await?;
            }
        }
        let context = self.context_mut();
        let id = context.txn_id();
        // What others have of it ends with the configuration in which they were told.
        let current = match planted::is(Planted::CommitInLaterConfiguration) {
            true => network.configured.id(),
            false => current,
        };
        let backed = during.during(current, || {
            context.lock_new();
            network.committing.begin(id, &context.spread.regions, w);
            context.lock_moved_elsewhere(network);
            context.commit_backup(network, w)?;
            context.keep_on_disk(network, w)
        });
        backed.ok_or(RECONFIGURED)??;
        if planted::is(Planted::SkipBackupAck) {
            drop(context.spread.acks.pop());
        }
        match self.backed(network).await {
            true => Ok(w),
            false => Err(self.not_acknowledged(network, id).await),
        }
    }

    /// Waits until every backup has its COMMIT-BACKUP; `false` where that cannot be known any more.
    async fn backed(&mut self, network: &Network) -> bool {
        let context = self.context_mut();
        // They stay with the transaction, which may be dropped meanwhile and goes on then.
        loop {
            let of_disk = context.spread.acks.len() <= context.spread.from_disks;
            let Some(ack) = context.spread.acks.last_mut() else {
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
            context.spread.acks.pop();
        }
        context.spread.reach_all(network)
    }

    /// Whether every backup has its COMMIT-BACKUP by now, for whoever does not wait.
    pub(super) fn is_backed(&mut self, network: &Network) -> bool {
        let spread = &mut self.context_mut().spread;
        spread.acks.retain_mut(|ack| match ack.take() {
            Some(Err(lost)) => {
                *ack = Completion::done(Err(lost));
                true
            }
            answer => answer.is_none(),
        });
        spread.acks.is_empty() && spread.reach_all(network)
    }

    /// Waits for regions that are changing hands.
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

    /// A COMMIT-BACKUP was not acknowledged: where machines that fail are replaced, that one is going to be.
    async fn not_acknowledged(&self, network: &Network, id: TxnId) -> Halt {
        if network.replaces_machines() {
            network.configured.later_than(id.configuration).await;
            return Halt::InDoubt;
        }
        let failure = if network.cannot_keep(&self.context().spread) {
            // Everybody is told that it is given up; what is on their disks is not known.
            network.committing.withdraw(id);
            LockFailure::Stop(Stop::Failed)
        } else if network.decides_later() {
            LockFailure::Stop(Stop::InDoubt)
        } else {
            LockFailure::Abort(AbortReason::Unreachable)
        };
        Halt::Failed(failure)
    }

    /// Waits for what recovery decides about a commit, and does that here.
    async fn settle(&mut self, network: &Network) -> Result<Done, LockFailure> {
        let id = self.context().txn_id();
        let decision = network.committing.decision(id);
        let in_place = self.context().writes.is_empty();
        let _asking = in_place.then_some(Asking { network, id });
        // Nobody tells who comes later than that.
        if network.is_evicted() {
            return Err(LockFailure::Stop(Stop::InDoubt));
        }
        // Otherwise the machine stops, and nobody knows.
        let decision = decision
            .await
            .map_err(|_| LockFailure::Stop(Stop::InDoubt))?;
        let context = self.context_mut();
        let done = match decision {
            Some(w) => {
                context.take_effect(w);
                let durable_at = None;
                Ok(Done { w, durable_at })
            }
            None => {
                context.spread.participants.clear();
                context.unlock();
                Err(RECONFIGURED)
            }
        };
        network.committing.is_done(id);
        done
    }

    /// All of COMMIT-BACKUP of a large transaction at one backup but its end: it is worth nothing without, and the commit
    /// may be given up.
    async fn commit_backup_in_parts(
        &mut self,
        network: &Network,
        at: usize,
        w: Timestamp,
    ) -> Result<(), LockFailure> {
        let current = self.context().spread.configuration;
        let machine = self.context().spread.participants[at].machine;
        let Some(link) = network.link(machine) else {
            return Ok(());
        };
        self.context_mut().spread.participants[at].backed = true;
        let mut next = 0;
        while next < self.context().spread.participants[at].backup.len() {
            let (record, upto) = self.context().backup_part(network, at, next, w)?;
            next = upto;
            let mut round = 0;
            let ack = loop {
                let append = || link.append_unpromised(record::COMMIT_BACKUP_PART, &record);
                match network.configured.during(current, append) {
                    None => return Err(RECONFIGURED),
                    Some(Ok(ack)) => break ack,
                    // Two large transactions may be in each other's way.
                    Some(Err(RingFull)) if round == ROOM_ROUNDS => {
                        return Err(LockFailure::Abort(AbortReason::LockBusy));
                    }
                    Some(Err(RingFull)) => self.wait_a_moment(network, round).await,
                }
                round += 1;
            };
            self.context_mut().spread.acks.push(ack);
        }
        Ok(())
    }

    /// Promises room for all records of the commit at every participant, before the first is written.
    async fn reserve_logs(&mut self, network: &Network) -> Result<(), LockFailure> {
        for at in 0..self.context().spread.participants.len() {
            let machine = self.context().spread.participants[at].machine;
            let Some(link) = network.link(machine) else {
                continue;
            };
            // What is behind a hole is never seen; whoever replaces machines is about to replace one of both.
            let reaches = || link.is_whole() || network.replaces_machines();
            if !link.is_up().await || !reaches() {
                return Err(LockFailure::Abort(AbortReason::Unreachable));
            }
            let longest = network.longest_record();
            let mut sizes = self.context().record_sizes(at);
            if sizes[LOCK] > longest || !network.takes(&sizes) {
                self.context_mut().spread.participants[at].values_follow = true;
                sizes = self.context().record_sizes(at);
            }
            if sizes[COMMIT_BACKUP] > longest || !network.takes(&sizes) {
                sizes[COMMIT_BACKUP] = self.context().end_of_parts();
                self.context_mut().spread.participants[at].in_parts = true;
            }
            if sizes.iter().any(|words| *words > longest) || !network.takes(&sizes) {
                return Err(LockFailure::Stop(Stop::TooLarge(
                    "a transaction over several machines is larger than their logs take",
                )));
            }
            let mut round = 0;
            let current = self.context().spread.configuration;
            loop {
                let reserve = || link.reserve(&sizes);
                match network.configured.during(current, reserve) {
                    None => return Err(RECONFIGURED),
                    Some(Ok(())) => break,
                    Some(Err(RingFull)) => {}
                }
                round += 1;
                if round > ROOM_ROUNDS {
                    return Err(LockFailure::Abort(AbortReason::LockBusy));
                }
                self.pause(network).await;
            }
            self.context_mut().spread.participants[at].promised = sizes;
        }
        Ok(())
    }

    /// Lets others go on, and does for peers what they wait for.
    async fn pause(&self, network: &Network) {
        if !network.poll(self.machine()) {
            let_others_run().await;
        }
    }

    /// Does for peers what they wait for, or lets others go on.
    async fn wait_a_moment(&self, network: &Network, round: u32) {
        /// Moments after which the peer is given a little more time.
        const SHORT: u32 = 4096;
        if network.poll(self.machine()) {
            return;
        }
        if !network.driven {
            match round > SHORT {
                true => std::thread::sleep(NAP),
                false => std::thread::yield_now(),
            }
        }
        let_others_run().await;
    }

    /// Stays away from what others have locked for a moment, each time another one, so that those who
    /// get in each other's way do not go on so.
    async fn back_off(&self, network: &Network) {
        let id = self.context().txn_id();
        let mixed = (id.local ^ u64::from(id.thread) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for round in 0..(mixed >> 58) as u32 {
            self.wait_a_moment(network, round).await;
        }
    }

    /// COMMIT-PRIMARY everywhere; the commit has taken effect when it answers Ok.
    async fn primaries(&mut self, network: &Network, w: Timestamp) -> Result<Done, Halt> {
        let id = self.context().txn_id();
        let locked_here = self.context().locked > 0;
        let machine = Arc::clone(self.machine());
        let (participants, acks) = self.show(network, w).ok_or(Halt::InDoubt)?;
        let known = locked_here || acks.is_empty();
        let mut ending = Ending {
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
            true => Ok(Done { w, durable_at }),
            // All backups have it, but this machine may be one of them, and the only one.
            false if network.replaces_machines() => Err(Halt::InDoubt),
            false => Err(LockFailure::Stop(Stop::InDoubt).into()),
        }
    }

    /// Writes COMMIT-PRIMARY, and does it here, unless another configuration has been applied: who has records of the
    /// commit, and the acks that are to come.
    fn show(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Option<(Vec<MachineId>, Vec<Completion<()>>)> {
        let context = self.context_mut();
        let id = context.txn_id();
        let current = match planted::is(Planted::CommitInLaterConfiguration) {
            true => network.configured.id(),
            false => id.configuration,
        };
        let shown = network.configured.during(current, || {
            // Its own new objects are there before anything elsewhere leads to them.
            context.put_in_place(w);
            let acks = context.commit_primary_elsewhere(network, w);
            network.committing.show(id);
            acks
        });
        let acks = shown?;
        let participants = context.spread.participants.drain(..);
        let participants = participants.map(|participant| participant.machine);
        let participants = participants.collect();
        context.is_in_place(w);
        Some((participants, acks))
    }

    /// Every backup has the COMMIT-BACKUP of a commit that nobody waits for: it goes on to its end. It comes back where
    /// another configuration has been applied.
    pub(super) fn go_on(mut self, network: &Network, w: Timestamp) -> Result<(), Transaction> {
        let id = self.context().txn_id();
        let machine = Arc::clone(self.machine());
        let Some((participants, acks)) = self.show(network, w) else {
            return Err(self);
        };
        drop(Ending {
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

    /// A commit that was in doubt is what recovery has decided, and nobody waits to hear of it.
    pub(super) fn do_what_is_decided(mut self, outcome: Option<Timestamp>) {
        let context = self.context_mut();
        match outcome {
            Some(w) => {
                context.take_effect(w);
                self.finish();
            }
            None => {
                context.spread.participants.clear();
                self.give_up(AbortReason::Unreachable);
            }
        }
    }
}

impl Context {
    /// COMMIT-PRIMARY of what this machine is the primary of.
    fn put_in_place(&mut self, w: Timestamp) {
        // From here on the locks are released by the versions that replace what they guard.
        self.locked = 0;
        self.spread.new_locked = false;
        self.commit_primary(w);
    }

    /// It has taken effect.
    fn is_in_place(&mut self, w: Timestamp) {
        self.slot.end_commit();
        self.truncate(w);
        // Nothing of it is the transaction's own any more, should its future be dropped from here on.
        self.writes.clear();
        self.machine.counters().count(self.lane, Event::CommitWrite);
    }

    /// Recovery has decided that a commit takes effect: it does here.
    pub(crate) fn take_effect(&mut self, w: Timestamp) {
        self.spread.participants.clear();
        // One that was shown before is in place.
        if !self.writes.is_empty() {
            self.leave_out_what_came_back();
            self.put_in_place(w);
            self.is_in_place(w);
        }
    }
}

impl Network {
    /// Waits for a peer's answer; looks for it itself for a while rather than be woken.
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
                let_others_run().await;
            }
        }
        reply.await
    }

    /// Whether nothing is lost of what has been written to some machines: then they see what they acknowledge.
    pub(super) fn reaches(&self, machines: &[MachineId]) -> bool {
        let mut links = machines.iter().filter_map(|machine| self.link(*machine));
        links.all(Link::is_whole)
    }

    /// Looks for an answer before the poller is relied on to wake whoever waits.
    fn looks(&self) -> u32 {
        if self.driven || self.far { 0 } else { 4096 }
    }
}
