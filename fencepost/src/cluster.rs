//! A database of several machines: processes of one host that share its memory, or that are on a network.
//!
//! ```text
//! Cluster ── what each is told ─► meet.rs  its end of the network, and its part ─► joined.rs  waits for the others
//! ```

mod joined;
mod meet;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_cluster::{Address, ClusterId, Configuration, FailureDomain};
use fencepost_fabric::{MachineId, TcpTls, cluster_id};
use fencepost_txn::Durable;
use fencepost_txn::network::LeaseTerms;
use fencepost_txn::network::disk::{Contents, TakenBack};

use crate::disks::{self, OnDiskAs};
use crate::error::OpenError;
use crate::founding::Founders;
use crate::newcomer::{self, Who};
pub(crate) use joined::Joined;
#[cfg(feature = "raft")]
pub(crate) use joined::is_final;
use joined::{Beginner, met};
#[cfg(feature = "raft")]
pub(crate) use meet::Start;

/// Millionths by which the clocks of two hosts drift apart at most.
const DRIFT_PPM: u32 = 200;
/// What machines of one host know: who sees their directory is one of them.
const OF_HOST: &[u8] = b"machines of one host";
/// Bytes of the shortest secret.
const SECRET_BYTES_MIN: usize = 16;
/// In place of a store's address: the machines themselves.
const RAFT: &str = "raft";

/// The machines of a database, and which of them this process is.
#[derive(Clone, Debug)]
pub struct Cluster {
    between: Between,
    /// Number of this machine, from 1.
    machine: u32,
    machines: u32,
    replicas: u32,
    /// What each machine shares the fate of; none where each is on its own.
    domains: Vec<String>,
    /// How long leases are, if there are some.
    lease: Option<Duration>,
    /// Where the configuration is kept.
    kept_in: Option<KeptIn>,
    /// Where memory of machines of a network is that outlives processes.
    memory_in: Option<PathBuf>,
    /// Where such memory is saved.
    saved_in: Option<PathBuf>,
    /// The address of a machine that joins.
    newcomer: Option<String>,
    /// Of a machine that keeps its data on a disk, what that says.
    on_disk: Option<OnDiskAs>,
    taken_back: TakenBack,
}

/// Where the configuration is kept, if not in this process alone.
#[derive(Clone, Debug)]
enum KeptIn {
    /// A directory that all machines see.
    Directory(PathBuf),
    /// A store that is named so.
    Store(String),
}

/// What is between the machines.
#[derive(Clone, Debug)]
enum Between {
    /// A directory of their host.
    Memory(PathBuf),
    /// Where each of them listens.
    Network {
        name: String,
        addresses: Vec<String>,
        secret: Secret,
        tls: Option<TlsFiles>,
    },
}

