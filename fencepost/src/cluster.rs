//! A database of several machines: processes of one host that share its memory, or machines on a
//! network.
//!
//! ```text
//! Cluster ── settings ─► meet.rs  network endpoint, role ─► joined.rs  waits for the others
//! ```

mod joined;
mod meet;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_cluster::{Address, ClusterId, Configuration, FailureDomain};
use fencepost_fabric::{MachineId, TcpTls, cluster_id};
use fencepost_txn::DurableStorage;
use fencepost_txn::network::LeaseTerms;
use fencepost_txn::network::disk::{Contents, ReadmitPolicy};

use crate::bootstrap::InitialMembers;
use crate::disks::{self, DiskIdentity};
use crate::error::OpenError;
use crate::membership::{self, MachineIdentity};
pub(crate) use joined::JoinedMachine;
#[cfg(feature = "raft")]
pub(crate) use joined::is_final;
use joined::{DiskStartOutcome, met};
#[cfg(feature = "raft")]
pub(crate) use meet::Start;

/// The largest drift between the clocks of two hosts, in millionths.
const DRIFT_PPM: u32 = 200;
/// The join secret of machines of one host: any process that can access their directory may join.
const OF_HOST: &[u8] = b"machines of one host";
/// The length of the shortest secret, in bytes.
const SECRET_BYTES_MIN: usize = 16;
/// Stands in place of a store's address if the machines keep the configuration themselves.
const RAFT: &str = "raft";

/// The machines of a database, and the number of this process's machine among them, for
/// [`Options::cluster`](crate::Options::cluster).
///
/// Its functions check nothing: opening the database does, and fails with
/// [`OpenError`](crate::OpenError). `Debug` does not show the secret. Three processes of one host,
/// of which the database outlives one:
///
/// ```no_run
/// use std::time::Duration;
///
/// use fencepost::{Cluster, Database};
///
/// # let machine = 1;
/// // Each process has another number: 1, 2 or 3.
/// let cluster = Cluster::of_host("/dev/shm/shop", machine, 3)
///     .replicas(2)
///     .lease(Duration::from_millis(500));
/// let db = Database::join(cluster)?; // blocks until all three are there
/// # Ok::<(), fencepost::OpenError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    between: Interconnect,
    /// The number of this machine, from 1.
    machine: u32,
    machines: u32,
    replicas: u32,
    /// The failure domain of each machine; empty if each machine is a domain of its own.
    domains: Vec<String>,
    /// The lease duration; `None` without leases.
    lease: Option<Duration>,
    /// The place where the configuration is kept.
    configuration_in: Option<ConfigurationLocation>,
    /// For machines of a network: the directory of the memory that outlives processes.
    memory_in: Option<PathBuf>,
    /// The directory in which such memory is saved.
    saved_in: Option<PathBuf>,
    /// The address of a joining machine; `None` for an initial member.
    joins_at: Option<String>,
    /// The identity and configuration that the machine's disk records, if it keeps its data on a
    /// disk.
    on_disk: Option<DiskIdentity>,
    taken_back: ReadmitPolicy,
}

/// The place where the configuration is kept, if not in this process alone.
#[derive(Clone, Debug)]
enum ConfigurationLocation {
    /// A directory that all machines can access.
    Directory(PathBuf),
    /// A store with this URL, or [`RAFT`].
    Store(String),
}

/// The connection between the machines.
#[derive(Clone, Debug)]
enum Interconnect {
    /// Shared memory in a directory of their host.
    Memory(PathBuf),
    /// A network, with the listening address of each machine.
    Network {
        name: String,
        addresses: Vec<String>,
        secret: Secret,
        tls: Option<TlsFiles>,
    },
}

/// The paths of the PEM files that a machine uses for TLS.
#[derive(Clone, Debug)]
struct TlsFiles {
    chain: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
}

