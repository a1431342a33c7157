//! `fencepost start`: its options, and what they mean for the database and the server.

mod serve;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fencepost::{Cluster, Database, Durability, Options};
use fencepost_pgserver::{AccessRules, ListenOptions};

use crate::access::Access;
use crate::configuration;
use crate::failure::Failure;
use crate::log::LogOptions;
use crate::size;

/// Serve PostgreSQL clients until SIGTERM or SIGINT.
#[derive(Debug, Args)]
pub struct Start {
    /// File with options that are given neither here nor in the environment, settings, and rules of access: fencepost.toml.
    #[arg(long, env = "FENCEPOST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check all options and the configuration file, and end.
    #[arg(long)]
    check_config: bool,
    /// Address to listen on; port 0 picks a free one.
    #[arg(
        long,
        env = "FENCEPOST_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5433"
    )]
    listen: String,
    /// Directory of the database, made if there is none. Without it the data are gone at the end. Of several machines each
    /// has its own, and all of them are there again once all are.
    #[arg(long, env = "FENCEPOST_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// When a commit is reported: once it is in memory, or once it is on disk. [default: ssd with
    /// --data-dir, else memory]
    #[arg(long, env = "FENCEPOST_DURABILITY")]
    durability: Option<Tier>,
    /// Memory that the data may take, for example 8G; at the limit writes fail with 53200.
    #[arg(long, env = "FENCEPOST_MEMORY_LIMIT", value_name = "SIZE", value_parser = size::bytes)]
    memory_limit: Option<u64>,
    /// Size of a region: a power of two from 16M to 2G.
    #[arg(long, env = "FENCEPOST_REGION_SIZE", value_name = "SIZE", value_parser = size::region_bytes)]
    region_size: Option<usize>,
    /// Be one of several machines that are one database: the directory of the memory that they share,
    /// best on a tmpfs.
    #[arg(long, env = "FENCEPOST_CLUSTER", value_name = "DIR", conflicts_with = "join", requires_all = ["who", "machines"])]
    cluster: Option<PathBuf>,
    /// Be one of several machines of a network that are one database: where each of them listens for the
    /// others, in the order of their numbers; the same for all.
    #[arg(long, env = "FENCEPOST_JOIN", value_name = "HOST:PORT,…", value_delimiter = ',', requires_all = ["who", "cluster_secret"])]
    join: Vec<String>,
    /// File with what the machines of the network know and nobody else, at least 16 bytes.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_SECRET",
        value_name = "FILE",
        requires = "join"
    )]
    cluster_secret: Option<PathBuf>,
    /// Certificate chain in PEM that this machine shows to the others, to talk to them in TLS; all machines of
    /// the network have one, or none.
    #[arg(long, env = "FENCEPOST_CLUSTER_TLS_CERT", value_name = "FILE", requires_all = ["join", "cluster_tls_key", "cluster_tls_ca"])]
    cluster_tls_cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_TLS_KEY",
        value_name = "FILE",
        requires = "cluster_tls_cert"
    )]
    cluster_tls_key: Option<PathBuf>,
    /// Certificates in PEM of the CA that has signed those of all machines.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_TLS_CA",
        value_name = "FILE",
        requires = "cluster_tls_cert"
    )]
    cluster_tls_ca: Option<PathBuf>,
    /// Name that tells clusters of a network apart.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_NAME",
        value_name = "NAME",
        requires = "join",
        default_value = ""
    )]
    cluster_name: String,
    /// Number of this machine, from 1. One that has run before while others go on comes back as a new machine.
    #[arg(long, env = "FENCEPOST_MACHINE", value_name = "K", group = "who")]
    machine: Option<u32>,
    /// Join the machines of the cluster, which run with --lease-ms, as a further one: where the machines of a network
    /// reach it, HOST:PORT; for those that share memory a name of its own. All else is said as for the others.
    #[arg(
        long,
        env = "FENCEPOST_NEWCOMER",
        value_name = "ADDRESS",
        group = "who",
        requires = "lease_ms"
    )]
    newcomer: Option<String>,
    /// Number of machines that share memory, and that the cluster began with.
    #[arg(
        long,
        env = "FENCEPOST_MACHINES",
        value_name = "N",
        requires = "cluster"
    )]
    machines: Option<u32>,
    /// Machines that have a copy of each region.
    #[arg(
        long,
        env = "FENCEPOST_REPLICAS",
        value_name = "N",
        requires = "who",
        default_value_t = 1
    )]
    replicas: u32,
    /// Go on without machines that have not been heard of for so many milliseconds; the same for all. Unless said,
    /// all wait for each.
    #[arg(long, env = "FENCEPOST_LEASE_MS", value_name = "N", requires = "who")]
    lease_ms: Option<u64>,
    /// With --data-dir and --lease-ms: begin with all machines, also with those that the others have gone on without, which
    /// have nothing then of what is on their disks. Unless all say so, such a machine does not begin, and nobody waits for it.
    #[arg(long, env = "FENCEPOST_TAKE_BACK", requires_all = ["data_dir", "lease_ms"])]
    take_back: bool,
    /// Directory in which machines of a network keep who they are, the same for all and seen by all. Those that share
    /// memory keep it there.
    #[arg(
        long,
        env = "FENCEPOST_CONFIGURATION_DIR",
        value_name = "DIR",
        requires = "join"
    )]
    configuration_dir: Option<PathBuf>,
    /// In place of --configuration-dir, a path of a ZooKeeper ensemble that is for this database alone,
    /// zookeeper://HOST:PORT,…/PATH; or raft: the machines keep it themselves. [default with --lease-ms: raft]
    #[arg(long, env = "FENCEPOST_CONFIGURATION_STORE", value_name = "URL", requires_all = ["join", "lease_ms"], conflicts_with = "configuration_dir")]
    configuration_store: Option<String>,
    /// With --durability nvram: directory of the memory of machines that talk, and of who they are, the same for all; all of them are
    /// on one host. Those that share memory have it there.
    #[arg(long, env = "FENCEPOST_MEMORY_DIR", value_name = "DIR", requires = "join", conflicts_with_all = ["configuration_dir", "configuration_store"])]
    memory_dir: Option<PathBuf>,
    /// Directory of a disk in which the memory of machines that share it is saved when all have ended, and from which
    /// they begin when it is gone, as it is once the host has booted; with --durability nvram, the same for all.
    #[arg(long, env = "FENCEPOST_SAVE_DIR", value_name = "DIR", requires = "who")]
    save_dir: Option<PathBuf>,
    /// What each machine, in the order of their numbers, shares the fate of, such as its rack: no two copies of
    /// a region are in one of them; the same for all. Unless said, each machine is on its own.
    #[arg(
        long,
        env = "FENCEPOST_DOMAINS",
        value_name = "NAME,…",
        value_delimiter = ',',
        requires = "who"
    )]
    domains: Vec<String>,
    /// End when the process that started this one has ended.
    #[arg(long, hide = true)]
    ends_with_parent: bool,
    #[command(flatten)]
    access: Access,
    /// Worker threads; 0 for one a core.
    #[arg(long, env = "FENCEPOST_WORKERS", value_name = "N", default_value_t = 0)]
    workers: usize,
    /// The most sessions at a time.
    #[arg(
        long,
        env = "FENCEPOST_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = 10_000
    )]
    max_connections: usize,
    /// Serve metrics for Prometheus, /healthz and /readyz over HTTP: HOST:PORT, or a port of the loopback address. [default: off]
    #[arg(long, env = "FENCEPOST_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    #[command(flatten)]
    log: LogOptions,
    /// Setting of the server, as ALTER SYSTEM SET has it, which it cannot change; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = configuration::pair)]
    settings: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// Survives nothing.
    Memory,
    /// Survives kill -9 of all machines at once; with --cluster, or with --join and --memory-dir.
    Nvram,
    /// Survives kill -9 and power loss.
    Ssd,
}

