//! Machines that keep their data on disks and replace failed ones: one of them fails, then all lose
//! power, at any point.
//!
//! Their time is simulated and advances at each step, so that leases expire after a number of
//! steps. Each copy of the disks is stored with the results that had been reported to clients. In a
//! copy, unsynced bytes are lost.

pub mod comes_back;
mod disks;
mod environment;
mod join;
mod left_in_memory;
mod stalls;
mod start;
mod world;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fencepost_fabric::random::Random;
use fencepost_fabric::{CrashLoss, DiskOp, MonotonicClock, SimDisk};
use fencepost_txn::network::Mapping;
use fencepost_txn::network::disk::ReadmitPolicy;
use fencepost_txn::{Addr, MachineId, Outcome};

use crate::{LONG, SHORT};
use disks::{Disks, MACHINES};
use environment::LEASE;
use world::{ValueKnowledge, World, poll, write};

fn objects(world: &World) -> Vec<Addr> {
    let of = |id: u32| [SHORT, LONG, LONG].map(|words| world.object(id, words, 1));
    (1..=MACHINES).flat_map(of).collect()
}

/// Checks that the disks agree with the clients' knowledge, and that the machines continue. If
/// `further`, checks the same after another power failure.
fn holds(left: &Disks, known: ValueKnowledge, objects: &[Addr], further: bool) {
    let world = left.begin();
    let value = world.value(objects);
    assert!(
        value >= known.least && Some(value) != known.never,
        "{value} {known:?}"
    );
    world.check();
    if further {
        let by = *world.machines.keys().next().expect("machines");
        world.set(by, objects, 100);
        let again = Disks {
            stored: world.configuration().id().0,
            ..left.left(CrashLoss::All)
        };
        drop(world);
        let world = again.begin();
        assert_eq!(world.value(objects), 100);
        world.check();
    }
}

