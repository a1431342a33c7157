//! Machines that fail are replaced: the others agree on a configuration without them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{MachineId, Random};
use fencepost_simulator::cluster::Cluster;
use fencepost_simulator::plan::{Plan, terms};
use fencepost_simulator::sim::Sim;
use fencepost_txn::Machine;

const MS: u64 = 1_000_000;
const LEASE_MS: u64 = 10;

struct World {
    machines: Vec<Arc<Machine>>,
    sim: Sim,
}

impl World {
    async fn until(&self, mut so: impl FnMut() -> bool) {
        while !so() {
            self.sim.nap(10_000).await;
        }
    }

    /// Whether a machine is in a configuration of `others` numbered `id`, which is in force.
    fn acts_in(&self, at: usize, id: u64, others: &[u32]) -> bool {
        let machine = &self.machines[at];
        let members = machine.members();
        let numbers = members.machines.iter().map(|machine| machine.id);
        members.configuration == id && numbers.eq(others.iter().copied()) && machine.is_answering()
    }
}

fn with<T: Future<Output = ()> + 'static>(
    plan: &Plan,
    task: impl FnOnce(World) -> T + 'static,
) -> u64 {
    let mut cluster = Cluster::start(plan).expect("starts");
    let done = Rc::new(Cell::new(false));
    let ended = Rc::clone(&done);
    let world = World {
        machines: cluster.machines.clone(),
        sim: cluster.sim.clone(),
    };
    cluster.executor.spawn("the test".into(), async move {
        for machine in &world.machines {
            while !machine.is_complete().await {
                world.sim.nap(100_000).await;
            }
        }
        let all = || world.machines.iter().all(|machine| machine.holds_lease());
        world.until(all).await;
        task(world).await;
        ended.set(true);
    });
    if let Err(halted) = cluster.executor.run() {
        panic!("seed {}: {halted}", plan.seed);
    }
    assert!(done.get());
    cluster.sim.net().trace()
}

fn plan(seed: u64, machines: u32) -> Plan {
    Plan {
        machines,
        hosts: 1,
        replicas: 2,
        leases: terms(LEASE_MS),
        replaces: true,
        ..Plan::draw(seed)
    }
}

#[test]
fn whoever_crashes_is_out_of_the_next_configuration() {
    for seed in 0..30 {
        let machines = 3 + (seed % 3) as u32;
        with(&plan(seed, machines), move |world| async move {
            let mut random = Random::new(seed);
            world.sim.nap(random.below(20 * MS)).await;
            let lost = 1 + random.below(machines.into()) as u32;
            world.sim.net().crash(MachineId(lost));
            let others: Vec<u32> = (1..=machines).filter(|at| *at != lost).collect();
            let acts = || {
                let at = |number: &u32| *number as usize - 1;
                others
                    .iter()
                    .all(|number| world.acts_in(at(number), 2, &others))
            };
            world.until(acts).await;
            world.sim.nap(50 * MS).await;
            assert!(acts(), "seed {seed}: they stay in it");
            let lost = &world.machines[lost as usize - 1];
            assert!(!lost.is_answering(), "seed {seed}");
        });
    }
}
