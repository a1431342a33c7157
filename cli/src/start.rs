//! `fencepost start`: its options, and how they configure the database and the server.

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
    /// Configuration file, fencepost.toml: options that are given neither here nor in the
    /// environment, settings, and access rules.
    #[arg(long, env = "FENCEPOST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check all options and the configuration file, then end.
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
    /// Directory of the database, created if it does not exist. Without it the data are lost at the
    /// end. Each of several machines has its own directory, and the database starts when all of
    /// them have started.
    #[arg(long, env = "FENCEPOST_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Directory of the temporary files of large queries, created if it does not exist.
    /// [default: the data directory, or that of the system]
    #[arg(long, env = "FENCEPOST_TEMP_DIR", value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// When a commit is reported: once it is in memory, or once it is on disk.
    /// [default: ssd with --data-dir, else memory]
    #[arg(long, env = "FENCEPOST_DURABILITY")]
    durability: Option<Tier>,
    /// Memory that the data may take, for example 8G; at the limit writes fail with 53200.
    #[arg(long, env = "FENCEPOST_MEMORY_LIMIT", value_name = "SIZE", value_parser = size::bytes)]
    memory_limit: Option<u64>,
    /// Size of a region: a power of two from 16M to 2G.
    #[arg(
        long,
        env = "FENCEPOST_REGION_SIZE",
        value_name = "SIZE",
        value_parser = size::region_bytes
    )]
    region_size: Option<usize>,
    /// Run as one of several machines on this host that form one database: the directory of the
    /// memory that they share, best on a tmpfs.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER",
        value_name = "DIR",
        conflicts_with = "join",
        requires_all = ["who", "machines"]
    )]
    cluster: Option<PathBuf>,
    /// Run as one of several machines of a network that form one database: the addresses on which
    /// they listen for each other, in the order of their numbers; the same for all.
    #[arg(
        long,
        env = "FENCEPOST_JOIN",
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        requires_all = ["who", "cluster_secret"]
    )]
    join: Vec<String>,
    /// File with the secret that only the machines of the network know, at least 16 bytes.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_SECRET",
        value_name = "FILE",
        requires = "join"
    )]
    cluster_secret: Option<PathBuf>,
    /// Certificate chain in PEM that this machine presents to the other machines in TLS; all
    /// machines of the network have one, or none.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_TLS_CERT",
        value_name = "FILE",
        requires_all = ["join", "cluster_tls_key", "cluster_tls_ca"]
    )]
    cluster_tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_TLS_KEY",
        value_name = "FILE",
        requires = "cluster_tls_cert"
    )]
    cluster_tls_key: Option<PathBuf>,
    /// Certificates in PEM of the CA that has signed the certificates of all machines.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_TLS_CA",
        value_name = "FILE",
        requires = "cluster_tls_cert"
    )]
    cluster_tls_ca: Option<PathBuf>,
    /// Name that distinguishes the clusters of a network.
    #[arg(
        long,
        env = "FENCEPOST_CLUSTER_NAME",
        value_name = "NAME",
        requires = "join",
        default_value = ""
    )]
    cluster_name: String,
    /// Number of this machine, from 1. A machine that has run before, and was replaced, joins as a
    /// new machine.
    #[arg(long, env = "FENCEPOST_MACHINE", value_name = "K", group = "who")]
    machine: Option<u32>,
    /// Join the machines of a running cluster with --lease-ms as a further machine, with this
    /// address: HOST:PORT at which the machines of a network reach it, or a unique name for
    /// machines that share memory. All other options are as for the others.
    #[arg(
        long,
        env = "FENCEPOST_JOINING",
        value_name = "ADDRESS",
        group = "who",
        requires = "lease_ms"
    )]
    joining: Option<String>,
    /// Number of initial machines of a cluster that shares memory.
    #[arg(
        long,
        env = "FENCEPOST_MACHINES",
        value_name = "N",
        requires = "cluster"
    )]
    machines: Option<u32>,
    /// Number of machines that hold a copy of each region.
    #[arg(
        long,
        env = "FENCEPOST_REPLICAS",
        value_name = "N",
        requires = "who",
        default_value_t = 1
    )]
    replicas: u32,
    /// Replace machines that have sent no message for this many milliseconds; the same for all.
    /// Without it all machines wait for each.
    #[arg(long, env = "FENCEPOST_LEASE_MS", value_name = "N", requires = "who")]
    lease_ms: Option<u64>,
    /// With --data-dir and --lease-ms: start with all machines, including evicted ones, whose data
    /// on disk are discarded. Unless all machines have this option, an evicted machine does not
    /// start, and the others do not wait for it.
    #[arg(long, env = "FENCEPOST_TAKE_BACK", requires_all = ["data_dir", "lease_ms"])]
    take_back: bool,
    /// Directory in which the machines of a network store the configuration, shared by all.
    /// Machines that share memory store it there.
    #[arg(
        long,
        env = "FENCEPOST_CONFIGURATION_DIR",
        value_name = "DIR",
        requires = "join"
    )]
    configuration_dir: Option<PathBuf>,
    /// In place of --configuration-dir, a path of a ZooKeeper ensemble for this database alone,
    /// zookeeper://HOST:PORT,…/PATH; or raft: the machines store it themselves.
    /// [default with --lease-ms: raft]
    #[arg(
        long,
        env = "FENCEPOST_CONFIGURATION_STORE",
        value_name = "URL",
        requires_all = ["join", "lease_ms"],
        conflicts_with = "configuration_dir"
    )]
    configuration_store: Option<String>,
    /// With --durability nvram: directory of the memory and the configuration of machines of a
    /// network, the same for all; all of them are on one host. Machines that share memory have both
    /// there.
    #[arg(
        long,
        env = "FENCEPOST_MEMORY_DIR",
        value_name = "DIR",
        requires = "join",
        conflicts_with_all = ["configuration_dir", "configuration_store"]
    )]
    memory_dir: Option<PathBuf>,
    /// With --durability nvram: directory of a disk to which memory is saved when all machines have
    /// ended, the same for all. The machines start from it when the memory is gone, as after a boot
    /// of the host.
    #[arg(long, env = "FENCEPOST_SAVE_DIR", value_name = "DIR", requires = "who")]
    save_dir: Option<PathBuf>,
    /// Failure domain of each machine, in the order of their numbers, such as its rack; the same
    /// for all. No two copies of a region are in one domain.
    /// [default: each machine is its own domain]
    #[arg(
        long,
        env = "FENCEPOST_DOMAINS",
        value_name = "NAME,…",
        value_delimiter = ',',
        requires = "who"
    )]
    domains: Vec<String>,
    /// End when the parent process has ended.
    #[arg(long, hide = true)]
    ends_with_parent: bool,
    #[command(flatten)]
    access: Access,
    /// Worker threads; 0 for one per core.
    #[arg(long, env = "FENCEPOST_WORKERS", value_name = "N", default_value_t = 0)]
    workers: usize,
    /// Largest number of concurrent sessions.
    #[arg(
        long,
        env = "FENCEPOST_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = 10_000
    )]
    max_connections: usize,
    /// Serve metrics for Prometheus, /healthz and /readyz over HTTP: HOST:PORT, or a port of the
    /// loopback address. [default: off]
    #[arg(long, env = "FENCEPOST_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    #[command(flatten)]
    log: LogOptions,
    /// Setting of the server, which ALTER SYSTEM SET cannot override; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = configuration::pair)]
    settings: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// Nothing survives.
    Memory,
    /// Committed data survive kill -9 of all machines at once; with --cluster, or with --join and
    /// --memory-dir.
    Nvram,
    /// Committed data survive kill -9 and power loss.
    Ssd,
}

impl Start {
    fn options(&self) -> Result<Options, Failure> {
        let mut options = Database::options();
        if let Some(dir) = &self.data_dir {
            options = options.data_dir(dir);
        }
        if let Some(dir) = &self.temp_dir {
            options = options.temp_dir(dir);
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

    /// Returns the cluster of this machine; `None` if it runs alone.
    fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        if !self.is_among_others() {
            return Ok(None);
        }
        let machine = self.machine.unwrap_or(0);
        if let (Some(directory), Some(machines)) = (&self.cluster, self.machines) {
            let cluster = Cluster::of_host(directory, machine, machines);
            return Ok(Some(self.as_joining(cluster)));
        }
        let Some(file) = &self.cluster_secret else {
            let why = "--machine and --joining are of --cluster or of --join";
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
        Ok(Some(self.as_joining(cluster.name(&self.cluster_name))))
    }

    fn is_among_others(&self) -> bool {
        self.machine.is_some() || self.joining.is_some()
    }

    /// Returns the cluster with this machine as a joining one, if `--joining` is given.
    fn as_joining(&self, cluster: Cluster) -> Cluster {
        match &self.joining {
            Some(address) => cluster.joining(address),
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
