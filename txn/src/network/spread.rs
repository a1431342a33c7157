//! The commit of a transaction that more than one machine has part in: SOSP'15 §4, step for step, at
//! its coordinator.
//!
//! ```text
//!  reserve ─► LOCK ─► W ─► VALIDATE ─► COMMIT-BACKUP ─► COMMIT-PRIMARY ─► report ─► TRUNCATE
//!    │ room     │ replies                 │ all acks        │ first ack
//!    └──────────┴──────── may still abort ┘                 from here on it may not fail
//! ```
//! # Invariants
//! * SPREAD-1: COMMIT-PRIMARY is written only when every backup has acknowledged its COMMIT-BACKUP, and
//!   success is reported only when one primary has acknowledged its COMMIT-PRIMARY.
//! * SPREAD-2: whoever got a LOCK gets a COMMIT-PRIMARY or an ABORT, also where the commit's future is
//!   dropped on its way.
//!
//! What backups get of a large transaction goes out in parts, which they copy out of the log as they come: so
//! room for them comes back without anybody's commit, and none is promised.
//!
//! Objects whose primary is the coordinator's own machine are locked and replaced as those of a machine
//! that is alone.

use std::sync::Arc;

use fencepost_fabric::{Completion, FabricError, MachineId, RingFull};
use fencepost_storage::Timestamp;
use fencepost_storage::header::Header;

use super::Network;
use super::link::TRUNCATE_WORDS;
use super::message::{self, Kind, LockReply};
use crate::commit::Done;
use crate::counters::Event;
use crate::lock::LockFailure;
use crate::record::{self, TxnId};
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Transaction};
use crate::write_set::{What, Write};

/// Times that a commit asks for room in the logs of the others.
const ROOM_ROUNDS: u32 = 1 << 16;

/// A commit's business with the other machines.
#[derive(Default)]
pub(crate) struct Spread {
    participants: Vec<Participant>,
    record: Vec<u64>,
}

/// One machine's part.
struct Participant {
    machine: MachineId,
    /// Entries of the write set whose primary it is.
    primary: Vec<u32>,
    /// Entries of which it is a backup.
    backup: Vec<u32>,
    /// Words that its log has promised room for: LOCK, COMMIT-BACKUP, COMMIT-PRIMARY, TRUNCATE.
    promised: [usize; 4],
    locked: bool,
    backed: bool,
    /// COMMIT-BACKUP is more than one record takes.
    in_parts: bool,
}

const LOCK: usize = 0;
const COMMIT_BACKUP: usize = 1;
const COMMIT_PRIMARY: usize = 2;
const TRUNCATE: usize = 3;

/// A commit whose COMMIT-PRIMARY records are not all acknowledged yet.
pub(super) struct Finishing {
    id: TxnId,
    participants: Vec<MachineId>,
    acks: Vec<Completion<()>>,
}

impl Spread {
    fn participant(&mut self, machine: MachineId) -> &mut Participant {
        let at = self.participants.iter().position(|p| p.machine == machine);
        let at = at.unwrap_or_else(|| {
            self.participants.push(Participant {
                machine,
                primary: Vec::new(),
                backup: Vec::new(),
                promised: [0; 4],
                locked: false,
                backed: false,
                in_parts: false,
            });
            self.participants.len() - 1
        });
        &mut self.participants[at]
    }
}

/// How an entry is locked at a primary elsewhere.
fn kind_of(write: &Write) -> Option<Kind> {
    match write.what {
        What::Image { kind: None } => Some(Kind::Whole),
        What::Image { kind: Some(_) } => Some(Kind::Late),
        What::Patched(_) => Some(Kind::Patched),
        What::Freed => Some(Kind::Freed),
        What::New { .. } => Some(Kind::New),
        What::Unborn | What::Idle => None,
    }
}

impl Transaction {
    /// LOCK to TRUNCATE of a commit that other machines have part in. Nothing is left of it where it
    /// fails.
    pub(crate) async fn commit_spread(&mut self, network: &Network) -> Result<Done, LockFailure> {
        self.context_mut().plan(network);
        let done = match self.lock_to_backups(network).await {
            Ok(w) => self.primaries(network, w).await,
            Err(failure) => Err(failure),
        };
        if done.is_err() {
            self.context_mut().unlock();
        }
        done
    }

