//! What can go wrong with a checkpoint, by what the caller has to do.

use std::io;

use thiserror::Error;

use crate::addr::Addr;
use crate::log::LogError;

/// Why a checkpoint was not written or not loaded.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The disk answered with an error; the checkpoint before still counts.
    #[error("{file}: {error}")]
    Io {
        /// The file in question.
        file: String,
        /// What the disk said.
        error: io::Error,
    },
    /// The log failed or could not be truncated.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An object stayed locked for as long as no commit takes.
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
        /// What is wrong there.
        what: &'static str,
    },
    /// The objects do not fit these regions: they were made for other ones, or memory is short.
    #[error("block {block} of region {region} of the checkpoint cannot be restored")]
    DoesNotFit {
        /// The region.
        region: u32,
        /// The block in it.
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
