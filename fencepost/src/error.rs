//! The errors of the library.

use fencepost_sql::error::{SqlError, SqlState};

/// Why a database did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machine did not start.
    #[error(transparent)]
    Machine(#[from] fencepost_txn::OpenError),
    /// The data directory cannot be used.
    #[error("the data directory cannot be used: {0}")]
    Disk(std::io::Error),
    /// Durability was asked for, and no directory given.
    #[error("durability on disk needs a data directory")]
    NoDirectory,
    /// This machine is none of those there are to be.
    #[error("machine {machine} is none of {machines} machines, which count from 1")]
    NoSuchMachine {
        /// Its number.
        machine: u32,
        /// Machines.
        machines: u32,
    },
    /// There are not as many machines as replicas.
    #[error("{replicas} replicas need as many machines, and there are {machines}")]
    TooFewMachines {
        /// Machines.
        machines: u32,
        /// Replicas asked for.
        replicas: u32,
    },
    /// There are not as many failure domains as replicas.
    #[error("{replicas} replicas need as many failure domains, and there are {domains}")]
    TooFewDomains {
        /// Failure domains.
        domains: u32,
        /// Replicas asked for.
        replicas: u32,
    },
    /// The machines that were given are no configuration.
    #[error("the machines are no configuration: {0}")]
    Configuration(String),
    /// The configuration that is kept cannot be used.
    #[error(transparent)]
    Store(fencepost_cluster::StoreError),
    /// Machines whose memory outlives them cannot begin with what they had.
    #[error("the machines cannot begin again: {0}")]
    Restart(String),
    /// The tier is none of such machines.
    #[error("{0}")]
    Tier(&'static str),
    /// The cluster's secret is too easily guessed.
    #[error("the cluster's secret must have at least {0} bytes")]
    SecretTooShort(usize),
    /// The certificates for TLS between the machines are not what they must be.
    #[error("cannot use TLS between the machines: {0}")]
    Tls(String),
    /// The other machines cannot be listened for.
    #[error("cannot listen for other machines on {address}: {why}")]
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        why: String,
    },
    /// All other machines refuse this one.
    #[error("the other machines refuse this one: {0}")]
    Refused(String),
    /// The machines of the cluster, which run, do not let this one in.
    #[error("cannot join the cluster: {0}")]
    NotAdmitted(fencepost_cluster::join::NotAdmitted),
    /// The others have gone on without this machine before it was there.
    #[error("the other machines have gone on without this one, which was not heard of in time")]
    Evicted,
    /// The other machines did not come.
    #[error("not all machines of the cluster came up within {0} seconds{sep}{1}", sep = if .1.is_empty() { "" } else { ": " })]
    Incomplete(u64, String),
    /// The threads for statements of other machines did not start.
    #[error("cannot start a thread: {0}")]
    Threads(std::io::Error),
    /// A database would be made that no role could log in to ([`crate::Options::require_superuser_password`]).
    #[error("a new database needs a password of its superuser")]
    NoSuperuserPassword,
    /// The catalog cannot be read.
    #[error(transparent)]
    Catalog(#[from] Error),
}

impl From<SqlError> for OpenError {
    fn from(error: SqlError) -> OpenError {
        OpenError::Catalog(error.into())
    }
}

/// Why a statement failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<SqlError>);

impl Error {
    /// The SQLSTATE.
    pub fn code(&self) -> SqlState {
        self.0.sqlstate()
    }

    /// May the whole transaction succeed when it is tried again?
    pub fn is_retryable(&self) -> bool {
        [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED].contains(&self.code())
    }

    /// All that is known about it.
    pub fn report(&self) -> &SqlError {
        &self.0
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Error {
        Error(Box::new(error))
    }
}
