//! Why a benchmark could not be run. What a run finds wrong in the data is no error: it is the
//! `check` of its report.

use fencepost_txn::{OpenError, Stop};

use crate::sql::SqlFailure;

impl BenchError {
    /// Whether a server is gone, or says that it is about to be.
    pub fn is_connection_lost(&self) -> bool {
        match self {
            BenchError::Connect { .. } => true,
            BenchError::Sql(failure) => failure.is_connection_lost(),
            _ => false,
        }
    }
}

/// Why a benchmark ended without a report.
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
        /// As it was given.
        url: String,
        /// What the client library said.
        reason: String,
    },
    /// A file or a thread.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A client ended by a bug of the workload.
    #[error("a client thread panicked")]
    Panicked,
    /// The load did not give what was to be measured.
    #[error("the load went wrong: {0}")]
    Load(String),
}
