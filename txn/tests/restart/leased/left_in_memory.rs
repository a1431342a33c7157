//! A machine whose process has ended returns while the others run, and its memory still exists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_cluster::join::{DurableData, JoinOutcome};
use fencepost_fabric::{EvictedMemory, Fabric, LocalNetwork, Memory, RetainedMemory, SegmentId};
use fencepost_storage::region::Image;
use fencepost_txn::network::{Configuration, NetworkOptions, members};
use fencepost_txn::{Addr, MachineId, Mode, Outcome};

use super::disks::MACHINES;
use super::environment::SharedEnvironment;
use super::world::World;

const MANY: usize = 400;
const WORDS: usize = 200;

/// Starts machines in memory, and returns them with their fabrics.
fn begin(replicas: usize) -> (World, BTreeMap<u32, Arc<dyn Fabric>>) {
    let configuration = Configuration::of_process(MACHINES).expect("machines");
    let network = LocalNetwork::new();
    let all = members(&configuration);
    let join = |member: &fencepost_fabric::Member| {
        let fabric: Arc<dyn Fabric> = Arc::new(network.join(member.id).expect("a machine"));
        fabric.set_members(&all).expect("a member");
        (member.id.0, fabric)
    };
    let fabrics: BTreeMap<u32, _> = all.iter().map(join).collect();
    let ground = SharedEnvironment::of(Arc::clone(&network), &configuration, replicas);
    let open = |(id, fabric): (&u32, &Arc<dyn Fabric>)| {
        let options = ground.options(Arc::clone(fabric), configuration.clone());
        (*id, SharedEnvironment::machine(options))
    };
    let machines = fabrics.iter().map(open).collect();
    (World::of(ground, machines), fabrics)
}

/// Returns the memory of a machine's regions, as `by` maps it.
fn memory_of(world: &World, by: &Arc<dyn Fabric>, machine: u32) -> Vec<(SegmentId, Arc<Memory>)> {
    let any = &world.alive()[0];
    let regions = world.run(any.all_regions()).expect("is told");
    let regions = regions
        .iter()
        .filter(|mapping| mapping.replicas.has(MachineId(machine)));
    let segments = regions.map(|mapping| SegmentId::new(SegmentId::REGION, 0, mapping.region.0));
    let map = |segment| {
        let memory = by.map(MachineId(machine), segment).expect("it is mapped");
        (segment, memory)
    };
    segments.map(map).collect()
}

/// Copies memory, as the kernel keeps it when a process is killed.
fn copy(memory: &[(SegmentId, Arc<Memory>)]) -> RetainedMemory {
    let copy = |(segment, memory): &(SegmentId, Arc<Memory>)| {
        let copy = Memory::anonymous(memory.len()).expect("memory");
        for (from, to) in memory.words().iter().zip(copy.words()) {
            let word = from.load(Ordering::Relaxed);
            if word != 0 {
                to.store(word, Ordering::Relaxed);
            }
        }
        (*segment, Arc::new(copy))
    };
    RetainedMemory::new(memory.iter().map(copy))
}

fn image(retained: &RetainedMemory, addr: Addr) -> Image {
    let region = addr.region();
    let memory = retained.get(SegmentId::new(SegmentId::REGION, 0, region.0));
    Image::of(region, memory.expect("a region")).expect("a region")
}

/// Lets a machine join at the third place, with the retained memory of earlier ones.
fn join(world: &mut World, evicted: Vec<RetainedMemory>) -> (u32, Arc<dyn Fabric>) {
    let (id, configuration) = loop {
        if let Some(JoinOutcome::Joined(id, configuration)) =
            world.request_to_join(3, DurableData::Nothing)
        {
            break (id, configuration);
        }
    };
    let fabric: Arc<dyn Fabric> = Arc::new(world.ground.network.join(id).expect("a machine"));
    let all = members(&configuration);
    fabric.set_members(&all).expect("a member");
    let machine = SharedEnvironment::machine(NetworkOptions {
        joins: true,
        before: Some(Arc::new(EvictedMemory::of(evicted))),
        ..world.ground.options(Arc::clone(&fabric), configuration)
    });
    (world.has_joined(id, machine), fabric)
}

/// A machine need not receive the data again that its process has left in memory, whatever was
/// running at its end. Its replicas are as correct as those of others, also when the others are
/// lost.
#[test]
fn retained_memory_is_reused_where_versions_match_primary() {
    let mut counts = Vec::new();
    for is_left in [false, true] {
        let (mut world, fabrics) = begin(3);
        let objects: Vec<Addr> = (0..MANY).map(|_| world.object(3, WORDS, 1)).collect();
        let mut others = vec![world.object(1, WORDS, 7)];
        world.rest();
        let left = copy(&memory_of(&world, &fabrics[&1], 3));
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
            others.push(world.object(1, WORDS, 7));
        }
        // Writes to some objects were half-done, and others were locked at the version that the
        // primary still has.
        for (at, addr) in changed.iter().chain(&same[..2]).enumerate() {
            let image = image(&left, *addr);
            let object = image.object(*addr).expect("an object");
            object.put(WORDS / 2, &[99, 99]);
            match at {
                0 | 1 => {}
                2 => object.try_lock(object.header()).expect("the lock is free"),
                // The write reached the first line of the object, but not all lines.
                _ => {
                    let segment = SegmentId::new(SegmentId::REGION, 0, addr.region().0);
                    let memory = left.get(segment).expect("a region");
                    let first = addr.offset() as usize / 8;
                    let line = (first / 8 + 1) * 8;
                    memory.words()[line].fetch_xor(4, Ordering::Relaxed);
                }
            }
        }
        let retained = if is_left {
            vec![left.clone()]
        } else {
            Vec::new()
        };
        let (came, fabric) = join(&mut world, retained);
        world.until("all has its replicas", || world.is_whole());
        world.check();
        let count = world.machines[&came].data_recovery_counts();
        println!("left {is_left}: {count:?}");
        counts.push(count);
        let is_right = |world: &World| {
            assert_eq!(world.value(changed), 2);
            assert_eq!(world.value(same), 1);
            assert_eq!(world.value(&others), 7);
            world.check();
        };
        is_right(&world);
        // The machine fails again, and the memory of both earlier processes is used.
        let again = copy(&memory_of(&world, &fabrics[&1], came));
        world.lose(came);
        drop((world.machines.remove(&came), fabric));
        let retained = if is_left {
            vec![again, left]
        } else {
            vec![left]
        };
        let (came, _fabric) = join(&mut world, retained);
        world.until("all has its replicas", || world.is_whole());
        is_right(&world);
        let count = world.machines[&came].data_recovery_counts();
        println!("again, left {is_left}: {count:?}");
        counts.push(count);
        world.lose(1);
        is_right(&world);
    }
    assert_eq!(counts[0].retained_bytes, 0);
    for count in &counts[1..] {
        assert!(count.retained_bytes > 3 * count.read_bytes, "{count:?}");
        assert!(count.read_bytes * 4 < counts[0].read_bytes, "{count:?}");
    }
    assert!(
        counts[3].read_bytes < counts[2].read_bytes,
        "the later memory has more"
    );
}
