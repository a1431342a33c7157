//! Creates a machine's network endpoint and determines its role, by the kind of connection between
//! the machines and the store of their configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fencepost_cluster::{Address, Configuration};
use fencepost_fabric::{ControlClient, TcpConfig, TcpFabric, cluster_id, entropy_seed};
use fencepost_fabric::{Fabric, FabricError, MachineDirectory, MachineId, ShmFabric};
use fencepost_txn::network::{ClusterSecret, NetworkOptions, Replication, members};

use super::joined::{MissingProbe, RefusalProbe, is_final, list, network};
use super::{
    Cluster, ConfigurationLocation, Interconnect, JoinedMachine, OF_HOST, SECRET_BYTES_MIN, Secret,
    TlsFiles,
};
use crate::disks::{self, OutsiderAccess};
use crate::error::OpenError;
use crate::membership::{MachineRole, unusable};
#[cfg(feature = "raft")]
use crate::raft_store::Group;
use crate::restart::{self, Memory, ReadyMachine};
use crate::saves::LoadReport;
use crate::zookeeper_store::ZookeeperServers;

/// The size, in words, of the log for each pair of machines.
const LOG_WORDS: usize = 1 << 20;
/// The number of leases without an acknowledgement after which a connection is closed.
const LEASES_OF_SILENCE: u32 = 4;
/// A file that identifies the current boot of the host.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A link that identifies the time namespace of this process.
const TIME_NAMESPACE: &str = "/proc/self/ns/time";

/// Starts the network endpoint of a machine that listens at an address.
pub(crate) type Start<'a> = &'a dyn Fn(MachineId, &Address) -> Result<Arc<TcpFabric>, OpenError>;
impl Cluster {
    /// Connects this machine to the others. `is_durable` says whether its memory outlives its
    /// process.
    pub(super) fn meet(&self, is_durable: bool) -> Result<JoinedMachine, OpenError> {
        let Cluster {
            machine,
            machines,
            replicas,
            ..
        } = *self;
        if self.joins_at.is_none() && (machine == 0 || machine > machines) {
            return Err(OpenError::NoSuchMachine { machine, machines });
        }
        if replicas == 0 || replicas > machines {
            return Err(OpenError::TooFewMachines { machines, replicas });
        }
        self.terms()?;
        if self.saved_in.is_some() && !is_durable {
            let why = "memory is saved in the nvram tier alone";
            return Err(OpenError::Tier(why));
        }
        if !is_durable && self.memory_in.is_some() {
            let why = "memory outlives processes in the nvram tier alone";
            return Err(OpenError::Tier(why));
        }
        match &self.between {
            Interconnect::Memory(directory) if is_durable => {
                let names = (1..=machines).map(|id| MachineId(id).to_string());
                let first = self.configuration(0, names.collect())?;
                let begun = self.begin_durable(directory, &first, OF_HOST)?;
                let fabric = ShmFabric::at(begun.home).map_err(network)?;
                let between = (Box::new(|| None) as _, Box::new(String::new) as _);
                let joined = self.joined(Arc::new(fabric), begun.part, between)?;
                Ok(joined.with_memory(begun.memory))
            }
            Interconnect::Memory(directory) => {
                let names = (1..=machines).map(|id| MachineId(id).to_string());
                let first = self.configuration(0, names.collect())?;
                let part = self.part(first, OF_HOST)?;
                let fabric = ShmFabric::open(directory, part.me).map_err(network)?;
                if part.joins {
                    // Removes the shared memory of earlier machines that have ended.
                    let all = members(&part.configuration);
                    fabric.clear_away(&all).map_err(network)?;
                }
                let between = (Box::new(|| None) as _, Box::new(String::new) as _);
                self.joined(Arc::new(fabric), part, between)
            }
            Interconnect::Network {
                name,
                addresses,
                secret,
                tls,
            } => self.join_network((name, addresses), secret, tls.as_ref(), is_durable),
        }
    }

    /// Starts a machine whose memory outlives its process, in a directory that all machines can
    /// access.
    fn begin_durable(
        &self,
        directory: &Path,
        first: &Configuration,
        secret: &[u8],
    ) -> Result<ReadyMachine, OpenError> {
        if self.replicas < 2 {
            let why = "the nvram tier needs a backup of each region: two replicas or more";
            return Err(OpenError::Tier(why));
        }
        if self.joins_at.is_some() && self.lease.is_none() {
            let why = "machines join only where they have leases and keep their configuration";
            return Err(OpenError::Configuration(why.into()));
        }
        let replication = Replication::exactly(self.replicas as usize);
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let secret = self.lease.map(|_| ClusterSecret::new(secret));
        let secret = secret.transpose().map_err(short)?;
        let places = (directory, self.saved_in.as_deref());
        restart::begin(places, &self.who()?, first, replication, secret)
    }

