//! The environment of the machines: network, configuration store, join endpoint and simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_fabric::{Fabric, LocalNetwork, MonotonicClock, SimDisk};
use fencepost_txn::network::disk::DiskStart;
use fencepost_txn::network::{
    ClusterSecret, ConfigStore, Configuration, JoinEndpoint, LeaseTerms, LocalStore,
    NetworkOptions, Replication,
};
use fencepost_txn::{Machine, MachineOptions};
use pollster::block_on;

pub const LEASE: Duration = Duration::from_millis(5);

/// The simulated time of all machines.
pub struct Time(pub AtomicU64);

impl MonotonicClock for Time {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The environment that all machines share.
pub struct SharedEnvironment {
    pub network: Arc<LocalNetwork>,
    pub store: Arc<LocalStore>,
    pub time: Arc<Time>,
    pub endpoint: Arc<JoinEndpoint>,
    pub replicas: usize,
}

impl SharedEnvironment {
    pub fn of(
        network: Arc<LocalNetwork>,
        configuration: &Configuration,
        replicas: usize,
    ) -> SharedEnvironment {
        let store = Arc::new(LocalStore::in_memory());
        block_on(store.compare_and_swap(None, configuration)).expect("is stored");
        let secret = ClusterSecret::new(b"a secret of all of them").expect("long enough");
        SharedEnvironment {
            network,
            store,
            time: Arc::new(Time(AtomicU64::new(1_000_000_000))),
            endpoint: Arc::new(JoinEndpoint::new(Arc::new(SimDisk::new(1)), secret)),
            replicas,
        }
    }

    /// Opens a machine that restarts from its disk.
    pub fn open(&self, fabric: Arc<dyn Fabric>, on_disk: Arc<DiskStart>) -> Arc<Machine> {
        SharedEnvironment::machine(self.options_on_disk(fabric, on_disk))
    }

    /// Opens a machine that joins with a disk.
    pub fn open_joining(&self, fabric: Arc<dyn Fabric>, on_disk: Arc<DiskStart>) -> Arc<Machine> {
        SharedEnvironment::machine(NetworkOptions {
            joins: true,
            ..self.options_on_disk(fabric, on_disk)
        })
    }

    fn options_on_disk(&self, fabric: Arc<dyn Fabric>, on_disk: Arc<DiskStart>) -> NetworkOptions {
        let configuration = on_disk.configuration().clone();
        NetworkOptions {
            disk: Some(on_disk),
            ..self.options(fabric, configuration)
        }
    }

    pub fn options(&self, fabric: Arc<dyn Fabric>, configuration: Configuration) -> NetworkOptions {
        let replication = Replication::exactly(self.replicas);
        NetworkOptions {
            driven: true,
            clock: Arc::clone(&self.time) as _,
            leases: Some(LeaseTerms::new(LEASE, 200).expect("terms")),
            store: Some(Arc::clone(&self.store) as _),
            join_endpoint: Some(Arc::clone(&self.endpoint)),
            ..NetworkOptions::of(fabric, configuration, replication)
        }
    }

    pub fn machine(network: NetworkOptions) -> Arc<Machine> {
        let machine = Machine::open(MachineOptions {
            region_bytes: 16 << 20,
            network: Some(network),
            ..MachineOptions::default()
        });
        machine.expect("opens")
    }
}
