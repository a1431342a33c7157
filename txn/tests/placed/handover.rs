//! Region handover: a backup becomes the primary, and all machines use the new primary.

use std::collections::BTreeSet;

use fencepost_cluster::Replicas;
use fencepost_storage::RegionId;
use fencepost_storage::region::Region;
use fencepost_txn::Transaction;
use fencepost_txn::{
    AbortReason, Addr, FatPtr, LockFree, MachineId, Mode, ObjectLocation, Outcome, Stop,
};
use pollster::block_on;

use crate::world::{KINDS, Kind, World, commit, place, unless_conflict, word};

/// The index of the first primary's machine, and of the next primary's.
const BEFORE: usize = 1;
const AFTER: usize = 2;
/// Size of objects of which a block contains only a few.
const WORDS: usize = 200;

fn id(machine: usize) -> MachineId {
    MachineId(machine as u32 + 1)
}

/// Creates three machines with replicas of all regions, and some objects on the second machine.
fn world(kind: Kind, objects: u64) -> (World, Vec<FatPtr>) {
    world_of(kind, objects, 3)
}

/// Creates a world as [`world`] does, with objects of `words` words.
fn world_of(kind: Kind, objects: u64, words: usize) -> (World, Vec<FatPtr>) {
    let world = World::with_log(kind, 3, 3, 1 << 18);
    let made = (0..objects).map(|value| world.object(value as usize % 3, BEFORE, words, value));
    let made = made.collect();
    (world, made)
}

/// Waits until everything is truncated, then hands over a region: the second machine has no replica
/// of it afterwards, and all machines know it.
fn move_region(world: &World, region: RegionId) {
    world.wait_until_idle();
    complete_handover(world, region);
}

/// Hands a region over as [`hand_over`] does, without waiting for running commits.
fn complete_handover(world: &World, region: RegionId) {
    let floor = world.machines.iter().map(|machine| machine.now()).max();
    let floor = floor.expect("machines");
    let replicas = Replicas::new(id(AFTER), vec![id(0)]).expect("distinct");
    // A machine that has not been told yet reads at the previous primary.
    for at in [0, AFTER, BEFORE] {
        let machine = &world.machines[at];
        assert!(machine.begin_handover(region, &replicas, floor));
        // A repeated call has no further effect.
        assert!(machine.begin_handover(region, &replicas, floor));
    }
}

/// Runs a transaction until it commits: a lock of an earlier one may still be held.
fn surely(world: &World, by: usize, work: impl Fn(&mut Transaction) -> Result<(), Stop>) {
    world.wait("the commit", || {
        let mut tx = world.begin(by, Mode::ReadWrite);
        let outcome = unless_conflict(work(&mut tx)).map(|()| block_on(tx.commit()));
        matches!(outcome, Some(Ok(Outcome::Committed(_))))
    });
}

fn write(world: &World, by: usize, addr: Addr, value: u64) {
    surely(world, by, |tx| block_on(tx.write(addr, &[value])));
}

fn free(world: &World, by: usize, addr: Addr) {
    surely(world, by, |tx| block_on(tx.free(addr)));
}

fn try_word(tx: &mut Transaction, addr: Addr) -> Result<Option<u64>, Stop> {
    let seen = block_on(tx.view(addr, None, |view| view.word(0)))?;
    Ok(seen.map(|(word, _)| word))
}

#[test]
fn objects_of_a_promoted_region_are_read_and_written_from_everywhere() {
    for kind in KINDS {
        let (world, made) = world(kind, 40);
        let region = made[0].addr.region();
        let before: Vec<&Region> = world
            .machines
            .iter()
            .filter_map(|machine| machine.regions().region(region))
            .collect();
        move_region(&world, region);
        for (at, machine) in world.machines.iter().enumerate() {
            let own = machine.regions().is_own(made[0].addr);
            assert_eq!(own, at == AFTER, "{kind:?}");
            assert_eq!(machine.primary_of(made[0].addr), Some(id(AFTER)));
        }
        // References to the region's memory from before stay valid.
        assert!(before.len() > 2 * usize::from(world.machines[0].maps_peers()));
        assert!(before.iter().all(|region| region.class(1).is_some()));
        let mut words = Vec::new();
        for round in 0..3u64 {
            for by in 0..3 {
                for (value, ptr) in made.iter().enumerate() {
                    assert_eq!(world.word(by, ptr.addr), Some(value as u64 + round));
                    let read = world.machines[by].read_lockfree(*ptr, &mut words);
                    assert_eq!(block_on(read), Ok(LockFree::Found), "{kind:?}");
                    assert_eq!(words[0], value as u64 + round);
                }
            }
            for (value, ptr) in made.iter().enumerate() {
                let by = (value + round as usize) % 3;
                write(&world, by, ptr.addr, value as u64 + round + 1);
            }
        }
        world.wait_until_idle();
    }
}

