//! Options of a machine in a cluster.

use std::sync::Arc;

use fencepost_cluster::join::JoinEndpoint;
use fencepost_cluster::lease::LeaseTerms;
use fencepost_cluster::{ConfigStore, Configuration, Replication};
use fencepost_fabric::{EvictedMemory, Fabric, HostClock, MonotonicClock};

use super::disk::DiskStart;

/// The options of a machine in a cluster.
#[derive(Clone)]
pub struct NetworkOptions {
    /// Its access to the other machines, which are members already.
    pub fabric: Arc<dyn Fabric>,
    /// The members; the CM of the first configuration has the root object.
    pub configuration: Configuration,
    /// The number of replicas of each region.
    pub replication: Replication,
    /// Words of each log, a power of two.
    pub log_words: usize,
    /// The clock of its host.
    pub clock: Arc<dyn MonotonicClock>,
    /// Identifies that clock: machines share a clock if and only if their `host` is equal.
    pub host: u64,
    /// The lease terms for failure detection, equal on all machines; `None` for no leases.
    pub leases: Option<LeaseTerms>,
    /// The store of the configuration. Without it, or without leases, failed machines are not
    /// replaced.
    pub store: Option<Arc<dyn ConfigStore>>,
    /// The join endpoint; `None` if no machine may join.
    pub join_endpoint: Option<Arc<JoinEndpoint>>,
    /// The starting state of a machine with a disk; `None` on all machines or on none.
    pub disk: Option<Arc<DiskStart>>,
    /// The memory left by earlier machines, for a machine that joins.
    pub before: Option<Arc<EvictedMemory>>,
    /// Whether this machine has just been admitted: `configuration` is the one that it joins, and
    /// is not applied yet.
    pub joins: bool,
    /// Whether the caller drives the machine by [`crate::Machine::drive`]; otherwise threads of the
    /// machine handle the records of peers.
    pub driven: bool,
}

impl NetworkOptions {
    /// Returns options of an initial member of a cluster on one host, with threads and without
    /// replacement of failed machines.
    pub fn of(
        fabric: Arc<dyn Fabric>,
        configuration: Configuration,
        replication: Replication,
    ) -> NetworkOptions {
        NetworkOptions {
            fabric,
            configuration,
            replication,
            log_words: 1 << 12,
            clock: Arc::new(HostClock),
            host: 0,
            leases: None,
            store: None,
            join_endpoint: None,
            disk: None,
            before: None,
            joins: false,
            driven: false,
        }
    }
}
