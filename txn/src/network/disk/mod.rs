//! The disk of a machine among others (the `ssd` tier): what has been acknowledged is there again after all machines
//! have lost power at once (design: "Durability tiers").
//!
//! # Picture
//! ```text
//! coordinator                        participant
//! LOCK, COMMIT-BACKUP ─────────────► ends.rs ─► its log ─► flushed ─┐
//! its own part ─► its log            announce.rs                    │
//!        └─► flushed ─┐ ◄──────────── DURABLE, up to a position ◄───┘
//! COMMIT-PRIMARY ◄────┴ once all of it is durable
//!
//! all begin again:  left.rs  what each has ─► meet.rs  everybody is shown that ─► agree.rs  everybody decides the same
//!                   ─► replay.rs  into its regions ─► the next configuration
//! ```
//! Each machine has a log of its own ([`fencepost_storage::log`]; `record.rs` says what is in it). What a peer's log here
//! brings goes into it as it is processed; a coordinator writes what it would be told itself (`part.rs`).
//!
//! # Invariants
//! * DISK-1: nothing of a transaction is seen, and it is not reported, before every machine with a replica of what it
//!   writes has that on its disk. So whatever is seen is durable, and nothing that follows from it need be waited for.
//! * DISK-2: a machine writes down that it has a region before anybody finds it there, and so before all that is written
//!   there.
//! * DISK-3: below the low bound of a machine (TRUNCATE-1) all participants have on their disks that a transaction is
//!   truncated, as they say.
//! * DISK-4: a transaction that is in doubt anywhere when machines begin again has an outcome that follows from what all
//!   have on their disks. It is written down at once with the beginning of the next configuration; who has not come so far
//!   when power fails again is told by those who have.
//! * DISK-5: a checkpoint copies replicas while they are written, backups without locks. Replay begins before the first
//!   record of every transaction that is not over when it begins: those alone change anything meanwhile, or are in doubt
//!   anywhere. What is older is in the copy, and a block of the copy that serves another size class since is so, too
//!   (`Changed::of`).
//! * DISK-7: a machine has on its disk that it is in a configuration, and with which regions, before it says that it has
//!   applied it. So a configuration is in force only when all of its machines' disks know of it.
//! * DISK-8: whatever a machine says or does in recovery follows from what is on its disk: messages, effects and answers to
//!   clients wait until all that it has logged before is durable, what it was told and what was decided among that. So the
//!   disks of the machines that are left are a state that recovery could have met, and what they begin again with is what it
//!   would have come to (RECOVERY-3).
//! * DISK-9: machines begin again with the machines of the newest configuration that any of their disks knows. What is on the
//!   disk of another one is stale, and is not used. Where machines are taken back that were out, all of them have to be there, and
//!   such a one begins with nothing ([`TakenBack`]).
//! * DISK-10: a new backup says that it is whole when a checkpoint is durable that began after all data had come, and that
//!   is written down, too. One that was not is none of the region's replicas any more when machines begin again.
//! * DISK-11: no configuration is made in which a region has no replica with its data: all wait instead, for a disk has it.
//! * DISK-12: a machine that joins others while they run writes down which machine it is to be, with nothing of what was on
//!   its disk, before it is let in (JOIN-4). So the disk of a machine that a configuration has says that it is that one, or one that
//!   was there before it: that one was out when the configuration in force said so, and nothing of it is needed any more. It
//!   decides nothing when all begin again, and is one of a region's replicas by DISK-2 and DISK-10 alone.
//! * DISK-13: what a machine had before it was out is never what it has (`super::before`).
//! * DISK-6: no commit begins that a machine has part in whose disk is full, as far as that is known; what its log has
//!   allocated is for those that have begun (`space.rs`).
//!
//! # Failure
//! A log that is damaged refuses to open. On a full disk commits are refused until there is space again. Once it cannot be written any more the machine tells who waits for it that
//! nothing becomes durable: commits that it has part in are given up, or, where
//! machines that fail are replaced, it gives up its lease, and the others go on without it. Without all machines of the last
//! configuration nothing begins.

mod agree;
mod announce;
mod before;
mod begin;
mod kept;
mod left;
mod meet;
mod part;
mod record;
mod replay;
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

pub(super) use announce::{Announcing, DURABLE, NEVER};
pub use begin::{Beginning, Contents, OnDisk, Stored};
use kept::Kept;
pub(crate) use kept::is_of_others;
pub use meet::{MeetError, TakenBack};
pub(crate) use record::BEGUN;
pub(super) use record::PREPARED;
use record::Told;
pub(super) use record::{Held, Holdings};
pub(super) use space::FULL;

use super::{Network, Spread};
use crate::record::{ABORT, TRUNCATE, TxnId};
use crate::recovery::Seen;

