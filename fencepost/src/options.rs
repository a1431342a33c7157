//! Options for opening a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fencepost_fabric::OsDisk;
use fencepost_storage::log::LogOptions;
use fencepost_txn::DurableStorage;
use fencepost_txn::MachineOptions;

use crate::cluster::{Cluster, Tier};
use crate::database::Database;
use crate::error::OpenError;
use crate::session::fresh_salt;
use fencepost_sql::password::Verifier;

/// The default growth of the log, in bytes, between two checkpoints.
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// The guarantee that a commit gives. The default is `Ssd` with [`Options::data_dir`], and `Memory`
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In memory; the data is lost when the process ends. In a cluster with leases it survives the
    /// loss of a machine, if each region has another replica.
    Memory,
    /// In memory that belongs to a directory: the data survives the end of all processes. Needs
    /// several machines of one host, with at least two replicas of each region.
    Nvram,
    /// On disk: the data survives power loss. A commit is reported once the log is written and
    /// synced. Needs [`Options::data_dir`].
    Ssd,
}

/// The password of the superuser of a new database. `Debug` shows neither the password nor its
/// verifier.
#[derive(Clone, Default)]
pub(crate) struct FirstPassword {
    /// The text form of the verifier.
    verifier: Option<String>,
    is_required: bool,
}

impl FirstPassword {
    /// Returns the verifier for a database that is being created.
    pub fn verifier(&self) -> Result<Option<String>, OpenError> {
        match &self.verifier {
            None if self.is_required => Err(OpenError::NoSuperuserPassword),
            verifier => Ok(verifier.clone()),
        }
    }
}

impl fmt::Debug for FirstPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstPassword")
            .field("is_given", &self.verifier.is_some())
            .field("is_required", &self.is_required)
            .finish()
    }
}

/// Options for opening a database, from [`Database::options`].
///
/// ```
/// use fencepost::{Database, Durability};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::options()
///     .data_dir(directory.path())
///     .durability(Durability::Ssd)
///     .memory_limit(4 << 30)
///     .checkpoint_bytes(64 << 20)
///     .superuser_password("correct horse")
///     .open()?;
/// # db.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    data_dir: Option<PathBuf>,
    temp_dir: Option<PathBuf>,
    durability: Option<Durability>,
    memory_limit: Option<u64>,
    region_bytes: Option<usize>,
    checkpoint_bytes: u64,
    cluster: Option<Cluster>,
    password: FirstPassword,
}

impl Options {
    pub(crate) fn new() -> Options {
        Options {
            data_dir: None,
            temp_dir: None,
            durability: None,
            memory_limit: None,
            region_bytes: None,
            checkpoint_bytes: CHECKPOINT_BYTES,
            cluster: None,
            password: FirstPassword::default(),
        }
    }

