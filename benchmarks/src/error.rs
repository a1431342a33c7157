//! The errors of a benchmark that cannot run. Broken data is not an error: it is the `check` of the
//! run's report.

use fencepost_txn::{OpenError, Stop};

use crate::sql::SqlFailure;

impl BenchError {
    /// Returns whether the server has gone, or announces its shutdown.
    pub fn is_connection_lost(&self) -> bool {
        match self {
            BenchError::Connect { .. } => true,
            BenchError::Sql(failure) => failure.is_connection_lost(),
            _ => false,
        }
    }
}

/// The reason for which a benchmark ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The options contradict one another or the workload.
    #[error("{0}")]
    Options(String),
    /// The database did not open.
    #[error("could not open the database: {0}")]
    Open(#[from] OpenError),
    /// The library did not open the database or ended a session.
    #[error("could not open the database: {0}")]
    Embedded(String),
    /// A statement failed in a way that the workload does not expect.
    #[error("{0}")]
    Sql(#[from] SqlFailure),
    /// A native operation failed in a way that the workload does not expect.
    #[error("{0}")]
    Stop(#[from] Stop),
    /// The server could not be reached.
    #[error("could not connect to {url}: {reason}")]
    Connect {
        /// The URL as it was given.
        url: String,
        /// The message of the client library.
        reason: String,
    },
    /// An error with a file or a thread.
    #[error("{what}: {error}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A client ended because of a bug of the workload.
    #[error("a client thread panicked")]
    Panicked,
    /// The load did not produce the required data.
    #[error("the load went wrong: {0}")]
    Load(String),
}
