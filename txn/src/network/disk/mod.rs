//! The disk of a machine in a cluster (the `ssd` tier): acknowledged commits survive a simultaneous
//! power loss of all machines (design: "Durability tiers").
//!
//! # Picture
//! ```text
//! coordinator                        participant
//! LOCK, COMMIT-BACKUP ────► peer_receiver.rs ─► its log ─► flushed ─┐
//! its own part ─► its log            announce.rs                    │
//!        └─► flushed ─┐ ◄──────────── DURABLE, up to a position ◄───┘
//! COMMIT-PRIMARY ◄────┴ once all of it is durable
//!
//! all machines restart:  log_content.rs  the state of each ─► meet.rs  each reads all states
//!                        ─► agree.rs  each machine decides the same
//!                        ─► replay.rs  into its regions ─► the next configuration
//! ```
//! Each machine has a log of its own ([`fencepost_storage::log`]; `record.rs` describes its
//! records). Records that a peer writes into this machine's memory go into the log as they are
//! processed. A coordinator also logs the records that it would receive as a participant
//! (`part.rs`).
//!
//! # Invariants
//! * DISK-1: the writes of a transaction are first on the disk of every machine with a replica of a
//!   written region. Only then are they visible, and only then is the commit reported. So each
//!   visible version is durable, and a later transaction need not wait for it.
//! * DISK-2: a machine logs that it has a region before another machine finds the region there, and
//!   so before all records of writes to it.
//! * DISK-3: take a transaction with a truncation number below its machine's low bound
//!   (TRUNCATE-1). All its participants have reported that its truncation is on their disks.
//! * DISK-4: a transaction that is in doubt on any machine at a restart has an outcome that follows
//!   from the disks of all machines. The outcome is logged together with the beginning of the next
//!   configuration. If power fails again, the machines that have logged it tell the others.
//! * DISK-5: a checkpoint copies replicas while they are written, backups without locks. Replay
//!   begins before the first record of every transaction that is open when the checkpoint begins.
//!   Only those transactions change objects meanwhile, or are in doubt on some machine. Older
//!   changes are in the copy. The copy also shows that a block serves another size class since
//!   (`BlockUses::of`).
//! * DISK-7: a machine has on its disk that it is in a configuration, and with which regions,
//!   before it acknowledges the configuration. So a configuration is in force only when the disks
//!   of all its machines have it.
//! * DISK-8: all messages and actions of a machine in recovery follow from the content of its disk.
//!   Messages, effects and answers to clients wait until all earlier log records are durable,
//!   including the messages it received and the decisions. So the remaining disks are a state that
//!   recovery could have met. A restart then comes to the outcome that recovery would have come to
//!   (RECOVERY-3).
//! * DISK-9: a restart takes place with the machines of the newest configuration that any of their
//!   disks has. The data on the disk of another machine are stale, and are not used. If evicted
//!   machines are taken back, all machines have to be there, and an evicted one begins without data
//!   ([`ReadmitPolicy`]).
//! * DISK-10: a new backup reports that it is complete once a checkpoint is durable that began
//!   after all data had arrived. The log must also record that. A backup that had not reported this
//!   is no replica of the region after a restart.
//! * DISK-11: no configuration is made in which a region has no replica with its data: all machines
//!   wait instead, because a disk has the data.
//! * DISK-12: a machine that joins a running cluster first logs its new machine number, without any
//!   data from its disk, before it is admitted (JOIN-4). So the disk of a member says that it is
//!   this member, or names an earlier machine. That machine had been evicted when the configuration
//!   in force said so, and its state is not needed any more. It decides nothing at a restart, and
//!   is a region's replica by DISK-2 and DISK-10 alone.
//! * DISK-13: data from before a machine's eviction never count as its current data
//!   (`super::retained_data`).
//! * DISK-6: no commit begins if the disk of a participant is known to be full. The space that its
//!   log has allocated is for commits that have begun (`space.rs`).
//!
//! # Failure
//! A damaged log refuses to open. On a full disk commits are refused until there is space again.
//! Once the log cannot be written any more, the machine tells the waiters that no more records
//! become durable. Commits with this participant are given up. Where failed machines are replaced,
//! the machine gives up its lease, and the others continue without it. A restart requires all
//! machines of the last configuration.

mod agree;
mod announce;
mod begin;
mod log_content;
mod meet;
mod part;
mod record;
mod replay;
mod retained_data;
mod retained_records;
mod space;
mod state;

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use fencepost_cluster::join::DiskData;
use fencepost_cluster::lease::LeaseOrder;
use fencepost_cluster::{ConfigurationId, Mapping, RegionId, Wire};
use fencepost_fabric::{Completer, Completion, DiskLock, Fabric, FabricError};
use fencepost_storage::Timestamp;
use fencepost_storage::checkpoint::CheckpointError;
use fencepost_storage::log::{Log, LogError, Lsn};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

