//! How a database is opened.

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

/// Growth of the log between two checkpoints, where nothing else is said.
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// What "committed" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In memory; a restart finds nothing.
    Memory,
    /// In memory of a directory: the end of all processes at once leaves it. Of several machines of one host that have
    /// at least two copies of everything.
    Nvram,
    /// On disk: survives power loss.
    Ssd,
}

/// The password of the superuser of a new database. Neither it nor its verifier is shown by `Debug`.
#[derive(Clone, Default)]
pub(crate) struct FirstPassword {
    /// The text form of its verifier.
    verifier: Option<String>,
    is_required: bool,
}

impl FirstPassword {
    /// Returns the verifier for a database that is being made.
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

/// How a database is opened.
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

    /// Where the data are. With a directory the durability is `Ssd` unless said otherwise.
    pub fn data_dir(mut self, path: impl AsRef<Path>) -> Options {
        self.data_dir = Some(path.as_ref().to_owned());
        self
    }

    /// What "committed" means.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = Some(durability);
        self
    }

    /// The memory that the data may take, in bytes. At the limit writes fail with 53200.
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.memory_limit = Some(bytes);
        self
    }

    /// The size of a region: a power of two from 16 MiB to 2 GiB.
    pub fn region_size(mut self, bytes: usize) -> Options {
        self.region_bytes = Some(bytes);
        self
    }

    /// A checkpoint is taken whenever the log has grown by this much.
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Options {
        self.checkpoint_bytes = bytes;
        self
    }

    /// The process is one of several machines that are one database. It opens once all are there.
    pub fn cluster(mut self, cluster: Cluster) -> Options {
        self.cluster = Some(cluster);
        self
    }

    /// The password of the superuser `postgres` of a new database, or its SCRAM-SHA-256 verifier. A
    /// database that is there already keeps its own.
    pub fn superuser_password(mut self, password: &str) -> Options {
        let verifier = Verifier::of_text(password, fresh_salt());
        self.password.verifier = Some(verifier.to_string());
        self
    }

    /// Makes no new database without [`Options::superuser_password`]: for servers that ask every
    /// client for a password.
    pub fn require_superuser_password(mut self) -> Options {
        self.password.is_required = true;
        self
    }

    /// Opens the database, and makes it first if there is none.
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
        // A machine among others finds it with them.
        options.durable = kept.filter(|_| joined.is_none());
        options.network = joined.as_ref().map(|joined| joined.network.clone());
        options.resumed = joined.as_ref().and_then(|joined| joined.resumed.clone());
        Database::start(options, joined.as_ref(), &self.password)
    }
}
