//! The machine: one database's memory, clock, readers and log, and how it starts and stops.
//!
//! # Picture
//! ```text
//! open:   root object ─► newest checkpoint ─► replay of the log ─► free lists from allocated bits
//! run:    a checkpoint whenever the log has grown enough (checkpointer.rs)
//! close:  no transaction runs any more ─► log flushed ─► threads ended
//! ```
//! # Failure
//! A damaged checkpoint or log refuses to open and names file and offset. A log that fails while the
//! machine runs makes every later commit fail; reads go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fencepost_fabric::{DiskLock, FabricCounts, MachineId};
use fencepost_storage::checkpoint::CheckpointError;
use fencepost_storage::header::{Header, OldPlace};
use fencepost_storage::lanes::{Lane, Lanes, Supply};
use fencepost_storage::log::{Log, LogCounters, LogError};
use fencepost_storage::old_versions::{OldVersions, Replaced};
use fencepost_storage::region::{Region, Regions};
use fencepost_storage::{Account, Addr, ObjectRef, OutOfMemory, Private, RegionId, Timestamp};

use crate::checkpoint_wait::WaitCheckpoint;
use crate::checkpointer::{CheckpointCounters, Checkpointer};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::intent::{Intents, Place};
use crate::network::{self, Before, Lack, Network};
use crate::options::{MachineOptions, OpenError, Started};
use crate::planted::{self, Planted};
use crate::readers::Readers;
use crate::start::{self, BIRTH, Directory, Recovered};
use crate::stop::Stop;
use crate::transaction::{Coordinator, Mode, Transaction};
use crate::work::Work;

/// Payload words of the root object.
pub const ROOT_WORDS: usize = 64;

/// What orders transactions; shared with the log's flusher.
pub(crate) struct Order {
    pub clock: Clock,
    pub readers: Readers,
}

/// One database.
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
    /// Changes of the shape of indexes, where the machine is alone.
    reshaped: AtomicU64,
    log: Option<Log>,
    checkpointer: Option<Checkpointer>,
    /// Differs from one start to the next.
    incarnation: u64,
    started: Started,
    fresh: bool,
    root: Addr,
    /// Keeps other processes out of the data directory.
    _directory: Option<DiskLock>,
}

