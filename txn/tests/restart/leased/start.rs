//! The start of machines from their disks.

use std::sync::Arc;

use fencepost_fabric::{Fabric, LocalNetwork};
use fencepost_txn::MachineId;
use fencepost_txn::network::disk::{
    Beginning, Contents, DiskStart, StateExchangeError, StoreState,
};
use fencepost_txn::network::{Configuration, members};

use super::disks::{Disks, MACHINES};
use super::environment::SharedEnvironment;
use super::world::World;
use crate::disk::durable;

impl Disks {
    pub fn begin(&self) -> World {
        self.begin_machines(&[1, 2, 3]).expect("they begin")
    }

    /// Starts these machines, except stale ones; returns `None` if they wait for others.
    pub fn begin_machines(&self, those: &[u32]) -> Option<World> {
        let initial_members = Configuration::of_process(MACHINES).expect("machines");
        let network = LocalNetwork::new();
        let ids = || (1..=MACHINES).map(MachineId);
        let mut beginning = Vec::new();
        for id in ids().filter(|id| those.contains(&id.0)) {
            let place = initial_members.machine(id).expect("a founder");
            let durable = durable(&self.disks[id.0 as usize - 1]);
            let contents = Contents::read(&durable).expect("its disk");
            let (id, machines) = contents.part(&initial_members, place).expect("machines");
            let all = members(&machines);
            let fabric: Arc<dyn Fabric> = Arc::new(network.join(id).expect("a machine"));
            let machines = (&initial_members, &machines);
            fabric.set_members(&all).expect("a member");
            let last = fencepost_cluster::ConfigurationId(self.stored);
            let stored = match self.forgets {
                true => StoreState::Forgotten,
                false => StoreState::Last(last),
            };
            let begun = Beginning::open(contents, &fabric, machines, self.taken_back, stored);
            beginning.push((id, fabric, begun.expect("it shows what it has")));
        }
        let mut found: Vec<(MachineId, Arc<dyn Fabric>, Arc<DiskStart>)> = Vec::new();
        let mut rounds = 0;
        while !beginning.is_empty() {
            beginning.retain_mut(|(id, fabric, begun)| match begun.look() {
                Ok(None) => true,
                Ok(Some(on_disk)) => {
                    found.push((*id, Arc::clone(fabric), on_disk));
                    false
                }
                Err(StateExchangeError::Stale(_)) => false,
                Err(other) => panic!("m{}: {other}", id.0),
            });
            rounds += 1;
            if rounds > 1000 {
                return None;
            }
        }
        let configuration = found.first()?.2.configuration().clone();
        assert!(configuration.id().0 > self.stored);
        let ground = SharedEnvironment::of(network, &configuration, self.replicas);
        let open = |(id, fabric, on_disk): (MachineId, Arc<dyn Fabric>, Arc<DiskStart>)| {
            let members = members(on_disk.configuration());
            fabric.set_members(&members).expect("a member");
            assert_eq!(on_disk.configuration(), &configuration);
            (id.0, ground.open(fabric, on_disk))
        };
        let machines = found.into_iter().map(open).collect();
        Some(World::of(ground, machines))
    }
}
