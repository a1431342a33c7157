//! The errors of checkpoints, named by the required reaction of the caller.

use std::io;

use thiserror::Error;

use crate::addr::Addr;
use crate::log::LogError;

/// The reason why a checkpoint was not written or not loaded.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The disk returned an error; the previous checkpoint stays valid.
    #[error("{file}: {error}")]
    Io {
        /// The file in question.
        file: String,
        /// The error of the disk.
        error: io::Error,
    },
    /// The log failed or could not be truncated.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An object stayed locked for longer than any commit takes.
    #[error("object {0} has been locked for too long")]
    Stuck(Addr),
    /// The caller asked to stop.
    #[error("the checkpoint was stopped")]
    Stopped,
    /// The checkpoint is damaged: do not start.
    #[error("{file}: corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// Start of the damaged part.
        offset: u64,
        /// A description of the damage.
        what: &'static str,
    },
    /// The objects do not fit these regions: they were made for other ones, or memory is short.
    #[error("block {block} of region {region} of the checkpoint cannot be restored")]
    DoesNotFit {
        /// The region of the block.
        region: u32,
        /// The number of the block in the region.
        block: u32,
    },
}

impl CheckpointError {
    pub(super) fn io(file: impl Into<String>) -> impl FnOnce(io::Error) -> CheckpointError {
        move |error| CheckpointError::Io {
            file: file.into(),
            error,
        }
    }
}
