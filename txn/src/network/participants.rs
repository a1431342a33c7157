//! The participants of a distributed commit, and the records that each of them gets (SOSP'15 Table
//! 1).

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_fabric::{Completion, MachineId};
use fencepost_storage::Timestamp;
use foldhash::fast::FixedState;

use super::Network;
use super::message::{self, Kind, Slot};
use super::peer_sender::{PeerSender, TRUNCATE_WORDS};
use crate::context::Context;
use crate::fault::{self, Fault};
use crate::lock::LockFailure;
use crate::record::{self, TxnId};
use crate::stop::{AbortReason, Stop};
use crate::write_set::{Payload, Write, WriteKind};

/// The distributed part of a commit: the coordinator's state about its participants.
#[derive(Default)]
pub(crate) struct RemoteParticipants {
    /// The configuration in which the commit began.
    pub(crate) configuration: u64,
    pub(super) participants: Vec<Participant>,
    /// Numbers of all regions with written objects.
    pub(super) regions: Vec<u32>,
    pub(super) record: Vec<u64>,
    /// A buffer for an image as LOCK carries it.
    pub(super) stamped: Vec<u64>,
    /// Acks that must arrive before COMMIT-PRIMARY is written: those of COMMIT-BACKUP and
    /// LOCK-MOVED.
    pub(super) acks: Vec<Completion<()>>,
    /// The new objects of this machine are locked.
    pub(crate) new_locked: bool,
    /// How many of the first acks come from disks. A waiter does not spin for these.
    pub(super) from_disks: usize,
    /// The slots of written objects as remote primaries have reported them, by index into the write
    /// set.
    pub(super) slots: HashMap<u32, Slot, FixedState>,
}

/// One participating machine.
pub(super) struct Participant {
    pub(super) machine: MachineId,
    /// Indexes of the write-set entries whose primary it is.
    pub(super) primary: Vec<u32>,
    /// Indexes of the entries of which it is a backup.
    pub(super) backup: Vec<u32>,
    /// Patched entries whose values LOCK-MOVED carries.
    pub(super) moved: Vec<u32>,
    /// Words reserved in its log for LOCK, LOCK-MOVED, COMMIT-BACKUP, COMMIT-PRIMARY and TRUNCATE.
    pub(super) promised: Sizes,
    pub(super) locked: bool,
    pub(super) backed: bool,
    /// COMMIT-BACKUP is longer than one record may be.
    pub(super) in_parts: bool,
    /// The LOCK carries no values of patched nodes, because they do not fit.
    pub(super) values_follow: bool,
}

/// Words of the records of a commit to one machine.
pub(super) type Sizes = [usize; 5];

pub(super) const LOCK: usize = 0;
pub(super) const LOCK_MOVED: usize = 1;
pub(super) const COMMIT_BACKUP: usize = 2;
pub(super) const COMMIT_PRIMARY: usize = 3;
pub(super) const TRUNCATE: usize = 4;

impl RemoteParticipants {
    /// Does the same as [`Network::reaches`] for all participants.
    pub(super) fn reach_all(&self, network: &Network) -> bool {
        let senders = self.participants.iter();
        let mut senders = senders.filter_map(|participant| network.sender(participant.machine));
        senders.all(PeerSender::is_whole)
    }

    /// Drops all participants and acks, so that no machine is told anything more.
    pub(crate) fn forget(&mut self) {
        self.participants.clear();
        self.acks.clear();
    }

    /// Returns the participating machines.
    pub(super) fn machines(&self) -> impl Iterator<Item = MachineId> {
        let participants = self.participants.iter();
        participants.map(|participant| participant.machine)
    }

    fn participant(&mut self, machine: MachineId) -> &mut Participant {
        let at = self.participants.iter().position(|p| p.machine == machine);
        let at = at.unwrap_or_else(|| {
            self.participants.push(Participant {
                machine,
                primary: Vec::new(),
                backup: Vec::new(),
                moved: Vec::new(),
                promised: [0; 5],
                locked: false,
                backed: false,
                in_parts: false,
                values_follow: false,
            });
            self.participants.len() - 1
        });
        &mut self.participants[at]
    }
}

