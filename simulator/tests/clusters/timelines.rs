//! Machines record the times of the steps of a reconfiguration, and the steps are in order.

use fencepost_fabric::{MachineId, Random};
use fencepost_simulator::plan::{Plan, terms};
use fencepost_txn::network::{Step, Timeline};

use crate::driven::with;

const MS: u64 = 1_000_000;

fn plan(seed: u64, machines: u32) -> Plan {
    Plan {
        machines,
        hosts: 1,
        replicas: 2,
        leases: terms(10),
        replaces: true,
        ..Plan::draw(seed)
    }
}

/// Returns all times of a step, in order.
fn times(timelines: &[Timeline], step: Step) -> Vec<u64> {
    let mut times: Vec<u64> = timelines.iter().filter_map(|one| one.at_ns(step)).collect();
    times.sort_unstable();
    times
}

fn check(timelines: &[Timeline], crashed: u64, seed: u64) {
    let all = |step| {
        let times = times(timelines, step);
        assert_eq!(times.len(), timelines.len(), "seed {seed}: {step:?}");
        (times[0], times[times.len() - 1])
    };
    for timeline in timelines {
        assert_eq!(timeline.configuration, Some(2), "seed {seed}");
        // Other machines may have begun before this machine had a suspicion.
        let steps = Step::ALL.into_iter().skip(1);
        let steps: Vec<_> = steps.filter_map(|step| timeline.at_ns(step)).collect();
        assert!(steps.is_sorted(), "seed {seed}: {timeline:?}");
        let copies = [Step::DataRecovery, Step::Whole].map(|step| timeline.at_ns(step).is_some());
        assert_eq!(copies[0], copies[1], "seed {seed}: {timeline:?}");
    }
    let suspected = times(timelines, Step::Suspect);
    let stored = times(timelines, Step::Store);
    assert_eq!(stored.len(), 1, "seed {seed}: one has won");
    assert!(suspected[0] > crashed, "seed {seed}");
    // No machine takes a step before the steps that it must wait for.
    let in_order = [
        suspected[0],
        stored[0],
        all(Step::Apply).1,
        all(Step::Commit).0,
    ];
    assert!(in_order.is_sorted(), "seed {seed}: {in_order:?}");
    assert!(all(Step::Probe).0 <= stored[0], "seed {seed}");
    assert!(
        all(Step::Active).1 <= all(Step::AllActive).0,
        "seed {seed}: {timelines:?}"
    );
}

#[test]
fn reconfiguration_steps_are_recorded_in_order() {
    for seed in 0..20 {
        let machines = 3 + (seed % 3) as u32;
        with(&plan(seed, machines), move |world| async move {
            let mut random = Random::new(seed);
            world.sim.nap(random.below(20 * MS)).await;
            assert!(world.machines.iter().all(|m| m.timelines().is_empty()));
            let lost = 1 + random.below(machines.into()) as u32;
            let crashed = world.sim.now_ns();
            world.sim.net().crash(MachineId(lost));
            let mut survivors = world.machines.clone();
            survivors.remove(lost as usize - 1);
            let last = || -> Vec<Timeline> {
                let lasts = survivors.iter().map(|m| m.timelines().pop());
                lasts.flatten().collect()
            };
            let all_active = |one: &Timeline| one.at_ns(Step::AllActive).is_some();
            let over = || {
                let last = last();
                last.len() == survivors.len()
                    && last.iter().all(all_active)
                    && survivors.iter().all(|machine| !machine.lacks_data())
            };
            world.until(over).await;
            check(&last(), crashed, seed);
            // The only region has replicas on the first two machines.
            let copied = !times(&last(), Step::Whole).is_empty();
            assert_eq!(copied, lost <= 2, "seed {seed}: {:?}", last());
        });
    }
}