/// PEM files of a machine in TLS.
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
    /// `machines` processes of one host; this one is `machine`, from 1. They share memory in `directory`,
    /// best on a tmpfs: the same for all of them and no others.
    pub fn of_host(directory: impl Into<PathBuf>, machine: u32, machines: u32) -> Cluster {
        let directory = directory.into();
        Cluster {
            between: Between::Memory(directory.clone()),
            machine,
            machines,
            replicas: 1,
            domains: Vec::new(),
            lease: None,
            kept_in: Some(KeptIn::Directory(directory)),
            memory_in: None,
            saved_in: None,
            newcomer: None,
            on_disk: None,
            taken_back: TakenBack::Nobody,
        }
    }

    /// Processes that listen at `addresses` for one another; this one is `machine`, from 1. All are given the
    /// same addresses, in the same order, and the same secret, which is known to nobody else.
    pub fn of_network(addresses: Vec<String>, machine: u32, secret: impl Into<Vec<u8>>) -> Cluster {
        Cluster {
            machines: u32::try_from(addresses.len()).unwrap_or(u32::MAX),
            between: Between::Network {
                name: String::new(),
                addresses,
                secret: Secret(secret.into()),
                tls: None,
            },
            machine,
            replicas: 1,
            domains: Vec::new(),
            lease: None,
            kept_in: None,
            memory_in: None,
            saved_in: None,
            newcomer: None,
            on_disk: None,
            taken_back: TakenBack::Nobody,
        }
    }

    /// Machines that have a copy of each region: its primary and its backups. One, unless said otherwise.
    pub fn replicas(mut self, replicas: u32) -> Cluster {
        self.replicas = replicas;
        self
    }

    /// What each machine, in the order of their numbers, shares the fate of: a rack, a host. No two copies of a
    /// region are in one domain. The same for all machines; unless it is said each is on its own.
    pub fn domains<S: Into<String>>(mut self, domains: impl IntoIterator<Item = S>) -> Cluster {
        self.domains = domains.into_iter().map(Into::into).collect();
        self
    }

    /// Has machines find out that one of them has failed: whoever is not heard of for so long is suspected, and the
    /// others go on without it. The same for all machines, between 5 ms and an hour; without it nobody is ever
    /// suspected.
    pub fn lease(mut self, duration: Duration) -> Cluster {
        self.lease = Some(duration);
        self
    }

    /// Keeps the configuration in a directory that all machines see, so that of a network, too, machines that fail are
    /// replaced. Machines of one host keep it in the directory that they share.
    pub fn configuration_in(mut self, directory: impl Into<PathBuf>) -> Cluster {
        self.kept_in = Some(KeptIn::Directory(directory.into()));
        self
    }

    /// Keeps the configuration in a ZooKeeper ensemble, `zookeeper://host:port,host:port/path`: as in a directory, for
    /// machines of several hosts. The path is this database's alone; another one takes another path. Or `raft`: the machines
    /// keep it themselves, as those of a network that have leases do where nothing else is said.
    pub fn configuration_store(mut self, url: impl Into<String>) -> Cluster {
        self.kept_in = Some(KeptIn::Store(url.into()));
        self
    }

    /// Has machines that keep their data on disks begin again with those among them that the others have gone on without,
    /// and that have nothing of what they had then. The same for all machines: all wait for each. Otherwise such a machine
    /// does not begin, and nobody waits for it.
    pub fn taking_back(mut self) -> Cluster {
        self.taken_back = TakenBack::All;
        self
    }

    /// Where machines that talk, all of them on one host, have the memory that outlives their processes, and their configuration with
    /// it. The same for all; machines that share memory have it where they share it.
    pub fn memory_in(mut self, directory: impl Into<PathBuf>) -> Cluster {
        self.memory_in = Some(directory.into());
        self
    }

    /// Saves the memory of machines of one host, where that outlives their processes, in a directory of a disk when all have
    /// ended ([`Database::saver`](crate::Database::saver)), and begins with what was saved when memory is gone, as it is
    /// after the host has booted. The same for all machines, and from the first time on.
    pub fn save_in(mut self, directory: impl Into<PathBuf>) -> Cluster {
        self.saved_in = Some(directory.into());
        self
    }

    /// A name that tells clusters of a network apart.
    pub fn name(mut self, given: impl Into<String>) -> Cluster {
        if let Between::Network { name, .. } = &mut self.between {
            *name = given.into();
        }
        self
    }

    /// Talks to the other machines of a network in TLS: shows the certificate chain in `certificate`, whose
    /// private key is in `key`, and believes whom a CA in `authorities` has signed. All are PEM files, and all
    /// machines of the network have some.
    pub fn tls(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authorities: impl Into<PathBuf>,
    ) -> Cluster {
        if let Between::Network { tls, .. } = &mut self.between {
            *tls = Some(TlsFiles {
                chain: certificate.into(),
                key: key.into(),
                authorities: authorities.into(),
            });
        }
        self
    }

    /// This machine is none of those that the cluster began with: it joins them while they run, who have leases and keep
    /// their configuration. Machines of a network reach it at `address`; for those of one host that is its name.
    pub fn newcomer(mut self, address: impl Into<String>) -> Cluster {
        self.newcomer = Some(address.into());
        self
    }

    /// This machine's access to the others, and what it begins with.
    pub(crate) fn join(&self, tier: Tier<'_>) -> Result<Joined, OpenError> {
        let Tier::Ssd(durable) = tier else {
            return self.meet(matches!(tier, Tier::Nvram));
        };
        let mut contents = Contents::read(durable).map_err(OpenError::Machine)?;
        let mut let_in = None;
        loop {
            // Also of one that was out, and has written down who it is to be.
            if let (Some(address), None) = (&self.newcomer, &let_in) {
                let address = newcomer_address(address)?;
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
                    Beginner::Begun(joined) => return Ok(*joined),
                    Beginner::Offered(offered) => {
                        let (offer, mut found) = *offered;
                        found.write_down(&offer).map_err(OpenError::Machine)?;
                        contents = found;
                    }
                },
            }
        }
    }

    /// Which machine it is, in which configuration, and whether it has just been let in there.
    fn place_of(
        &self,
        contents: &Contents,
        let_in: Option<&(MachineId, Configuration)>,
    ) -> Result<OnDiskAs, OpenError> {
        if let Some((me, configuration)) = let_in {
            return Ok((*me, configuration.clone(), true));
        }
        let first = self.first()?;
        let own = match &self.newcomer {
            Some(address) => {
                let address = newcomer_address(address)?;
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

    /// A machine that none of those who began knows asks to be let in.
    fn come_in(
        &self,
        contents: Contents,
        address: Address,
    ) -> Result<(Option<(MachineId, Configuration)>, Contents), OpenError> {
        // It shares the fate of nobody else.
        let domain = FailureDomain::new(address.as_str()).map_err(newcomer::unusable)?;
        let first = self.first()?;
        let outside = self.outside(contents.configuration(), &first)?;
        let whole = disks::come_in(&outside, (&first, address, domain), contents);
        let (me, configuration, contents) = whole?;
        Ok((Some((me, configuration)), contents))
    }

    /// The configuration that all machines began with.
    fn first(&self) -> Result<Configuration, OpenError> {
        match &self.between {
            Between::Memory(_) => {
                let names = (1..=self.machines).map(|id| MachineId(id).to_string());
                self.configuration(0, names.collect())
            }
            Between::Network {
                name, addresses, ..
            } => self.configuration(self.cluster_id(name, addresses), addresses.clone()),
        }
    }

    /// Tells networks apart whose machines were given other things.
    fn cluster_id(&self, name: &str, addresses: &[String]) -> u128 {
        let replicas = self.replicas.to_string();
        let known = [name, &replicas].into_iter();
        let listed = addresses.iter().chain(&self.domains);
        let parts: Vec<&str> = known.chain(listed.map(String::as_str)).collect();
        cluster_id(&parts)
    }

    /// What this machine is called.
    fn who(&self) -> Result<Who, OpenError> {
        let Some(address) = &self.newcomer else {
            return Ok(Who::Founder(MachineId(self.machine)));
        };
        newcomer_address(address).map(Who::Newcomer)
    }

    /// Whether it is the machines of a network that keep their configuration.
    fn keeps_itself(&self) -> bool {
        match &self.kept_in {
            None => cfg!(feature = "raft"),
            Some(KeptIn::Store(name)) => name == RAFT,
            Some(KeptIn::Directory(_)) => false,
        }
    }

    /// What machines agree on about leases.
    fn terms(&self) -> Result<Option<LeaseTerms>, OpenError> {
        let Some(duration) = self.lease else {
            return Ok(None);
        };
        let terms = LeaseTerms::new(duration, DRIFT_PPM);
        let why = || OpenError::Configuration("a lease is of 5 ms to an hour".into());
        terms.map(Some).ok_or_else(why)
    }

    /// The configuration that all machines begin with.
    fn configuration(
        &self,
        cluster: u128,
        addresses: Vec<String>,
    ) -> Result<Configuration, OpenError> {
        let founders = Founders {
            cluster: ClusterId(cluster),
            addresses,
            domains: self.domains.clone(),
            replicas: self.replicas,
        };
        founders.configuration()
    }
}

fn newcomer_address(address: &str) -> Result<Address, OpenError> {
    Address::new(address).map_err(|error| {
        OpenError::Configuration(format!("the address of a machine that joins: {error}"))
    })
}

/// What machines keep, and where.
#[derive(Clone, Copy)]
pub(crate) enum Tier<'a> {
    Memory,
    Nvram,
    Ssd(&'a Durable),
}