pub(super) use announce::{DURABLE, DurabilityReports, NEVER};
pub use begin::{Beginning, Contents, DiskStart, StoreState};
pub use meet::{ReadmitPolicy, StateExchangeError};
pub(crate) use record::BEGUN;
use record::EvidenceRecord;
pub(super) use record::PREPARED;
pub(super) use record::{RegionRecord, RegionsRecord};
use retained_records::RetainedRecords;
pub(crate) use retained_records::is_of_others;
pub(super) use space::FULL;

use super::{Network, RemoteParticipants};
use crate::record::{ABORT, TRUNCATE, TxnId};
use crate::recovery::ReplicaEvidence;

/// The log of a machine in a cluster, and its waiters.
pub(crate) struct Disk {
    log: Log,
    /// The data directory.
    directory: Arc<dyn fencepost_fabric::Disk>,
    fabric: Arc<dyn Fabric>,
    state: Mutex<State>,
    /// The identity of the machine, and its regions.
    retained: Mutex<RetainedRecords>,
    /// No further record becomes durable.
    failed: AtomicBool,
    /// The machine has given up its lease because of the failure.
    failure_reported: AtomicBool,
    /// Whether peers have been told that the disk is full.
    full_reported: Mutex<bool>,
    /// The lock that keeps other processes out of the directory.
    _lock: DiskLock,
}

#[derive(Default)]
struct State {
    /// Transactions of this machine that are in the log, and not truncated.
    own: HashSet<TxnId, FixedState>,
    /// A log position before the first record of each transaction that is still needed: it is not
    /// truncated, or its truncation is still remembered (DISK-3).
    open: HashMap<TxnId, Lsn, FixedState>,
    /// Transactions that are over except for writes that wait to be applied.
    late: Vec<TxnId>,
    /// Truncations of own transactions that are not durable: number, and end of the record.
    truncated: VecDeque<(u64, Lsn)>,
    /// Waiters for durability, ordered by log position.
    waiting: VecDeque<(Lsn, Completer<()>)>,
    /// The position at which the flusher is to ring the bell.
    armed: Lsn,
}

/// A waker that rings the bell of this machine.
struct Ring(Arc<dyn Fabric>);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.0.ring_bell(self.0.me());
    }
}

impl Disk {
    fn new(
        log: Log,
        fabric: &Arc<dyn Fabric>,
        (directory, lock): (Arc<dyn fencepost_fabric::Disk>, DiskLock),
        retained: RetainedRecords,
    ) -> Disk {
        Disk {
            log,
            directory,
            fabric: Arc::clone(fabric),
            state: Mutex::default(),
            retained: Mutex::new(retained),
            failed: AtomicBool::new(false),
            failure_reported: AtomicBool::new(false),
            full_reported: Mutex::new(false),
            _lock: lock,
        }
    }

    /// Returns the cluster that the data belong to, for joining machines.
    pub fn data(&self) -> DiskData {
        let retained = self.retained.lock();
        DiskData {
            incarnation: retained.begun.cluster,
            region_bytes: retained.begun.region_bytes,
        }
    }

    /// Appends a record. Returns the end of the log. An error is reported to the waiters for
    /// durability.
    pub fn append(&self, kind: u8, words: &[u64]) -> Lsn {
        let appended = self.log.append(&[(kind, &[bytemuck::cast_slice(words)])]);
        appended.unwrap_or_else(|why| {
            if !self.failed.swap(true, Ordering::AcqRel) {
                tracing::error!("nothing more becomes durable, so that commits fail: {why}");
            }
            self.log.position()
        })
    }

    /// Appends a record of a transaction.
    pub fn append_of(&self, kind: u8, id: TxnId, words: &[u64]) -> Lsn {
        let begin = self.log.position();
        self.state.lock().open.entry(id).or_insert(begin);
        self.append(kind, words)
    }

    /// Appends the ABORT of a transaction, whose records are not needed any more.
    pub fn abort(&self, id: TxnId) {
        self.append(ABORT, &id.words());
        self.state.lock().open.remove(&id);
    }

    /// Records that all machines have truncated a transaction on their disks; `late` tells whether
    /// writes may still wait to be applied here.
    pub fn is_over(&self, id: TxnId, late: bool) {
        let mut state = self.state.lock();
        match late {
            true => state.late.push(id),
            false => drop(state.open.remove(&id)),
        }
    }

    /// Records that all late writes are applied.
    pub fn is_applied(&self) {
        let mut state = self.state.lock();
        for id in std::mem::take(&mut state.late) {
            state.open.remove(&id);
        }
    }