/// The log of a machine among others, and who waits for it.
pub(crate) struct Disk {
    log: Log,
    /// The data directory.
    directory: Arc<dyn fencepost_fabric::Disk>,
    fabric: Arc<dyn Fabric>,
    state: Mutex<State>,
    /// Who the machine is, and its regions.
    kept: Mutex<Kept>,
    /// Nothing becomes durable any more.
    failed: AtomicBool,
    /// The machine has given up its lease for that.
    told_failed: AtomicBool,
    /// Peers have been told that the disk is full.
    told_full: Mutex<bool>,
    /// Keeps other processes out of the directory.
    _lock: DiskLock,
}

#[derive(Default)]
struct State {
    /// Transactions of this machine that are in the log, and not truncated.
    own: HashSet<TxnId, FixedState>,
    /// Before the first record of each transaction that is needed still: it is not truncated, or remembered (DISK-3).
    open: HashMap<TxnId, Lsn, FixedState>,
    /// Those that are over but for what waits to be applied.
    late: Vec<TxnId>,
    /// Their truncations that are not durable: number, and where it ends.
    truncated: VecDeque<(u64, Lsn)>,
    /// Who waits, in the order of places.
    waiting: VecDeque<(Lsn, Completer<()>)>,
    /// The flusher is to ring once it has come here.
    armed: Lsn,
}

