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
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_fabric::{Disk, DiskLock};
use fencepost_storage::checkpoint::{self, CheckpointError, read_manifest};
use fencepost_storage::classes::Class;
use fencepost_storage::header::{Header, Link, OldPlace};
use fencepost_storage::lanes::{Lanes, Supply};
use fencepost_storage::log::{Log, LogError, LogOptions, LogRecovery, Needed};
use fencepost_storage::old_versions::OldVersions;
use fencepost_storage::region::{BlockId, Regions};
use fencepost_storage::{Account, Addr, OutOfMemory, RegionId, Timestamp};

use crate::checkpointer::Checkpointer;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::intent::Intents;
use crate::readers::Readers;
use crate::replay::{ReplayError, Replayed, replay};
use crate::transaction::{Coordinator, Mode, Transaction};

/// Payload words of the root object.
pub const ROOT_WORDS: usize = 64;

/// The root is the first slot of the first block.
const ROOT_BLOCK: BlockId = BlockId { region: RegionId(0), block: 1 };
/// Timestamp of the root before anybody wrote it.
const BIRTH: Timestamp = Timestamp::from_raw(1);

/// Name of the lock file in the data directory.
const LOCK_FILE: &str = "lock";
/// Directory of the log in the data directory.
const LOG_DIR: &str = "log";
/// Directory of the checkpoints in the data directory.
const CHECKPOINT_DIR: &str = "checkpoint";

/// Where a machine keeps what must survive it.
#[derive(Clone)]
pub struct Durable {
    /// The data directory.
    pub disk: Arc<dyn Disk>,
    /// How the log is laid out.
    pub log: LogOptions,
    /// A checkpoint is taken whenever the log has grown by this much.
    pub checkpoint_bytes: u64,
}

/// How a machine is made.
#[derive(Clone)]
pub struct MachineOptions {
    /// Bytes of a region: a power of two between 16 MiB and 2 GiB.
    pub region_bytes: usize,
    /// Bytes that regions, old versions and large write sets may take together.
    pub memory_limit: u64,
    /// Bytes of old versions past which the oldest reader is given up.
    pub old_version_limit: u64,
    /// Lanes of the allocator; a few more than threads that run transactions.
    pub lanes: usize,
    /// `None` for the memory tier.
    pub durable: Option<Durable>,
}

impl Default for MachineOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            region_bytes: 2 << 30,
            memory_limit: u64::MAX / 2,
            old_version_limit: 1 << 30,
            lanes: cores,
            durable: None,
        }
    }
}

/// Why a machine did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the data directory open.
    #[error("the data directory {0} is in use by another process")]
    InUse(String),
    /// The disk answered with an error.
    #[error("{path}: {error}")]
    Io {
        /// File or directory.
        path: String,
        /// What the disk said.
        error: std::io::Error,
    },
    /// The log is damaged or cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The checkpoint is damaged or cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log does not fit what it is replayed onto.
    #[error(transparent)]
    Replay(ReplayError),
    /// The data do not fit the memory that there is.
    #[error("the database does not fit the memory that there is")]
    OutOfMemory,
}

impl From<ReplayError> for OpenError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Log(log) => OpenError::Log(log),
            other => OpenError::Replay(other),
        }
    }
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> Self {
        OpenError::OutOfMemory
    }
}

/// What a start found on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Objects loaded from a checkpoint.
    pub checkpoint_objects: u64,
    /// What the log added.
    pub replayed: Replayed,
    /// What the last flush before a crash left half-written, in words.
    pub torn_tail: Option<String>,
}

