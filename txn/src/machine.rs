//! The machine: one database's memory, clock, readers and log, and how it starts and stops.
//!
//! # Picture
//! ```text
//! open:   root object ─► newest checkpoint ─► replay of the log ─► free lists from allocated bits
//! run:    a checkpoint whenever the log has grown enough (checkpointer.rs)
//! close:  no transaction runs any more ─► log flushed ─► threads ended
//! ```
//! # Failure
//! A damaged checkpoint or log refuses to open and names file and offset. A log that fails while
//! the machine runs makes every later commit fail; reads go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fencepost_fabric::{DiskLock, FabricCounts, MachineId};
use fencepost_storage::checkpoint::CheckpointError;
use fencepost_storage::header::{Header, OldVersionPtr};
use fencepost_storage::lanes::{Lane, LaneResources, Lanes};
use fencepost_storage::log::{Log, LogCounters, LogError};
use fencepost_storage::old_versions::{OldVersions, ReplacedVersion};
use fencepost_storage::region::{Region, Regions};
use fencepost_storage::{
    Account, Addr, ObjectRef, OutOfMemory, PrivateBacking, RegionId, Timestamp,
};

use crate::checkpoint_wait::CheckpointWait;
use crate::checkpointer::{CheckpointCounters, Checkpointer};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::fault::{self, Fault};
use crate::intent::{Intents, QueueEntry};
use crate::network::{self, MissingPrerequisite, Network, RetainedData};
use crate::options::{MachineOptions, OpenError, StartReport};
use crate::readers::Readers;
use crate::start::{self, BIRTH, Directory, RecoveredLog};
use crate::stop::Stop;
use crate::transaction::{Coordinator, Mode, Transaction};
use crate::work::Work;

/// Payload words of the root object.
pub const ROOT_WORDS: usize = 64;

/// The clock and the active readers, which order transactions; shared with the log's flusher.
pub(crate) struct Order {
    pub clock: Clock,
    pub readers: Readers,
}

/// One database: the memory, log, clock and readers of one machine.
pub struct Machine {
    regions: Regions,
    account: Account,
    lanes: Lanes,
    old_versions: OldVersions,
    network: Option<Arc<Network>>,
    order: Arc<Order>,
    intents: Intents,
    counters: Counters,
    coordinators: AtomicU32,
    /// Number of changes of the shape of indexes; used where the machine is alone.
    reshaped: AtomicU64,
    log: Option<Log>,
    checkpointer: Option<Checkpointer>,
    /// Different at each start of the machine.
    incarnation: u64,
    started: StartReport,
    fresh: bool,
    root: Addr,
    /// The lock that keeps other processes out of the data directory.
    _directory: Option<DiskLock>,
}

