//! Failed machines are replaced: the others agree on a configuration without them.

use fencepost_fabric::{MachineId, Random};
use fencepost_simulator::plan::{Plan, terms};

use crate::driven::{World, with};

const MS: u64 = 1_000_000;
const LEASE_MS: u64 = 10;

/// Returns whether a machine has applied configuration `id`, which is in force and consists of
/// `others`.
fn acts_in(world: &World, at: usize, id: u64, others: &[u32]) -> bool {
    let machine = &world.machines[at];
    let members = machine.members();
    let numbers = members.machines.iter().map(|machine| machine.id);
    members.configuration == id && numbers.eq(others.iter().copied()) && machine.is_answering()
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
fn crashed_machine_is_evicted() {
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
                    .all(|number| acts_in(&world, at(number), 2, &others))
            };
            world.until(acts).await;
            world.sim.nap(50 * MS).await;
            assert!(acts(), "seed {seed}: they stay in it");
            let lost = &world.machines[lost as usize - 1];
            assert!(!lost.is_answering(), "seed {seed}");
        });
    }
}

/// Checks that a query for all regions is answered, also if the question or the answer belonged to
/// the previous configuration.
#[test]
fn region_lookup_during_reconfiguration_is_answered() {
    for seed in 0..30 {
        with(&plan(seed, 3), move |world| async move {
            let mut random = Random::new(seed);
            world.sim.nap(random.below(20 * MS)).await;
            world.sim.net().crash(MachineId(3));
            while !acts_in(&world, 1, 2, &[1, 2]) {
                for at in [0, 1] {
                    let regions = world.machines[at].all_regions().await;
                    assert!(
                        regions.is_ok_and(|regions| !regions.is_empty()),
                        "seed {seed}"
                    );
                }
                world.sim.nap(random.below(100_000)).await;
            }
        });
    }
}