impl Machine {
    /// Starts a machine: a fresh database, or the one in the data directory.
    ///
    /// # Errors
    /// [`OpenError`]; nothing that a later start needs has been changed then.
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
        let whereabouts: Arc<network::Whereabouts> = Arc::default();
        let backing = match network {
            Some(network) => Network::backing(network, &whereabouts),
            None => Arc::new(Private) as _,
        };
        let founder =
            network.is_none_or(|network| network.configuration.cm() == network.fabric.me());
        let mut started = Started::default();
        let directory = options.durable.as_ref().map(Directory::open).transpose()?;
        // Addresses mean what they meant when the checkpoint was taken.
        let manifest = directory.as_ref().and_then(|directory| directory.manifest);
        let before = manifest.map(|manifest| manifest.region_bytes as usize);
        let before = before.or_else(|| on_disk.and_then(|on_disk| on_disk.region_bytes()));
        let region_bytes = before.unwrap_or(options.region_bytes);
        let regions = Regions::with(region_bytes, Arc::clone(&backing));
        let root = start::root_at()?;
        // Among others it comes with region 0, once they are there.
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
        // Nobody finds the machine before its data are there.
        let (mut disk, mut checkpoints) = (None, None);
        let mut before = network.and_then(|network| Before::left(network.before.as_ref()?));
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
            account = account.within(Box::new(move || fabric.room()));
        }
        regions.adopt_blocks(&lanes, &account);
        let (log, checkpointer, directory) = match found {
            Some(Recovered {
                log,
                checkpointer,
                lock,
            }) => (Some(log), Some(checkpointer), Some(lock)),
            None => (None, checkpoints, None),
        };
        let machine = Arc::new(Machine {
            fresh: founder && fresh,
            regions,
            account,
            lanes,
            old_versions: OldVersions::with(options.old_version_limit, backing),
            network: network
                .map(|network| {
                    Network::new(network, whereabouts, resumed.as_deref(), (disk, before))
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

    /// Takes a checkpoint now, so that a restart has little to replay. `false` in the memory tier.
    ///
    /// # Errors
    /// [`CheckpointError`]; the checkpoint before still counts.
    pub fn checkpoint(&self) -> Result<bool, CheckpointError> {
        match (&self.checkpointer, self.redo()) {
            (Some(checkpointer), Some(log)) => checkpointer.take(self, log).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Asks for a checkpoint, taken on a thread of its own; `None` in the memory tier.
    pub fn ask_checkpoint(&self) -> Option<WaitCheckpoint> {
        self.checkpointer.as_ref().map(Checkpointer::ask)
    }

    /// A coordinator for one session or thread.
    pub fn coordinator(self: &Arc<Self>) -> Coordinator {
        Coordinator::new(self)
    }

    /// A transaction of the machine's own; it never waits for the disk.
    pub fn system_transaction(self: &Arc<Self>) -> Transaction {
        let mut tx = self.coordinator().begin(Mode::ReadWrite);
        tx.set_synchronous(false);
        tx
    }

    /// Address of the root object, from which everything else is found.
    pub fn root(&self) -> Addr {
        self.root
    }

    /// Whether the database was empty when it was opened.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// What was found on disk at the start.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// The regions.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The memory budget.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Operation counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the machine has the root object, rather than read it at a peer.
    pub fn is_founder(&self) -> bool {
        start::has_root(&self.regions)
    }

    /// Whether all of its peers are there, it knows their time, and the root object is there; a machine that is
    /// alone has no peers.
    pub async fn is_complete(&self) -> bool {
        self.lacks().await.is_none()
    }

    /// What it lacks before it can begin.
    pub async fn lacks(&self) -> Option<Lack> {
        match &self.network {
            Some(network) => network.lacks(self).await,
            None => None,
        }
    }

    /// An index is about to change its shape: keys move between nodes.
    pub fn reshape(&self) {
        match &self.network {
            Some(network) => network.reshape(),
            None => {
                self.reshaped.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// How often indexes have changed their shape, on all machines; `None` where that is not known at
    /// once.
    #[inline]
    pub fn reshaped(&self) -> Option<u64> {
        match &self.network {
            Some(network) => network.reshaped(),
            None => Some(self.reshaped.load(Ordering::Acquire)),
        }
    }

    /// One-sided operations posted to other machines; `None` where there are none.
    pub fn fabric_counts(&self) -> Option<FabricCounts> {
        let network = self.network.as_ref()?;
        Some(network.fabric().counters().now())
    }

    /// The log that restarts replay, whichever commits go through it.
    /// The counters of the log on the disk; `None` where there is none.
    pub fn log_counters(&self) -> Option<LogCounters> {
        self.redo().map(Log::counters)
    }

    /// How checkpoints have ended; `None` where none are taken.
    pub fn checkpoint_counters(&self) -> Option<CheckpointCounters> {
        self.checkpointer.as_ref().map(Checkpointer::counters)
    }

    pub(crate) fn redo(&self) -> Option<&Log> {
        let network = self.network.as_ref();
        let disk = network.and_then(|network| network.disk());
        self.log.as_ref().or(disk.map(|disk| disk.log()))
    }

    /// The durable log of a machine that is alone; `None` in the memory tier.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Bytes held for old versions.
    pub fn old_version_bytes(&self) -> u64 {
        self.old_versions.used_bytes()
    }

    /// Every commit so far is at or below it.
    pub fn now(&self) -> Timestamp {
        self.order.clock.now()
    }

    /// Blocks whose every object is gone become free for objects of other sizes.
    pub fn release_empty_blocks(&self) {
        let oldest = self.oldest();
        for lane in 0..self.lanes.count() {
            self.lanes.enter(lane).reuse_retired(&self.regions, oldest);
        }
        // It is U, not before the CM's time, and what peers say to have passed is their L, not after it. So
        // once they have passed this they have seen that a block was released.
        let freed = || {
            if let Some(network) = &self.network {
                network.release();
            }
            self.order.clock.now()
        };
        self.lanes
            .release_empty_blocks(&self.regions, &self.account, freed);
    }

    /// Gives memory that nobody needs any more back to the system: after transactions that freed or
    /// replaced a lot.
    pub fn tidy(&self) {
        self.release_empty_blocks();
        let oldest = self.oldest();
        self.regions.discard_free_blocks(oldest);
        self.old_versions.trim(&self.account, oldest);
    }

    /// Makes everything committed so far durable and ends the log's threads.
    ///
    /// # Errors
    /// What the log answers if it has failed.
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

    /// What the allocator works with.
    pub(crate) fn with_supply<T>(&self, f: impl FnOnce(Supply<'_>) -> T) -> T {
        // A block that changed its class must not meet records of its former life in a replay:
        // neither a checkpoint under way nor a hold on the log may reach back before the change.
        let may_reuse_blocks = || {
            let idle = self
                .checkpointer
                .as_ref()
                .is_none_or(|checkpointer| !checkpointer.is_taking());
            idle && self.order.readers.first_lsn().is_none()
        };
        f(Supply {
            regions: &self.regions,
            account: &self.account,
            oldest: &|| self.oldest(),
            may_reuse_blocks: &may_reuse_blocks,
        })
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Old versions of the objects in the memory of a region: they are where that is.
    pub(crate) fn old_versions_of(&self, region: &Region) -> Option<&OldVersions> {
        match (&self.network, region.machine()) {
            (Some(network), Some(peer)) => network.old_versions_of(MachineId(peer)),
            _ => Some(&self.old_versions),
        }
    }

    /// What of a region is older than this may have had old versions at another machine.
    pub(crate) fn floor(&self, region: RegionId) -> Timestamp {
        let network = self.network.as_ref();
        network.map_or(Timestamp::ZERO, |network| network.floor(region))
    }

    /// Keeps the version of `object` that is about to be replaced, as `version` says.
    pub(crate) fn keep_old_version(
        &self,
        lane: &mut Lane,
        version: Replaced,
        object: ObjectRef<'_>,
    ) -> OldPlace {
        let copy =
            |put: &mut dyn FnMut(usize, &[u64])| object.copy_runs(|from, run| put(from, run));
        let oldest = || self.oldest();
        let kept = self
            .old_versions
            .keep(&mut lane.old, &self.account, version, &oldest, copy);
        // Without memory for it the version is given up: who still needs it starts again.
        kept.unwrap_or(OldPlace::LOST)
    }

    /// What nobody reads below, on any machine, nor ever will again.
    pub fn oldest(&self) -> Timestamp {
        if planted::is(Planted::ReuseTooEarly) {
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

    /// What brings an object that is in memory of a peer that is not mapped here, or nobody knows yet whose;
    /// `None` for others.
    #[inline]
    pub(crate) fn far(&self, addr: Addr) -> Option<&Arc<Network>> {
        self.network.as_ref().filter(|network| network.is_far(addr))
    }

    /// Whether the memory of all other machines is mapped here, if there are any.
    pub fn maps_peers(&self) -> bool {
        let network = self.network.as_ref();
        network.is_none_or(|network| network.fabric().maps_peers())
    }

    /// Whether an object is in memory of a peer that is not mapped here, so that each look costs a read.
    #[inline]
    pub fn is_far(&self, addr: Addr) -> bool {
        let network = self.network.as_ref();
        network.is_some_and(|network| network.is_unmapped(addr))
    }

    /// Whether this machine answers for an object.
    #[inline]
    pub(crate) fn is_primary_of(&self, addr: Addr) -> bool {
        self.network.is_none() || self.regions.is_own(addr)
    }

    /// The primary of an object whose region has been met here ([`Self::meet`]); otherwise it may be `None`.
    /// A machine that is alone is machine 1, as in [`Self::members`].
    pub fn primary_of(&self, addr: Addr) -> Option<MachineId> {
        match &self.network {
            Some(network) => network.primary(addr),
            None => Some(MachineId(1)),
        }
    }

    /// Finds out whose objects are that nothing has been done with yet.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the CM cannot be reached; [`Stop::Damaged`] for an address outside every region.
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

    /// Number of the machine, 0 where it is alone.
    pub fn number(&self) -> u32 {
        self.network.as_ref().map_or(0, |network| network.me().0)
    }

    /// The rows of this machine that somebody has an intent on, and who is in their lines: first who has it, then those who
    /// wait, in turn.
    pub fn row_lines(&self) -> Vec<(Addr, Vec<Place>)> {
        self.intents.lines()
    }

    pub(crate) fn intents(&self) -> &Intents {
        &self.intents
    }

    pub(crate) fn checkpointer(&self) -> Option<&Checkpointer> {
        self.checkpointer.as_ref()
    }

    /// Where a machine is alone, what tells its starts apart.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn next_coordinator(&self) -> u32 {
        self.coordinators.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes slots from a lane, or else what blocks that are empty give: they may serve another size
    /// class.
    pub(crate) fn take_slots(
        &self,
        lane: usize,
        take: impl Fn(&mut Lane, Supply<'_>) -> Result<Addr, OutOfMemory>,
    ) -> Result<Addr, OutOfMemory> {
        self.take_slots_at_hand(lane, &take).or_else(|_| {
            self.release_empty_blocks();
            self.take_slots_at_hand(lane, &take)
        })
    }

    /// As [`Self::take_slots`], from the lane alone.
    pub(crate) fn take_slots_at_hand(
        &self,
        lane: usize,
        take: impl Fn(&mut Lane, Supply<'_>) -> Result<Addr, OutOfMemory>,
    ) -> Result<Addr, OutOfMemory> {
        self.with_supply(|supply| take(&mut self.lanes.enter(lane), supply))
    }

    /// Empties a slot that was taken for a new object: whoever still looks at an earlier one finds its header
    /// gone. The header, and the incarnation of the object to come.
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
