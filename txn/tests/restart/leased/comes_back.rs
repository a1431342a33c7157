//! A machine returns, or joins, while the others run.

use fencepost_cluster::join::{DurableData, JoinOutcome};
use fencepost_fabric::random::Random;
use fencepost_fabric::{CrashLoss, SimDisk};
use fencepost_txn::network::disk::Contents;
use fencepost_txn::{Addr, Mode, Outcome};

use super::disks::{Disks, MACHINES};
use super::world::World;
use super::{holds, objects};
use crate::disk::durable;

/// An evicted machine returns while the others run, under a new number and without data, and gets
/// its replicas. Then another machine fails, then all, at any time since the return. No data is
/// lost.
#[test]
fn evicted_machine_rejoins_running_cluster() {
    // Also if the configuration store has lost everything when all start again.
    for (replicas, lost, forgets) in [(2, 3, false), (3, 1, false), (2, 2, true), (3, 3, true)] {
        let disks = Disks {
            forgets,
            ..Disks::new(replicas)
        };
        let mut world = disks.begin();
        let objects = objects(&world);
        world.rest();
        world.lose(lost);
        let others: Vec<u32> = (1..=MACHINES).filter(|id| *id != lost).collect();
        world.set(others[0], &objects, 2);
        drop(world.machines.remove(&lost));
        world.watch(&disks);
        world.know(2, None);
        let came = world.join(lost, &disks.disks[lost as usize - 1]);
        assert_eq!(came, 4);
        world.set(came, &objects, 3);
        world.until("all has its replicas", || world.is_whole());
        world.set(others[1], &objects, 4);
        world.check();
        world.take(CrashLoss::All);
        world.lose(others[1]);
        world.set(came, &objects, 5);
        world.check();
        world.take(CrashLoss::All);
        let taken = world.taken.take();
        drop(world);
        let (mut random, count) = (Random::new(u64::from(lost)), taken.len());
        for (at, (left, known)) in taken.iter().enumerate() {
            if at + 1 == count || random.below(count as u64) < 16 {
                holds(left, *known, &objects, at % 3 == 0);
            }
        }
        println!("m{lost} came back as m{came}, {replicas} replicas, {count} copies");
    }
}

/// A number was offered to one machine, which did not join, and then given to another. The disk of
/// the first machine does not have the other's data.
#[test]
fn machine_whose_offered_number_was_reassigned_is_stale() {
    let disks = Disks::new(3);
    let mut world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.lose(3);
    drop(world.machines.remove(&3));
    let mut offered = Contents::read(&durable(&disks.disks[2])).expect("its disk");
    let written = offered.machine();
    let Some(JoinOutcome::Offered(offer)) = world.request_to_join(3, DurableData::Disk { written })
    else {
        panic!("it was let in");
    };
    offered.write_down(&offer).expect("is written down");
    drop(offered);
    // A place that no initial member knows.
    let came = world.join(MACHINES + 1, &SimDisk::new(11));
    assert_eq!(came, offer.machine.0);
    world.until("all has its replicas", || world.is_whole());
    world.set(came, &objects, 2);
    world.check();
    let left = disks.left(CrashLoss::All);
    drop(world);
    // They wait for the machine that has the number.
    assert!(left.begin_machines(&[1, 2, 3]).is_none());
}

/// A machine returns again and again, also with an empty disk, and each time all start again with
/// it.
#[test]
fn machine_may_rejoin_repeatedly() {
    [false, true].into_iter().for_each(comes_back_again);
}

fn comes_back_again(forgets: bool) {
    let disks = Disks {
        forgets,
        ..Disks::new(2)
    };
    let mut left = Disks {
        disks: disks.disks.clone(),
        ..disks
    };
    let mut objects_of_all = Vec::new();
    let mut id = 3;
    for round in 0..3 {
        let mut world = left.begin();
        if round == 0 {
            objects_of_all = objects(&world);
        }
        world.rest();
        world.lose(id);
        drop(world.machines.remove(&id));
        if round == 1 {
            left.disks[2] = SimDisk::new(17);
        }
        world.set(1, &objects_of_all, 10 + round);
        let came = world.join(3, &left.disks[2]);
        assert!(came > id);
        id = came;
        world.until("all has its replicas", || world.is_whole());
        world.set(id, &objects_of_all, 20 + round);
        world.check();
        left = Disks {
            stored: world.configuration().id().0,
            ..left.left(CrashLoss::All)
        };
        drop(world);
        let world = left.begin();
        assert_eq!(
            world.machines.keys().copied().collect::<Vec<_>>(),
            [1, 2, id]
        );
        assert_eq!(world.value(&objects_of_all), 20 + round);
        world.check();
        left = Disks {
            stored: world.configuration().id().0,
            ..left.left(CrashLoss::All)
        };
    }
}

/// A machine need not receive the data again that it had before its eviction: the versions show
/// which objects have changed. With an empty disk everything is copied. In both cases its replicas
/// are correct, also after a power failure and if they are the only ones left.
#[test]
pub fn rejoining_machine_copies_only_changed_objects() {
    const MANY: usize = 400;
    let mut counts = Vec::new();
    for (empty, checkpoint) in [(true, false), (false, false), (false, true)] {
        let disks = Disks::new(3);
        let mut world = disks.begin();
        let objects: Vec<Addr> = (0..MANY).map(|_| world.object(3, 200, 1)).collect();
        let mut others = vec![world.object(1, 200, 7)];
        world.set(3, &objects[..2], 1);
        world.rest();
        if checkpoint {
            for machine in world.alive() {
                assert!(machine.checkpoint().expect("is taken"));
            }
            world.set(3, &objects[..2], 1);
            world.rest();
        }
        world.lose(3);
        drop(world.machines.remove(&3));
        // Some objects change, and some are freed and their slots reused.
        let (changed, same) = objects.split_at(2);
        world.set(1, changed, 2);
        let (freed, same) = same.split_at(5);
        let mut tx = world.machines[&2].coordinator().begin(Mode::ReadWrite);
        for addr in freed {
            world.run(tx.free(*addr)).expect("is freed");
        }
        assert!(matches!(world.run(tx.commit()), Ok(Outcome::Committed(_))));
        for _ in 0..30 {
            let made = world.object(1, 200, 7);
            others.push(made);
        }
        let disk = match empty {
            true => SimDisk::new(21),
            false => disks.disks[2].clone(),
        };
        let came = world.join(3, &disk);
        world.until("all has its replicas", || world.is_whole());
        world.check();
        let count = world.machines[&came].data_recovery_counts();
        println!("empty {empty}, checkpoint {checkpoint}: {count:?}");
        counts.push(count);
        let is_right = |world: &World| {
            assert_eq!(world.value(changed), 2);
            assert_eq!(world.value(same), 1);
            assert_eq!(world.value(&others), 7);
            world.check();
        };
        is_right(&world);
        let mut left = disks.left(CrashLoss::All);
        left.disks[2] = disk.fork();
        left.disks[2].crash(CrashLoss::All);
        left.stored = world.configuration().id().0;
        drop(world);
        let world = left.begin();
        is_right(&world);
        world.lose(1);
        is_right(&world);
    }
    assert_eq!(counts[0].retained_bytes, 0);
    for count in &counts[1..] {
        assert!(count.retained_bytes > 3 * count.read_bytes, "{count:?}");
        assert!(count.read_bytes * 4 < counts[0].read_bytes, "{count:?}");
    }
}