    async fn lock_to_backups(&mut self, network: &Network) -> Result<Timestamp, LockFailure> {
        self.reserve_logs(network).await?;
        let context = self.context_mut();
        let replies = context.lock_elsewhere(network);
        context.lock()?;
        for (machine, reply) in replies {
            let Ok(reply) = self.answered(network, reply).await else {
                return Err(LockFailure::Abort(AbortReason::Unreachable));
            };
            self.context_mut().locked_elsewhere(machine, reply)?;
        }
        let context = self.context_mut();
        context.give_way()?;
        let w = context
            .machine
            .clock()
            .advance(|| context.newest_overwritten());
        context.validate(w)?;
        context.stamp(w);
        let mut acks = context.commit_backup(network, w)?;
        for at in 0..self.context().spread.participants.len() {
            if self.context().spread.participants[at].in_parts {
                self.commit_backup_in_parts(network, at, w, &mut acks)
                    .await?;
            }
        }
        for ack in acks {
            if ack.await.is_err() {
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
            loop {
                match link.append_unpromised(tag, &record) {
                    Ok(ack) => break acks.push(ack),
                    Err(RingFull) if link.is_up().await => self.pause(network).await,
                    Err(RingFull) => {
                        return Err(LockFailure::Abort(AbortReason::Unreachable));
                    }
                }
            }
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
            let mut sizes = self.context().record_sizes(at);
            let longest = network.longest_record();
            if sizes[COMMIT_BACKUP] > longest {
                sizes[COMMIT_BACKUP] = 0;
                self.context_mut().spread.participants[at].in_parts = true;
            }
            if sizes.iter().any(|words| *words > longest) {
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
            yield_now().await;
        }
    }

    /// Waits for a peer's answer; looks for it itself for a while rather than be woken.
    pub(super) async fn answered<T>(
        &self,
        network: &Network,
        mut reply: Completion<T>,
    ) -> Result<T, FabricError> {
        /// Looks before the poller's thread is relied on.
        const LOOKS: u32 = 256;
        for _ in 0..LOOKS {
            if let Some(answer) = reply.take() {
                return answer;
            }
            if !network.poll(self.machine()) {
                std::thread::yield_now();
            }
        }
        reply.await
    }

    /// COMMIT-PRIMARY everywhere; the commit has taken effect when it answers Ok.
    async fn primaries(&mut self, network: &Network, w: Timestamp) -> Result<Done, LockFailure> {
        let context = self.context_mut();
        let acks = context.commit_primary_elsewhere(network, w);
        let home = context.locked > 0 || acks.is_empty();
        // From here on the locks are released by the versions that replace what they guard.
        context.locked = 0;
        context.commit_primary(w);
        context.slot.end_commit();
        context.truncate(w);
        // Nothing of it is the transaction's own any more, should its future be dropped from here on.
        context.writes.clear();
        let machine = &context.machine;
        machine.counters().count(context.lane, Event::CommitWrite);
        let id = context.txn_id();
        let participants = context.spread.participants.drain(..);
        let participants = participants.map(|participant| participant.machine);
        let mut finishing = Finishing {
            id,
            participants: participants.collect(),
            acks,
        };
        let mut known = home;
        while !known && !finishing.acks.is_empty() {
            known = finishing.acks.swap_remove(0).await.is_ok();
        }
        if !finishing.end(self.machine().regions(), network) {
            network.finishing.lock().push(finishing);
        }
        match known {
            true => Ok(Done {
                w,
                durable_at: None,
            }),
            false => Err(LockFailure::Stop(Stop::Failed)),
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
    /// Truncates what has been acknowledged by all meanwhile.
    pub(super) fn finish(&self, regions: &fencepost_storage::region::Regions) {
        self.finishing
            .lock()
            .retain_mut(|finishing| !finishing.end(regions, self));
    }
}

impl Context {
    /// Whether other machines have part in the commit, as primaries or as backups.
    pub(crate) fn spreads(&self) -> Option<Arc<Network>> {
        let network = self.machine.network()?;
        let alone =
            |write: &Write| kind_of(write).is_none() || network.is_alone_with(write.addr.region());
        (!self.writes.writes.iter().all(alone)).then(|| Arc::clone(network))
    }

    /// Who has part in what.
    fn plan(&mut self, network: &Network) {
        self.spread.participants.clear();
        for (at, write) in self.writes.writes.iter().enumerate() {
            if kind_of(write).is_none() {
                continue;
            }
            let region = write.addr.region();
            let primary = network.placement().primary(region);
            if primary != network.me() {
                self.spread.participant(primary).primary.push(at as u32);
            }
            for backup in network.placement().backups(region) {
                self.spread.participant(backup).backup.push(at as u32);
            }
        }
    }

    /// Words of the payload that an entry is written with.
    fn payload_words(&self, write: &Write) -> usize {
        match write.what {
            What::New { .. } => self
                .machine
                .regions()
                .object(write.addr)
                .map_or(0, |object| object.len()),
            What::Image { .. } | What::Patched(_) => write.image.1,
            _ => 0,
        }
    }

    fn record_sizes(&self, at: usize) -> [usize; 4] {
        let participant = &self.spread.participants[at];
        let writes = |entries: &[u32]| -> Vec<Write> {
            let of = |at: &u32| self.writes.writes[*at as usize];
            entries.iter().map(of).collect()
        };
        let (primary, backup) = (writes(&participant.primary), writes(&participant.backup));
        let mut sizes = [0, 0, 0, TRUNCATE_WORDS];
        if !primary.is_empty() {
            sizes[LOCK] = message::LOCK_WORDS + self.regions_written().len();
            sizes[COMMIT_PRIMARY] = message::COMMIT_WORDS;
        }
        for write in &primary {
            let words = self.payload_words(write);
            sizes[LOCK] += message::WRITE_WORDS;
            match kind_of(write) {
                Some(Kind::Late | Kind::Patched) => {
                    sizes[COMMIT_PRIMARY] += message::LATE_WORDS + words;
                }
                _ => sizes[LOCK] += words,
            }
        }
        if !backup.is_empty() {
            let each = |write: &Write| message::WRITE_WORDS + self.payload_words(write);
            sizes[COMMIT_BACKUP] = message::COMMIT_WORDS + backup.iter().map(each).sum::<usize>();
        }
        sizes
    }

    /// Ids of all regions with written objects.
    fn regions_written(&self) -> Vec<u32> {
        let written = self.writes.writes.iter();
        let written = written.filter(|write| kind_of(write).is_some());
        let mut regions: Vec<u32> = written.map(|write| write.addr.region().0).collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    }

    /// LOCK (step 1) at the primaries that are other machines.
    fn lock_elsewhere(&mut self, network: &Network) -> Vec<(usize, Completion<LockReply>)> {
        let (id, regions) = (self.txn_id(), self.regions_written());
        let mut record = std::mem::take(&mut self.spread.record);
        let mut replies = Vec::new();
        for at in 0..self.spread.participants.len() {
            let participant = &self.spread.participants[at];
            let Some(link) = network.link(participant.machine) else {
                continue;
            };
            if participant.primary.is_empty() {
                continue;
            }
            record.clear();
            message::begin_lock(&mut record, id, &regions);
            for entry in &participant.primary {
                let write = &self.writes.writes[*entry as usize];
                let Some(kind) = kind_of(write) else { continue };
                let image = match kind {
                    Kind::Whole => self.writes.image(write),
                    _ => &[],
                };
                let about = (write.addr, kind, 0, write.base.0);
                message::put_write(&mut record, about, image.len(), |out| {
                    out.copy_from_slice(image);
                });
            }
            replies.push((at, network.expect_reply(id, participant.machine)));
            // A write that is lost is noticed as an answer that does not come.
            drop(link.append(record::LOCK, &record, participant.promised[LOCK]));
            let participant = &mut self.spread.participants[at];
            participant.locked = true;
            participant.promised[LOCK] = 0;
        }
        self.spread.record = record;
        replies
    }

    /// What a primary elsewhere has answered to LOCK.
    fn locked_elsewhere(&mut self, at: usize, reply: LockReply) -> Result<(), LockFailure> {
        let found = match reply {
            LockReply::Locked(found) => found,
            LockReply::Failed(reason, addr) => return Err(self.failed_elsewhere(reason, addr)),
        };
        let mut found = found.into_iter();
        for i in 0..self.spread.participants[at].primary.len() {
            let entry = self.spread.participants[at].primary[i] as usize;
            let write = self.writes.writes[entry];
            if let What::Patched(_) = write.what {
                let header = Header(found.next().unwrap_or(0));
                if header != write.base {
                    self.lock_moved(entry, header)?;
                }
            }
        }
        Ok(())
    }

    /// A patched node that is gone where it was is looked for elsewhere.
    fn failed_elsewhere(
        &mut self,
        reason: AbortReason,
        addr: fencepost_storage::Addr,
    ) -> LockFailure {
        let entry = self.writes.find(addr);
        match entry.map(|at| self.writes.writes[at].what) {
            Some(What::Patched(kind)) if reason == AbortReason::WriteConflict => {
                LockFailure::Stray((addr, kind))
            }
            _ => self.abort_at(addr, reason),
        }
    }

    /// COMMIT-BACKUP (step 3) at every backup; the acks.
    fn commit_backup(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Result<Vec<Completion<()>>, LockFailure> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.spread.record);
        let mut acks = Vec::new();
        for at in 0..self.spread.participants.len() {
            let participant = &self.spread.participants[at];
            let elsewhere = network.link(participant.machine).is_some();
            if participant.backup.is_empty() || participant.in_parts && elsewhere {
                continue;
            }
            record.clear();
            message::begin_commit(&mut record, id, w);
            for entry in &participant.backup {
                self.put_backup(&mut record, &self.writes.writes[*entry as usize]);
            }
            match network.link(participant.machine) {
                Some(link) => {
                    let promised = participant.promised[COMMIT_BACKUP];
                    acks.push(link.append(record::COMMIT_BACKUP, &record, promised));
                }
                None => {
                    let held = network.home.lock().hold(&record, None);
                    held.map_err(|_| LockFailure::Stop(Stop::Damaged))?;
                }
            }
            let participant = &mut self.spread.participants[at];
            participant.backed = true;
            participant.promised[COMMIT_BACKUP] = 0;
        }
        self.spread.record = record;
        Ok(acks)
    }

    /// A part of COMMIT-BACKUP, from entry `next` on, and where the next part begins.
    fn backup_part(
        &self,
        network: &Network,
        at: usize,
        mut next: usize,
        w: Timestamp,
    ) -> Result<(Vec<u64>, usize), LockFailure> {
        let (entries, longest) = (
            &self.spread.participants[at].backup,
            network.longest_record(),
        );
        let mut record = Vec::new();
        message::begin_commit(&mut record, self.txn_id(), w);
        let first = next;
        while let Some(entry) = entries.get(next) {
            let write = &self.writes.writes[*entry as usize];
            if record.len() + message::WRITE_WORDS + self.payload_words(write) > longest {
                break;
            }
            self.put_backup(&mut record, write);
            next += 1;
        }
        if next == first {
            let why = "an object is larger than the logs of several machines take";
            return Err(LockFailure::Stop(Stop::TooLarge(why)));
        }
        Ok((record, next))
    }

    fn put_backup(&self, record: &mut Vec<u64>, write: &Write) {
        let regions = self.machine.regions();
        let (Some(kind), Some(object), Some(class)) = (
            kind_of(write),
            regions.object(write.addr),
            regions.class_of(write.addr),
        ) else {
            return;
        };
        let incarnation = match write.what {
            What::New { incarnation, .. } => incarnation,
            _ => object.link().incarnation(),
        };
        let about = (write.addr, kind, class.0, u64::from(incarnation));
        message::put_write(record, about, self.payload_words(write), |out| match kind {
            Kind::New => object.copy(0, out),
            Kind::Freed => {}
            _ => out.copy_from_slice(self.writes.image(write)),
        });
    }

    /// COMMIT-PRIMARY (step 4) at the primaries that are other machines; the acks.
    fn commit_primary_elsewhere(&mut self, network: &Network, w: Timestamp) -> Vec<Completion<()>> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.spread.record);
        let mut acks = Vec::new();
        for participant in &mut self.spread.participants {
            let Some(link) = network.link(participant.machine) else {
                continue;
            };
            if participant.primary.is_empty() {
                continue;
            }
            record.clear();
            message::begin_commit(&mut record, id, w);
            for entry in &participant.primary {
                let write = &self.writes.writes[*entry as usize];
                if let Some(Kind::Late | Kind::Patched) = kind_of(write) {
                    message::put_late(&mut record, write.addr, self.writes.image(write));
                }
            }
            let promised = participant.promised[COMMIT_PRIMARY];
            acks.push(link.append(record::COMMIT_PRIMARY, &record, promised));
            participant.promised[COMMIT_PRIMARY] = 0;
        }
        self.spread.record = record;
        acks
    }

    /// Tells whoever has got a record of a commit that is given up, and takes all promises back.
    pub(crate) fn abort_spread(&mut self) {
        if self.spread.participants.is_empty() {
            return;
        }
        let Some(network) = self.machine.network().map(Arc::clone) else {
            return;
        };
        let id = self.txn_id();
        for participant in self.spread.participants.drain(..) {
            let Some(link) = network.link(participant.machine) else {
                network.home.lock().abort(id);
                continue;
            };
            network.forget_reply(id, participant.machine);
            let told = participant.locked || participant.backed;
            let spared = if participant.locked {
                COMMIT_PRIMARY
            } else {
                TRUNCATE
            };
            for (at, words) in participant.promised.into_iter().enumerate() {
                if words > 0 && !(told && at == spared) {
                    link.give_back(words);
                }
            }
            if told {
                drop(link.append(record::ABORT, &id.words(), participant.promised[spared]));
            }
        }
        // Answers that are still to come are not those of another try.
        self.local += 1;
    }
}

/// Lets other tasks of the executor run once.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
