//! The machines that have part in a commit, and the records that each of them gets (SOSP'15 Table 1).

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_fabric::{Completion, MachineId};
use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use super::Network;
use super::link::TRUNCATE_WORDS;
use super::message::{self, Kind, LockReply, Slot};
use crate::lock::LockFailure;
use crate::record;
use crate::stop::{AbortReason, Stop};
use crate::transaction::Context;
use crate::write_set::{Payload, What, Write};

/// A commit's business with the other machines.
#[derive(Default)]
pub(crate) struct Spread {
    pub(super) participants: Vec<Participant>,
    pub(super) record: Vec<u64>,
    /// What the primaries elsewhere have said of the slots of entries, by the entries' places in the write
    /// set.
    slots: HashMap<u32, Slot, FixedState>,
}

/// One machine's part.
pub(super) struct Participant {
    pub(super) machine: MachineId,
    /// Entries of the write set whose primary it is.
    pub(super) primary: Vec<u32>,
    /// Entries of which it is a backup.
    pub(super) backup: Vec<u32>,
    /// Words that its log has promised room for: LOCK, COMMIT-BACKUP, COMMIT-PRIMARY, TRUNCATE.
    pub(super) promised: [usize; 4],
    pub(super) locked: bool,
    pub(super) backed: bool,
    /// COMMIT-BACKUP is more than one record takes.
    pub(super) in_parts: bool,
}

