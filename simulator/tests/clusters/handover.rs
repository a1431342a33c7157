//! The cluster's time when its manager fails and all machines have their own clocks: the time
//! continues above all earlier times.

use fencepost_fabric::{MachineId, Random};
use fencepost_simulator::plan::{Plan, terms};
use fencepost_txn::{Mode, ObjectLocation, Outcome, Timestamp};

use crate::driven::{World, with};

const MS: u64 = 1_000_000;

/// Returns a plan of machines on as many hosts.
fn plan(seed: u64, machines: u32) -> Plan {
    Plan {
        machines,
        hosts: machines,
        replicas: 2,
        leases: terms(10),
        replaces: true,
        ..Plan::draw(seed)
    }
}

/// Commits a transaction on a machine, with retries; returns its snapshot and its commit time.
async fn commit_at(world: &World, at: usize) -> (Timestamp, Timestamp) {
    loop {
        let mut tx = world.machines[at].coordinator().begin(Mode::ReadWrite);
        if tx.alloc(1, ObjectLocation::Own).await.is_ok() {
            let r = tx.read_timestamp();
            if let Ok(Outcome::Committed(w)) = tx.commit().await {
                return (r, w);
            }
        }
        world.sim.nap(100_000).await;
    }
}

/// Commits a transaction on each of some machines, after all earlier commits.
async fn commit_everywhere(world: &World, alive: &[usize], mut newest: Timestamp) -> Timestamp {
    for at in alive {
        let (r, w) = commit_at(world, *at).await;
        assert!(newest <= r && r < w, "m{}: {newest:?} {r:?} {w:?}", at + 1);
        newest = w;
    }
    newest
}

fn crash(world: &World, alive: &mut Vec<usize>, at: usize) {
    world.sim.net().crash(MachineId(at as u32 + 1));
    alive.retain(|other| *other != at);
}

/// Waits for the manager of the configuration with this number to answer; returns its index.
async fn next_manager(world: &World, alive: &[usize], id: u64) -> usize {
    let manager = || {
        let mut alive = alive.iter().copied();
        alive.find(|at| {
            let machine = &world.machines[*at];
            let members = machine.members();
            let manages = members.configuration == id && members.manager == members.me;
            manages && machine.is_answering()
        })
    };
    world.until(|| manager().is_some()).await;
    manager().expect("it has just been there")
}

#[test]
fn time_continues_with_clock_of_new_cm() {
    for seed in 0..25 {
        let machines = 3 + (seed % 3) as u32;
        with(&plan(seed, machines), move |world| async move {
            let mut random = Random::new(seed);
            let mut alive: Vec<usize> = (0..machines as usize).collect();
            let before = commit_everywhere(&world, &alive, Timestamp::ZERO).await;
            world.sim.nap(random.below(100 * MS)).await;
            let before = commit_everywhere(&world, &alive[..1], before).await;
            crash(&world, &mut alive, 0);
            let before = commit_everywhere(&world, &alive, before).await;
            commit_everywhere(&world, &alive, before).await;
            for at in alive {
                let state = world.machines[at].clock_state();
                assert!(state.uncertainty_ns.is_some() && state.breaks == 0);
            }
        });
    }
}

#[test]
fn failure_of_next_cm_before_any_exchange_is_survived() {
    for seed in 0..25 {
        with(&plan(seed, 5), move |world| async move {
            let mut random = Random::new(seed);
            let mut alive: Vec<usize> = (0..5).collect();
            let before = commit_everywhere(&world, &alive, Timestamp::ZERO).await;
            crash(&world, &mut alive, 0);
            let next = next_manager(&world, &alive, 2).await;
            world.sim.nap(random.below(MS)).await;
            // Its last timestamps are newer than those that any other machine has seen.
            let last = world.machines[next].now().max(before);
            crash(&world, &mut alive, next);
            next_manager(&world, &alive, 3).await;
            commit_everywhere(&world, &alive, last).await;
        });
    }
}

#[test]
fn failure_of_next_cm_before_its_activation_is_survived() {
    for seed in 0..25 {
        with(&plan(seed, 5), move |world| async move {
            let mut random = Random::new(seed);
            let mut alive: Vec<usize> = (0..5).collect();
            let before = commit_everywhere(&world, &alive, Timestamp::ZERO).await;
            crash(&world, &mut alive, 0);
            let applied = || {
                let mut alive = alive.iter().copied();
                alive.find(|at| world.machines[*at].members().configuration == 2)
            };
            world.until(|| applied().is_some()).await;
            world.sim.nap(random.below(MS)).await;
            let manager = world.machines[applied().expect("a machine applied it")]
                .members()
                .manager;
            crash(&world, &mut alive, manager as usize - 1);
            commit_everywhere(&world, &alive, before).await;
        });
    }
}
