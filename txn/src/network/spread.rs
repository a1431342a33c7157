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
//! room for them comes back without anybody's commit, and none is promised.
//!
//! Objects whose primary is the coordinator's own machine are locked and replaced as those of a machine
//! that is alone.

use std::borrow::BorrowMut;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Completion, FabricError, RingFull};
use fencepost_storage::Timestamp;

use super::Network;
use super::committing::Ending;
use super::participants::{COMMIT_BACKUP, LOCK};
use crate::commit::Done;
use crate::counters::Event;
use crate::lock::LockFailure;
use crate::moment::let_others_run;
use crate::planted::{self, Planted};
use crate::record::{self, TxnId};
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Transaction};

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
    pub(crate) async fn commit_spread(&mut self, network: &Network) -> Result<Done, LockFailure> {
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
    }

    async fn lock_to_backups(&mut self, network: &Network) -> Result<Timestamp, Halt> {
        self.find_regions(network).await?;
        self.context_mut().plan(network)?;
        self.reserve_logs(network).await?;
        let context = self.context_mut();
        let current = context.spread.configuration;
        let during = &network.configured;
        let replies = during.during(current, || context.lock_elsewhere(network));
        let replies = replies.ok_or(RECONFIGURED)?;
        context.lock().await?;
        for (machine, reply) in replies {
            let Ok(reply) = self.answered(network, reply).await else {
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
        let id = context.txn_id();
        let acks = during.during(current, || {
            network.committing.begin(id, &context.spread.regions, w);
            let mut acks = context.lock_moved_elsewhere(network);
            acks.extend(context.commit_backup(network, w)?);
            Ok::<_, LockFailure>(acks)
        });
        let mut acks = acks.ok_or(RECONFIGURED)??;
        for at in 0..self.context().spread.participants.len() {
            if self.context().spread.participants[at].in_parts {
                self.commit_backup_in_parts(network, at, w, &mut acks)
                    .await?;
            }
        }
        if planted::is(Planted::SkipBackupAck) {
            drop(acks.pop());
        }
        for ack in acks {
            if self.answered(network, ack).await.is_err() {
                return Err(self.not_acknowledged(network, id).await);
            }
        }
        Ok(w)
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
        match network.replaces_machines() {
            true => {
                network.configured.later_than(id.configuration).await;
                Halt::InDoubt
            }
            false => Halt::Failed(LockFailure::Abort(AbortReason::Unreachable)),
        }
    }

    /// Waits for what recovery decides about a commit, and does that here.
    async fn settle(&mut self, network: &Network) -> Result<Done, LockFailure> {
        let id = self.context().txn_id();
        let decision = network.committing.decision(id);
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

    /// COMMIT-BACKUP of a large transaction at one backup.
    async fn commit_backup_in_parts(
        &mut self,
        network: &Network,
        at: usize,
        w: Timestamp,
        acks: &mut Vec<Completion<()>>,
    ) -> Result<(), Halt> {
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
            let tag = match next == self.context().spread.participants[at].backup.len() {
                true => record::COMMIT_BACKUP_LAST,
                false => record::COMMIT_BACKUP_PART,
            };
            let mut round = 0;
            let ack = loop {
                let append = || link.append_unpromised(tag, &record);
                match network.configured.during(current, append) {
                    None => return Err(Halt::InDoubt),
                    Some(Ok(ack)) => break ack,
                    // Two large transactions may be in each other's way.
                    Some(Err(RingFull)) if round == ROOM_ROUNDS => {
                        return Err(LockFailure::Abort(AbortReason::LockBusy).into());
                    }
                    Some(Err(RingFull)) => self.wait_a_moment(network, round).await,
                }
                round += 1;
            };
            acks.push(ack);
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
            if !link.is_up().await {
                return Err(LockFailure::Abort(AbortReason::Unreachable));
            }
            let longest = network.longest_record();
            let mut sizes = self.context().record_sizes(at);
            if sizes[LOCK] > longest || !network.takes(&sizes) {
                self.context_mut().spread.participants[at].values_follow = true;
                sizes = self.context().record_sizes(at);
            }
            if sizes[COMMIT_BACKUP] > longest || !network.takes(&sizes) {
                sizes[COMMIT_BACKUP] = 0;
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

    /// Waits for a peer's answer; looks for it itself for a while rather than be woken.
    pub(super) async fn answered<T>(
        &self,
        network: &Network,
        mut reply: impl BorrowMut<Completion<T>>,
    ) -> Result<T, FabricError> {
        let reply = reply.borrow_mut();
        for _ in 0..network.looks() {
            if let Some(answer) = reply.take() {
                return answer;
            }
            if !network.poll(self.machine()) {
                if !network.driven {
                    std::thread::yield_now();
                }
                let_others_run().await;
            }
        }
        reply.await
    }

    /// COMMIT-PRIMARY everywhere; the commit has taken effect when it answers Ok.
    async fn primaries(&mut self, network: &Network, w: Timestamp) -> Result<Done, Halt> {
        let context = self.context_mut();
        let id = context.txn_id();
        let locked_here = context.locked > 0;
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
        let acks = shown.ok_or(Halt::InDoubt)?;
        let known = locked_here || acks.is_empty();
        let participants = context.spread.participants.drain(..);
        let participants = participants.map(|participant| participant.machine);
        let participants = participants.collect();
        context.is_in_place(w);
        let machine = Arc::clone(&context.machine);
        let mut ending = Ending {
            network,
            regions: machine.regions(),
            id,
            participants,
            acks,
            lost: false,
        };
        let mut acknowledged = known;
        while !acknowledged && let Some(ack) = ending.acks.first_mut() {
            acknowledged = self.answered(network, &mut *ack).await.is_ok();
            ending.lost |= !acknowledged;
            drop(ending.acks.swap_remove(0));
        }
        drop(ending);
        let durable_at = None;
        match acknowledged {
            true => Ok(Done { w, durable_at }),
            // All backups have it, but this machine may be one of them, and the only one.
            false if network.replaces_machines() => Err(Halt::InDoubt),
            false => Err(LockFailure::Stop(Stop::InDoubt).into()),
        }
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
    fn take_effect(&mut self, w: Timestamp) {
        self.spread.participants.clear();
        // One that was shown before is in place.
        if !self.writes.is_empty() {
            self.put_in_place(w);
            self.is_in_place(w);
        }
    }
}

impl Network {
    /// Looks for an answer before the poller is relied on to wake whoever waits.
    fn looks(&self) -> u32 {
        if self.driven || self.far { 0 } else { 4096 }
    }
}
