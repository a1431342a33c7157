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
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Completion, FabricError, MachineId, RingFull};
use fencepost_storage::Timestamp;

use super::Network;
use super::participants::{COMMIT_BACKUP, LOCK};
use crate::commit::Done;
use crate::counters::Event;
use crate::lock::LockFailure;
use crate::machine::Machine;
use crate::moment::let_others_run;
use crate::record::{self, TxnId};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;

/// Times that a commit asks for room in the logs of the others.
const ROOM_ROUNDS: u32 = 1 << 14;
/// A longer moment.
const NAP: Duration = Duration::from_micros(50);

/// A commit whose COMMIT-PRIMARY records are not all acknowledged yet.
pub(super) struct Finishing {
    id: TxnId,
    participants: Vec<MachineId>,
    acks: Vec<Completion<()>>,
}

impl Transaction {
    /// LOCK to TRUNCATE of a commit that other machines have part in. Nothing is left of it where it
    /// fails.
    pub(crate) async fn commit_spread(&mut self, network: &Network) -> Result<Done, LockFailure> {
        let done = match self.lock_to_backups(network).await {
            Ok(w) => self.primaries(network, w).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &done {
            self.context_mut().unlock();
            if let LockFailure::Abort(AbortReason::LockBusy | AbortReason::ReadLocked) = failure {
                self.back_off(network).await;
            }
        }
        done
    }

    async fn lock_to_backups(&mut self, network: &Network) -> Result<Timestamp, LockFailure> {
        self.context_mut().plan(network)?;
        self.reserve_logs(network).await?;
        let context = self.context_mut();
        let replies = context.lock_elsewhere(network);
        context.lock().await?;
        for (machine, reply) in replies {
            let Ok(reply) = self.answered(network, reply).await else {
                return Err(LockFailure::Abort(AbortReason::Unreachable));
            };
            let context = self.context_mut();
            context.locked_elsewhere(machine, reply).await?;
        }
        let context = self.context_mut();
        context.give_way()?;
        let overwritten = context.newest_overwritten();
        let w = context.machine.write_timestamp(|| overwritten).await;
        let w = w.map_err(LockFailure::Abort)?;
        context.validate(w).await?;
        context.stamp(w);
        let mut acks = context.lock_moved_elsewhere(network);
        acks.extend(context.commit_backup(network, w)?);
        for at in 0..self.context().spread.participants.len() {
            if self.context().spread.participants[at].in_parts {
                self.commit_backup_in_parts(network, at, w, &mut acks)
                    .await?;
            }
        }
        for ack in acks {
            if self.answered(network, ack).await.is_err() {
                return Err(LockFailure::Abort(AbortReason::Unreachable));
            }
        }
        Ok(w)
    }

    /// COMMIT-BACKUP of a large transaction at one backup.
    async fn commit_backup_in_parts(
        &mut self,
        network: &Network,
        at: usize,
        w: Timestamp,
        acks: &mut Vec<Completion<()>>,
    ) -> Result<(), LockFailure> {
        let machine = self.context().spread.participants[at].machine;
        let Some(link) = network.link(machine) else {
            return Ok(());
        };
        self.context_mut().spread.participants[at].backed = true;
        let mut next = 0;
        while next < self.context().spread.participants[at].backup.len() {
            let (record, upto) = self.context().backup_part(network, at, next, w)?;
            next = upto;
            let tag = record::COMMIT_BACKUP_PART;
            let mut round = 0;
            let ack = loop {
                match link.append_unpromised(tag, &record) {
                    Ok(ack) => break ack,
                    // Two large transactions may be in each other's way.
                    Err(RingFull) if round == ROOM_ROUNDS => {
                        return Err(LockFailure::Abort(AbortReason::LockBusy));
                    }
                    Err(RingFull) => self.wait_a_moment(network, round).await,
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
            while let Err(RingFull) = link.reserve(&sizes) {
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
        if round > SHORT && !network.driven {
            std::thread::sleep(NAP);
        } else {
            std::thread::yield_now();
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
                std::thread::yield_now();
                let_others_run().await;
            }
        }
        reply.await
    }

    /// COMMIT-PRIMARY everywhere; the commit has taken effect when it answers Ok.
    async fn primaries(&mut self, network: &Network, w: Timestamp) -> Result<Done, LockFailure> {
        let context = self.context_mut();
        let locked_here = context.locked > 0;
        // From here on the locks are released by the versions that replace what they guard.
        context.locked = 0;
        // Its own new objects are there before anything elsewhere leads to them.
        context.commit_primary(w);
        let acks = context.commit_primary_elsewhere(network, w);
        let home = locked_here || acks.is_empty();
        context.slot.end_commit();
        context.truncate(w);
        // Nothing of it is the transaction's own any more, should its future be dropped from here on.
        context.writes.clear();
        let machine = Arc::clone(&context.machine);
        machine.counters().count(context.lane, Event::CommitWrite);
        let id = context.txn_id();
        let participants = context.spread.participants.drain(..);
        let participants = participants.map(|participant| participant.machine);
        let mut ending = Ending {
            machine: &machine,
            network,
            finishing: Finishing {
                id,
                participants: participants.collect(),
                acks,
            },
        };
        let mut known = home;
        while !known && let Some(ack) = ending.finishing.acks.first_mut() {
            known = self.answered(network, &mut *ack).await.is_ok();
            drop(ending.finishing.acks.swap_remove(0));
        }
        drop(ending);
        match known {
            true => Ok(Done {
                w,
                durable_at: None,
            }),
            false => Err(LockFailure::Stop(Stop::Failed)),
        }
    }
}

/// The end of a commit that has taken effect: it comes, whether or not anybody waits for it.
struct Ending<'a> {
    machine: &'a Machine,
    network: &'a Network,
    finishing: Finishing,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.finishing.end(self.machine.regions(), self.network) {
            let Finishing {
                id,
                participants,
                acks,
            } = &mut self.finishing;
            let (id, participants, acks) = (*id, take(participants), take(acks));
            self.network.finishing.lock().push(Finishing {
                id,
                participants,
                acks,
            });
        }
    }
}

impl Finishing {
    /// Truncates once every primary has acknowledged; whether that is done.
    fn end(&mut self, regions: &fencepost_storage::region::Regions, network: &Network) -> bool {
        self.acks.retain_mut(|ack| ack.take().is_none());
        if !self.acks.is_empty() {
            return false;
        }
        for machine in &self.participants {
            match network.link(*machine) {
                Some(link) => link.truncate(self.id),
                None => {
                    // What it holds itself was made by this machine.
                    let _ = network
                        .home
                        .lock()
                        .truncate(regions, &network.changed, self.id);
                }
            }
        }
        true
    }
}

impl Network {
    /// Looks for an answer before the poller is relied on to wake whoever waits.
    fn looks(&self) -> u32 {
        if self.driven || self.far { 0 } else { 4096 }
    }

    /// Truncates what has been acknowledged by all meanwhile.
    pub(super) fn finish(&self, regions: &fencepost_storage::region::Regions) {
        self.finishing
            .lock()
            .retain_mut(|finishing| !finishing.end(regions, self));
        let _ = self.home.lock().look_again(regions, &self.changed);
    }
}
