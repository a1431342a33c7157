//! Options for opening a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fencepost_fabric::OsDisk;
use fencepost_storage::log::LogOptions;
use fencepost_txn::Durable;
use fencepost_txn::MachineOptions;

use crate::cluster::{Cluster, Tier};
use crate::database::Database;
use crate::error::OpenError;
use crate::session::fresh_salt;
use fencepost_sql::password::Verifier;

/// The default growth of the log, in bytes, between two checkpoints.
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// The guarantee that a commit gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In memory; the data is lost when the process ends.
    Memory,
    /// In memory that belongs to a directory: the data survives the end of all processes. Needs
    /// several machines of one host, with at least two replicas of each region.
    Nvram,
    /// On disk: the data survives power loss.
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

/// Options for opening a database.
#[derive(Clone, Debug)]
pub struct Options {
    data_dir: Option<PathBuf>,
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
            durability: None,
            memory_limit: None,
            region_bytes: None,
            checkpoint_bytes: CHECKPOINT_BYTES,
            cluster: None,
            password: FirstPassword::default(),
        }
    }

    /// Sets the data directory. It makes `Ssd` the default durability.
    pub fn data_dir(mut self, path: impl AsRef<Path>) -> Options {
        self.data_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Sets the guarantee that a commit gives.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = Some(durability);
        self
    }

    /// Sets the memory limit of the data, in bytes. At the limit writes fail with 53200.
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets the size of a region: a power of two from 16 MiB to 2 GiB.
    pub fn region_size(mut self, bytes: usize) -> Options {
        self.region_bytes = Some(bytes);
        self
    }

    /// Sets the growth of the log, in bytes, after which a checkpoint is taken.
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Options {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Makes this process one of several machines that form one database. It opens once all are
    /// ready.
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

    /// Opens the database, and creates it first if there is none.
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
        let mut kept = None;
        match (&self.data_dir, durable) {
            (Some(path), true) => {
                kept = Some(Durable {
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
        let tier = match (nvram, &kept) {
            (true, _) => Tier::Nvram,
            (false, Some(durable)) => Tier::Ssd(durable),
            (false, None) => Tier::Memory,
        };
        let joined = self.cluster.as_ref().map(|cluster| cluster.join(tier));
        let joined = joined.transpose()?;
        // A machine of a cluster recovers its disk together with the others.
        options.durable = kept.filter(|_| joined.is_none());
        options.network = joined.as_ref().map(|joined| joined.network.clone());
        options.resumed = joined.as_ref().and_then(|joined| joined.resumed.clone());
        Database::start(options, joined.as_ref(), &self.password)
    }
}
