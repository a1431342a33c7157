//! The receiver of one peer: the receiving ends of its rings, and the handling of each record and
//! message.
//!
//! [`super::poller`] decides which thread polls the receivers, and when.
//!
//! # Failure
//! A receiver whose ring contains a malformed record reads nothing of that peer any more.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_fabric::ring::{self, RingReader};
use fencepost_fabric::{Fabric, FabricError, HeldRecord, MachineId};
use fencepost_storage::{Addr, RegionId, Timestamp};
use foldhash::fast::FixedState;

use fencepost_cluster::reconfiguration::ReconfigurationMessage;
use fencepost_cluster::{ConfigurationId, Wire};

use super::Network;
use super::backup::Backup;
use super::call::CallReceiver;
use super::disk::{self, DURABLE, DurabilityReports, FULL};
use super::distributed_deadlock;
use super::driver::{self, Assembling, Input};
use super::evidence::EvidenceByTransaction;
use super::headers;
use super::message::{LOCK_FOUND, LOCK_REPLY, LockReply, WordReader};
use super::peer_sender::{LOG, MESSAGE_WORDS, MESSAGES};
use super::primary::Primary;
use super::region_allocation;
use super::remote_lock_wait::{self, RemoteWaiters};
use super::restart::copied::{Copies, SegmentCopy};
use super::slot_messages;
use super::time;
use super::truncated::TruncationLog;
use super::versions;
use crate::counters::Event;
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::record::{self, BadRecord, TxnId};
use crate::recovery::RecoveryMessage;

/// Records of one peer that are processed before the next peer's turn.
const AT_ONCE: usize = 64;
/// Lane of the allocator where the poller allocates and retires slots.
const LANE: usize = 0;

const UNKNOWN_MESSAGE: BadRecord = BadRecord("unknown kind of message");

/// The receiver of one peer's rings.
pub(super) struct PeerReceiver {
    peer: MachineId,
    log: RingReader,
    messages: RingReader,
    calls: CallReceiver,
    primary: Primary,
    backup: Backup,
    truncated: TruncationLog,
    /// Records of transactions that are not truncated and have left the log, if memory survives the
    /// machine.
    copies: Copies,
    copied: HashMap<TxnId, Vec<SegmentCopy>, FixedState>,
    /// Pending reports to the peer about its records on this machine's disk.
    announcing: DurabilityReports,
    remote_waiters: RemoteWaiters,
    /// The peer has sent a malformed record, or is lost: nothing it writes is read any more.
    distrusted: bool,
    /// The configuration whose mark was read last in its log; 0 before any.
    begun: u64,
    /// A message of a reconfiguration that has arrived in part.
    assembling: Assembling,
    /// A message of recovery that has arrived in part.
    recovery: Assembling,
    record: Vec<u64>,
}

impl PeerReceiver {
    pub fn new(
        fabric: &Arc<dyn Fabric>,
        peer: MachineId,
        log_words: usize,
    ) -> Result<PeerReceiver, FabricError> {
        Ok(PeerReceiver {
            peer,
            log: ring::receive(fabric, peer, LOG, log_words)?,
            messages: ring::receive(fabric, peer, MESSAGES, MESSAGE_WORDS)?,
            calls: CallReceiver::new(fabric, peer)?,
            primary: Primary::default(),
            backup: Backup::default(),
            truncated: TruncationLog::default(),
            copies: Copies::of(fabric, peer),
            copied: HashMap::default(),
            announcing: DurabilityReports::default(),
            remote_waiters: RemoteWaiters::new(fabric.bell()),
            distrusted: false,
            begun: 0,
            assembling: Assembling::default(),
            recovery: Assembling::default(),
            record: Vec::new(),
        })
    }

    pub fn is_at_rest(&self) -> bool {
        self.primary.left() == (0, 0)
            && self.backup.left() == 0
            && self.remote_waiters.is_empty()
            && self.announcing.is_at_rest()
            && self.calls.is_at_rest()
            && self.primary.slot_leases.is_at_rest()
            && (self.distrusted || !self.log.has_more() && !self.messages.has_more())
    }

    /// Returns the machine that writes these rings.
    pub fn peer(&self) -> MachineId {
        self.peer
    }

    /// Returns whether nothing that the peer writes is read any more.
    pub fn is_read_out(&self) -> bool {
        self.distrusted
    }