impl Machine {
    /// Starts a machine: a fresh database, or the one in the data directory. Blocks until the
    /// checkpoint is loaded and the log replayed. Starts the threads of the log, of the
    /// checkpointer and, in a cluster, of the poller and the leases.
    ///
    /// # Errors
    /// [`OpenError::InUse`] while another process has the data directory,
    /// [`OpenError::OutOfMemory`] if the data exceed the limit; the other variants name the part to
    /// repair. In any case nothing that a later start needs has been changed.
    pub fn open(options: MachineOptions) -> Result<Arc<Machine>, OpenError> {
        let network = options.network.as_ref();
        if network.is_some() && options.durable.is_some() {
            return Err(OpenError::TierNotThere);
        }
        let on_disk = network.and_then(|network| network.disk.as_ref());
        let order = Arc::new(Order {
            clock: network.map_or_else(Clock::counting, |network| {
                let manager = network.configuration.cm() == network.fabric.me();
                Clock::of_time(Arc::clone(&network.clock), manager)
            }),
            readers: Readers::default(),
        });
        let region_map: Arc<network::LocalRegionMap> = Arc::default();
        let backing = match network {
            Some(network) => Network::backing(network, &region_map),
            None => Arc::new(PrivateBacking) as _,
        };
        let initial_member =
            network.is_none_or(|network| network.configuration.cm() == network.fabric.me());
        let mut started = StartReport::default();
        let directory = options.durable.as_ref().map(Directory::open).transpose()?;
        // A region keeps the size that it had when the checkpoint was taken: addresses depend on
        // it.
        let manifest = directory.as_ref().and_then(|directory| directory.manifest);
        let before = manifest.map(|manifest| manifest.region_bytes as usize);
        let before = before.or_else(|| on_disk.and_then(|on_disk| on_disk.region_bytes()));
        let region_bytes = before.unwrap_or(options.region_bytes);
        let regions = Regions::with(region_bytes, Arc::clone(&backing));
        let root = start::root_at()?;
        // In a cluster, the root object comes with region 0, after the peers are present.
        if network.is_none() {
            start::make_root(&regions)?;
        }
        let found = match (directory, &options.durable) {
            (Some(directory), Some(durable)) => Some(start::recover(
                directory,
                durable,
                &regions,
                &order,
                &mut started,
            )?),
            _ => None,
        };
        // Peers must not find the machine before its data has been restored.
        let (mut disk, mut checkpoints) = (None, None);
        let mut before = network.and_then(|network| RetainedData::left(network.before.as_ref()?));
        if let (Some(network), Some(on_disk)) = (network, on_disk) {
            let restored = on_disk.restore(&regions, &network.fabric)?;
            (started.replayed, started.torn_tail) = (restored.replayed, restored.torn_tail);
            started.checkpoint_objects = restored.checkpoint_objects;
            started.replaced = restored.replaced;
            (disk, checkpoints) = (Some(restored.disk), Some(restored.checkpointer));
            before = restored.before;
        }
        let resumed = on_disk.and_then(|on_disk| on_disk.resumed());
        let resumed = resumed.or_else(|| options.resumed.clone());
        let fresh = resumed.as_ref().is_none_or(|resumed| resumed.fresh)
            && started.replayed.commits == 0
            && started.checkpoint_objects == 0;
        order.clock.raise(started.replayed.newest.max(BIRTH));
        if let Some(resumed) = &resumed {
            order.clock.raise(Timestamp::from_raw(resumed.newest + 1));
        }
        let lanes = Lanes::new(options.lanes);
        let mut account = Account::new(options.memory_limit);
        if let Some(network) = network {
            let fabric = Arc::clone(&network.fabric);
            account = account.within(Box::new(move || fabric.free_bytes()));
        }
        regions.adopt_blocks(&lanes, &account);
        let (log, checkpointer, directory) = match found {
            Some(RecoveredLog {
                log,
                checkpointer,
                lock,
            }) => (Some(log), Some(checkpointer), Some(lock)),
            None => (None, checkpoints, None),
        };
        let machine = Arc::new(Machine {
            fresh: initial_member && fresh,
            regions,
            account,
            lanes,
            old_versions: OldVersions::with(options.old_version_limit, backing),
            network: network
                .map(|network| {
                    Network::new(network, region_map, resumed.as_deref(), (disk, before))
                })
                .transpose()?
                .map(Arc::new),
            order,
            intents: Intents::default(),
            counters: Counters::default(),
            coordinators: AtomicU32::new(0),
            reshaped: AtomicU64::new(0),
            incarnation: log.as_ref().map_or(1, |log| log.position().raw()),
            log,
            checkpointer,
            started,
            root,
            _directory: directory,
        });
        if let Some(resumed) = &resumed {
            machine.resume(resumed)?;
        }
        if machine.network.is_some() {
            network::start_threads(&machine).map_err(|error| OpenError::Io {
                path: "a thread".into(),
                error,
            })?;
        }
        if let Some(checkpointer) = &machine.checkpointer {
            checkpointer
                .start(&machine)
                .map_err(|error| OpenError::Io {
                    path: "the checkpointer".into(),
                    error,
                })?;
        }
        Ok(machine)
    }

