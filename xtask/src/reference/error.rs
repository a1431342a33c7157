//! Reasons why the references cannot be generated at all. A stale page is a finding, not an error.

use std::path::PathBuf;

use super::markers::MarkerError;
use crate::tidy::TidyError;

/// A failure of the program, of psql, of the file system or of a page.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The root of the repository is unknown.
    #[error(transparent)]
    Repository(#[from] TidyError),
    /// The program has not been built. Build it, or name another one.
    #[error(
        "there is no program {}; HINT: run cargo build -p fencepost-cli, or pass --program PATH",
        path.display()
    )]
    ProgramMissing {
        /// The path of the program.
        path: PathBuf,
    },
    /// A process could not be started, or its pipes broke.
    #[error("cannot run {}: {source}", program.display())]
    Process {
        /// The path of the program.
        program: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A command ended with a failure.
    #[error("{command} failed: {message}")]
    Failed {
        /// The command, as a reader would type it.
        command: String,
        /// Its standard error.
        message: String,
    },
    /// The server ended, or printed a line without an address, before it was ready.
    #[error("the server did not start: {message}")]
    NotReady {
        /// The line of its standard output, and its standard error.
        message: String,
    },
    /// A query returned rows with another number of columns than it has.
    #[error("psql printed a row that cannot be read: {row}")]
    Row {
        /// The row.
        row: String,
    },
    /// A source file has no names of system tables any more: the scan of the names is outdated.
    #[error("{path} has no name that begins with {prefix}")]
    NoNames {
        /// The path of the source file.
        path: String,
        /// The beginning of the names.
        prefix: String,
    },
    /// The markers of a page do not fit its generated sections. Correct the page by hand.
    #[error("{path}: {source}")]
    Markers {
        /// The path of the page.
        path: String,
        /// The cause.
        source: MarkerError,
    },
    /// A file could not be read or written.
    #[error("cannot access {}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}
