//! The errors of the library.

use fencepost_sql::error::{SqlError, SqlState};

/// The reason why a database did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machine did not start. Another process has its directory open, or its files are damaged
    /// or of another kind of machine. Its data may not fit into memory, or the network has failed.
    #[error(transparent)]
    Machine(#[from] fencepost_txn::OpenError),
    /// The data directory cannot be created or read.
    #[error("the data directory cannot be used: {0}")]
    Disk(std::io::Error),
    /// The directory of temporary files cannot be created.
    #[error("the directory of temporary files cannot be used: {0}")]
    TemporaryDirectory(std::io::Error),
    /// [`crate::Durability::Ssd`] was requested without [`crate::Options::data_dir`].
    #[error("durability on disk needs a data directory")]
    NoDirectory,
    /// The machine's number is not between 1 and the number of machines.
    #[error("machine {machine} is none of {machines} machines, which count from 1")]
    NoSuchMachine {
        /// The number of this machine.
        machine: u32,
        /// The number of machines.
        machines: u32,
    },
    /// The number of machines is less than the number of replicas.
    #[error("{replicas} replicas need as many machines, and there are {machines}")]
    TooFewMachines {
        /// The number of machines.
        machines: u32,
        /// The requested number of replicas.
        replicas: u32,
    },
    /// The number of failure domains is less than the number of replicas.
    #[error("{replicas} replicas need as many failure domains, and there are {domains}")]
    TooFewDomains {
        /// The number of failure domains.
        domains: u32,
        /// The requested number of replicas.
        replicas: u32,
    },
    /// The given machines do not form a configuration, or this program lacks the feature that the
    /// [`crate::Cluster`] needs. The text gives the reason.
    #[error("the machines are no configuration: {0}")]
    Configuration(String),
    /// The stored configuration cannot be used. If its store does not answer, try again later.
    #[error(transparent)]
    Store(fencepost_cluster::StoreError),
    /// Machines whose memory outlives their processes cannot restart with their retained state. The
    /// text gives the reason.
    #[error("the machines cannot begin again: {0}")]
    Restart(String),
    /// The durability tier does not fit these machines. The text gives the reason.
    #[error("{0}")]
    Tier(&'static str),
    /// The cluster's secret is too short: it needs at least this number of bytes.
    #[error("the cluster's secret must have at least {0} bytes")]
    SecretTooShort(usize),
    /// The certificates for TLS between the machines cannot be used.
    #[error("cannot use TLS between the machines: {0}")]
    Tls(String),
    /// This machine cannot listen for the other machines.
    #[error("cannot listen for other machines on {address}: {why}")]
    Listen {
        /// The listening address.
        address: String,
        /// The error of the operating system.
        why: String,
    },
    /// All other machines have refused this one for some seconds, for example because their
    /// addresses or their secret differ.
    #[error("the other machines refuse this one: {0}")]
    Refused(String),
    /// The running machines of the cluster do not admit this one, which was to join them.
    #[error("cannot join the cluster: {0}")]
    NotAdmitted(fencepost_cluster::join::NotAdmitted),
    /// The others have evicted this machine before it was ready. Start the process again: the
    /// machine joins as a new one.
    #[error("the other machines have gone on without this one, which was not heard of in time")]
    Evicted,
    /// Not all machines of the cluster started in time: within this number of seconds. The text
    /// names the missing ones. Start them, and open this machine again.
    #[error(
        "not all machines of the cluster came up within {0} seconds{sep}{1}",
        sep = if .1.is_empty() { "" } else { ": " }
    )]
    Incomplete(u64, String),
    /// The threads for statements of other machines did not start.
    #[error("cannot start a thread: {0}")]
    Threads(std::io::Error),
    /// A database would be created with no role that could log in
    /// ([`crate::Options::require_superuser_password`]).
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

/// The error of a statement: an SQLSTATE, a message, and PostgreSQL's other fields.
///
/// `Display` has the message and the SQLSTATE. The [front page](crate#how-do-i-handle-errors) says
/// how to react to each SQLSTATE.
///
/// ```
/// use fencepost::{Database, SqlState};
///
/// let error = Database::in_memory()?.blocking().query("SELECT 1 / 0", &[]).unwrap_err();
/// assert_eq!(error.code(), SqlState::DIVISION_BY_ZERO);
/// assert_eq!(error.report().message(), "division by zero");
/// assert!(!error.is_retryable());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<SqlError>);

impl Error {
    /// Returns the SQLSTATE.
    pub fn code(&self) -> SqlState {
        self.0.sqlstate()
    }

    /// Returns whether the whole transaction may succeed when it is run again from its start: after
    /// a conflict (40001) or a deadlock (40P01). The failed attempt had no effect.
    pub fn is_retryable(&self) -> bool {
        [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED].contains(&self.code())
    }

    /// Returns the complete error: the message, DETAIL, HINT, the position in the statement, and
    /// the table, column and constraint concerned.
    pub fn report(&self) -> &SqlError {
        &self.0
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Error {
        Error(Box::new(error))
    }
}
