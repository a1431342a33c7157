//! What makes a machine one among others.

use std::sync::Arc;

use fencepost_cluster::join::Door;
use fencepost_cluster::lease::LeaseTerms;
use fencepost_cluster::{ConfigStore, Configuration, Replication};
use fencepost_fabric::{Fabric, Gone, HostClock, MonotonicClock};

use super::disk::OnDisk;

/// How a machine is one among others.
#[derive(Clone)]
pub struct NetworkOptions {
    /// Its access to the others, who are members already.
    pub fabric: Arc<dyn Fabric>,
    /// Who the machines are; the CM of the first configuration has the root object.
    pub configuration: Configuration,
    /// How many of them have each region.
    pub replication: Replication,
    /// Words of each log, a power of two.
    pub log_words: usize,
    /// The clock of its host.
    pub clock: Arc<dyn MonotonicClock>,
    /// Which clock that is: machines have it in common whose `host` is the same, and no others.
    pub host: u64,
    /// The leases by which machines find out that one of them has failed, the same for all; `None` for none.
    pub leases: Option<LeaseTerms>,
    /// Where the configuration is kept. Without it, or without leases, machines that fail are not replaced.
    pub store: Option<Arc<dyn ConfigStore>>,
    /// Where other machines ask to be let in, or `None` where nobody is.
    pub door: Option<Arc<Door>>,
    /// What this machine begins with, where it keeps its data on a disk; the same for all.
    pub disk: Option<Arc<OnDisk>>,
    /// What machines have left in memory that were there before this one, which joins.
    pub before: Option<Arc<Gone>>,
    /// Whether this machine has just been let in: `configuration` is the one that it joins, which it has yet to apply.
    pub joins: bool,
    /// Whether somebody calls [`crate::Machine::drive`]; otherwise a thread of the machine looks after what
    /// peers write.
    pub driven: bool,
}

impl NetworkOptions {
    /// Of a machine that is one of several from the beginning, whose host is that of all others, and that looks after itself;
    /// machines that fail are not replaced.
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
            door: None,
            disk: None,
            before: None,
            joins: false,
            driven: false,
        }
    }
}