    /// Returns where replay begins for a checkpoint that is taken from now on (DISK-5).
    pub fn begin_of_replay(&self) -> Lsn {
        let position = self.log.position();
        let state = self.state.lock();
        let first = state.open.values().min().copied();
        first.map_or(position, |first| first.min(position))
    }

    /// Writes the state that a restart needs besides the log from there on.
    pub fn write_retained_records(&self) -> Result<(), CheckpointError> {
        let retained = self.retained.lock().clone();
        let written = retained.write(&*self.directory);
        written.map_err(|error| CheckpointError::Io {
            file: self.directory.path(""),
            error,
        })
    }

    /// Returns the words of a record that the log certainly accepts.
    pub fn longest(&self) -> usize {
        self.log.append_limit() / 16
    }

    /// Returns the log itself.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns whether no further record becomes durable.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.log.has_failed()
    }

    /// Returns whether the log is durable up to a position.
    pub fn is_flushed(&self, lsn: Lsn) -> bool {
        self.log.flushed() >= lsn
    }

    /// Returns the end of the log.
    pub fn position(&self) -> Lsn {
        self.log.position()
    }

    /// Records that this machine has a region from now on (DISK-2).
    pub fn holds(&self, mapping: &Mapping) {
        let held = RegionRecord {
            mapping: mapping.clone(),
            whole: true,
        };
        let mut retained = self.retained.lock();
        retained.holdings.held.insert(mapping.region, held);
        self.append(record::HELD, &record::held(&mapping.encode()));
    }

    /// Records that this machine is in a configuration from now on, and has these regions. Returns
    /// the end of the log (DISK-7).
    pub fn is_in(&self, holdings: RegionsRecord) -> Lsn {
        let mut words = Vec::new();
        holdings.put(&mut words);
        let mut retained = self.retained.lock();
        retained.holdings = holdings;
        self.append(record::HOLDINGS, &words)
    }

    /// Records that all data of a region is in the checkpoint and the log of this machine. Returns
    /// the end of the log (DISK-10).
    pub fn is_filled(&self, region: RegionId) -> Lsn {
        let mut retained = self.retained.lock();
        if let Some(held) = retained.holdings.held.get_mut(&region) {
            held.whole = true;
        }
        self.append(record::FILLED, &[u64::from(region.0)])
    }

    /// Logs evidence of a transaction that recovery keeps on this machine (DISK-8).
    pub fn log_evidence(&self, seen: &ReplicaEvidence, content: &[u64]) {
        self.append_of(
            record::EVIDENCE,
            seen.id,
            &EvidenceRecord::encode(seen, content),
        );
    }

    /// Logs the decision of recovery about a transaction (DISK-8).
    pub fn keep_decided(&self, id: TxnId, w: Option<Timestamp>) {
        let mut words = id.words().to_vec();
        words.push(w.map_or(0, Timestamp::raw));
        self.append_of(record::DECIDED, id, &words);
    }

    /// Does the same for a transaction of this machine, which is neither given up nor truncated any
    /// more.
    pub fn keep_own_decided(&self, id: TxnId, w: Option<Timestamp>) {
        self.keep_decided(id, w);
        self.state.lock().own.remove(&id);
    }

    /// Records that all transactions of configurations before `configuration` are settled on all
    /// machines; `late` tells whether writes of them may still wait to be applied here.
    pub fn is_settled(&self, configuration: ConfigurationId, late: bool) {
        self.append(record::SETTLED, &[configuration.0]);
        let mut state = self.state.lock();
        let State {
            own,
            open,
            late: waits,
            ..
        } = &mut *state;
        own.retain(|id| id.configuration >= configuration.0);
        let over = open.keys().filter(|id| id.configuration < configuration.0);
        match late {
            true => waits.extend(over.copied()),
            false => open.retain(|id, _| id.configuration >= configuration.0),
        }
    }

    /// Logs this machine's own part of a commit that it coordinates. Completes when the last record
    /// is durable.
    pub fn keep_own(&self, id: TxnId, parts: &[(u8, Vec<u64>)]) -> Completion<()> {
        self.state.lock().own.insert(id);
        let append = |(kind, words): &(u8, Vec<u64>)| self.append_of(*kind, id, words);
        let ends = parts.iter().map(append);
        match ends.last() {
            Some(end) => self.flushed(end),
            None => Completion::done(Ok(())),
        }
    }

    /// Returns whether this machine has logged its own part of a commit that is not over.
    pub fn has_own(&self, id: TxnId) -> bool {
        self.state.lock().own.contains(&id)
    }

    /// Logs that a commit of this machine is given up.
    pub fn abort_own(&self, id: TxnId) {
        if self.state.lock().own.remove(&id) {
            self.abort(id);
        }
    }

    /// Logs that a commit of this machine is truncated.
    pub fn truncate_own(&self, low: u64, number: u64, id: TxnId) {
        if self.state.lock().own.remove(&id) {
            let [a, b, c] = id.words();
            let end = self.append(TRUNCATE, &[low, number, a, b, c]);
            self.state.lock().truncated.push_back((number, end));
        }
    }

    /// Returns the first number of this machine's own truncations that is not durable.
    pub fn oldest_truncated(&self) -> Option<u64> {
        let mut state = self.state.lock();
        while state
            .truncated
            .pop_front_if(|(_, end)| self.is_flushed(*end))
            .is_some()
        {}
        state.truncated.front().map(|(number, _)| *number)
    }

    /// Completes when the log is durable up to a position, at a call of [`Self::look`].
    fn flushed(&self, lsn: Lsn) -> Completion<()> {
        if self.has_failed() {
            return Completion::done(Err(FabricError::Lost));
        }
        if self.is_flushed(lsn) {
            return Completion::done(Ok(()));
        }
        let (completer, flushed) = Completion::pending();
        let mut state = self.state.lock();
        // Concurrent appenders may arrive here in another order.
        let at = state.waiting.partition_point(|(other, _)| *other <= lsn);
        state.waiting.insert(at, (lsn, completer));
        drop(state);
        self.arm(lsn);
        flushed
    }

    /// Asks the flusher to ring the bell once it has reached a position, or an earlier one for
    /// which it was asked already.
    pub fn arm(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        if self.is_flushed(lsn) || state.armed <= lsn && !self.is_flushed(state.armed) {
            return;
        }
        state.armed = lsn;
        drop(state);
        let waker = Waker::from(Arc::new(Ring(Arc::clone(&self.fabric))));
        let mut wait = self.log.wait_flushed(lsn);
        let polled = Pin::new(&mut wait).poll(&mut Context::from_waker(&waker));
        if !matches!(polled, Poll::Pending) {
            waker.wake();
        }
    }

    /// Completes the waiters whose records have become durable. Returns whether there were any.
    pub fn look(&self) -> bool {
        let failed = self.has_failed();
        let mut state = self.state.lock();
        let durable = |(lsn, _): &mut (Lsn, Completer<()>)| failed || self.is_flushed(*lsn);
        let mut there = Vec::new();
        while let Some(waiting) = state.waiting.pop_front_if(durable) {
            there.push(waiting.1);
        }
        let next = state.waiting.front().map(|(lsn, _)| *lsn);
        drop(state);
        if let Some(next) = next {
            self.arm(next);
        }
        let any = !there.is_empty();
        for waiting in there {
            waiting.complete(match failed {
                true => Err(FabricError::Lost),
                false => Ok(()),
            });
        }
        any
    }

    /// Returns whether there is no waiter, and no open transaction of this machine.
    pub fn is_at_rest(&self) -> bool {
        let state = self.state.lock();
        state.waiting.is_empty() && state.own.is_empty()
    }

    /// Makes all records durable and closes the log.
    pub fn close(&self) -> Result<(), LogError> {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        drop(waiting);
        self.log.close()
    }
}

