//! Regions that machines get while they run: their locations, the machines that know them, and the
//! errors without them.

use fencepost_txn::network::Mapping;
use fencepost_txn::network::call::CallError;
use fencepost_txn::{Addr, Machine, MachineId, Mode, ObjectLocation, Stop, Strength};
use pollster::block_on;

use super::world::{KINDS, Kind, World, commit, place, word};

/// Words of an object that fills a block.
const BLOCK_WORDS: usize = 100_000;
/// Blocks of a region.
const BLOCKS: usize = 15;

/// Returns all regions, as the CM reports them to a machine.
fn regions(world: &World, machine: usize) -> Vec<Mapping> {
    block_on(world.machines[machine].all_regions()).expect("the CM answers")
}

/// Returns the numbers of the regions whose primary is a machine.
fn own(world: &World, machine: usize) -> Vec<u32> {
    let all = regions(world, 0).into_iter();
    let own = all.filter(|region| region.replicas.primary() == id(machine));
    own.map(|region| region.region.0).collect()
}

fn id(machine: usize) -> MachineId {
    MachineId(machine as u32 + 1)
}

/// Number of objects for which the logs have space.
const AT_ONCE: usize = 4;

/// Creates objects of one block each, every one in a transaction of its own.
fn fill(world: &World, by: usize, near: ObjectLocation, count: usize) -> Vec<Addr> {
    let make = |value: usize| {
        if value.is_multiple_of(AT_ONCE) {
            // Without log space a commit would be repeated, and its block would not be free at
            // once.
            world.wait("room in the logs", || Machine::are_at_rest(&world.machines));
        }
        let mut tx = world.begin(by, Mode::ReadWrite);
        let ptr = block_on(tx.alloc(BLOCK_WORDS, near)).expect("memory");
        tx.write_new(ptr, &[value as u64]).expect("its own");
        commit(tx);
        ptr.addr
    };
    (0..count).map(make).collect()
}

#[test]
fn full_machine_gets_region_that_all_machines_find() {
    for kind in KINDS {
        let world = World::with_log(kind, 3, 2, 1 << 20);
        let before = regions(&world, 0).len();
        let made = fill(&world, 1, ObjectLocation::Own, 2 * BLOCKS + 1);
        let mine = own(&world, 1);
        assert_eq!(mine.len(), 3, "{kind:?}");
        for (at, addr) in made.iter().enumerate() {
            assert_eq!(addr.region().0, mine[at / BLOCKS]);
            // The third machine does not know their regions yet.
            assert_eq!(world.word(2, *addr), Some(at as u64));
            assert_eq!(world.machines[2].primary_of(*addr), Some(id(1)));
        }
        for machine in 0..3 {
            let all = regions(&world, machine);
            assert_eq!(all.len(), before + 3);
            for mapping in all
                .iter()
                .filter(|mapping| mine.contains(&mapping.region.0))
            {
                assert_eq!(mapping.replicas.backups(), [id(2)], "{kind:?}");
                assert_eq!(mapping.group.0.0, mine[0]);
            }
        }
        world.wait_until_idle();
    }
}

#[test]
fn remote_allocation_adds_region_at_its_machine() {
    for kind in KINDS {
        let world = World::with_log(kind, 2, 1, 1 << 20);
        let made = fill(&world, 0, place(1), BLOCKS + 2);
        assert_eq!(own(&world, 1).len(), 2, "{kind:?}");
        for (at, addr) in made.iter().enumerate() {
            assert!(world.machines[1].regions().is_own(*addr));
            assert_eq!(world.word(0, *addr), Some(at as u64));
        }
        world.wait_until_idle();
    }
}