/// Returns how a remote primary locks an entry; `None` for an entry without a lock.
pub(super) fn kind_of(write: &Write) -> Option<Kind> {
    match write.what {
        WriteKind::Image { .. } => Some(Kind::Whole),
        WriteKind::Patched(_) => Some(Kind::Patched),
        WriteKind::Freed => Some(Kind::Freed),
        WriteKind::New { .. } => Some(Kind::New),
        WriteKind::Unborn(_) | WriteKind::Idle => None,
    }
}

/// Returns whether an entry is a new object in a slot leased from another machine.
fn is_reserved(write: &Write) -> bool {
    matches!(write.what, WriteKind::New { .. }) && matches!(write.payload(), Payload::Image(_))
}

impl Context {
    /// Returns the network if the commit is distributed: other machines take part as primaries or
    /// backups, or this machine has a disk.
    pub(crate) fn network_if_distributed(&self) -> Option<Arc<Network>> {
        let network = self.machine.network()?;
        let alone = |write: &Write| {
            // Writes that go to a disk must be durable before they become visible.
            let is_local_only = || {
                network.disk.is_none()
                    && network.is_alone_with(write.addr.region())
                    && !is_reserved(write)
            };
            kind_of(write).is_none() || is_local_only()
        };
        (!self.writes.writes.iter().all(alone)).then(|| Arc::clone(network))
    }

    /// Computes the participants and the entries of each.
    pub(super) fn plan(&mut self, network: &Network) -> Result<(), LockFailure> {
        network.configured.within(|id| self.plan_in(network, id))
    }

    fn plan_in(&mut self, network: &Network, configuration: u64) -> Result<(), LockFailure> {
        self.remote.configuration = configuration;
        self.remote.participants.clear();
        self.remote.acks.clear();
        self.remote.from_disks = 0;
        self.remote.slots.clear();
        self.remote.regions.clear();
        for (at, write) in self.writes.writes.iter().enumerate() {
            if kind_of(write).is_none() {
                continue;
            }
            self.remote.regions.push(write.addr.region().0);
            // The region map had the region when the object was read or its slot reserved. A region
            // handover may have begun since.
            let replicas = network.replicas(write.addr.region());
            let replicas = replicas.ok_or(LockFailure::Abort(AbortReason::Unreachable))?;
            let new = matches!(write.what, WriteKind::New { .. });
            if new && network.is_stale(write.addr, self.reserved_since) {
                // HANDOVER-2.
                return Err(LockFailure::Abort(AbortReason::WriteConflict));
            }
            if replicas.primary != network.me() {
                let primary = self.remote.participant(replicas.primary);
                primary.primary.push(at as u32);
            }
            for backup in replicas.backups() {
                self.remote.participant(backup).backup.push(at as u32);
            }
        }
        self.remote.regions.sort_unstable();
        self.remote.regions.dedup();
        Ok(())
    }

    /// Returns the words of the payload that an entry is written with.
    fn payload_words(&self, write: &Write) -> usize {
        match write.what {
            WriteKind::New { .. } => match write.payload() {
                Payload::Slot(addr) => {
                    let object = self.machine.regions().own_object(addr);
                    object.map_or(0, |object| object.len())
                }
                Payload::Image((_, words)) => words,
            },
            WriteKind::Image { .. } | WriteKind::Patched(_) => write.image.1,
            _ => 0,
        }
    }

