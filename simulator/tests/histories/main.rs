//! Concurrent histories of many threads, on one machine and on several machines over real fabrics,
//! checked for strict serializability.

mod elsewhere;
mod kind;
mod leases;
mod placed;
mod severed;
mod world;

use std::sync::atomic::Ordering;

use fencepost_simulator::checker::check;
use fencepost_simulator::history::ObservedTransaction;
use fencepost_simulator::snapshots::check_snapshots;
use fencepost_txn::{Mode, ObjectLocation, Outcome, Stop};
use kind::Kind;
use pollster::block_on;
use world::{Clocks, World};

#[test]
fn random_histories_of_many_threads_are_strictly_serializable() {
    for (objects, threads, each) in [(2, 4, 1500), (10, 8, 1500), (200, 6, 1500)] {
        let world = World::alone(objects);
        run(&world, threads, each);
        let commits = world.machines[0].counters().totals();
        let committed = commits.committed_writes + commits.committed_reads;
        assert!(committed > objects as u64 + 100);
    }
}

#[test]
fn random_histories_of_several_machines_are_strictly_serializable() {
    let local = [(2, 1, 6), (3, 1, 20), (3, 2, 6), (3, 3, 60)].map(|shape| (Kind::Local, shape));
    let shm = [(3, 1, 20), (3, 3, 6)].map(|shape| (Kind::Shm, shape));
    let tcp = [(2, 1, 6), (3, 1, 20), (3, 3, 6)].map(|shape| (Kind::Tcp, shape));
    for (kind, (machines, replicas, objects)) in local.into_iter().chain(shm).chain(tcp) {
        let world = World::over(kind, machines, replicas, objects);
        run(&world, 6, 400);
        world.wait_until_idle();
    }
}

#[test]
fn histories_with_separate_clocks_are_strictly_serializable() {
    let shapes = [
        (Kind::Local, (3, 1), 6),
        (Kind::Shm, (3, 3), 20),
        (Kind::Tcp, (3, 2), 6),
    ];
    for (kind, shape, objects) in shapes {
        let world = World::with(Clocks::Apart, kind, shape, objects);
        run(&world, 6, 300);
        world.wait_until_idle();
        for (at, machine) in world.machines.iter().enumerate() {
            let state = machine.clock_state();
            assert_eq!((state.exchanges > 0, state.breaks), (at > 0, 0));
        }
    }
}

/// Runs random transactions in threads on all machines, and checks their history.
fn run(world: &World, threads: u64, each: usize) {
    let mut history: Vec<ObservedTransaction> = std::thread::scope(|scope| {
        let run = |seed: u64| {
            scope.spawn(move || {
                let mut coordinator = world.machine(seed as usize).coordinator();
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                (0..each)
                    .filter_map(|_| world.attempt(&mut coordinator, &mut random))
                    .collect::<Vec<_>>()
            })
        };
        let handles: Vec<_> = (1..=threads).map(run).collect();
        handles
            .into_iter()
            .flat_map(|h| h.join().expect("no panic"))
            .collect()
    });
    history.sort_by_key(|t| t.began);
    let commits = history.len();
    assert!(commits > 100, "too few commits to mean anything: {commits}");
    check(&history).expect("strictly serializable");
    check_snapshots(&history).expect("in the order of timestamps");
}

#[test]
fn every_snapshot_adds_up() {
    add_up(&World::alone(20), 2000);
}

#[test]
fn every_snapshot_of_several_machines_adds_up() {
    for (kind, replicas) in [
        (Kind::Local, 1),
        (Kind::Local, 3),
        (Kind::Shm, 3),
        (Kind::Tcp, 3),
    ] {
        let world = World::over(kind, 3, replicas, 20);
        // Each access to an object costs a round trip over connections.
        let sums = if matches!(kind, Kind::Tcp) { 100 } else { 2000 };
        add_up(&world, sums);
        world.wait_until_idle();
    }
}

#[test]
fn transaction_larger_than_log_is_replicated() {
    const OBJECTS: u64 = 2000;
    let world = World::over(Kind::Local, 3, 3, 0);
    for machine in &world.machines {
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        let new: Vec<_> = (0..OBJECTS)
            .map(|_| block_on(tx.alloc(20, ObjectLocation::Own)).expect("memory"))
            .collect();
        for (number, object) in new.iter().enumerate() {
            tx.write_new(*object, &[number as u64; 20]).expect("new");
        }
        let outcome = block_on(tx.commit());
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    }
    world.wait_until_idle();
    assert_eq!(
        world.machines[0].inventory().objects.len() as u64,
        OBJECTS + 1
    );
}

/// Runs transfers between accounts while readers add up all balances. Every reader sees the same
/// total, even one that aborts later.
fn add_up(world: &World, sums: usize) {
    const ACCOUNTS: usize = 20;
    assert_eq!(world.objects.len(), ACCOUNTS);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sum = |tx: &mut fencepost_txn::Transaction| -> Result<u64, Stop> {
        let mut words = Vec::new();
        let mut sum = 0u64;
        for addr in &world.objects {
            block_on(tx.read(*addr, &mut words))?;
            sum = sum.wrapping_add(words[0]);
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let stop = &stop;
            scope.spawn(move || {
                let mut coordinator = world.machine(seed as usize).coordinator();
                let mut n = seed;
                let mut words = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                    let (from, to) = ((n >> 33) as usize % ACCOUNTS, (n >> 43) as usize % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    let mut tx = coordinator.begin(Mode::ReadWrite);
                    let mut transfer = || -> Result<(), Stop> {
                        for (account, delta) in [(from, 1u64.wrapping_neg()), (to, 1)] {
                            block_on(tx.read(world.objects[account], &mut words))?;
                            block_on(
                                tx.write(world.objects[account], &[words[0].wrapping_add(delta)]),
                            )?;
                        }
                        Ok(())
                    };
                    if transfer().is_ok() {
                        let _ = block_on(tx.commit());
                    }
                }
            });
        }
        for (at, mode) in [Mode::ReadOnly, Mode::ReadWrite].into_iter().enumerate() {
            let mut coordinator = world.machine(at).coordinator();
            for _ in 0..sums {
                let mut tx = coordinator.begin(mode);
                if let Ok(sum) = sum(&mut tx) {
                    assert_eq!(sum, 0, "money appeared or vanished in a {mode:?} snapshot");
                } else {
                    assert_eq!(
                        mode,
                        Mode::ReadWrite,
                        "a read-only transaction never aborts"
                    );
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