    fn join_network(
        &self,
        (name, addresses): (&str, &[String]),
        Secret(secret): &Secret,
        tls: Option<&TlsFiles>,
        is_durable: bool,
    ) -> Result<JoinedMachine, OpenError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(OpenError::SecretTooShort(SECRET_BYTES_MIN));
        }
        let cluster = self.cluster_id(name, addresses);
        let first = self.configuration(cluster, addresses.to_vec())?;
        let tls = tls.map(TlsFiles::load).transpose()?;
        let start_in = |me, address: &Address, home: Option<MachineDirectory>| {
            let config = TcpConfig {
                me,
                cluster,
                secret: secret.clone(),
                listen: address.to_string(),
                tls: tls.clone(),
                silence: self.lease.map(|lease| LEASES_OF_SILENCE * lease),
            };
            let started = match home {
                None => TcpFabric::start(&config),
                Some(home) => TcpFabric::start_at(&config, home),
            };
            let refused = |error: FabricError| OpenError::Listen {
                address: address.to_string(),
                why: error.to_string(),
            };
            started.map(Arc::new).map_err(refused)
        };
        let start = |me, address: &Address| start_in(me, address, None);
        let mut memory = Memory::default();
        let (part, fabric) = match self.lease.filter(|_| self.keeps_itself()) {
            _ if is_durable => {
                let why = "machines of the nvram tier that talk are all on one host, \
                           and have their memory, and their configuration \
                           with it, in a directory there";
                let directory = self
                    .memory_in
                    .as_ref()
                    .filter(|_| self.configuration_in.is_none());
                let directory = directory.ok_or(OpenError::Tier(why))?;
                let ReadyMachine {
                    home,
                    part,
                    memory: had,
                } = self.begin_durable(directory, &first, secret)?;
                memory = had;
                let fabric = start_in(part.me, own_address(&part), Some(home))?;
                (part, fabric)
            }
            Some(lease) => self.part_of_group(first, (secret, lease), &start, || {
                ControlClient::new(cluster, secret, tls.clone())
            })?,
            None => {
                let part = self.part(first, secret)?;
                let fabric = start(part.me, own_address(&part));
                let fabric = fabric.inspect_err(|_| part.give_back())?;
                (part, fabric)
            }
        };
        let (of_refused, of_missing) = (Arc::clone(&fabric), Arc::clone(&fabric));
        let others = part.configuration.machines().len() - 1;
        let refused = move || {
            let refusals = of_refused.refusals();
            let all = refusals.len() == others && refusals.iter().all(|(_, why)| is_final(why));
            (all && others > 0).then(|| list(&refusals))
        };
        let missing = move || list(&of_missing.refusals());
        let between = (Box::new(refused) as _, Box::new(missing) as _);
        let joined = self.joined(fabric, part, between)?;
        Ok(joined.with_memory(memory))
    }

    /// Returns the role of this machine in a cluster whose first configuration is `first`.
    fn part(&self, first: Configuration, secret: &[u8]) -> Result<MachineRole, OpenError> {
        if let (Some((me, configuration, _)), None) = (&self.on_disk, self.lease) {
            return Ok(MachineRole {
                me: *me,
                configuration: configuration.clone(),
                joins: false,
                store_access: None,
            });
        }
        let who = self.who()?;
        let Some(location) = self
            .configuration_in
            .as_ref()
            .filter(|_| self.lease.is_some())
        else {
            return who.alone(first);
        };
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let secret = ClusterSecret::new(secret).map_err(short)?;
        match (location, &self.on_disk) {
            (ConfigurationLocation::Directory(directory), Some(on_disk)) => {
                disks::part_of_directory(directory, on_disk.clone(), secret)
            }
            (ConfigurationLocation::Directory(directory), None) => {
                who.among_those_of(directory, first, secret)
            }
            (ConfigurationLocation::Store(url), None) => {
                url.parse::<ZookeeperServers>()?.part(who, first, secret)
            }
            (ConfigurationLocation::Store(url), Some(on_disk)) => {
                let ensemble = url.parse::<ZookeeperServers>()?;
                ensemble.part_with_a_disk(on_disk.clone(), &first, secret)
            }
        }
    }

    /// Returns the access of an outsider with a disk to the cluster. `last` is the newest
    /// configuration that its disk records.
    pub(super) fn outside(
        &self,
        last: Option<&Configuration>,
        first: &Configuration,
    ) -> Result<OutsiderAccess, OpenError> {
        let why = "machines join only where they have leases and keep their configuration";
        let alone = || OpenError::Configuration(why.into());
        let _ = self.lease.ok_or_else(alone)?;
        let secret = match &self.between {
            Interconnect::Memory(_) => OF_HOST,
            Interconnect::Network { secret, .. } => &secret.0,
        };
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let proved = ClusterSecret::new(secret).map_err(short)?;
        match (&self.configuration_in, &self.between) {
            (_, Interconnect::Network { tls, .. }) if self.keeps_itself() => {
                let tls = tls.as_ref().map(TlsFiles::load).transpose()?;
                let asker = ControlClient::new(first.cluster().0, secret, tls).map_err(unusable)?;
                let known = last.into_iter().chain([first]);
                let known = known.flat_map(Configuration::machines);
                let addresses = known.map(|one| one.address.to_string()).collect();
                outside_of_group(asker, addresses, proved)
            }
            (Some(ConfigurationLocation::Directory(directory)), _) => {
                OutsiderAccess::of_directory(directory, proved)
            }
            (Some(ConfigurationLocation::Store(url)), _) => {
                url.parse::<ZookeeperServers>()?.outside(first, proved)
            }
            (None, _) => Err(alone()),
        }
    }

    /// Returns the role of this machine in a cluster that keeps its configuration by Raft, and its
    /// network endpoint.
    #[cfg(feature = "raft")]
    fn part_of_group(
        &self,
        first: Configuration,
        (secret, lease): (&[u8], Duration),
        start: Start<'_>,
        asker: impl FnOnce() -> std::io::Result<ControlClient>,
    ) -> Result<(MachineRole, Arc<TcpFabric>), OpenError> {
        let short = |_| OpenError::SecretTooShort(SECRET_BYTES_MIN);
        let group = Group {
            first,
            secret: ClusterSecret::new(secret).map_err(short)?,
            lease,
            start,
        };
        let asker = asker().map_err(unusable)?;
        match &self.on_disk {
            None => group.part(self.who()?, asker),
            Some(on_disk) => group.part_with_a_disk(on_disk.clone(), asker),
        }
    }

    /// Returns an error, because this program is built without Raft.
    #[cfg(not(feature = "raft"))]
    fn part_of_group(
        &self,
        _: Configuration,
        _: (&[u8], Duration),
        _: Start<'_>,
        _: impl FnOnce() -> std::io::Result<ControlClient>,
    ) -> Result<(MachineRole, Arc<TcpFabric>), OpenError> {
        Err(no_group())
    }

    fn joined(
        &self,
        fabric: Arc<dyn Fabric>,
        part: MachineRole,
        (refused, missing): (RefusalProbe, MissingProbe),
    ) -> Result<JoinedMachine, OpenError> {
        let configuration = part.configuration;
        let members = members(&configuration);
        fabric.set_members(&members).map_err(network)?;
        let (mut store, mut endpoint, mut place, mut awaits, mut again) =
            (None, None, None, None, None);
        if let Some(access) = part.store_access {
            (store, endpoint) = (Some(access.store), Some(access.endpoint));
            (place, awaits, again) = (access.place, access.awaits, access.again);
        }
        let replication = Replication::exactly(self.replicas as usize);
        Ok(JoinedMachine {
            resumed: None,
            loaded: LoadReport::default(),
            saver: None,
            network: NetworkOptions {
                log_words: LOG_WORDS,
                host: host(),
                leases: self.terms()?,
                store,
                join_endpoint: endpoint,
                joins: part.joins,
                ..NetworkOptions::of(fabric, configuration, replication)
            },
            refused,
            missing,
            place,
            awaits,
            again,
            taken_back: self.taken_back,
        })
    }
}