/// What rings the bell of this machine.
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
        kept: Kept,
    ) -> Disk {
        Disk {
            log,
            directory,
            fabric: Arc::clone(fabric),
            state: Mutex::default(),
            kept: Mutex::new(kept),
            failed: AtomicBool::new(false),
            told_failed: AtomicBool::new(false),
            told_full: Mutex::new(false),
            _lock: lock,
        }
    }

    /// Whose data it has, for machines that join.
    pub fn data(&self) -> DiskData {
        let kept = self.kept.lock();
        DiskData {
            life: kept.begun.cluster,
            region_bytes: kept.begun.region_bytes,
        }
    }

    /// Appends a record; where the log ends then. What fails is told to who waits for it.
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

    /// Appends the ABORT of a transaction, of which nothing is needed any more.
    pub fn abort(&self, id: TxnId) {
        self.append(ABORT, &id.words());
        self.state.lock().open.remove(&id);
    }

    /// All machines have truncated a transaction on their disks; `late` is whether something may be left to be applied here.
    pub fn is_over(&self, id: TxnId, late: bool) {
        let mut state = self.state.lock();
        match late {
            true => state.late.push(id),
            false => drop(state.open.remove(&id)),
        }
    }

    /// All is applied that was late.
    pub fn is_applied(&self) {
        let mut state = self.state.lock();
        for id in std::mem::take(&mut state.late) {
            state.open.remove(&id);
        }
    }

    /// Where replay begins for a checkpoint that is taken from now on (DISK-5).
    pub fn begin_of_replay(&self) -> Lsn {
        let position = self.log.position();
        let state = self.state.lock();
        let first = state.open.values().min().copied();
        first.map_or(position, |first| first.min(position))
    }

    /// Writes down what is needed besides the log from there on.
    pub fn write_kept(&self) -> Result<(), CheckpointError> {
        let kept = self.kept.lock().clone();
        let written = kept.write(&*self.directory);
        written.map_err(|error| CheckpointError::Io {
            file: self.directory.path(""),
            error,
        })
    }

    /// Words of a record that it takes for sure.
    pub fn longest(&self) -> usize {
        self.log.append_limit() / 16
    }

    /// The log itself.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether nothing becomes durable any more.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.log.has_failed()
    }

    /// Whether the log is durable up to a place.
    pub fn is_flushed(&self, lsn: Lsn) -> bool {
        self.log.flushed() >= lsn
    }

    /// Where the log ends.
    pub fn position(&self) -> Lsn {
        self.log.position()
    }

    /// This machine has a region from now on (DISK-2).
    pub fn holds(&self, mapping: &Mapping) {
        let held = Held {
            mapping: mapping.clone(),
            whole: true,
        };
        let mut kept = self.kept.lock();
        kept.holdings.held.insert(mapping.region, held);
        self.append(record::HELD, &record::held(&mapping.encode()));
    }

    /// This machine is in a configuration from now on, and has these regions; where the log ends then (DISK-7).
    pub fn is_in(&self, holdings: Holdings) -> Lsn {
        let mut words = Vec::new();
        holdings.put(&mut words);
        let mut kept = self.kept.lock();
        kept.holdings = holdings;
        self.append(record::HOLDINGS, &words)
    }

    /// All data of a region is in the checkpoint and the log of this machine; where the log ends then (DISK-10).
    pub fn is_filled(&self, region: RegionId) -> Lsn {
        let mut kept = self.kept.lock();
        if let Some(held) = kept.holdings.held.get_mut(&region) {
            held.whole = true;
        }
        self.append(record::FILLED, &[u64::from(region.0)])
    }

    /// Recovery has had this machine keep something of a transaction (DISK-8).
    pub fn keep_told(&self, seen: &Seen, content: &[u64]) {
        self.append_of(record::TOLD, seen.id, &Told::encode(seen, content));
    }

    /// Recovery has decided about a transaction (DISK-8).
    pub fn keep_decided(&self, id: TxnId, w: Option<Timestamp>) {
        let mut words = id.words().to_vec();
        words.push(w.map_or(0, Timestamp::raw));
        self.append_of(record::DECIDED, id, &words);
    }

    /// The same about one of this machine's own, which is not given up or truncated any more.
    pub fn keep_own_decided(&self, id: TxnId, w: Option<Timestamp>) {
        self.keep_decided(id, w);
        self.state.lock().own.remove(&id);
    }

    /// All transactions of configurations before `configuration` are settled everywhere; `late` is whether something of
    /// them may be left to be applied here.
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

    /// This machine's own part of a commit of its own, in records of one kind, and a last one; comes when it is durable.
    pub fn keep_own(&self, id: TxnId, parts: &[(u8, Vec<u64>)]) -> Completion<()> {
        self.state.lock().own.insert(id);
        let append = |(kind, words): &(u8, Vec<u64>)| self.append_of(*kind, id, words);
        let ends = parts.iter().map(append);
        match ends.last() {
            Some(end) => self.flushed(end),
            None => Completion::done(Ok(())),
        }
    }

    /// Whether this machine has written its own part of a commit that is not over.
    pub fn has_own(&self, id: TxnId) -> bool {
        self.state.lock().own.contains(&id)
    }

    /// A commit of its own is given up.
    pub fn abort_own(&self, id: TxnId) {
        if self.state.lock().own.remove(&id) {
            self.abort(id);
        }
    }

    /// The same of one that is truncated.
    pub fn truncate_own(&self, low: u64, number: u64, id: TxnId) {
        if self.state.lock().own.remove(&id) {
            let [a, b, c] = id.words();
            let end = self.append(TRUNCATE, &[low, number, a, b, c]);
            self.state.lock().truncated.push_back((number, end));
        }
    }

    /// The first number of its own truncations that is not durable.
    pub fn oldest_truncated(&self) -> Option<u64> {
        let mut state = self.state.lock();
        while state
            .truncated
            .pop_front_if(|(_, end)| self.is_flushed(*end))
            .is_some()
        {}
        state.truncated.front().map(|(number, _)| *number)
    }

    /// Comes when the log is durable up to a place, once somebody looks ([`Self::look`]).
    fn flushed(&self, lsn: Lsn) -> Completion<()> {
        if self.has_failed() {
            return Completion::done(Err(FabricError::Lost));
        }
        if self.is_flushed(lsn) {
            return Completion::done(Ok(()));
        }
        let (completer, flushed) = Completion::pending();
        let mut state = self.state.lock();
        // Who appends side by side may come here in another order.
        let at = state.waiting.partition_point(|(other, _)| *other <= lsn);
        state.waiting.insert(at, (lsn, completer));
        drop(state);
        self.arm(lsn);
        flushed
    }

    /// Has the flusher ring once it has come to a place, or somewhere before that it is to ring for already.
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

    /// Tells who waits for what has become durable; whether there was anybody.
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

    /// Whether nobody waits, and nothing of its own transactions is left.
    pub fn is_at_rest(&self) -> bool {
        let state = self.state.lock();
        state.waiting.is_empty() && state.own.is_empty()
    }

    /// Makes all durable and ends the log.
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

    /// Whether a machine that has part in a commit cannot write to its disk any more, and all can be reached.
    pub fn cannot_keep(&self, spread: &Spread) -> bool {
        let peers = || spread.machines().filter_map(|machine| self.peer(machine));
        let failed = self.disk.as_ref().is_some_and(Disk::has_failed);
        // Of one that is lost nothing more gets there either.
        (failed || peers().any(|peer| peer.link.cannot_keep()))
            && !peers().any(|peer| peer.line.is_broken())
    }

    /// A machine that cannot write to its disk any more counts as one that has failed, where such are replaced.
    pub fn give_up_without_disk(&self) {
        let failed =
            |disk: &Disk| disk.has_failed() && !disk.told_failed.swap(true, Ordering::AcqRel);
        if self.replaces_machines()
            && self.disk.as_ref().is_some_and(failed)
            && let Some(leasing) = self.leasing()
        {
            // No mailbox is needed for that.
            let _ = leasing.obey(LeaseOrder::Stop);
        }
    }

    /// Whoever waits for what a machine has on its disk that is lost hears that it does not come.
    pub fn forget_durable(&self) {
        if self.disk.is_some() {
            let lost = self.peers.iter().filter(|peer| peer.line.is_broken());
            lost.for_each(|peer| peer.link.is_durable(NEVER));
        }
    }

    /// Tells the disk once nothing is late: see [`Disk::is_over`].
    pub fn look_at_late(&self) {
        if let Some(disk) = &self.disk
            && !self.is_late()
        {
            disk.is_applied();
        }
    }

    /// Whether something that is truncated waits to be applied.
    pub fn is_late(&self) -> bool {
        self.home.lock().is_late() || self.ends.lock().iter().any(|end| end.is_late())
    }
}