#[test]
fn promoted_region_allocates_each_free_slot_once_after_take_up() {
    for kind in KINDS {
        let (world, made) = world_of(kind, 40, WORDS);
        let region = made[0].addr.region();
        let (kept, freed) = made.split_at(20);
        for (by, ptr) in freed.iter().enumerate() {
            free(&world, by % 3, ptr.addr);
        }
        move_region(&world, region);
        let (kept, late) = kept.split_at(15);
        for (by, ptr) in late.iter().enumerate() {
            free(&world, by % 3, ptr.addr);
        }
        let new = |by: usize, value: u64| world.object(by, AFTER, WORDS, value).addr;
        for by in 0..3 {
            assert_ne!(new(by, 7).region(), region, "{kind:?}");
        }
        world.wait_until_idle();
        let machine = &world.machines[AFTER];
        let steps = (0..).take_while(|_| !machine.take_up(region, 2)).count();
        assert_eq!(steps, 7, "{kind:?}");
        assert!(machine.take_up(region, 2));
        let near = ObjectLocation::Object(kept[0].addr);
        let mut there: BTreeSet<Addr> = kept.iter().map(|ptr| ptr.addr).collect();
        let free_slots: BTreeSet<Addr> = freed.iter().chain(late).map(|ptr| ptr.addr).collect();
        // Until each freed slot has been allocated again, by this machine and by another.
        let mut reused = BTreeSet::new();
        for round in 0..40_000 {
            if round % 500 == 0 {
                machine.tidy();
            }
            let by = [AFTER, 0][usize::from(round % 50 == 0)];
            let mut tx = world.begin(by, Mode::ReadWrite);
            let ptr = block_on(tx.alloc(WORDS, near)).expect("memory");
            tx.write_new(ptr, &[round; 3]).expect("its own");
            commit(tx);
            assert!(there.insert(ptr.addr), "{} is in use", ptr.addr);
            assert_eq!(world.word(1, ptr.addr), Some(round));
            if free_slots.contains(&ptr.addr) {
                reused.insert(ptr.addr);
            }
            if reused == free_slots {
                break;
            }
        }
        assert_eq!(reused, free_slots, "{kind:?}");
        for (value, ptr) in kept.iter().enumerate() {
            assert_eq!(world.word(0, ptr.addr), Some(value as u64));
        }
        world.wait_until_idle();
    }
}

#[test]
fn slots_that_were_reserved_before_never_become_objects() {
    for kind in KINDS {
        let (world, made) = world(kind, 3);
        let region = made[0].addr.region();
        world.wait_until_idle();
        // Transactions with reserved slots of the previous primary, which the new one does not
        // know.
        let reserve = |by: usize| {
            let mut tx = world.begin(by, Mode::ReadWrite);
            let ptr = block_on(tx.alloc(3, place(BEFORE))).expect("memory");
            tx.write_new(ptr, &[9; 3]).expect("its own");
            assert_eq!(ptr.addr.region(), region);
            (tx, ptr.addr)
        };
        let commit_late = [0, AFTER, 0, AFTER].map(reserve);
        let (abort, mut goes_on) = ([0, AFTER].map(reserve), reserve(0).0);
        complete_handover(&world, region);
        for (at, (tx, addr)) in commit_late.into_iter().enumerate() {
            if at == 2 {
                assert!(world.machines[AFTER].take_up(region, 100));
            }
            let outcome = block_on(tx.commit());
            let refused = Outcome::Aborted(AbortReason::WriteConflict);
            assert_eq!(outcome, Ok(refused), "{kind:?}");
            assert_eq!(world.word(1, addr), None);
        }
        drop(abort);
        // It could not tell its stale slots from new ones.
        let more = block_on(goes_on.alloc(3, place(AFTER)));
        assert_eq!(more, Err(Stop::Retry(AbortReason::Unreachable)), "{kind:?}");
        drop(goes_on);
        let mut seen = BTreeSet::new();
        for by in [0, AFTER].repeat(40) {
            let mut tx = world.begin(by, Mode::ReadWrite);
            let ptr = block_on(tx.alloc(3, ObjectLocation::Object(made[0].addr))).expect("memory");
            tx.write_new(ptr, &[5; 3]).expect("its own");
            commit(tx);
            assert!(seen.insert(ptr.addr));
        }
        world.wait_until_idle();
    }
}

