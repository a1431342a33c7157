//! The errors of the log, named by the required reaction of the caller.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// The reason why a log operation failed.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk has no space left; nothing was appended. Abort, and try again later.
    #[error("the log is full: no space left on the disk")]
    Full,
    /// The append is over the limit; nothing was appended. Use several smaller ones.
    #[error("an append of {bytes} bytes is over the log's limit of {limit}")]
    TooLarge {
        /// Requested bytes, including headers.
        bytes: usize,
        /// Most bytes of one append, including headers.
        limit: usize,
    },
    /// A flush failed earlier. The contents of the disk are unknown: stop.
    #[error("the log failed: {0}")]
    Failed(Arc<str>),
    /// The log has been closed.
    #[error("the log is closed")]
    Closed,
    /// The log is damaged in a part that was durable: do not start.
    #[error("{file}: corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// The first damaged byte, or the start of the header or record it is in.
        offset: u64,
        /// A description of the damage.
        what: &'static str,
    },
    /// A part of the log that is needed does not exist: do not start.
    #[error("{file} is missing, and the log is needed from there on")]
    Missing {
        /// The file that is missing.
        file: String,
    },
    /// The disk returned an error while the log was opened, read or truncated.
    #[error("{file}: {error}")]
    Io {
        /// The file or directory in question.
        file: String,
        /// The error of the disk.
        error: io::Error,
    },
}

impl LogError {
    pub(super) fn io(file: impl Into<String>) -> impl FnOnce(io::Error) -> LogError {
        move |error| LogError::Io {
            file: file.into(),
            error,
        }
    }
}