    /// Takes a checkpoint now, so that a restart has little to replay. Returns `false` in the
    /// memory tier. Blocks the thread; a task awaits [`Self::ask_checkpoint`] instead.
    ///
    /// # Errors
    /// As [`fencepost_storage::checkpoint::write`]; the previous checkpoint stays valid.
    pub fn checkpoint(&self) -> Result<bool, CheckpointError> {
        match (&self.checkpointer, self.redo()) {
            (Some(checkpointer), Some(log)) => checkpointer.take(self, log).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Asks the checkpointer's thread for a checkpoint. Returns `None` in the memory tier.
    pub fn ask_checkpoint(&self) -> Option<CheckpointWait> {
        self.checkpointer.as_ref().map(Checkpointer::ask)
    }

    /// Returns a new coordinator for one session or thread.
    pub fn coordinator(self: &Arc<Self>) -> Coordinator {
        Coordinator::new(self)
    }

    /// Begins a transaction of the machine itself; the transaction never waits for the disk.
    pub fn system_transaction(self: &Arc<Self>) -> Transaction {
        let mut tx = self.coordinator().begin(Mode::ReadWrite);
        tx.set_synchronous(false);
        tx
    }

    /// Returns the address of the root object, from which all other objects are found.
    pub fn root(&self) -> Addr {
        self.root
    }

    /// Returns whether the database was empty when it was opened.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns a report of the start: what was found on the disk.
    pub fn started(&self) -> &StartReport {
        &self.started
    }

    /// Returns the regions that are in this machine's memory or mapped by it.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Returns the memory budget.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the operation counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns whether the root object is in this machine's own memory. Other machines read it from
    /// a peer.
    pub fn has_root_object(&self) -> bool {
        start::has_root(&self.regions)
    }

    /// Returns whether all peers are present, their time is known, and the root object exists. A
    /// machine that is alone has no peers.
    pub async fn is_complete(&self) -> bool {
        self.lacks().await.is_none()
    }

    /// Returns the first prerequisite for starting that is missing; `None` if there is none.
    pub async fn lacks(&self) -> Option<MissingPrerequisite> {
        match &self.network {
            Some(network) => network.lacks(self).await,
            None => None,
        }
    }

    /// Records that an index is about to change its shape: keys move between nodes.
    pub fn reshape(&self) {
        match &self.network {
            Some(network) => network.reshape(),
            None => {
                self.reshaped.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Returns how often indexes have changed their shape, on all machines; `None` where the number
    /// is not known without waiting.
    #[inline]
    pub fn reshaped(&self) -> Option<u64> {
        match &self.network {
            Some(network) => network.reshaped(),
            None => Some(self.reshaped.load(Ordering::Acquire)),
        }
    }

    /// Returns the counters of one-sided operations posted to other machines; `None` where there
    /// are none.
    pub fn fabric_counts(&self) -> Option<FabricCounts> {
        let network = self.network.as_ref()?;
        Some(network.fabric().counters().now())
    }

    /// Returns the counters of the log on the disk; `None` where there is none.
    pub fn log_counters(&self) -> Option<LogCounters> {
        self.redo().map(Log::counters)
    }

    /// Returns how many checkpoints succeeded and failed; `None` where none are taken.
    pub fn checkpoint_counters(&self) -> Option<CheckpointCounters> {
        self.checkpointer.as_ref().map(Checkpointer::counters)
    }

    /// Returns the log that a restart replays: the log of a machine that is alone, or that on the
    /// disk of a machine in a cluster.
    pub(crate) fn redo(&self) -> Option<&Log> {
        let network = self.network.as_ref();
        let disk = network.and_then(|network| network.disk());
        self.log.as_ref().or(disk.map(|disk| disk.log()))
    }

    /// Returns the durable log of a machine that is alone; `None` in the memory tier.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Returns the number of bytes held for old versions.
    pub fn old_version_bytes(&self) -> u64 {
        self.old_versions.used_bytes()
    }

    /// Returns a timestamp that no earlier commit exceeds.
    pub fn now(&self) -> Timestamp {
        self.order.clock.now()
    }

    /// Frees blocks that contain no object any more, for objects of other sizes.
    pub fn release_empty_blocks(&self) {
        let oldest = self.oldest();
        for lane in 0..self.lanes.count() {
            self.lanes.enter(lane).reuse_retired(&self.regions, oldest);
        }
        // This timestamp is U, which is not before the CM's time. The time that a peer reports as
        // passed is its L, which is not after the CM's time. So a peer that has passed this
        // timestamp has seen that a block was released.
        let freed = || {
            if let Some(network) = &self.network {
                network.release();
            }
            self.order.clock.now()
        };
        self.lanes
            .release_empty_blocks(&self.regions, &self.account, freed);
    }

    /// Returns unused memory to the system. Called after transactions that freed or replaced many
    /// objects.
    pub fn tidy(&self) {
        self.release_empty_blocks();
        let oldest = self.oldest();
        self.regions.discard_free_blocks(oldest);
        self.old_versions.trim(&self.account, oldest);
    }

    /// Makes every commit so far durable, then ends the log's threads. Blocks until then. No
    /// transaction may run.
    ///
    /// # Errors
    /// [`LogError::Failed`] if a flush of the log has failed.
    pub fn close(&self) -> Result<(), LogError> {
        if let Some(network) = &self.network {
            network.stop(self.now());
        }
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.end();
        }
        if let Some(disk) = self.network.as_ref().and_then(|network| network.disk()) {
            disk.close()?;
        }
        self.log.as_ref().map_or(Ok(()), Log::close)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.order.clock
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.order.readers
    }

    /// Calls `f` with the resources that the allocator needs.
    pub(crate) fn with_supply<T>(&self, f: impl FnOnce(LaneResources<'_>) -> T) -> T {
        // Replay must not apply records of the old size class to a block that changed its class. So
        // a block is reused only if no checkpoint is being taken and no transaction holds back the
        // log.
        let may_reuse_blocks = || {
            let idle = self
                .checkpointer
                .as_ref()
                .is_none_or(|checkpointer| !checkpointer.is_taking());
            idle && self.order.readers.first_lsn().is_none()
        };
        f(LaneResources {
            regions: &self.regions,
            account: &self.account,
            oldest: &|| self.oldest(),
            may_reuse_blocks: &may_reuse_blocks,
        })
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Returns the old versions of the objects in a region. They are on the machine whose memory
    /// the region is in.
    pub(crate) fn old_versions_of(&self, region: &Region) -> Option<&OldVersions> {
        match (&self.network, region.machine()) {
            (Some(network), Some(peer)) => network.old_versions_of(MachineId(peer)),
            _ => Some(&self.old_versions),
        }
    }

    /// Returns the newest timestamp of the region whose old versions may have been kept by another
    /// machine.
    pub(crate) fn floor(&self, region: RegionId) -> Timestamp {
        let network = self.network.as_ref();
        network.map_or(Timestamp::ZERO, |network| network.floor(region))
    }

    /// Keeps the version of `object` that is about to be replaced, as `version` says.
    pub(crate) fn keep_old_version(
        &self,
        lane: &mut Lane,
        version: ReplacedVersion,
        object: ObjectRef<'_>,
    ) -> OldVersionPtr {
        let copy =
            |put: &mut dyn FnMut(usize, &[u64])| object.copy_runs(|from, run| put(from, run));
        let oldest = || self.oldest();
        let copied = self
            .old_versions
            .keep(&mut lane.old, &self.account, version, &oldest, copy);
        // Without memory for the version, it is lost: a transaction that still needs it starts
        // again.
        copied.unwrap_or(OldVersionPtr::LOST)
    }

    /// Returns a timestamp below which no transaction on any machine reads, now or later.
    pub fn oldest(&self) -> Timestamp {
        if fault::injected(Fault::ReuseTooEarly) {
            return self.order.clock.low();
        }
        let mine = self.order.readers.oldest(&self.order.clock);
        self.network
            .as_ref()
            .map_or(mine, |network| network.oldest(mine))
    }

    pub(crate) fn network(&self) -> Option<&Arc<Network>> {
        self.network.as_ref()
    }

    /// Returns the network if it must fetch the object: the object is in a peer's memory that is
    /// not mapped here, or its primary is not known yet. Returns `None` for other objects.
    #[inline]
    pub(crate) fn far(&self, addr: Addr) -> Option<&Arc<Network>> {
        self.network.as_ref().filter(|network| network.is_far(addr))
    }

    /// Returns whether the memory of all other machines, if there are any, is mapped here.
    pub fn maps_peers(&self) -> bool {
        let network = self.network.as_ref();
        network.is_none_or(|network| network.fabric().maps_peers())
    }

    /// Returns whether an object is in a peer's memory that is not mapped here, so that each look
    /// costs a remote read.
    #[inline]
    pub fn is_far(&self, addr: Addr) -> bool {
        let network = self.network.as_ref();
        network.is_some_and(|network| network.is_unmapped(addr))
    }

    /// Returns whether this machine is the primary of an object.
    #[inline]
    pub(crate) fn is_primary_of(&self, addr: Addr) -> bool {
        self.network.is_none() || self.regions.is_own(addr)
    }

    /// Returns the primary of an object. The result may be `None` unless the object's region is
    /// known here ([`Self::meet`]). A machine that is alone is machine 1, as in [`Self::members`].
    pub fn primary_of(&self, addr: Addr) -> Option<MachineId> {
        match &self.network {
            Some(network) => network.primary(addr),
            None => Some(MachineId(1)),
        }
    }

    /// Looks up the primaries of objects whose regions are not known on this machine yet. Waits for
    /// the CM's answer.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the CM cannot be reached; [`Stop::NotMember`] where this machine is no
    /// member any more; [`Stop::Damaged`] for an address outside every region.
    pub fn meet<'a>(&'a self, addrs: &'a [Addr]) -> Work<'a, Result<(), Stop>> {
        Box::pin(async move {
            let Some(network) = &self.network else {
                return Ok(());
            };
            for addr in addrs {
                if !network.knows(addr.region()) && !network.find(addr.region()).await? {
                    return Err(Stop::Damaged);
                }
            }
            Ok(())
        })
    }

    /// Returns the number of the machine, 0 where it is alone.
    pub fn number(&self) -> u32 {
        self.network.as_ref().map_or(0, |network| network.me().0)
    }

    /// Returns the rows of this machine that have an intent on them, with their queues. The holder
    /// of the intent comes first, then the waiting transactions in order.
    pub fn row_lock_queues(&self) -> Vec<(Addr, Vec<QueueEntry>)> {
        self.intents.queues()
    }

    pub(crate) fn intents(&self) -> &Intents {
        &self.intents
    }

    pub(crate) fn checkpointer(&self) -> Option<&Checkpointer> {
        self.checkpointer.as_ref()
    }

    /// Returns the number that tells the starts of a machine apart; used where a machine is alone.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn next_coordinator(&self) -> u32 {
        self.coordinators.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes slots from a lane. If that fails, releases empty blocks, which may serve another size
    /// class, and tries again.
    pub(crate) fn take_slots(
        &self,
        lane: usize,
        take: impl Fn(&mut Lane, LaneResources<'_>) -> Result<Addr, OutOfMemory>,
    ) -> Result<Addr, OutOfMemory> {
        self.take_available_slots(lane, &take).or_else(|_| {
            self.release_empty_blocks();
            self.take_available_slots(lane, &take)
        })
    }

    /// Takes slots as [`Self::take_slots`] does, from the lane alone.
    pub(crate) fn take_available_slots(
        &self,
        lane: usize,
        take: impl Fn(&mut Lane, LaneResources<'_>) -> Result<Addr, OutOfMemory>,
    ) -> Result<Addr, OutOfMemory> {
        self.with_supply(|supply| take(&mut self.lanes.enter(lane), supply))
    }

    /// Empties a slot that was taken for a new object, so that a reader of an earlier object finds
    /// its header gone. Returns the slot's header and the incarnation of the new object.
    pub(crate) fn empty_slot(&self, addr: Addr) -> Option<(Header, u16)> {
        let object = self.regions.object(addr)?;
        object.begin_install();
        object.clear();
        let incarnation = object.link().incarnation().wrapping_add(1);
        Some((object.header(), incarnation))
    }

    pub(crate) fn give_back(&self, lane: usize, addr: Addr) {
        self.lanes.enter(lane).give_back(&self.regions, addr);
    }
}