#[test]
fn snapshot_below_floor_is_too_old_at_new_primary() {
    for kind in KINDS {
        let (world, made) = world(kind, 4);
        let [old, changed, freed, later] = [0, 1, 2, 3].map(|at: usize| made[at].addr);
        let mut readers: Vec<_> = (0..3).map(|by| world.begin(by, Mode::ReadOnly)).collect();
        for reader in &mut readers {
            assert_eq!(word(reader, old), Some(0));
        }
        write(&world, 0, changed, 11);
        free(&world, 1, freed);
        move_region(&world, old.region());
        write(&world, 0, later, 13);
        write(&world, 1, later, 14);
        let machine = &world.machines[AFTER];
        assert!(machine.take_up(old.region(), 100));
        let mut tx = world.begin(AFTER, Mode::ReadWrite);
        let new = block_on(tx.alloc(3, ObjectLocation::Object(old))).expect("memory");
        tx.write_new(new, &[1; 3]).expect("its own");
        commit(tx);
        assert_eq!(new.addr.region(), old.region());
        for (by, reader) in readers.iter_mut().enumerate() {
            assert_eq!(try_word(reader, old), Ok(Some(0)), "{kind:?} {by}");
            // The new primary has the old version of this object.
            assert_eq!(try_word(reader, later), Ok(Some(3)), "{kind:?} {by}");
            let too_old = Err(Stop::Retry(AbortReason::SnapshotTooOld));
            assert_eq!(try_word(reader, changed), too_old, "{kind:?} {by}");
            assert_eq!(try_word(reader, freed), too_old, "{kind:?} {by}");
            // This object was created later.
            assert_eq!(try_word(reader, new.addr), Ok(None), "{kind:?} {by}");
        }
        drop(readers);
        for by in 0..3 {
            let mut reader = world.begin(by, Mode::ReadOnly);
            let words = [old, changed, freed, later].map(|addr| word(&mut reader, addr));
            assert_eq!(words, [Some(0), Some(11), None, Some(14)], "{kind:?}");
        }
        world.wait_until_idle();
    }
}

#[test]
fn lock_waiter_at_lost_primary_finds_object_at_new_primary() {
    for kind in KINDS {
        let (world, made) = world(kind, 3);
        let addr = made[1].addr;
        world.wait_until_idle();
        assert_eq!(world.word(0, addr), Some(1));
        // As if the primary had been lost while the lock was held.
        let regions = world.machines[BEFORE].regions();
        let object = regions.object(addr).expect("there");
        object.try_lock(object.header()).expect("the lock is free");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| world.word(0, addr));
            let looks = scope.spawn(|| {
                let mut words = Vec::new();
                let read = world.machines[0].read_lockfree(made[1], &mut words);
                (block_on(read), words.first().copied())
            });
            let walks = scope.spawn(|| {
                let view = world.machines[0].view_current(addr, |view| view.word(0));
                block_on(view)
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waits.is_finished() && !looks.is_finished() && !walks.is_finished());
            complete_handover(&world, addr.region());
            assert_eq!(waits.join().expect("ends"), Some(1), "{kind:?}");
            let looked = looks.join().expect("ends");
            assert_eq!(looked, (Ok(LockFree::Found), Some(1)), "{kind:?}");
            assert_eq!(walks.join().expect("ends"), Ok(Some(1)), "{kind:?}");
        });
        write(&world, 0, addr, 8);
        assert_eq!(world.word(2, addr), Some(8));
        world.wait_until_idle();
    }
}

#[test]
fn transactions_continue_during_handover_of_unwritten_region() {
    for kind in KINDS {
        let (world, made) = world(kind, 20);
        let region = made[0].addr.region();
        world.wait_until_idle();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let own: Vec<Addr> = (0..3).map(|at| world.object(at, 0, 3, 0).addr).collect();
        std::thread::scope(|scope| {
            for by in 0..3 {
                let (world, made, own, stop) = (&world, &made, &own, &stop);
                scope.spawn(move || {
                    let mut round = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let mut tx = world.begin(by, Mode::ReadOnly);
                        for (value, ptr) in made.iter().enumerate() {
                            assert_eq!(word(&mut tx, ptr.addr), Some(value as u64));
                        }
                        commit(tx);
                        round += 1;
                        write(world, by, own[by], round);
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            complete_handover(&world, region);
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        world.wait_until_idle();
    }
}

#[test]
fn lost_region_is_unreachable_and_replica_without_data_refuses() {
    for kind in KINDS {
        let world = World::new(kind, 3, 1);
        let addr = world.object(0, BEFORE, 3, 5).addr;
        world.wait_until_idle();
        let region = addr.region();
        let replicas = Replicas::new(id(AFTER), Vec::new()).expect("one");
        let after = &world.machines[AFTER];
        assert!(!after.begin_handover(region, &replicas, after.now()));
        assert_eq!(world.word(AFTER, addr), Some(5));
        assert_eq!(after.primary_of(addr), Some(id(BEFORE)));
        for machine in &world.machines {
            machine.lose(region);
            assert_eq!(machine.primary_of(addr), None);
            assert!(!machine.regions().is_own(addr));
        }
    }
}
