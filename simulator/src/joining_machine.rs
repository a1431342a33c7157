//! A machine that joins while clients are active, and then has its own client.
//!
//! It sends its join request through the cluster's join endpoint until it is admitted. While the
//! configuration is being changed it is refused, and tries again. Once it is a member it is driven
//! as all other machines are.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_cluster::join::{
    DurableData, JoinOutcome, JoinRefusal, JoinRequest, NotAdmitted, PROTOCOL_VERSION,
};
use fencepost_cluster::{Address, FailureDomain};
use fencepost_fabric::{MachineId, Random};
use fencepost_txn::Machine;
use fencepost_txn::network::Configuration;

use crate::cluster::{MachineCell, RunEnvironment};
use crate::crash_state::CrashState;
use crate::executor::Executor;
use crate::sim::Sim;
use crate::workload::Client;

/// The interval at which it looks for an answer.
const LOOK_NS: u64 = 1_000_000;
/// The number of looks before it tries again.
const LOOKS: u64 = 200;
/// The largest number of incarnations: the others may evict it before it has completed the join.
pub const INCARNATIONS_MAX: u32 = 8;

/// The joining machine, with all of its incarnations.
pub struct JoiningMachine(Vec<MachineIncarnation>);

#[derive(Clone)]
struct MachineIncarnation {
    id: MachineId,
    place: MachineCell,
    crash_state: CrashState,
}

impl JoiningMachine {
    /// Makes a machine join after `after_ns`, and then runs `client` there.
    pub fn come(
        ground: &RunEnvironment,
        (sim, executor): (&Sim, &mut Executor),
        after_ns: u64,
        client: Client,
    ) -> JoiningMachine {
        let incarnation = |at| {
            let id = MachineId(1 + client.plan.machines + at);
            MachineIncarnation {
                id,
                place: MachineCell::default(),
                crash_state: ground.crash_state(id),
            }
        };
        let incarnations: Vec<MachineIncarnation> =
            (0..INCARNATIONS_MAX).map(incarnation).collect();
        for MachineIncarnation { id, place, .. } in &incarnations {
            let driven = (*id, Rc::clone(place));
            ground.drive((sim, executor), driven, |_| None);
        }
        let joins = JoinPlan {
            ground: ground.clone(),
            sim: sim.clone(),
            incarnations: incarnations.clone(),
            random: Random::new(client.plan.seed ^ 0xD00F),
        };
        executor.spawn("the joining machine".into(), joins.run(after_ns, client));
        JoiningMachine(incarnations)
    }

    /// Returns the machine in each of its incarnations so far.
    pub fn machines(&self) -> impl Iterator<Item = (Arc<Machine>, CrashState)> {
        let running = |incarnation: &MachineIncarnation| {
            Some((
                incarnation.place.get()?.clone(),
                incarnation.crash_state.clone(),
            ))
        };
        self.0.iter().filter_map(running)
    }

    /// Reports an error if the machine has no replicas.
    pub fn has_become_replica(&self, sim: &Sim) -> impl Future<Output = ()> + use<> {
        let (sim, last) = (sim.clone(), self.machines().last());
        async move {
            let Some((machine, _)) = last else {
                return sim.report("no machine has joined".into());
            };
            let id = MachineId(machine.number());
            let regions = machine.all_regions().await;
            let mut held = regions.iter().flatten();
            if !held.any(|mapping| mapping.replicas.has(id)) {
                sim.report(format!("{id} is no replica of any of {regions:?}"));
            }
        }
    }
}

struct JoinPlan {
    ground: RunEnvironment,
    sim: Sim,
    incarnations: Vec<MachineIncarnation>,
    random: Random,
}

impl JoinPlan {
    async fn run(mut self, after_ns: u64, mut client: Client) {
        self.sim.nap(after_ns).await;
        (client.machine.1, client.crash_state) = loop {
            match self.join().await {
                Ok(Some(joined)) => break joined,
                Ok(None) => {}
                Err(why) => return self.sim.report(format!("it cannot join: {why}")),
            }
        };
        client.run().await;
    }

    /// Joins; returns `None` if the machine was evicted before it had completed the join.
    async fn join(&mut self) -> Result<Option<(Arc<Machine>, CrashState)>, String> {
        let admitted = self.admitted().await.map_err(|error| error.to_string())?;
        let (id, configuration) = admitted;
        let mut incarnations = self.incarnations.iter();
        let incarnation = incarnations
            .find(|incarnation| incarnation.id == id)
            .ok_or("out of incarnations")?;
        let machine = self.ground.open(id, &configuration, true)?;
        let machine = incarnation.place.get_or_init(|| machine);
        while !machine.is_complete().await {
            // After its eviction no machine may be left that would tell it.
            if !self.ground.counts(id) {
                incarnation.crash_state.crash();
                return Ok(None);
            }
            self.sim.nap(10_000).await;
        }
        Ok(Some((Arc::clone(machine), incarnation.crash_state.clone())))
    }

    /// Sends join requests until the machine is admitted.
    async fn admitted(&mut self) -> Result<(MachineId, Configuration), NotAdmitted> {
        let request = JoinRequest {
            version: PROTOCOL_VERSION,
            cluster: None,
            address: Address::new("joining").expect("a name"),
            domain: FailureDomain::new("joining").expect("a name"),
            keeps: DurableData::Nothing,
        };
        loop {
            let mut attempt = self
                .ground
                .endpoint
                .begin_join(request.clone(), &mut self.random)?;
            for _ in 0..LOOKS {
                match attempt.hear() {
                    Ok(Some(JoinOutcome::Joined(id, configuration))) => {
                        return Ok((id, configuration));
                    }
                    // No machine of a run has a disk.
                    Ok(Some(JoinOutcome::Offered(_)) | None) => {}
                    Err(NotAdmitted::Refused(JoinRefusal::Busy | JoinRefusal::AddressInUse)) => {
                        break;
                    }
                    Err(other) => return Err(other),
                }
                self.sim.nap(LOOK_NS).await;
            }
        }
    }
}