/// What orders transactions; shared with the log's flusher.
#[derive(Default)]
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
    order: Arc<Order>,
    intents: Intents,
    counters: Counters,
    coordinators: AtomicU32,
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
        let regions = Regions::new(options.region_bytes);
        let root = make_root(&regions)?;
        let order = Arc::new(Order::default());
        let mut started = Started::default();
        let mut found = None;
        if let Some(durable) = &options.durable {
            found = Some(recover(durable, &regions, &order, &mut started)?);
        }
        order.clock.raise(started.replayed.newest.max(BIRTH));
        let lanes = Lanes::new(options.lanes);
        let account = Account::new(options.memory_limit);
        adopt_blocks(&regions, &lanes, &account);
        let (log, checkpointer, directory) = match found {
            Some(Recovered { log, checkpointer, directory }) => (Some(log), Some(checkpointer), Some(directory)),
            None => (None, None, None),
        };
        let machine = Arc::new(Machine {
            fresh: started.replayed.commits == 0 && started.checkpoint_objects == 0,
            regions,
            account,
            lanes,
            old_versions: OldVersions::new(options.old_version_limit),
            order,
            intents: Intents::default(),
            counters: Counters::default(),
            coordinators: AtomicU32::new(0),
            incarnation: log.as_ref().map_or(1, |log| log.position().raw()),
            log,
            checkpointer,
            started,
            root,
            _directory: directory,
        });
        if let Some(checkpointer) = &machine.checkpointer {
            checkpointer.start(&machine).map_err(|error| OpenError::Io { path: CHECKPOINT_DIR.into(), error })?;
        }
        Ok(machine)
    }

    /// Takes a checkpoint now, so that a restart has little to replay. `false` in the memory tier.
    ///
    /// # Errors
    /// [`CheckpointError`]; the checkpoint before still counts.
    pub fn checkpoint(&self) -> Result<bool, CheckpointError> {
        match (&self.checkpointer, &self.log) {
            (Some(checkpointer), Some(log)) => checkpointer.take(self, log).map(|()| true),
            _ => Ok(false),
        }
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

    /// The durable log; `None` in the memory tier.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Bytes held for old versions.
    pub fn old_version_bytes(&self) -> u64 {
        self.old_versions.used_bytes()
    }

    /// The newest commit.
    pub fn now(&self) -> Timestamp {
        self.order.clock.now()
    }

    /// Blocks whose every object is gone become free for objects of other sizes.
    pub fn release_empty_blocks(&self) {
        let oldest = self.order.readers.oldest(&self.order.clock);
        for lane in 0..self.lanes.count() {
            self.lanes.enter(lane).reuse_retired(&self.regions, oldest);
        }
        self.lanes.release_empty_blocks(&self.regions, &self.account, self.order.clock.now());
    }

    /// Makes everything committed so far durable and ends the log's threads.
    ///
    /// # Errors
    /// What the log answers if it has failed.
    pub fn close(&self) -> Result<(), LogError> {
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.end();
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
            let idle = self.checkpointer.as_ref().is_none_or(|checkpointer| !checkpointer.is_taking());
            idle && self.order.readers.first_lsn().is_none()
        };
        f(Supply {
            regions: &self.regions,
            account: &self.account,
            oldest: &|| self.order.readers.oldest(&self.order.clock),
            may_reuse_blocks: &may_reuse_blocks,
        })
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn old_versions(&self) -> &OldVersions {
        &self.old_versions
    }

    pub(crate) fn intents(&self) -> &Intents {
        &self.intents
    }

    pub(crate) fn checkpointer(&self) -> Option<&Checkpointer> {
        self.checkpointer.as_ref()
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn next_coordinator(&self) -> u32 {
        self.coordinators.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn give_back(&self, lane: usize, addr: Addr) {
        self.lanes.enter(lane).give_back(&self.regions, addr);
    }
}

fn root_class() -> Result<Class, OutOfMemory> {
    Class::for_payload(ROOT_WORDS).ok_or(OutOfMemory)
}

fn make_root(regions: &Regions) -> Result<Addr, OutOfMemory> {
    let class = root_class()?;
    regions.restore_block(ROOT_BLOCK, class)?;
    let addr = ROOT_BLOCK.slot(class, 0);
    let object = regions.object(addr).ok_or(OutOfMemory)?;
    object.finish_install(Header(0).succeed(BIRTH, true), Link::new(1, OldPlace::NONE));
    Ok(addr)
}

/// Finds the free slots of every block by the allocated bits (SOSP'15 §5.5).
fn adopt_blocks(regions: &Regions, lanes: &Lanes, account: &Account) {
    for (id, class) in regions.blocks() {
        let free = (0..class.slots()).rev().map(|slot| id.slot(class, slot)).filter(|addr| {
            regions.object(*addr).is_some_and(|object| !object.header().is_allocated())
        });
        lanes.adopt(id, class, free.map(Addr::offset).collect());
    }
    regions.charge_restored(account);
}

struct Recovered {
    log: Log,
    checkpointer: Checkpointer,
    directory: DiskLock,
}

fn recover(
    durable: &Durable,
    regions: &Regions,
    order: &Arc<Order>,
    started: &mut Started,
) -> Result<Recovered, OpenError> {
    let io = |path: &str| {
        let path = durable.disk.path(path);
        move |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::WouldBlock => OpenError::InUse(path),
            _ => OpenError::Io { path, error },
        }
    };
    let directory = durable.disk.lock(LOCK_FILE).map_err(io(LOCK_FILE))?;
    let log_dir = durable.disk.subdir(LOG_DIR).map_err(io(LOG_DIR))?;
    let checkpoints = durable.disk.subdir(CHECKPOINT_DIR).map_err(io(CHECKPOINT_DIR))?;
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let manifest = read_manifest(&*checkpoints)?;
    let mut needed = Needed::default();
    if let Some(manifest) = &manifest {
        started.checkpoint_objects = checkpoint::load(&*checkpoints, manifest, regions, workers)?;
        needed = manifest.needed();
        order.clock.raise(manifest.clock);
    }
    let mut recovery = LogRecovery::open(log_dir, &durable.log, needed)?;
    started.replayed = replay(&mut recovery, regions, workers)?;
    let settling = Arc::clone(order);
    let settled = move || settling.readers.settled(&settling.clock).raw();
    let (log, report) = recovery.finish(Box::new(settled))?;
    started.torn_tail = report.torn.map(|torn| format!("{}: {} bytes cut at {}", torn.file, torn.bytes, torn.offset));
    let checkpointer = Checkpointer::new(checkpoints, needed.from, durable.checkpoint_bytes);
    Ok(Recovered { log, checkpointer, directory })
}
