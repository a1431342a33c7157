//! The options of a machine, the report of its start, and the errors of a start.

use std::sync::Arc;

use fencepost_fabric::Disk;
use fencepost_storage::checkpoint::CheckpointError;
use fencepost_storage::log::{LogError, LogOptions};
use fencepost_storage::{Account, OutOfMemory};

use crate::network::disk::StateExchangeError;
use crate::network::{NetworkOptions, RestartState};
use crate::replay::{ReplayError, ReplaySummary};

/// The durable storage of a machine.
#[derive(Clone)]
pub struct DurableStorage {
    /// The data directory.
    pub disk: Arc<dyn Disk>,
    /// The layout of the log.
    pub log: LogOptions,
    /// Bytes of log growth after which a checkpoint is taken.
    pub checkpoint_bytes: u64,
}

/// The options of a machine.
#[derive(Clone)]
pub struct MachineOptions {
    /// Bytes of a region: a power of two between 16 MiB and 2 GiB.
    pub region_bytes: usize,
    /// Bytes that regions, old versions and large write sets may take together.
    pub memory_limit: u64,
    /// Bytes of old versions beyond which the oldest reader is aborted.
    pub old_version_limit: u64,
    /// Lanes of the allocator; a few more than threads that run transactions.
    pub lanes: usize,
    /// The durable storage; `None` for the memory tier.
    pub durable: Option<DurableStorage>,
    /// The network; `None` for a machine that is alone.
    pub network: Option<NetworkOptions>,
    /// The state that a machine of a cluster resumes with, if its memory has outlived it: its
    /// fabric has its regions.
    pub resumed: Option<Arc<RestartState>>,
}

impl Default for MachineOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            region_bytes: 2 << 30,
            memory_limit: Account::NO_LIMIT,
            old_version_limit: 1 << 30,
            lanes: cores,
            durable: None,
            network: None,
            resumed: None,
        }
    }
}

/// The reason why a machine did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the data directory open.
    #[error("the data directory {0} is in use by another process")]
    InUse(String),
    /// The disk returned an error.
    #[error("{path}: {error}")]
    Io {
        /// File or directory.
        path: String,
        /// The error of the disk.
        error: std::io::Error,
    },
    /// The log is damaged or cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The checkpoint is damaged or cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log does not match the checkpoint that it is replayed onto.
    #[error(transparent)]
    Replay(ReplayError),
    /// The machine cannot join the network.
    #[error("the network: {0}")]
    Network(#[from] fencepost_fabric::FabricError),
    /// A machine of a cluster gets its data directory through its network options.
    #[error("a machine among others does not open its data directory alone")]
    TierNotThere,
    /// The data directory can be opened only once.
    #[error("the data directory has been opened before")]
    Begun,
    /// The data is that of a machine that is alone.
    #[error("{0} has the data of a machine that is alone")]
    Alone(String),
    /// The data is that of a machine of a cluster.
    #[error("{0} has the data of a machine among others")]
    AmongOthers(String),
    /// The machines cannot start together.
    #[error(transparent)]
    Meet(StateExchangeError),
    /// The data does not fit into memory.
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

/// The report of what a start found on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartReport {
    /// Objects loaded from a checkpoint.
    pub checkpoint_objects: u64,
    /// Commits that the log added.
    pub replayed: ReplaySummary,
    /// A description of the half-written end that a crash left in the log.
    pub torn_tail: Option<String>,
    /// Whether the data was of a machine that the others had gone on without, so that the data is
    /// not used.
    pub replaced: bool,
}