    /// Returns the maximum words of each record for a participant. LOCK excludes the values of
    /// patched nodes if they follow in LOCK-MOVED.
    pub(super) fn record_sizes(&self, at: usize) -> Sizes {
        let participant = &self.remote.participants[at];
        let write = |at: &u32| &self.writes.writes[*at as usize];
        let regions = self.remote.regions.len();
        let mut sizes = [0; 5];
        sizes[TRUNCATE] = TRUNCATE_WORDS;
        if !participant.primary.is_empty() {
            sizes[LOCK] = message::LOCK_WORDS + regions;
            sizes[COMMIT_PRIMARY] = message::COMMIT_WORDS;
        }
        for write in participant.primary.iter().map(write) {
            let words = self.payload_words(write);
            sizes[LOCK] += message::WRITE_WORDS;
            let kind = kind_of(write);
            if kind == Some(Kind::New) {
                sizes[LOCK] += message::SPLIT_WORDS;
            }
            let patched = kind.is_some_and(Kind::is_patched);
            if patched {
                sizes[LOCK_MOVED] =
                    sizes[LOCK_MOVED].max(TxnId::WORDS) + message::MOVED_WORDS + words;
            }
            if !(patched && participant.values_follow) {
                sizes[LOCK] += words;
            }
        }
        if !participant.backup.is_empty() {
            sizes[COMMIT_BACKUP] = message::BACKUP_WORDS + regions;
        }
        for write in participant.backup.iter().map(write) {
            sizes[COMMIT_BACKUP] += message::WRITE_WORDS + self.payload_words(write);
        }
        sizes
    }

    /// Returns the words of the end of a COMMIT-BACKUP in parts.
    pub(super) fn end_of_parts(&self) -> usize {
        message::BACKUP_WORDS + self.remote.regions.len()
    }