impl Start {
    fn options(&self) -> Result<Options, Failure> {
        let mut options = Database::options();
        if let Some(dir) = &self.data_dir {
            options = options.data_dir(dir);
        }
        if let Some(tier) = self.durability {
            options = options.durability(match tier {
                Tier::Memory => Durability::Memory,
                Tier::Nvram => Durability::Nvram,
                Tier::Ssd => Durability::Ssd,
            });
        }
        if let Some(bytes) = self.memory_limit {
            options = options.memory_limit(bytes);
        }
        if let Some(bytes) = self.region_size {
            options = options.region_size(bytes);
        }
        if let Some(password) = self.access.superuser_password()? {
            options = options.superuser_password(&password);
        }
        if self.access.asks_all() {
            options = options.require_superuser_password();
        }
        if let Some(cluster) = self.cluster()? {
            let mut cluster = cluster.replicas(self.replicas);
            if let Some(ms) = self.lease_ms {
                cluster = cluster.lease(Duration::from_millis(ms));
            }
            if self.take_back {
                cluster = cluster.taking_back();
            }
            if let Some(directory) = &self.configuration_dir {
                cluster = cluster.configuration_in(directory);
            }
            if let Some(url) = &self.configuration_store {
                cluster = cluster.configuration_store(url);
            }
            if let Some(directory) = &self.memory_dir {
                cluster = cluster.memory_in(directory);
            }
            if let Some(directory) = &self.save_dir {
                cluster = cluster.save_in(directory);
            }
            options = options.cluster(cluster.domains(self.domains.iter().cloned()));
        }
        Ok(options)
    }

    /// The machines that this one is among, if there are others.
    fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        if !self.is_among_others() {
            return Ok(None);
        }
        let machine = self.machine.unwrap_or(0);
        if let (Some(directory), Some(machines)) = (&self.cluster, self.machines) {
            let cluster = Cluster::of_host(directory, machine, machines);
            return Ok(Some(self.as_newcomer(cluster)));
        }
        let Some(file) = &self.cluster_secret else {
            let why = "--machine and --newcomer are of --cluster or of --join";
            return Err(Failure::Broken(why.into()));
        };
        let secret = std::fs::read(file).map_err(Failure::io(file.display().to_string()))?;
        let mut cluster = Cluster::of_network(self.join.clone(), machine, secret.trim_ascii());
        if let (Some(certificate), Some(key), Some(ca)) = (
            &self.cluster_tls_cert,
            &self.cluster_tls_key,
            &self.cluster_tls_ca,
        ) {
            cluster = cluster.tls(certificate, key, ca);
        }
        Ok(Some(self.as_newcomer(cluster.name(&self.cluster_name))))
    }

    fn is_among_others(&self) -> bool {
        self.machine.is_some() || self.newcomer.is_some()
    }

    /// The cluster as a machine joins it that is to.
    fn as_newcomer(&self, cluster: Cluster) -> Cluster {
        match &self.newcomer {
            Some(address) => cluster.newcomer(address),
            None => cluster,
        }
    }

    fn listen_options(&self, rules: &AccessRules) -> ListenOptions {
        let mut options = ListenOptions::new(&self.listen);
        options.auth = self.access.auth();
        options.rules = rules.clone();
        options.tls = self.access.tls();
        options.local = self.access.local();
        options.workers = self.workers;
        options.connections_max = self.max_connections;
        options
    }
}