#[cfg(feature = "raft")]
fn outside_of_group(
    asker: ControlClient,
    addresses: Vec<String>,
    secret: ClusterSecret,
) -> Result<OutsiderAccess, OpenError> {
    Ok(crate::raft_store::outside(asker, addresses, secret))
}

#[cfg(not(feature = "raft"))]
fn outside_of_group(
    _: ControlClient,
    _: Vec<String>,
    _: ClusterSecret,
) -> Result<OutsiderAccess, OpenError> {
    Err(no_group())
}

#[cfg(not(feature = "raft"))]
fn no_group() -> OpenError {
    let why =
        "this program was built without what machines need to keep their configuration themselves";
    OpenError::Configuration(why.into())
}

/// Returns the address at which this machine listens.
fn own_address(part: &MachineRole) -> &Address {
    let own = part.configuration.machine(part.me);
    let own = own.expect("a machine is in the configuration in which it begins");
    &own.address
}

/// Returns a number of this process's clock. Processes with the same number see the same clock.
fn host() -> u64 {
    let Ok(boot) = std::fs::read_to_string(BOOT_ID) else {
        // The clock is unknown, so return a number that no other process has.
        return entropy_seed();
    };
    // A kernel without time namespaces has no such link, and one clock.
    let namespace = std::fs::read_link(TIME_NAMESPACE).unwrap_or_default();
    cluster_id(&[&boot, &namespace.to_string_lossy()]) as u64
}