impl Network {
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Returns whether the disk of a participant of a commit has failed although all participants
    /// are reachable.
    pub fn cannot_keep(&self, remote: &RemoteParticipants) -> bool {
        let peers = || remote.machines().filter_map(|machine| self.peer(machine));
        let failed = self.disk.as_ref().is_some_and(Disk::has_failed);
        // A lost machine receives no further records either.
        (failed || peers().any(|peer| peer.sender.cannot_keep()))
            && !peers().any(|peer| peer.channel.is_broken())
    }

    /// Treats this machine as failed once it cannot write to its disk, where failed machines are
    /// replaced.
    pub fn give_up_without_disk(&self) {
        let failed =
            |disk: &Disk| disk.has_failed() && !disk.failure_reported.swap(true, Ordering::AcqRel);
        if self.replaces_machines()
            && self.disk.as_ref().is_some_and(failed)
            && let Some(leasing) = self.leasing()
        {
            // This order needs no mailbox.
            let _ = leasing.obey(LeaseOrder::Stop);
        }
    }

    /// Tells waiters for a lost machine's disk that their records do not become durable.
    pub fn forget_durable(&self) {
        if self.disk.is_some() {
            let lost = self.peers.iter().filter(|peer| peer.channel.is_broken());
            lost.for_each(|peer| peer.sender.is_durable(NEVER));
        }
    }

    /// Tells the disk once no write is late: see [`Disk::is_over`].
    pub fn look_at_late(&self) {
        if let Some(disk) = &self.disk
            && !self.is_late()
        {
            disk.is_applied();
        }
    }

    /// Returns whether a truncated write waits to be applied.
    pub fn is_late(&self) -> bool {
        self.home.lock().is_late()
            || self
                .receivers
                .lock()
                .iter()
                .any(|receiver| receiver.is_late())
    }
}