#[test]
fn first_access_to_region_asks_once_and_correctly() {
    for kind in KINDS {
        let world = World::new(kind, 3, 1);
        let [a, b] = [1, 2].map(|at| world.object(at, at, 3, 5).addr);
        // Each access is the first to its region: an intent, an allocation near it, and one as a
        // split of it.
        let mut tx = world.begin(1, Mode::ReadWrite);
        block_on(tx.intend(b, Strength::Update)).expect("the queue is empty");
        assert_eq!(word(&mut tx, b), Some(5));
        commit(tx);
        let mut tx = world.begin(2, Mode::ReadWrite);
        let beside = block_on(tx.alloc(3, ObjectLocation::Object(a))).expect("memory");
        assert!(world.machines[1].regions().is_own(beside.addr));
        commit(tx);
        let nowhere = Addr::new(fencepost_storage::RegionId(4000), 1 << 20);
        let beyond = Addr::new(fencepost_storage::RegionId(1 << 30), 1 << 20);
        for addr in [nowhere, beyond] {
            let mut tx = world.begin(1, Mode::ReadWrite);
            let read = block_on(tx.read(addr, &mut Vec::new()));
            assert_eq!(read, Err(Stop::Damaged));
            assert_eq!(
                block_on(tx.alloc(3, ObjectLocation::Object(addr))),
                Err(Stop::Damaged)
            );
            assert_eq!(world.machines[1].primary_of(addr), None);
        }
        world.wait_until_idle();
    }
}

#[test]
fn without_memory_for_a_backup_there_is_no_region_and_nothing_is_left_of_the_attempt() {
    const LIMIT: u64 = 4 << 20;
    for kind in KINDS {
        let world = World::limited_with_log(kind, 2, 2, LIMIT, 1 << 20);
        let before = regions(&world, 0).len();
        let mut kept = Vec::new();
        for words in [BLOCK_WORDS, 1000, 4] {
            loop {
                let mut tx = world.begin(1, Mode::ReadWrite);
                match block_on(tx.alloc(words, ObjectLocation::Own)) {
                    Ok(ptr) => kept.push(ptr.addr),
                    Err(stop) => {
                        assert_eq!(stop, Stop::OutOfMemory);
                        break;
                    }
                }
                commit(tx);
            }
        }
        // The root's block is one of them.
        let made = fill(&world, 0, ObjectLocation::Own, BLOCKS - 1);
        for _ in 0..20 {
            let mut tx = world.begin(0, Mode::ReadWrite);
            let refused = block_on(tx.alloc(BLOCK_WORDS, ObjectLocation::Own));
            assert_eq!(refused, Err(Stop::OutOfMemory), "{kind:?}");
        }
        assert_eq!(regions(&world, 1).len(), before + 1);
        assert_eq!(world.word(1, made[3]), Some(3));
        world.wait_until_idle();
        for addr in kept {
            let mut tx = world.begin(1, Mode::ReadWrite);
            block_on(tx.free(addr)).expect("there");
            commit(tx);
        }
        let other = &world.machines[1];
        world.wait("memory of the second machine", || {
            other.tidy();
            other.account().used() < LIMIT / 2
        });
        let last = fill(&world, 0, ObjectLocation::Own, 1)[0];
        let newest = regions(&world, 1).last().map(|mapping| mapping.region.0);
        assert_eq!(newest, Some(before as u32 + 1), "no id was used up");
        assert_eq!(
            (last.region().0, world.word(1, last)),
            (before as u32 + 1, Some(0))
        );
        world.wait_until_idle();
    }
}

#[test]
fn closed_machine_gets_no_regions() {
    let world = World::with_log(Kind::Tcp, 3, 2, 1 << 20);
    fill(&world, 1, ObjectLocation::Own, 1);
    let backups = |at: usize| {
        let all = regions(&world, 0).into_iter();
        let own = all.filter(|region| region.replicas.primary() == id(1));
        own.map(|region| region.replicas.backups().to_vec()).nth(at)
    };
    assert_eq!(backups(0), Some(vec![id(2)]));
    world.machines[2].close().expect("in memory");
    world.wait("the loss of the third machine", || {
        let call = world.machines[0].call(id(2), 7, &[]);
        matches!(
            block_on(call),
            Err(CallError::Unreachable | CallError::Lost)
        )
    });
    // The transaction does not commit: the region has its backup on the closed machine.
    let mut tx = world.begin(1, Mode::ReadWrite);
    for _ in 0..BLOCKS {
        block_on(tx.alloc(BLOCK_WORDS, ObjectLocation::Own)).expect("memory");
    }
    drop(tx);
    assert_eq!(backups(1), Some(vec![id(0)]));
}
