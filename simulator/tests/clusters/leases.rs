//! Machines with leases, one of which crashes, is paused or is cut off.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{MachineId, Nic};
use fencepost_simulator::plan::{Plan, terms};
use fencepost_txn::network::LeaseCounts;

use crate::driven::World;

const MS: u64 = 1_000_000;
const LEASE_MS: u64 = 10;
const THIRD: MachineId = MachineId(3);

impl World {
    fn counts(&self, at: usize) -> LeaseCounts {
        self.machines[at].lease_counts().expect("it has leases")
    }

    /// Returns the machines that suspect others, with the suspected machines.
    fn suspicions(&self) -> Vec<(u32, Vec<u32>)> {
        let all = self.machines.iter().enumerate();
        let suspected = all.map(|(at, machine)| (machine.number(), self.counts(at).suspected));
        suspected.filter(|(_, some)| !some.is_empty()).collect()
    }
}

/// Runs a task on three machines of a seed, on as many hosts, none of which is replaced.
fn with_three<T: Future<Output = ()> + 'static>(
    seed: u64,
    task: impl FnOnce(World) -> T + 'static,
) -> u64 {
    let plan = Plan {
        machines: 3,
        hosts: 3,
        replicas: 2,
        leases: terms(LEASE_MS),
        replaces: false,
        ..Plan::draw(seed)
    };
    crate::driven::with(&plan, task)
}

#[test]
fn crashed_machine_is_suspected_by_cm_after_lease_expiry() {
    for seed in 0..20 {
        with_three(seed, move |world| async move {
            world.sim.nap(seed * 777_777).await;
            world.sim.net().crash(THIRD);
            let third = Arc::clone(&world.machines[2]);
            world.until(|| !third.holds_lease()).await;
            // The executor checks LEASE-1 after each drive of the manager.
            let rest = world.until(|| world.counts(0).expired > 0).await;
            assert!(rest < 2 * LEASE_MS * MS, "seed {seed}: {rest}");
            world.sim.nap(3 * LEASE_MS * MS).await;
            let others = world.counts(0).suspected == [3] && world.counts(1).expired == 0;
            assert!(others, "seed {seed}: {:?}", world.suspicions());
            let hold = world.machines[..2].iter().all(|m| m.holds_lease());
            assert!(hold, "the others go on");
        });
    }
}

#[test]
fn crashed_cm_is_suspected_by_all() {
    for seed in 0..10 {
        with_three(seed, move |world| async move {
            world.sim.net().crash(MachineId(1));
            world
                .until(|| (1..3).all(|at| world.counts(at).suspected == [1]))
                .await;
            assert!((1..3).all(|at| !world.machines[at].holds_lease()));
        });
    }
}

#[test]
fn partitioned_machine_regains_its_lease() {
    for seed in 0..10 {
        with_three(seed, move |world| async move {
            let net = world.sim.net().clone();
            for (from, to) in [(1, 3), (3, 1)] {
                net.cut(MachineId(from), MachineId(to));
            }
            world.until(|| world.counts(0).suspected == [3]).await;
            world.until(|| world.counts(2).suspected == [1]).await;
            assert!(!world.machines[2].holds_lease());
            for (from, to) in [(1, 3), (3, 1)] {
                net.heal(MachineId(from), MachineId(to));
            }
            world.until(|| world.suspicions().is_empty()).await;
            world.until(|| world.machines[2].holds_lease()).await;
            let counts = world.counts(0);
            assert_eq!((counts.expired, counts.returned), (1, 1), "seed {seed}");
        });
    }
}

#[test]
fn agent_pause_shorter_than_lease_causes_no_suspicion() {
    for seed in 0..10 {
        with_three(seed, move |world| async move {
            let net = world.sim.net().clone();
            for _ in 0..5 {
                net.pause(THIRD, Nic::Stands);
                world.sim.nap(LEASE_MS * MS / 2).await;
                net.resume(THIRD);
                world.sim.nap(LEASE_MS * MS).await;
            }
            assert_eq!(world.suspicions(), [], "seed {seed}");
            assert!(world.machines.iter().all(|machine| machine.holds_lease()));
        });
    }
}

#[test]
fn same_seed_with_leases_and_crash_gives_identical_history() {
    let run = |seed| {
        let counts: Rc<RefCell<Vec<_>>> = Rc::default();
        let seen = Rc::clone(&counts);
        let trace = with_three(seed, move |world| async move {
            world.sim.nap(5 * MS).await;
            world.sim.net().crash(THIRD);
            world.sim.nap(50 * MS).await;
            seen.borrow_mut().extend((0..3).map(|at| world.counts(at)));
        });
        (trace, counts.take())
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed));
        assert_ne!(run(seed).0, run(seed + 1).0);
    }
}
