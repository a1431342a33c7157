//! How a machine is made, what it found on its disk, and why it did not start.

use std::sync::Arc;

use fencepost_fabric::Disk;
use fencepost_storage::checkpoint::CheckpointError;
use fencepost_storage::log::{LogError, LogOptions};
use fencepost_storage::{Account, OutOfMemory};

use crate::network::disk::MeetError;
use crate::network::{NetworkOptions, Resumed};
use crate::replay::{ReplayError, Replayed};

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
    /// `None` for a machine that is alone.
    pub network: Option<NetworkOptions>,
    /// What a machine among others begins again with, where its memory has outlived it: its fabric has its regions.
    pub resumed: Option<Arc<Resumed>>,
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
    /// The machine cannot be one among others.
    #[error("the network: {0}")]
    Network(#[from] fencepost_fabric::FabricError),
    /// A machine among others is given what is on its disk by its network.
    #[error("a machine among others does not open its data directory alone")]
    TierNotThere,
    /// What is on the disk is to be begun with once.
    #[error("the data directory has been opened before")]
    Begun,
    /// The data are of a machine that is alone.
    #[error("{0} has the data of a machine that is alone")]
    Alone(String),
    /// The data are of a machine among others.
    #[error("{0} has the data of a machine among others")]
    AmongOthers(String),
    /// The machines cannot begin together.
    #[error(transparent)]
    Meet(MeetError),
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
    /// What was there was of a machine that the others had gone on without, and is not used.
    pub replaced: bool,
}
