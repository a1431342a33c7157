//! A database of several machines: processes of one host that share its memory, or that are on a network.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::join::Heard;
use fencepost_cluster::{Address, ClusterId, Configuration, ConfigurationId, FailureDomain};
use fencepost_fabric::{Fabric, FabricError, HandshakeError, MachineId};
use fencepost_fabric::{
    ShmFabric, TcpAsker, TcpConfig, TcpFabric, TcpTls, cluster_id, entropy_seed,
};
use fencepost_txn::network::disk::{Beginning, Contents, MeetError, OnDisk, TakenBack};
use fencepost_txn::network::{
    ClusterSecret, LeaseTerms, NetworkOptions, Replication, Resumed, members,
};
use fencepost_txn::{Durable, Machine};
use pollster::FutureExt;

use crate::ensemble::Ensemble;
use crate::error::OpenError;
use crate::founding::Founders;
#[cfg(feature = "raft")]
use crate::group::Group;
#[cfg(feature = "raft")]
use crate::newcomer::unusable;
use crate::newcomer::{self, Knocking, Part, Place, Who};
use crate::restart;
use crate::saves::{Loaded, Saver};

/// Millionths by which the clocks of two hosts drift apart at most.
const DRIFT_PPM: u32 = 200;
/// Words of the log of each pair of machines.
const LOG_WORDS: usize = 1 << 20;
/// After as many leases a connection is broken over which nothing that was sent is acknowledged.
const LEASES_OF_SILENCE: u32 = 4;
/// How long a machine waits for the others to come up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a machine goes on that every other one refuses.
const REFUSED_PATIENCE: Duration = Duration::from_secs(3);
const NAP: Duration = Duration::from_millis(2);
/// What machines of one host know: who sees their directory is one of them.
const OF_HOST: &[u8] = b"machines of one host";
/// Bytes of the shortest secret.
const SECRET_BYTES_MIN: usize = 16;
/// In place of a store's address: the machines themselves.
const RAFT: &str = "raft";
/// Says which boot of which host this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Says which clock of the host this process sees.
const TIME_NAMESPACE: &str = "/proc/self/ns/time";

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
    /// Where memory that outlives processes is saved.
    saved_in: Option<PathBuf>,
    /// The address of a machine that joins.
    newcomer: Option<String>,
    /// Of a machine that keeps its data on a disk, what that says.
    on_disk: Option<OnDiskAs>,
    taken_back: TakenBack,
}

/// Which machine it is, who may be there besides, and whether it has just been let in.
type OnDiskAs = (MachineId, Configuration, bool);

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

/// What a machine waits for that others must bring about, and why they do not.
pub(crate) struct Joined {
    pub network: NetworkOptions,
    /// What it had before, where its memory has outlived it.
    pub resumed: Option<Arc<Resumed>>,
    pub loaded: Loaded,
    pub saver: Option<Saver>,
    /// Who refuses this machine, and why; `None` where there is somebody who does not.
    refused: Refused,
    /// Who is not there, and what was the matter when that was last tried.
    missing: Missing,
    /// Of a founder, given back where all others refuse it.
    place: Option<Place>,
    /// Whether where the configuration is kept counts on this machine.
    ready: Option<Box<dyn Fn() -> bool>>,
    taken_back: TakenBack,
}

