//! The machines of a run, over one simulated network.

use std::sync::Arc;

use fencepost_fabric::{Fabric, MachineId, Member, Random, SimNet};
use fencepost_txn::network::{NetworkOptions, Placement};
use fencepost_txn::{Machine, MachineOptions};

use crate::executor::Executor;
use crate::plan::Plan;
use crate::sim::Sim;

/// The least that a region may be.
const REGION_BYTES: usize = 16 << 20;
/// Lanes of the allocator: clients of a machine may share one.
const LANES: usize = 2;

/// Bytes of old versions of which readers of the past soon have not enough.
const FEW_OLD_VERSIONS: u64 = 1 << 20;
/// Bytes of old versions that are enough for any run.
const MANY_OLD_VERSIONS: u64 = 1 << 28;

/// A cluster that a plan asked for.
pub struct Cluster {
    /// Its world.
    pub sim: Sim,
    /// What runs it.
    pub executor: Executor,
    /// Its machines.
    pub machines: Vec<Arc<Machine>>,
}

impl Cluster {
    /// Makes the machines, which are each other's members.
    ///
    /// # Errors
    /// Why one did not start.
    pub fn start(plan: &Plan) -> Result<Cluster, String> {
        let mut random = Random::new(plan.seed ^ 0xC1_05_7E_12);
        let net = SimNet::new(random.next_u64(), plan.net.clone());
        let sim = Sim::new(net.clone());
        let mut executor = Executor::new(sim.clone(), plan.pace, random);
        let ids: Vec<_> = (1..=plan.machines).map(MachineId).collect();
        let members = ids.iter().map(|id| Member {
            id: *id,
            address: String::new(),
        });
        let members: Vec<_> = members.collect();
        let mut machines = Vec::new();
        for id in &ids {
            let fabric = net.join(*id).map_err(|error| error.to_string())?;
            fabric
                .set_members(&members)
                .map_err(|error| error.to_string())?;
            let network = NetworkOptions {
                fabric: Arc::new(fabric),
                configuration: 1,
                placement: Placement::new(ids.clone(), plan.replicas),
                log_words: plan.log_words,
                clock: Arc::new(net.clone()),
                driven: true,
            };
            let options = MachineOptions {
                region_bytes: REGION_BYTES,
                lanes: LANES,
                old_version_limit: if plan.few_old_versions {
                    FEW_OLD_VERSIONS
                } else {
                    MANY_OLD_VERSIONS
                },
                network: Some(network),
                ..MachineOptions::default()
            };
            let machine = Machine::open(options).map_err(|error| error.to_string())?;
            let driven = Arc::clone(&machine);
            executor.add_machine(*id, Box::new(move || driven.drive()));
            machines.push(machine);
        }
        Ok(Cluster {
            sim,
            executor,
            machines,
        })
    }
}
