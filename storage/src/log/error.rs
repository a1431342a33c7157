//! What can go wrong with the log, by what the caller has to do.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// Why the log did not do what it was asked.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk has no room; nothing was appended. Abort, and try again later.
    #[error("the log is full: no space left on the disk")]
    Full,
    /// The append is over the limit; nothing was appended. Use several smaller ones.
    #[error("an append of {bytes} bytes is over the log's limit of {limit}")]
    TooLarge {
        /// Bytes asked for, headers included.
        bytes: usize,
        /// Bytes one append may take, headers included.
        limit: usize,
    },
    /// A flush failed earlier. What the disk holds is unknown: stop.
    #[error("the log failed: {0}")]
    Failed(Arc<str>),
    /// The log has been closed.
    #[error("the log is closed")]
    Closed,
    /// The log is damaged where it was durable once: do not start.
    #[error("{file}: corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// The first damaged byte, or the start of the header or record it is in.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A part of the log that is needed is not there: do not start.
    #[error("{file} is missing, and the log is needed from there on")]
    Missing {
        /// The file that should be there.
        file: String,
    },
    /// The disk answered with an error while the log was opened, read or truncated.
    #[error("{file}: {error}")]
    Io {
        /// The file or directory in question.
        file: String,
        /// What the disk said.
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