/// Starts the end of the network of a machine that listens at an address.
pub(crate) type Start<'a> = &'a dyn Fn(MachineId, &Address) -> Result<Arc<TcpFabric>, OpenError>;
type Refused = Box<dyn Fn() -> Option<String>>;
type Missing = Box<dyn Fn() -> String>;

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
        if self.lease.is_some() && !matches!(self.kept_in, Some(KeptIn::Directory(_))) {
            let why = "machines of the ssd tier that have leases keep their configuration in a directory so far";
            return Err(OpenError::Tier(why));
        }
        let mut contents = Contents::read(durable).map_err(OpenError::Machine)?;
        let mut let_in = None;
        if let Some(address) = &self.newcomer {
            let address = newcomer_address(address)?;
            let knows = |last: &Configuration| last.has_address(&address);
            if !contents.configuration().is_some_and(knows) {
                (let_in, contents) = self.come_in(contents, address)?;
            }
        }
        loop {
            let on_disk = Cluster {
                on_disk: Some(self.place_of(&contents, let_in.as_ref())?),
                ..self.clone()
            };
            let joined = on_disk.meet(false)?;
            match (let_in.take(), joined) {
                (Some(_), joined) => return joined.let_in(contents),
                (None, joined) => match joined.begin(contents, &self.first()?)? {
                    Beginner::Begun(joined) => return Ok(*joined),
                    Beginner::Heard(Heard::Joined(me, configuration), found) => {
                        (let_in, contents) = (Some((me, configuration)), found);
                    }
                    Beginner::Heard(Heard::Offered(offer), mut found) => {
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
        let Some(KeptIn::Directory(directory)) =
            self.kept_in.as_ref().filter(|_| self.lease.is_some())
        else {
            let why = "machines join only where they have leases and keep their configuration";
            return Err(OpenError::Configuration(why.into()));
        };
        // It shares the fate of nobody else.
        let domain = FailureDomain::new(address.as_str()).map_err(newcomer::unusable)?;
        let secret = match &self.between {
            Between::Memory(_) => OF_HOST,
            Between::Network { secret, .. } => &secret.0,
        };
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let secret = ClusterSecret::new(secret).map_err(short)?;
        let (me, configuration, contents) = newcomer::come_in(
            directory,
            (&self.first()?, address, domain),
            secret,
            contents,
        )?;
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

    /// This machine's access to the others; whether its memory is to outlive it.
    fn meet(&self, kept: bool) -> Result<Joined, OpenError> {
        let Cluster {
            machine,
            machines,
            replicas,
            ..
        } = *self;
        if self.newcomer.is_none() && (machine == 0 || machine > machines) {
            return Err(OpenError::NoSuchMachine { machine, machines });
        }
        if replicas == 0 || replicas > machines {
            return Err(OpenError::TooFewMachines { machines, replicas });
        }
        self.terms()?;
        if self.saved_in.is_some() && !kept {
            let why = "memory is saved in the nvram tier alone";
            return Err(OpenError::Tier(why));
        }
        match &self.between {
            Between::Memory(directory) if kept => self.join_kept(directory),
            Between::Network { .. } if kept => {
                let why = "the nvram tier is of machines that share the memory of a host";
                Err(OpenError::Tier(why))
            }
            Between::Memory(directory) => {
                let names = (1..=machines).map(|id| MachineId(id).to_string());
                let first = self.configuration(0, names.collect())?;
                let part = self.part(first, OF_HOST)?;
                let fabric = ShmFabric::open(directory, part.me).map_err(network)?;
                if part.joins {
                    // Of those that were there before, and have ended.
                    let all = members(&part.configuration);
                    fabric.clear_away(&all).map_err(network)?;
                }
                let between = (Box::new(|| None) as _, Box::new(String::new) as _);
                self.joined(Arc::new(fabric), part, between)
            }
            Between::Network {
                name,
                addresses,
                secret,
                tls,
            } => self.join_network(name, addresses, secret, tls.as_ref()),
        }
    }

    /// A machine whose memory outlives it.
    fn join_kept(&self, directory: &Path) -> Result<Joined, OpenError> {
        if self.replicas < 2 {
            let why = "the nvram tier needs a backup of each region: two replicas or more";
            return Err(OpenError::Tier(why));
        }
        if self.newcomer.is_some() {
            let why = "nobody joins machines of the nvram tier while they run";
            return Err(OpenError::Tier(why));
        }
        let names = (1..=self.machines).map(|id| MachineId(id).to_string());
        let founders = self.configuration(0, names.collect())?;
        let replication = Replication::exactly(self.replicas as usize);
        let me = MachineId(self.machine);
        let places = (directory, self.saved_in.as_deref());
        let begun = restart::begin(places, me, &founders, replication)?;
        let store = self.lease.is_some().then_some(begun.store);
        let between = (Box::new(|| None) as _, Box::new(String::new) as _);
        let part = Part {
            me,
            configuration: begun.configuration,
            joins: false,
            kept: None,
        };
        let joined = self.joined(Arc::new(begun.fabric), part, between)?;
        Ok(Joined {
            network: NetworkOptions {
                store,
                ..joined.network
            },
            resumed: begun.resumed,
            loaded: begun.loaded,
            saver: begun.saver,
            ..joined
        })
    }

    fn join_network(
        &self,
        name: &str,
        addresses: &[String],
        Secret(secret): &Secret,
        tls: Option<&TlsFiles>,
    ) -> Result<Joined, OpenError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(OpenError::SecretTooShort(SECRET_BYTES_MIN));
        }
        let cluster = self.cluster_id(name, addresses);
        let first = self.configuration(cluster, addresses.to_vec())?;
        let tls = tls.map(TlsFiles::load).transpose()?;
        let start = |me, address: &Address| {
            let started = TcpFabric::start(&TcpConfig {
                me,
                cluster,
                secret: secret.clone(),
                listen: address.to_string(),
                tls: tls.clone(),
                silence: self.lease.map(|lease| LEASES_OF_SILENCE * lease),
            });
            let refused = |error: FabricError| OpenError::Listen {
                address: address.to_string(),
                why: error.to_string(),
            };
            started.map(Arc::new).map_err(refused)
        };
        let (part, fabric) = match self.lease.filter(|_| self.keeps_itself()) {
            Some(lease) => self.part_of_group(first, (secret, lease), &start, || {
                TcpAsker::new(cluster, secret, tls.clone())
            })?,
            None => {
                let part = self.part(first, secret)?;
                let own = part.configuration.machine(part.me);
                let own = own.expect("a machine is in the configuration in which it begins");
                let fabric = start(part.me, &own.address);
                let fabric = fabric.inspect_err(|_| part.give_back())?;
                (part, fabric)
            }
        };
        let (asked, told) = (Arc::clone(&fabric), Arc::clone(&fabric));
        let others = part.configuration.machines().len() - 1;
        let refused = move || {
            let refusals = asked.refusals();
            let all = refusals.len() == others && refusals.iter().all(|(_, why)| is_final(why));
            (all && others > 0).then(|| list(&refusals))
        };
        let missing = move || list(&told.refusals());
        let between = (Box::new(refused) as _, Box::new(missing) as _);
        self.joined(fabric, part, between)
    }

    /// What this machine is to be in a cluster that begins with the configuration `first`.
    fn part(&self, first: Configuration, secret: &[u8]) -> Result<Part, OpenError> {
        if let (Some((me, configuration, _)), None) = (&self.on_disk, self.lease) {
            return Ok(Part {
                me: *me,
                configuration: configuration.clone(),
                joins: false,
                kept: None,
            });
        }
        let who = self.who()?;
        let Some(kept_in) = self.kept_in.as_ref().filter(|_| self.lease.is_some()) else {
            return who.alone(first);
        };
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let secret = ClusterSecret::new(secret).map_err(short)?;
        match (kept_in, &self.on_disk) {
            (KeptIn::Directory(directory), Some(on_disk)) => {
                Who::with_its_disk(directory, on_disk.clone(), secret)
            }
            (KeptIn::Directory(directory), None) => who.among_those_of(directory, first, secret),
            (KeptIn::Store(url), _) => url.parse::<Ensemble>()?.part(who, first, secret),
        }
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

    /// What this machine is to be in a cluster that keeps its configuration itself, and its end of the network.
    #[cfg(feature = "raft")]
    fn part_of_group(
        &self,
        first: Configuration,
        (secret, lease): (&[u8], Duration),
        start: Start<'_>,
        asker: impl FnOnce() -> std::io::Result<TcpAsker>,
    ) -> Result<(Part, Arc<TcpFabric>), OpenError> {
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let group = Group {
            first,
            secret: ClusterSecret::new(secret).map_err(short)?,
            lease,
            start,
        };
        group.part(self.who()?, asker().map_err(unusable)?)
    }

    /// As this program has none of what that needs, an error.
    #[cfg(not(feature = "raft"))]
    fn part_of_group(
        &self,
        _: Configuration,
        _: (&[u8], Duration),
        _: Start<'_>,
        _: impl FnOnce() -> std::io::Result<TcpAsker>,
    ) -> Result<(Part, Arc<TcpFabric>), OpenError> {
        let why = "this program was built without what machines need to keep their configuration themselves";
        Err(OpenError::Configuration(why.into()))
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

    fn joined(
        &self,
        fabric: Arc<dyn Fabric>,
        part: Part,
        (refused, missing): (Refused, Missing),
    ) -> Result<Joined, OpenError> {
        let configuration = part.configuration;
        let members = members(&configuration);
        fabric.set_members(&members).map_err(network)?;
        let (mut store, mut door, mut place, mut ready) = (None, None, None, None);
        if let Some(kept) = part.kept {
            (store, door) = (Some(kept.store), Some(kept.door));
            (place, ready) = (kept.place, kept.ready);
        }
        let replication = Replication::exactly(self.replicas as usize);
        Ok(Joined {
            resumed: None,
            loaded: Loaded::default(),
            saver: None,
            network: NetworkOptions {
                log_words: LOG_WORDS,
                host: host(),
                leases: self.terms()?,
                store,
                door,
                joins: part.joins,
                ..NetworkOptions::of(fabric, configuration, replication)
            },
            refused,
            missing,
            place,
            ready,
            taken_back: self.taken_back,
        })
    }
}

/// What became of a machine that was to begin with what is on its disk.
enum Beginner {
    Begun(Box<Joined>),
    /// Others run, and have said so.
    Heard(Heard, Contents),
}

fn newcomer_address(address: &str) -> Result<Address, OpenError> {
    Address::new(address).map_err(|error| {
        OpenError::Configuration(format!("the address of a machine that joins: {error}"))
    })
}

fn met(why: MeetError) -> OpenError {
    OpenError::Machine(fencepost_txn::OpenError::Meet(why))
}

/// A number of the clock that this process sees: another one has the same if it sees the same.
fn host() -> u64 {
    let Ok(boot) = std::fs::read_to_string(BOOT_ID) else {
        // Nobody can tell, so it is nobody else's.
        return entropy_seed();
    };
    // A kernel without time namespaces has no such link, and one clock.
    let namespace = std::fs::read_link(TIME_NAMESPACE).unwrap_or_default();
    cluster_id(&[&boot, &namespace.to_string_lossy()]) as u64
}

fn network(error: fencepost_fabric::FabricError) -> OpenError {
    OpenError::Machine(fencepost_txn::OpenError::Network(error))
}

/// Whether trying again leads to the same.
pub(crate) fn is_final(why: &HandshakeError) -> bool {
    !matches!(why, HandshakeError::Io(_) | HandshakeError::NotMember)
}

fn list(refusals: &[(MachineId, HandshakeError)]) -> String {
    let one = |(machine, why): &(MachineId, HandshakeError)| format!("{machine}: {why}");
    let all: Vec<String> = refusals.iter().map(one).collect();
    all.join("; ")
}

/// What machines keep, and where.
#[derive(Clone, Copy)]
pub(crate) enum Tier<'a> {
    Memory,
    Nvram,
    Ssd(&'a Durable),
}

impl Joined {
    /// Begins with what is on the disks of all machines.
    fn begins(mut self, on_disk: Arc<OnDisk>) -> Result<Joined, OpenError> {
        let configuration = on_disk.configuration();
        let fabric = &self.network.fabric;
        fabric
            .set_members(&members(configuration))
            .map_err(network)?;
        if let Some(store) = &self.network.store {
            newcomer::go_on_with(&**store, configuration)?;
        }
        self.network.configuration = configuration.clone();
        self.network.disk = Some(on_disk);
        Ok(self)
    }

    /// Begins with nothing, as others have let this machine in.
    fn let_in(mut self, contents: Contents) -> Result<Joined, OpenError> {
        self.network.disk = Some(contents.joining(&self.network.configuration));
        Ok(self)
    }

    /// The configuration that the store has.
    fn stored(&self) -> Result<Option<Configuration>, OpenError> {
        let store = self.network.store.as_ref();
        let stored = store.map(|store| store.read().block_on());
        Ok(stored.transpose().map_err(newcomer::store)?.flatten())
    }

    /// Begins with what agrees of what is on the disks of all machines, unless others that run let this one in before.
    fn begin(self, contents: Contents, first: &Configuration) -> Result<Beginner, OpenError> {
        let (fabric, machines) = (&self.network.fabric, &self.network.configuration);
        let own = machines.machine(fabric.me());
        let own = own.expect("a machine is in the configuration in which it begins");
        let door = self.network.door.as_ref();
        let mut knocking = door.map(|door| Knocking::of(door, machines, own));
        let stored = self.stored()?;
        let id = stored
            .as_ref()
            .map_or(ConfigurationId(0), Configuration::id);
        let written = contents.machine();
        let (both, back) = ((first, machines), self.taken_back);
        let beginning = Beginning::open(contents, fabric, both, back, id);
        let mut beginning = beginning.map_err(OpenError::Machine)?;
        let mut is_stale = false;
        let ended = self.await_others(|| {
            if !is_stale {
                match beginning.look() {
                    Ok(None) => {}
                    Ok(Some(on_disk)) => return Some(Ok(Ok(on_disk))),
                    Err(MeetError::Stale(_)) if knocking.is_some() => is_stale = true,
                    Err(why) => return Some(Err(met(why))),
                }
            }
            let heard = knocking.as_mut()?.look(written, || self.stored());
            heard.transpose().map(|heard| heard.map(Err))
        });
        drop(knocking);
        let heard = match ended {
            Ok(Ok(Ok(on_disk))) => {
                return self.begins(on_disk).map(Box::new).map(Beginner::Begun);
            }
            Ok(Ok(Err(heard))) => heard,
            Ok(Err(why)) => return Err(why),
            Err(OpenError::Incomplete(seconds, why)) if why.is_empty() => {
                let missing = beginning.missing();
                let names: Vec<String> = missing.iter().map(MachineId::to_string).collect();
                let mut why = format!("{} did not begin with the others", names.join(", "));
                if stored.is_some_and(|stored| !stored.has(fabric.me())) {
                    why.push_str("; they have gone on without this machine");
                }
                return Err(OpenError::Incomplete(seconds, why));
            }
            Err(why) => return Err(why),
        };
        let contents = beginning.into_contents();
        let contents = contents.ok_or(OpenError::Machine(fencepost_txn::OpenError::Begun))?;
        Ok(Beginner::Heard(heard, contents))
    }

    /// Waits until `ready`, which other machines have to bring about.
    pub fn await_others<T>(&self, mut ready: impl FnMut() -> Option<T>) -> Result<T, OpenError> {
        let began = Instant::now();
        let mut refused_since = None;
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            match (self.refused)() {
                None => refused_since = None,
                Some(why) => {
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > REFUSED_PATIENCE {
                        if let Some(give_back) = &self.place {
                            give_back();
                        }
                        return Err(OpenError::Refused(why));
                    }
                }
            }
            if began.elapsed() > PATIENCE {
                let missing = (self.missing)();
                return Err(OpenError::Incomplete(PATIENCE.as_secs(), missing));
            }
            std::thread::sleep(NAP);
        }
    }

    /// Waits for all machines.
    pub fn await_machines(&self, machine: &Machine) -> Result<(), OpenError> {
        self.await_others(|| match self.is_out(machine) {
            true => Some(Err(OpenError::Evicted)),
            false => machine.is_complete().block_on().then_some(Ok(())),
        })??;
        self.await_others(|| match self.is_out(machine) {
            true => Some(Err(OpenError::Evicted)),
            false => self
                .ready
                .as_ref()
                .is_none_or(|ready| ready())
                .then_some(Ok(())),
        })?
    }

    /// Whether the others have gone on without this machine, who may not tell it.
    fn is_out(&self, machine: &Machine) -> bool {
        let store = self.network.store.as_ref().filter(|_| self.network.joins);
        let current = store.and_then(|store| store.read().block_on().ok().flatten());
        let me = MachineId(machine.number());
        machine.is_evicted() || current.is_some_and(|current| !current.has(me))
    }
}