    /// Carries out the decision of recovery: a transaction takes effect at `w` in all regions whose
    /// primary this machine is, or has no effect. `found` are its writes as other machines have
    /// them.
    pub fn apply_decision<'a>(
        &mut self,
        machine: &Machine,
        id: TxnId,
        w: Option<Timestamp>,
        found: impl Iterator<Item = &'a [u64]>,
    ) {
        for content in found {
            // Content that cannot be decoded comes from a faulty peer.
            let _ = self.primary.supply(machine, id, content);
        }
        self.primary.apply_decision(machine, LANE, id, w);
    }

    /// Drops all records of a transaction whose recovery is complete.
    pub fn truncate_recovered(&mut self, id: TxnId) {
        self.copied.remove(&id);
        let mut released = self.primary.truncate(id);
        released.extend(self.backup.abort(id));
        released.into_iter().for_each(|held| self.log.release(held));
    }

    /// Copies a record that leaves the log.
    fn copy(&mut self, tag: u8, id: TxnId, words: &[u64]) -> Result<(), BadRecord> {
        if let Some(copied) = self.copies.copy(tag, words)? {
            self.copied.entry(id).or_default().push(copied);
        }
        Ok(())
    }

    /// Drops the remaining transactions of configurations before `current` after recovery. They did
    /// not get far enough to commit anywhere.
    pub fn sweep(&mut self, machine: &Machine, current: u64) {
        let mut ids = self.primary.before(current);
        ids.extend(self.backup.before(current));
        for id in ids {
            self.primary.apply_decision(machine, LANE, id, None);
            self.truncate_recovered(id);
        }
    }

    /// Applies to backups the transactions whose awaited versions have arrived.
    pub fn look_again(&mut self, machine: &Machine, network: &Network) {
        let applied = self.backup.look_again(machine.regions(), &network.changed);
        for held in applied.unwrap_or_default() {
            self.log.release(held);
        }
    }

    /// Returns whether a transaction waits for a version in one of the regions that `among`
    /// accepts.
    pub fn awaits_versions(
        &self,
        machine: &Machine,
        network: &Network,
        among: &dyn Fn(RegionId) -> bool,
    ) -> bool {
        let (regions, changed) = (machine.regions(), &network.changed);
        self.backup.awaits_versions(regions, changed, among)
    }

    /// Takes back the slot leases and intents of a lost peer whose transactions are settled.
    pub fn take_back(&mut self, machine: &Machine) {
        self.primary.slot_leases.take_back(machine, LANE);
        self.remote_waiters.leave(machine.intents(), self.peer);
    }

    /// Returns whether a truncated transaction waits for a version.
    pub fn is_late(&self) -> bool {
        self.backup.is_late()
    }

    /// Drops the waits for rows in regions that other machines have from now on.
    pub fn part_with(&mut self, are_handed_over: impl Fn(Addr) -> bool) {
        self.remote_waiters.part_with(are_handed_over);
    }

    /// Returns whether all records of configurations before `id` have been processed.
    pub fn has_begun(&self, id: ConfigurationId) -> bool {
        self.begun >= id.0 || self.distrusted
    }

    /// Processes all records of a machine that is no member any more, and ignores later ones.
    pub fn read_out(&mut self, machine: &Machine, network: &Network) {
        while self.poll(machine, network) {}
        self.distrusted |= !fault::injected(Fault::AcceptLostMachines);
    }

    pub fn is_of(&self, machine: u32) -> bool {
        self.peer.0 == machine
    }

    /// Adds the evidence of the peer's transactions to `found`.
    pub fn find(&self, found: &mut EvidenceByTransaction) {
        self.primary.find(found);
        self.backup.find(found);
    }

    /// Returns the writes of one transaction to a region.
    pub fn content(&self, id: TxnId, region: u32) -> Option<Vec<u64>> {
        let content = self.primary.content(id, region);
        content.or_else(|| self.backup.content(id, region))
    }

    pub fn was_truncated(&self, id: TxnId) -> bool {
        self.truncated.has(id)
    }

    /// Returns the slots leased to the peer for new objects.
    pub fn leased_slots(&self) -> impl Iterator<Item = Addr> {
        self.primary.slot_leases.all()
    }

    /// Processes the records and messages that have arrived. Returns whether there were any.
    pub fn poll(&mut self, machine: &Machine, network: &Network) -> bool {
        if self.distrusted {
            return false;
        }
        let mut record = std::mem::take(&mut self.record);
        let done = self.process(machine, network, &mut record);
        self.record = record;
        self.distrusted = done.is_err();
        if self.distrusted
            && let Some(peer) = network.peer(self.peer)
        {
            peer.channel.break_off();
        }
        done.unwrap_or(false)
    }

    fn process(
        &mut self,
        machine: &Machine,
        network: &Network,
        record: &mut Vec<u64>,
    ) -> Result<bool, BadRecord> {
        const TORN: BadRecord = BadRecord("a ring holds no record");
        let mut any = false;
        for _ in 0..AT_ONCE {
            let Some((tag, held)) = self.messages.next(record).map_err(|_| TORN)? else {
                break;
            };
            any = true;
            let handled = self.message(machine, network, tag, record);
            self.messages.release(held);
            handled?;
        }
        let mut log_read = false;
        for _ in 0..AT_ONCE {
            let Some((tag, held)) = self.log.next(record).map_err(|_| TORN)? else {
                log_read = true;
                break;
            };
            any = true;
            self.log_record(machine, network, (tag, held), record)?;
        }
        let applied = self
            .backup
            .look_again(machine.regions(), &network.changed)?;
        for held in applied {
            self.log.release(held);
            any = true;
        }
        if let Some(disk) = &network.disk {
            self.announcing.tell(disk, network.sender(self.peer));
        }
        any |= self.calls.poll(network, record, AT_ONCE)?;
        if let Some(sender) = network.sender(self.peer) {
            any |= self.remote_waiters.tell(machine.intents(), sender);
            let slot_leases = &mut self.primary.slot_leases;
            any |= slot_leases.lend_later((machine, network), LANE, sender, log_read);
        }
        Ok(any)
    }

    fn message(
        &mut self,
        machine: &Machine,
        network: &Network,
        tag: u8,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        match tag {
            LOCK_REPLY => {
                let (id, reply) = LockReply::decode(words)?;
                let waiting = network.replies.lock().remove(&(id, self.peer));
                if let Some((waiting, mut found)) = waiting {
                    waiting.complete(Ok(match reply {
                        LockReply::Locked(last) => {
                            found.extend(last);
                            LockReply::Locked(found)
                        }
                        failed => failed,
                    }));
                }
            }
            LOCK_FOUND => {
                let mut words = WordReader(words);
                let id = words.id()?;
                if let Some((_, found)) = network.replies.lock().get_mut(&(id, self.peer)) {
                    found.extend_from_slice(words.0);
                }
            }
            remote_lock_wait::INTEND => {
                if let Some(sender) = network.sender(self.peer) {
                    let is_local = |row| !network.is_elsewhere(row);
                    self.remote_waiters.intend(
                        machine.intents(),
                        self.peer,
                        sender,
                        is_local,
                        words,
                    )?;
                }
            }
            remote_lock_wait::GIVE_BACK => {
                self.remote_waiters
                    .give_back(machine.intents(), self.peer, words)?;
            }
            remote_lock_wait::WAIT_END => {
                let (ticket, ended) = remote_lock_wait::decode_wait_end(words)?;
                let waiting = network.remote_lock_waits.lock().remove(&ticket);
                if let Some(waiting) = waiting {
                    waiting.completer.complete(Ok(ended));
                }
            }
            distributed_deadlock::CHASE => network.chased(machine, words)?,
            distributed_deadlock::ABORT_VICTIM => network.abort_victim(machine, words)?,
            headers::VALIDATE => {
                if let Some(sender) = network.sender(self.peer) {
                    headers::answer(machine, sender, words)?;
                }
            }
            headers::VALIDATED => network.take_headers(self.peer, words)?,
            versions::VERSIONS => {
                if let Some(sender) = network.sender(self.peer) {
                    versions::answer(machine, sender, words)?;
                }
            }
            versions::VERSIONS_ARE => network.take_versions(self.peer, words)?,
            slot_messages::RESERVE => {
                if let Some(sender) = network.sender(self.peer) {
                    let slot_leases = &mut self.primary.slot_leases;
                    slot_leases.reserve((machine, network), LANE, sender, words)?;
                }
            }
            slot_messages::RESERVED => network.take_answer(self.peer, words, machine.now())?,
            region_allocation::REGIONS => network.take_regions(machine, self.peer, words)?,
            time::TIME => {
                if let Some(sender) = network.sender(self.peer) {
                    network.tell_time(machine.clock(), sender, words)?;
                }
            }
            driver::RECONFIGURE => {
                if let Some(message) = self.assembling.take(words)? {
                    let message = driver::bytes_of(&message)?;
                    let message = ReconfigurationMessage::decode(message);
                    let message = message.map_err(|_| UNKNOWN_MESSAGE)?;
                    network.inbox.push(Input::Message(self.peer, message));
                }
            }
            driver::RECOVER => {
                if let Some(message) = self.recovery.take(words)? {
                    let message = RecoveryMessage::decode(&message)?;
                    network.inbox.push(Input::Recovery(self.peer, message));
                }
            }
            DURABLE => {
                let position = WordReader(words).word()?;
                if let Some(sender) = network.sender(self.peer) {
                    sender.is_durable(position);
                }
            }
            FULL => {
                let full = WordReader(words).word()? != 0;
                if let Some(sender) = network.sender(self.peer) {
                    sender.set_full(full);
                }
            }
            time::TIME_IS => network.take_time(machine.clock(), self.peer, words)?,
            _ => return Err(UNKNOWN_MESSAGE),
        }
        Ok(())
    }

    fn log_record(
        &mut self,
        machine: &Machine,
        network: &Network,
        (tag, held): (u8, HeldRecord),
        words: &[u64],
    ) -> Result<(), BadRecord> {
        match tag {
            record::LOCK | record::LOCK_OF_PARTS => {
                let stays = (tag == record::LOCK).then_some(held);
                let (id, reply, released) = self.primary.lock(machine, words, stays)?;
                self.write_prepared(network, id);
                if stays.is_none() {
                    if let LockReply::Locked(_) = reply {
                        self.copy(tag, id, words)?;
                    }
                    self.log.release(held);
                }
                if let Some(held) = released {
                    self.log.release(held);
                }
                if let Some(sender) = network.sender(self.peer) {
                    reply.send(id, |tag, words| sender.send_surely(tag, words));
                }
            }
            record::LOCK_MOVED => {
                let left = self.primary.lock_moved(machine, words, held)?;
                self.write_prepared(network, WordReader(words).id()?);
                if let Some(held) = left {
                    self.copy(tag, WordReader(words).id()?, words)?;
                    self.log.release(held);
                }
            }
            record::COMMIT_PRIMARY => {
                self.primary.commit(machine, LANE, words, held)?;
                write_down(network, tag, words)?;
            }
            record::COMMIT_BACKUP => {
                let regions = machine.regions();
                self.backup.hold(regions, words, Some(held), true)?;
                write_down(network, tag, words)?;
            }
            record::COMMIT_BACKUP_PART | record::COMMIT_BACKUP_LAST => {
                let last = tag == record::COMMIT_BACKUP_LAST;
                let copied = (None, self.copies.copy(tag, words)?);
                let regions = machine.regions();
                self.backup.hold_copied(regions, words, copied, last)?;
                write_down(network, tag, words)?;
                self.log.release(held);
            }
            record::ABORT => {
                let id = WordReader(words).id()?;
                self.copied.remove(&id);
                // The disk must have the ABORT before another transaction takes the locks.
                if let Some(disk) = &network.disk {
                    disk.abort(id);
                }
                let mut released = self.primary.abort(machine, id);
                released.extend(self.backup.abort(id));
                released.push(held);
                released.into_iter().for_each(|held| self.log.release(held));
            }
            record::TRUNCATE => {
                if let Some(disk) = &network.disk {
                    disk.append(tag, words);
                }
                let mut words = WordReader(words);
                let low = words.word()?;
                while !words.0.is_empty() {
                    let (number, id) = (words.word()?, words.id()?);
                    self.truncated.remember(number, id)?;
                    if !self.copied.is_empty() {
                        self.copied.remove(&id);
                    }
                    let mut released = self.primary.truncate(id);
                    let regions = machine.regions();
                    match self.backup.truncate(regions, &network.changed, id)? {
                        Some(applied) => released.extend(applied),
                        None => machine.counters().count(LANE, Event::VersionAwaited),
                    }
                    released.into_iter().for_each(|held| self.log.release(held));
                }
                let late = self.backup.is_late();
                self.truncated.forget_below(low, |id| {
                    if let Some(disk) = &network.disk {
                        disk.is_over(id, late);
                    }
                });
                self.log.release(held);
            }
            record::CONFIGURATION => {
                self.begun = WordReader(words).word()?;
                self.log.release(held);
            }
            record::UNRESERVE => {
                self.primary.slot_leases.give_back(machine, LANE, words)?;
                self.log.release(held);
            }
            _ => return Err(BadRecord("unknown kind of record")),
        }
        if let Some(disk) = &network.disk
            && (record::is_evidence(tag) || tag == record::TRUNCATE)
        {
            self.announcing.note(self.log.position(), disk.position());
        }
        Ok(())
    }

    /// Writes the local part of a transaction to the disk, once the new values of all its locked
    /// objects are known.
    fn write_prepared(&self, network: &Network, id: TxnId) {
        if let Some(disk) = &network.disk
            && let Some(prepared) = self.primary.prepared(id)
        {
            disk.append_of(disk::PREPARED, id, &prepared);
        }
    }
}

/// Writes a record of a transaction to the disk unchanged, if this machine has one.
fn write_down(network: &Network, tag: u8, words: &[u64]) -> Result<(), BadRecord> {
    if let Some(disk) = &network.disk {
        disk.append_of(tag, WordReader(words).id()?, words);
    }
    Ok(())
}