/// A machine fails at some step of a commit, its own or another's. Power fails at any time until
/// all replicas are complete again, and after that.
#[test]
fn reported_commits_survive_machine_failure_then_power_loss() {
    let seeds = std::env::var("SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    (0..seeds.unwrap_or(10)).for_each(one_fails_and_then_all);
}

/// Runs the test for one seed.
pub fn one_fails_and_then_all(seed: u64) {
    let mut random = Random::new(seed);
    let replicas = 2 + (seed % 2) as usize;
    let lost = 1 + random.below(3) as u32;
    let own = seed.is_multiple_of(3);
    let by = match own {
        true => lost,
        false => 1 + (lost + random.below(2) as u32) % 3,
    };
    let disks = Disks::new(replicas);
    let mut world = disks.begin();
    let objects = objects(&world);
    world.rest();
    let slow = &disks.disks[random.below(3) as usize];
    slow.set_sync_delay(Duration::from_millis(random.below(4)));
    world.watch(&disks);
    world.know(1, None);
    let machine = Arc::clone(&world.machines[&by]);
    let named = objects.clone();
    let mut commit = Box::pin(async move { write(&machine, &named, 2).await });
    let mut done = None;
    for _ in 0..random.below(60) {
        if let Poll::Ready(outcome) = poll(commit.as_mut()) {
            done = Some(outcome);
            break;
        }
        world.drive();
    }
    world.dead.borrow_mut().insert(lost);
    if by != lost && done.is_none() {
        done = Some(world.run(commit.as_mut()));
    }
    match done {
        Some(Ok(Outcome::Committed(_))) => world.know(2, None),
        Some(Ok(_)) => world.know(1, Some(2)),
        // Its process would not have run the destructor.
        _ => std::mem::forget(commit),
    }
    world.lose(lost);
    let value = world.value(&objects);
    let known = world.known.get();
    assert!(
        value >= known.least && Some(value) != known.never,
        "{value} {known:?}"
    );
    world.know(value, None);
    let other = 1 + lost % 3;
    world.set(other, &objects, 3);
    world.check();
    world.take(CrashLoss::All);
    let taken = world.taken.take();
    drop(world);
    let count = taken.len();
    for (at, (left, known)) in taken.iter().enumerate() {
        if at + 1 == count || random.below(count as u64) < 14 {
            holds(left, *known, &objects, at % 3 == 0);
        }
    }
    println!("seed {seed}: m{lost} lost, m{by} commits, {replicas} replicas, {count} copies");
}

/// An evicted machine is told so. The others do not wait for it, but do not start without any other
/// member.
#[test]
pub fn evicted_machine_is_stale_at_restart() {
    let disks = Disks::new(3);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.lose(3);
    world.set(1, &objects, 2);
    let left = disks.left(CrashLoss::All);
    drop(world);
    for those in [&[1, 2][..], &[1, 2, 3]] {
        let world = left
            .left(CrashLoss::All)
            .begin_machines(those)
            .expect("they begin");
        assert_eq!(world.machines.len(), 2);
        assert_eq!(world.value(&objects), 2);
        world.check();
    }
    for those in [&[1, 3][..], &[2, 3], &[3], &[1]] {
        assert!(left.left(CrashLoss::All).begin_machines(those).is_none());
    }
}

/// No configuration is made in which a region is lost although a disk has it: all wait until the
/// machine returns.
#[test]
pub fn no_region_is_given_up_that_a_disk_has() {
    let disks = Disks::new(1);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.dead.borrow_mut().insert(2);
    let before = world.time.now_ns();
    while world.time.now_ns() < before + 20 * LEASE.as_nanos() as u64 {
        world.drive();
    }
    assert_eq!(world.configuration().id().0, 1);
    assert!(world.all(|machine| !machine.is_answering()));
    let left = disks.left(CrashLoss::All);
    drop(world);
    assert!(left.left(CrashLoss::All).begin_machines(&[1, 3]).is_none());
    let world = left.begin();
    assert_eq!(world.value(&objects), 1);
    world.check();
}

/// A machine with a failed disk counts as failed.
#[test]
fn failed_disk_evicts_its_machine() {
    let disks = Disks::new(3);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    disks.disks[1].fail_nth(DiskOp::Sync, 1);
    let machine = Arc::clone(&world.machines[&1]);
    let _ = world.run(write(&machine, &objects, 2));
    world.lose(2);
    let value = world.value(&objects);
    world.set(3, &objects, 3);
    assert!(value == 1 || value == 2);
    let left = disks.left(CrashLoss::All);
    drop(world);
    let world = left.begin();
    assert_eq!(world.value(&objects), 3);
    world.check();
}

/// An evicted machine is taken back when all start again, if all have the option to do so. It has
/// no data then, and gets a replica of each region that lacks one.
#[test]
pub fn readmitted_machine_restarts_without_data() {
    for (replicas, lost) in [(2, 2), (3, 1), (2, 3)] {
        let disks = Disks::new(replicas);
        let world = disks.begin();
        let objects = objects(&world);
        world.rest();
        world.lose(lost);
        let others: Vec<u32> = (1..=MACHINES).filter(|id| *id != lost).collect();
        world.set(others[0], &objects, 2);
        let mut left = disks.left(CrashLoss::All);
        drop(world);
        left.taken_back = ReadmitPolicy::All;
        assert!(left.left(CrashLoss::All).begin_machines(&others).is_none());
        let world = left.begin();
        assert_eq!(world.machines.len(), 3);
        assert_eq!(world.value(&objects), 2);
        let all_have = || {
            let machine = &world.machines[&others[0]];
            let regions = world.run(machine.all_regions()).expect("is told");
            let full = |mapping: &Mapping| mapping.replicas.count() == replicas;
            regions.iter().all(full) && world.all(|machine| !machine.lacks_data())
        };
        world.until("all has its replicas", all_have);
        world.set(lost, &objects, 3);
        world.check();
        let left = Disks {
            stored: world.configuration().id().0,
            ..left.left(CrashLoss::All)
        };
        drop(world);
        let world = left.begin();
        assert_eq!(world.value(&objects), 3);
        // Another machine fails, and no data is lost.
        world.lose(others[1]);
        assert_eq!(world.value(&objects), 3);
        world.set(lost, &objects, 4);
        world.check();
    }
}

/// A machine leaves in good order: by then its data is on the disks of others, and its own disk is
/// stale.
#[test]
fn data_of_departed_machine_is_on_other_disks() {
    let disks = Disks::new(2);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    let leaves = Arc::clone(&world.machines[&3]);
    leaves.ask_to_leave(MachineId(3));
    let parts = || {
        world.machines[&1].ask_to_part_with(MachineId(3));
        leaves.is_to_part()
    };
    world.until("it has nothing any more", parts);
    world.set(2, &objects, 2);
    let left = || {
        leaves.ask_to_part_with(MachineId(3));
        leaves.has_left()
    };
    world.until("it has left", left);
    world.dead.borrow_mut().insert(3);
    world.set(1, &objects, 3);
    world.check();
    let left = disks.left(CrashLoss::All);
    drop(world);
    let world = left.begin();
    assert_eq!(world.machines.len(), 2);
    assert_eq!(world.value(&objects), 3);
    world.check();
}

/// Power fails while machines start again, one of which is taken back with an empty disk.
#[test]
fn machine_may_be_readmitted_repeatedly() {
    let disks = Disks::new(2);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.lose(3);
    let mut left = disks.left(CrashLoss::All);
    drop(world);
    left.taken_back = ReadmitPolicy::All;
    left.disks[2] = SimDisk::new(9);
    let behind = left.left(CrashLoss::All);
    drop(left.begin());
    for ahead in 0..3 {
        let disk = |at: usize| match at == ahead {
            true => left.disks[at].fork(),
            false => behind.disks[at].fork(),
        };
        let mixed = Disks {
            disks: (0..3).map(disk).collect(),
            stored: 3,
            ..left
        };
        let world = mixed.left(CrashLoss::All).begin();
        assert_eq!(world.machines.len(), 3);
        assert_eq!(world.value(&objects), 1);
        world.check();
    }
}