    /// Sets the data directory, which is created if necessary. It makes `Ssd` the default
    /// durability; the tiers `Memory` and `Nvram` do not use it. Each machine of a cluster has a
    /// directory of its own.
    pub fn data_dir(mut self, path: impl AsRef<Path>) -> Options {
        self.data_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Sets the directory of temporary files, which is created if necessary. Queries write rows
    /// there that exceed `work_mem`. The default is the data directory, or without one that of the
    /// system. The files have no names and end with the process.
    pub fn temp_dir(mut self, path: impl AsRef<Path>) -> Options {
        self.temp_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Sets the guarantee that a commit gives.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = Some(durability);
        self
    }

    /// Sets the memory limit of the data and of their old versions, in bytes. At the limit writes
    /// fail with 53200, and reads go on. By default there is no limit.
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets the size of a region, in bytes: a power of two from 16 MiB to 2 GiB, which is the
    /// default. A smaller value becomes 16 MiB, a larger one 2 GiB, and others the next power of
    /// two. Existing data keeps its regions.
    pub fn region_size(mut self, bytes: usize) -> Options {
        self.region_bytes = Some(bytes);
        self
    }

    /// Sets the growth of the log, in bytes, after which a checkpoint is taken. The default is
    /// 256 MiB. A smaller value makes the next start faster, and writes more to the disk.
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Options {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Makes this process one of several machines that form one database. [`Options::open`] blocks
    /// until all are ready.
    pub fn cluster(mut self, cluster: Cluster) -> Options {
        self.cluster = Some(cluster);
        self
    }

    /// Sets the password of the superuser `postgres` of a new database, or its SCRAM-SHA-256
    /// verifier. An existing database keeps its own.
    pub fn superuser_password(mut self, password: &str) -> Options {
        let verifier = Verifier::of_text(password, fresh_salt());
        self.password.verifier = Some(verifier.to_string());
        self
    }

    /// Refuses to create a database without [`Options::superuser_password`]: for servers that ask
    /// every client for a password.
    pub fn require_superuser_password(mut self) -> Options {
        self.password.is_required = true;
        self
    }

    /// Opens the database, and creates it first if there is none. Blocks until the data is read
    /// into memory and the log is replayed; in a cluster also until all machines are ready. An
    /// incomplete cluster is an error after 60 s or more.
    ///
    /// # Errors
    /// - [`OpenError::NoDirectory`], [`OpenError::Tier`]: the durability does not fit the other
    ///   options.
    /// - [`OpenError::Disk`], [`OpenError::TemporaryDirectory`]: the directory cannot be created or
    ///   read.
    /// - [`OpenError::Machine`]: another process has the directory open, its files are damaged or
    ///   belong to another kind of machine, or the data does not fit into memory.
    /// - [`OpenError::NoSuperuserPassword`]: see [`Options::require_superuser_password`].
    /// - [`OpenError::Catalog`]: the definitions cannot be read.
    /// - In a cluster, the other variants. [`OpenError::Incomplete`] and [`OpenError::Store`] may
    ///   be gone at the next attempt. After [`OpenError::Evicted`] start the process again.
    pub fn open(self) -> Result<Database, OpenError> {
        let mut options = MachineOptions::default();
        if let Some(limit) = self.memory_limit {
            options.memory_limit = limit;
        }
        if let Some(bytes) = self.region_bytes {
            options.region_bytes = bytes;
        }
        let nvram = self.durability == Some(Durability::Nvram);
        if nvram && self.cluster.is_none() {
            let why = "the nvram tier is of several machines of one host";
            return Err(OpenError::Tier(why));
        }
        let durable = !nvram && self.durability != Some(Durability::Memory);
        let mut temporary = self.temp_dir;
        if let Some(path) = &temporary {
            std::fs::create_dir_all(path).map_err(OpenError::TemporaryDirectory)?;
        }
        let mut storage = None;
        match (&self.data_dir, durable) {
            (Some(path), true) => {
                temporary.get_or_insert_with(|| path.clone());
                storage = Some(DurableStorage {
                    disk: Arc::new(OsDisk::open(path).map_err(OpenError::Disk)?),
                    log: LogOptions::default(),
                    checkpoint_bytes: self.checkpoint_bytes,
                });
            }
            (None, _) if self.durability == Some(Durability::Ssd) => {
                return Err(OpenError::NoDirectory);
            }
            _ => {}
        }
        let tier = match (nvram, &storage) {
            (true, _) => Tier::Nvram,
            (false, Some(durable)) => Tier::Ssd(durable),
            (false, None) => Tier::Memory,
        };
        let joined = self.cluster.as_ref().map(|cluster| cluster.join(tier));
        let joined = joined.transpose()?;
        // A machine of a cluster recovers its disk together with the others.
        options.durable = storage.filter(|_| joined.is_none());
        options.network = joined.as_ref().map(|joined| joined.network.clone());
        options.resumed = joined.as_ref().and_then(|joined| joined.resumed.clone());
        Database::start(options, joined.as_ref(), &self.password, temporary)
    }
}