impl TlsFiles {
    fn load(&self) -> Result<TcpTls, OpenError> {
        let read = |path: &PathBuf| {
            let why = |error| OpenError::Tls(format!("{}: {error}", path.display()));
            std::fs::read(path).map_err(why)
        };
        let (chain, key) = (read(&self.chain)?, read(&self.key)?);
        let loaded = TcpTls::from_pem(&chain, &key, &read(&self.authorities)?);
        loaded.map_err(|error| OpenError::Tls(error.to_string()))
    }
}

#[derive(Clone)]
struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Cluster {
    /// Describes `machines` processes of one host; this one is `machine`, from 1. They share memory
    /// in `directory`, preferably on a tmpfs. All of them use the same directory, and no other
    /// cluster uses it.
    pub fn of_host(directory: impl Into<PathBuf>, machine: u32, machines: u32) -> Cluster {
        let directory = directory.into();
        Cluster {
            between: Interconnect::Memory(directory.clone()),
            machine,
            machines,
            replicas: 1,
            domains: Vec::new(),
            lease: None,
            configuration_in: Some(ConfigurationLocation::Directory(directory)),
            memory_in: None,
            saved_in: None,
            joins_at: None,
            on_disk: None,
            taken_back: ReadmitPolicy::Never,
        }
    }

    /// Describes processes that listen at `addresses` for each other. This one is `machine`, and
    /// numbers begin with 1. All machines get the same addresses, in the same order, and the same
    /// secret of at least 16 bytes. Keep the secret private. An address is `host:port`.
    pub fn of_network(addresses: Vec<String>, machine: u32, secret: impl Into<Vec<u8>>) -> Cluster {
        Cluster {
            machines: u32::try_from(addresses.len()).unwrap_or(u32::MAX),
            between: Interconnect::Network {
                name: String::new(),
                addresses,
                secret: Secret(secret.into()),
                tls: None,
            },
            machine,
            replicas: 1,
            domains: Vec::new(),
            lease: None,
            configuration_in: None,
            memory_in: None,
            saved_in: None,
            joins_at: None,
            on_disk: None,
            taken_back: ReadmitPolicy::Never,
        }
    }

    /// Sets the number of replicas of each region: its primary and its backups. The default is one.
    /// More replicas than machines or failure domains are an error. All machines need the same
    /// setting.
    pub fn replicas(mut self, replicas: u32) -> Cluster {
        self.replicas = replicas;
        self
    }

    /// Sets the failure domain of each machine, in the order of their numbers: a rack, a host. No
    /// two replicas of a region are in one domain. All machines need the same setting. By default
    /// each machine is a domain of its own.
    pub fn domains<S: Into<String>>(mut self, domains: impl IntoIterator<Item = S>) -> Cluster {
        self.domains = domains.into_iter().map(Into::into).collect();
        self
    }

    /// Turns failure detection on: a machine that is silent for this duration is suspected, and the
    /// others continue without it. All machines need the same setting, between 5 ms and an hour.
    /// Without it no machine is ever suspected. It must be longer than the longest time for which a
    /// busy host stops a process: a shorter one evicts machines that are alive.
    pub fn lease(mut self, duration: Duration) -> Cluster {
        self.lease = Some(duration);
        self
    }

    /// Keeps the configuration in a directory that all machines can access, so that failed machines
    /// of a network are replaced, too. Machines of one host keep it in the directory that they
    /// share.
    pub fn configuration_in(mut self, directory: impl Into<PathBuf>) -> Cluster {
        self.configuration_in = Some(ConfigurationLocation::Directory(directory.into()));
        self
    }

    /// Keeps the configuration in a ZooKeeper ensemble, `zookeeper://host:port,host:port/path`,
    /// which machines of several hosts can use. Each database needs a path of its own. With `raft`,
    /// the machines keep the configuration themselves. That is the default for machines of a
    /// network that have leases. Each store needs the feature of this crate with its name.
    pub fn configuration_store(mut self, url: impl Into<String>) -> Cluster {
        self.configuration_in = Some(ConfigurationLocation::Store(url.into()));
        self
    }

    /// Lets machines with disks restart together with a machine that the others had evicted and
    /// that has no data of that time left. All machines need the same setting: all wait for each of
    /// them. Without it such a machine does not start, and the others do not wait for it.
    pub fn taking_back(mut self) -> Cluster {
        self.taken_back = ReadmitPolicy::All;
        self
    }

    /// Sets the directory for memory that outlives processes, and for their configuration, if the
    /// machines use a network but run on one host. All machines need the same setting. Machines
    /// that share memory use the directory that they share.
    pub fn memory_in(mut self, directory: impl Into<PathBuf>) -> Cluster {
        self.memory_in = Some(directory.into());
        self
    }

    /// Saves memory that outlives processes to a directory on a disk after all machines of the host
    /// have ended ([`Database::saver`](crate::Database::saver)). The machines load it when the
    /// memory is lost, for example after a reboot. All machines need the same setting, from the
    /// first start.
    pub fn save_in(mut self, directory: impl Into<PathBuf>) -> Cluster {
        self.saved_in = Some(directory.into());
        self
    }

    /// Sets a name that distinguishes clusters of a network. All machines need the same name. It
    /// has no effect on machines that share memory.
    pub fn name(mut self, given: impl Into<String>) -> Cluster {
        if let Interconnect::Network { name, .. } = &mut self.between {
            *name = given.into();
        }
        self
    }

    /// Uses TLS for the connections to other machines of a network. This machine shows the
    /// certificate chain in `certificate`, whose private key is in `key`. It accepts peers that a
    /// CA in `authorities` has signed. All are PEM files, and all machines of the network need
    /// them. The files are read when the database is opened. It has no effect on machines that
    /// share memory.
    pub fn tls(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authorities: impl Into<PathBuf>,
    ) -> Cluster {
        if let Interconnect::Network { tls, .. } = &mut self.between {
            *tls = Some(TlsFiles {
                chain: certificate.into(),
                key: key.into(),
                authorities: authorities.into(),
            });
        }
        self
    }

    /// Makes this machine a joining machine: it is no initial member, and joins a running cluster
    /// that has leases and keeps its configuration. Machines of a network reach it at `address`;
    /// among machines of one host `address` is its name.
    pub fn joining(mut self, address: impl Into<String>) -> Cluster {
        self.joins_at = Some(address.into());
        self
    }

    /// Connects this machine to the others. Returns the network endpoint and the initial state.
    pub(crate) fn join(&self, tier: Tier<'_>) -> Result<JoinedMachine, OpenError> {
        let Tier::Ssd(durable) = tier else {
            return self.meet(matches!(tier, Tier::Nvram));
        };
        let mut contents = Contents::read(durable).map_err(OpenError::Machine)?;
        let mut let_in = None;
        loop {
            // This includes an evicted machine whose disk records the identity that it was offered.
            if let (Some(address), None) = (&self.joins_at, &let_in) {
                let address = joining_address(address)?;
                let knows = |last: &Configuration| last.has_address(&address);
                if !contents.configuration().is_some_and(knows) {
                    (let_in, contents) = self.come_in(contents, address)?;
                }
            }
            let on_disk = Cluster {
                on_disk: Some(self.place_of(&contents, let_in.as_ref())?),
                ..self.clone()
            };
            let joined = on_disk.meet(false)?;
            match (let_in.take(), joined) {
                (Some(_), joined) => return joined.let_in(contents),
                (None, joined) => match joined.begin(contents, &self.first()?)? {
                    DiskStartOutcome::Begun(joined) => return Ok(*joined),
                    DiskStartOutcome::Offered(offered) => {
                        let (offer, mut found) = *offered;
                        found.write_down(&offer).map_err(OpenError::Machine)?;
                        contents = found;
                    }
                },
            }
        }
    }

    /// Returns this machine's number and configuration, and whether it has just joined.
    fn place_of(
        &self,
        contents: &Contents,
        let_in: Option<&(MachineId, Configuration)>,
    ) -> Result<DiskIdentity, OpenError> {
        if let Some((me, configuration)) = let_in {
            return Ok((*me, configuration.clone(), true));
        }
        let first = self.first()?;
        let own = match &self.joins_at {
            Some(address) => {
                let address = joining_address(address)?;
                let last = contents.configuration();
                let known = last.and_then(|last| last.machine(last.at_address(&address)?));
                let why = || OpenError::Configuration("it has not been let in".into());
                known.cloned().ok_or_else(why)?
            }
            None => {
                let (machine, machines) = (self.machine, self.machines);
                let own = first.machine(MachineId(machine)).cloned();
                own.ok_or(OpenError::NoSuchMachine { machine, machines })?
            }
        };
        let part = contents.part(&first, &own).map_err(met)?;
        Ok((part.0, part.1, false))
    }

    /// Joins a running cluster as a machine that is no initial member.
    fn come_in(
        &self,
        contents: Contents,
        address: Address,
    ) -> Result<(Option<(MachineId, Configuration)>, Contents), OpenError> {
        // The machine is a failure domain of its own.
        let domain = FailureDomain::new(address.as_str()).map_err(membership::unusable)?;
        let first = self.first()?;
        let outside = self.outside(contents.configuration(), &first)?;
        let whole = disks::come_in(&outside, (&first, address, domain), contents);
        let (me, configuration, contents) = whole?;
        Ok((Some((me, configuration)), contents))
    }

    /// Returns the first configuration, with which all machines start.
    fn first(&self) -> Result<Configuration, OpenError> {
        match &self.between {
            Interconnect::Memory(_) => {
                let names = (1..=self.machines).map(|id| MachineId(id).to_string());
                self.configuration(0, names.collect())
            }
            Interconnect::Network {
                name, addresses, ..
            } => self.configuration(self.cluster_id(name, addresses), addresses.clone()),
        }
    }

    /// Returns an identifier that differs between networks whose machines have different settings.
    fn cluster_id(&self, name: &str, addresses: &[String]) -> u128 {
        let replicas = self.replicas.to_string();
        let known = [name, &replicas].into_iter();
        let listed = addresses.iter().chain(&self.domains);
        let parts: Vec<&str> = known.chain(listed.map(String::as_str)).collect();
        cluster_id(&parts)
    }

    /// Returns the identity of this machine.
    fn who(&self) -> Result<MachineIdentity, OpenError> {
        let Some(address) = &self.joins_at else {
            return Ok(MachineIdentity::InitialMember(MachineId(self.machine)));
        };
        joining_address(address).map(MachineIdentity::JoiningMember)
    }

    /// Returns whether the machines of a network keep the configuration themselves.
    fn keeps_itself(&self) -> bool {
        match &self.configuration_in {
            None => cfg!(feature = "raft"),
            Some(ConfigurationLocation::Store(name)) => name == RAFT,
            Some(ConfigurationLocation::Directory(_)) => false,
        }
    }

    /// Returns the lease terms that all machines agree on; `None` without leases.
    fn terms(&self) -> Result<Option<LeaseTerms>, OpenError> {
        let Some(duration) = self.lease else {
            return Ok(None);
        };
        let terms = LeaseTerms::new(duration, DRIFT_PPM);
        let why = || OpenError::Configuration("a lease is of 5 ms to an hour".into());
        terms.map(Some).ok_or_else(why)
    }

    /// Returns the first configuration for these addresses.
    fn configuration(
        &self,
        cluster: u128,
        addresses: Vec<String>,
    ) -> Result<Configuration, OpenError> {
        let initial_members = InitialMembers {
            cluster: ClusterId(cluster),
            addresses,
            domains: self.domains.clone(),
            replicas: self.replicas,
        };
        initial_members.configuration()
    }
}

fn joining_address(address: &str) -> Result<Address, OpenError> {
    Address::new(address).map_err(|error| {
        OpenError::Configuration(format!("the address of a machine that joins: {error}"))
    })
}

/// The durability tier of a machine.
#[derive(Clone, Copy)]
pub(crate) enum Tier<'a> {
    Memory,
    Nvram,
    Ssd(&'a DurableStorage),
}