pub(super) const LOCK: usize = 0;
pub(super) const COMMIT_BACKUP: usize = 1;
pub(super) const COMMIT_PRIMARY: usize = 2;
pub(super) const TRUNCATE: usize = 3;

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
        What::New { kind: None, .. } => Some(Kind::New),
        What::New { kind: Some(_), .. } => Some(Kind::LateNew),
        What::Unborn(_) | What::Idle => None,
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
    pub(super) fn plan(&mut self, network: &Network) -> Result<(), LockFailure> {
        self.spread.participants.clear();
        self.spread.slots.clear();
        for (at, write) in self.writes.writes.iter().enumerate() {
            if kind_of(write).is_none() {
                continue;
            }
            // It was found out when the object was read, or its slot reserved.
            let primary = network.primary(write.addr);
            let primary = primary.ok_or(LockFailure::Stop(Stop::Damaged))?;
            if primary != network.me() {
                self.spread.participant(primary).primary.push(at as u32);
            }
            for backup in network.backups(write.addr.region()) {
                self.spread.participant(backup).backup.push(at as u32);
            }
        }
        Ok(())
    }

    /// Words of the payload that an entry is written with.
    fn payload_words(&self, write: &Write) -> usize {
        match write.what {
            What::New { .. } => match write.payload() {
                Payload::Slot(addr) => {
                    let object = self.machine.regions().object(addr);
                    object.map_or(0, |object| object.len())
                }
                Payload::Image((_, words)) => words,
            },
            What::Image { .. } | What::Patched(_) => write.image.1,
            _ => 0,
        }
    }

    pub(super) fn record_sizes(&self, at: usize) -> [usize; 4] {
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
            let kind = kind_of(write);
            if kind.is_some_and(Kind::is_new) {
                sizes[LOCK] += message::SPLIT_WORDS;
            }
            if kind.is_some_and(Kind::is_late) {
                sizes[COMMIT_PRIMARY] += message::LATE_WORDS + words;
            } else {
                sizes[LOCK] += words;
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
    pub(super) fn lock_elsewhere(
        &mut self,
        network: &Network,
    ) -> Vec<(usize, Completion<LockReply>)> {
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
                let ranges = (write.addr, Kind::Ranges, 0, write.base.0);
                let put = |out: &mut Vec<u64>| self.put_changes(out, write, write.base);
                if kind == Kind::Whole && message::put_write_of(&mut record, ranges, put) {
                    continue;
                }
                let image = match kind {
                    Kind::Whole | Kind::New => self.writes.image(write),
                    _ => &[],
                };
                let split = match write.what {
                    What::New { split_of, .. } => Some(split_of.raw()),
                    _ => None,
                };
                let split = split.as_slice();
                let about = (write.addr, kind, 0, write.base.0);
                message::put_write(&mut record, about, split.len() + image.len(), |out| {
                    let (first, rest) = out.split_at_mut(split.len());
                    first.copy_from_slice(split);
                    rest.copy_from_slice(image);
                });
            }
            replies.push((at, network.expect_reply(id, participant.machine)));
            // A write that is lost is noticed as an answer that does not come.
            let tag = match participant.in_parts {
                true => record::LOCK_OF_PARTS,
                false => record::LOCK,
            };
            drop(link.append(tag, &record, participant.promised[LOCK]));
            let participant = &mut self.spread.participants[at];
            participant.locked = true;
            participant.promised[LOCK] = 0;
        }
        self.spread.record = record;
        replies
    }

    /// What a primary elsewhere has answered to LOCK.
    pub(super) async fn locked_elsewhere(
        &mut self,
        at: usize,
        reply: LockReply,
    ) -> Result<(), LockFailure> {
        let found = match reply {
            LockReply::Locked(found) => found,
            LockReply::Failed(reason, addr) => return Err(self.failed_elsewhere(reason, addr)),
        };
        let mut found = found.into_iter();
        for i in 0..self.spread.participants[at].primary.len() {
            let entry = self.spread.participants[at].primary[i];
            let slot = Slot::from_word(found.next().unwrap_or(0));
            self.spread.slots.insert(entry, slot);
            let write = self.writes.writes[entry as usize];
            if let What::Patched(_) = write.what {
                let header = Header(found.next().unwrap_or(0));
                if header != write.base {
                    self.lock_moved(entry as usize, header).await?;
                }
            }
        }
        Ok(())
    }

    /// A patched node that is gone where it was is looked for elsewhere.
    fn failed_elsewhere(&mut self, reason: AbortReason, addr: Addr) -> LockFailure {
        let entry = self.writes.find(addr);
        match entry.map(|at| self.writes.writes[at].what) {
            Some(What::Patched(kind)) if reason == AbortReason::WriteConflict => {
                LockFailure::Stray((addr, kind))
            }
            _ => self.abort_at(addr, reason),
        }
    }

    /// COMMIT-BACKUP (step 3) at every backup; the acks.
    pub(super) fn commit_backup(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Result<Vec<Completion<()>>, LockFailure> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.spread.record);
        let mut acks = Vec::new();
        // Whose record that is.
        let mut made: Option<usize> = None;
        for at in 0..self.spread.participants.len() {
            let entries = |of: usize| &self.spread.participants[of].backup;
            let participant = &self.spread.participants[at];
            let elsewhere = network.link(participant.machine).is_some();
            if participant.backup.is_empty() || participant.in_parts && elsewhere {
                continue;
            }
            // Mostly all backups get the same.
            if made.is_none_or(|made| entries(made) != entries(at)) {
                record.clear();
                message::begin_commit(&mut record, id, w);
                for entry in &participant.backup {
                    self.put_backup(&mut record, *entry);
                }
                made = Some(at);
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
    pub(super) fn backup_part(
        &self,
        network: &Network,
        at: usize,
        mut next: usize,
        w: Timestamp,
    ) -> Result<(Vec<u64>, usize), LockFailure> {
        // Half of the longest record: it finds room beside what was promised.
        let longest = network.longest_record() / 2;
        let entries = &self.spread.participants[at].backup;
        let mut record = Vec::new();
        message::begin_commit(&mut record, self.txn_id(), w);
        let first = next;
        while let Some(entry) = entries.get(next) {
            let write = &self.writes.writes[*entry as usize];
            if record.len() + message::WRITE_WORDS + self.payload_words(write) > longest {
                break;
            }
            self.put_backup(&mut record, *entry);
            next += 1;
        }
        if next == first {
            let why = "an object is larger than the logs of several machines take";
            return Err(LockFailure::Stop(Stop::TooLarge(why)));
        }
        Ok((record, next))
    }

    fn put_backup(&self, record: &mut Vec<u64>, entry: u32) {
        let write = &self.writes.writes[entry as usize];
        let slot = match (write.what, self.spread.slots.get(&entry)) {
            (What::New { slot, .. }, _) => Some(slot),
            (_, Some(slot)) => Some(*slot),
            (_, None) => Slot::of(self.machine.regions(), write.addr),
        };
        let (Some(kind), Some(slot)) = (kind_of(write), slot) else {
            return;
        };
        let ranges = (
            write.addr,
            Kind::Ranges,
            slot.class.0,
            u64::from(slot.incarnation),
        );
        let put = |out: &mut Vec<u64>| {
            out.push(write.base.timestamp().raw());
            self.put_changes(out, write, write.base.locked())
        };
        if message::put_write_of(record, ranges, put) {
            return;
        }
        let about = (write.addr, kind, slot.class.0, u64::from(slot.incarnation));
        let in_slot = match write.payload() {
            Payload::Slot(addr) if kind.is_new() => self.machine.regions().object(addr),
            _ => None,
        };
        message::put_write(record, about, self.payload_words(write), |out| {
            match (in_slot, kind) {
                (Some(object), _) => object.copy(0, out),
                (None, Kind::Freed) => {}
                (None, _) => out.copy_from_slice(self.writes.image(write)),
            }
        });
    }

    /// COMMIT-PRIMARY (step 4) at the primaries that are other machines; the acks.
    pub(super) fn commit_primary_elsewhere(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Vec<Completion<()>> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.spread.record);
        let mut acks = Vec::new();
        for at in 0..self.spread.participants.len() {
            let participant = &self.spread.participants[at];
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
                if kind_of(write).is_some_and(Kind::is_late) {
                    let put =
                        |out: &mut Vec<u64>| self.put_changes(out, write, write.base.locked());
                    message::put_late(&mut record, write.addr, self.writes.image(write), put);
                }
            }
            let promised = participant.promised[COMMIT_PRIMARY];
            acks.push(link.append(record::COMMIT_PRIMARY, &record, promised));
            self.spread.participants[at].promised[COMMIT_PRIMARY] = 0;
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
