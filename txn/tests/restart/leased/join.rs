//! Machines that join the running cluster.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use fencepost_cluster::join::{
    DurableData, JoinOutcome, JoinRefusal, JoinRequest, NotAdmitted, PROTOCOL_VERSION,
};
use fencepost_fabric::random::Random;
use fencepost_fabric::{CrashLoss, Fabric, MonotonicClock, SimDisk};
use fencepost_txn::network::disk::Contents;
use fencepost_txn::network::{Configuration, members};
use fencepost_txn::{Machine, MachineId};

use super::disks::MACHINES;
use super::world::World;
use crate::disk::durable;

impl World {
    /// Lets the machine at a place join the running cluster, with a disk. Returns its new number.
    pub fn join(&mut self, place: u32, disk: &SimDisk) -> u32 {
        let mut contents = Contents::read(&durable(disk)).expect("its disk");
        let (id, configuration) = loop {
            let written = contents.machine();
            match self.request_to_join(place, DurableData::Disk { written }) {
                Some(JoinOutcome::Joined(id, configuration)) => break (id, configuration),
                Some(JoinOutcome::Offered(offer)) => {
                    contents.write_down(&offer).expect("is written down");
                    self.take(CrashLoss::All);
                }
                None => {}
            }
        };
        self.take(CrashLoss::All);
        let fabric: Arc<dyn Fabric> = Arc::new(self.ground.network.join(id).expect("a machine"));
        fabric
            .set_members(&members(&configuration))
            .expect("a member");
        let machine = self
            .ground
            .open_joining(fabric, contents.joining(&configuration));
        self.has_joined(id, machine)
    }

    /// Adds a machine that was admitted.
    pub fn has_joined(&mut self, id: MachineId, machine: Arc<Machine>) -> u32 {
        assert!(self.machines.insert(id.0, Arc::clone(&machine)).is_none());
        self.until("it is there", || self.run(machine.is_complete()));
        self.until("leases", || self.all(|machine| machine.is_answering()));
        id.0
    }

    /// Sends a join request for the machine at a place; returns `None` if it must ask again.
    pub fn request_to_join(&self, place: u32, keeps: DurableData) -> Option<JoinOutcome> {
        let places = Configuration::of_process(MACHINES.max(place)).expect("machines");
        let own = places.machine(MachineId(place)).expect("a place");
        let mut random = Random::new(self.time.now_ns());
        let request = JoinRequest {
            version: PROTOCOL_VERSION,
            cluster: Some(places.cluster()),
            address: own.address.clone(),
            domain: own.domain.clone(),
            keeps,
        };
        let attempt = self
            .ground
            .endpoint
            .begin_join(request, &mut random)
            .expect("left");
        let (join_attempt, heard) = (RefCell::new(attempt), Cell::new(None));
        self.until("an answer", || {
            let answer = join_attempt.borrow_mut().hear().transpose();
            let any = answer.is_some();
            heard.set(answer);
            any
        });
        match heard.take() {
            Some(Ok(heard)) => Some(heard),
            Some(Err(NotAdmitted::Refused(JoinRefusal::Busy | JoinRefusal::AddressInUse))) => None,
            other => panic!("{other:?}"),
        }
    }
}