    /// Writes COMMIT-BACKUP (step 3), or the end of one in parts, to every backup, and collects the
    /// acks.
    pub(super) fn commit_backup(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Result<(), LockFailure> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.remote.record);
        // The participant whose record the buffer contains.
        let mut made: Option<usize> = None;
        for at in 0..self.remote.participants.len() {
            let entries = |of: usize| &self.remote.participants[of].backup;
            let participant = &self.remote.participants[at];
            if participant.backup.is_empty() {
                continue;
            }
            if participant.in_parts
                && let Some(sender) = network.sender(participant.machine)
            {
                // The earlier parts contain all writes.
                record.clear();
                message::begin_backup(&mut record, id, w, &self.remote.regions);
                made = None;
                let promised = &mut self.remote.participants[at].promised[COMMIT_BACKUP];
                let promised = std::mem::take(promised);
                let ack = sender.append(record::COMMIT_BACKUP_LAST, &record, &[promised]);
                self.remote.acks.push(ack);
                continue;
            }
            // Most backups get the same record.
            if made.is_none_or(|made| entries(made) != entries(at)) {
                record.clear();
                message::begin_backup(&mut record, id, w, &self.remote.regions);
                for entry in &participant.backup {
                    self.put_backup(&mut record, *entry);
                }
                made = Some(at);
            }
            match network.sender(participant.machine) {
                Some(sender) => {
                    let promised = participant.promised[COMMIT_BACKUP];
                    let ack = sender.append(record::COMMIT_BACKUP, &record, &[promised]);
                    self.remote.acks.push(ack);
                }
                None => {
                    let held =
                        network
                            .home
                            .lock()
                            .hold(self.machine.regions(), &record, None, true);
                    held.map_err(|_| LockFailure::Stop(Stop::Damaged))?;
                }
            }
            let participant = &mut self.remote.participants[at];
            participant.backed = true;
            participant.promised[COMMIT_BACKUP] = 0;
        }
        self.remote.record = record;
        Ok(())
    }

    /// Returns one part of COMMIT-BACKUP, beginning at entry `next`, and the index at which the
    /// next part begins.
    pub(super) fn backup_part(
        &self,
        network: &Network,
        at: usize,
        next: usize,
        w: Timestamp,
    ) -> Result<(Vec<u64>, usize), LockFailure> {
        let entries = &self.remote.participants[at].backup;
        // Half of the longest record fits beside the reserved log space.
        self.backup_of(entries, network.longest_record() / 2, next, w)
    }

    /// Does the same for `entries`, in parts of at most `longest` words.
    pub(super) fn backup_of(
        &self,
        entries: &[u32],
        longest: usize,
        mut next: usize,
        w: Timestamp,
    ) -> Result<(Vec<u64>, usize), LockFailure> {
        let mut record = Vec::new();
        message::begin_backup(&mut record, self.txn_id(), w, &self.remote.regions);
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
        let slot = match (write.what, self.remote.slots.get(&entry)) {
            (WriteKind::New { slot, .. }, _) => Some(slot),
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
            let new = self.writes.image(write);
            self.put_changes(out, (write, new), write.base.locked())
        };
        if message::put_write_of(record, ranges, put) {
            return;
        }
        let about = (write.addr, kind, slot.class.0, u64::from(slot.incarnation));
        let in_slot = match write.payload() {
            Payload::Slot(addr) if kind == Kind::New => self.machine.regions().own_object(addr),
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

    /// Writes COMMIT-PRIMARY (step 4) to the remote primaries. Returns the acks.
    pub(super) fn commit_primary_elsewhere(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Vec<Completion<()>> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.remote.record);
        let mut acks = Vec::new();
        for at in 0..self.remote.participants.len() {
            let participant = &self.remote.participants[at];
            let Some(sender) = network.sender(participant.machine) else {
                continue;
            };
            if participant.primary.is_empty() {
                continue;
            }
            record.clear();
            message::put_commit(&mut record, id, w);
            // Space reserved for LOCK-MOVED was not used if no node had moved.
            let promised = [LOCK_MOVED, COMMIT_PRIMARY].map(|at| participant.promised[at]);
            acks.push(sender.append(record::COMMIT_PRIMARY, &record, &promised));
            let participant = &mut self.remote.participants[at];
            participant.promised[LOCK_MOVED] = 0;
            participant.promised[COMMIT_PRIMARY] = 0;
        }
        self.remote.record = record;
        acks
    }

    /// Sends ABORT to every participant that received a record, and returns all reserved log space.
    /// Returns `false` if backups may have a complete COMMIT-BACKUP. The outcome would then depend
    /// on which machines fail, so the commit continues or is decided later (INFLIGHT-3).
    pub(crate) fn abort_spread(&mut self) -> bool {
        let Some(network) = self.machine.network().map(Arc::clone) else {
            return true;
        };
        let id = self.txn_id();
        let on_disk = || network.disk.as_ref().is_some_and(|disk| disk.has_own(id));
        if self.remote.participants.is_empty() && !on_disk() {
            return true;
        }
        let withdrawn = network.configured.during(id.configuration, || {
            let goes_on = network.decides_later()
                && network.in_flight.has(id)
                && !fault::injected(Fault::AbortWhatMayBeSeen);
            if !goes_on {
                self.tell_abort(&network, id);
                network.in_flight.withdraw(id);
            }
            !goes_on
        });
        if !withdrawn.unwrap_or_else(|| !network.in_flight.has(id)) {
            return false;
        }
        self.remote.forget();
        // A new transaction number keeps late replies apart from those of the next attempt.
        self.local += 1;
        true
    }

    fn tell_abort(&mut self, network: &Network, id: TxnId) {
        if let Some(disk) = &network.disk {
            disk.abort_own(id);
        }
        for participant in self.remote.participants.drain(..) {
            let Some(sender) = network.sender(participant.machine) else {
                network.home.lock().abort(id);
                continue;
            };
            network.forget_reply(id, participant.machine);
            let has_records = participant.locked || participant.backed;
            let spared = if participant.locked {
                COMMIT_PRIMARY
            } else {
                TRUNCATE
            };
            for (at, words) in participant.promised.into_iter().enumerate() {
                if words > 0 && !(has_records && at == spared) {
                    sender.give_back(words);
                }
            }
            if has_records {
                drop(sender.append(record::ABORT, &id.words(), &[participant.promised[spared]]));
            }
        }
    }
}
