//! One snapshot read on several machines.

use fencepost_txn::{Addr, Mode, Stop, Timestamp, Transaction};
use pollster::block_on;

use crate::world::{KINDS, World, commit, word};

fn shared(tx: &mut Transaction) -> Timestamp {
    block_on(tx.share_snapshot()).expect("the time is known")
}

fn overwrite(world: &World, by: usize, addr: Addr, value: u64) {
    let mut tx = world.begin(by, Mode::ReadWrite);
    block_on(tx.write(addr, &[value])).expect("there");
    commit(tx);
}

#[test]
fn shared_snapshot_reads_the_same_on_all_machines() {
    for kind in KINDS {
        let world = World::new(kind, 3, 2);
        let objects: Vec<Addr> = (0..3).map(|at| world.object(0, at, 3, 1).addr).collect();
        let freed = world.object(1, 1, 3, 1).addr;
        let mut tx = world.begin(0, Mode::ReadOnly);
        let r = shared(&mut tx);
        for round in 0..50 {
            for (by, addr) in objects.iter().enumerate() {
                overwrite(&world, (by + round) % 3, *addr, 2);
            }
        }
        let mut free = world.begin(1, Mode::ReadWrite);
        block_on(free.free(freed)).expect("there");
        commit(free);
        let made = world.object(1, 1, 3, 3).addr;
        // Memory that counts as garbage is reused now.
        for machine in &world.machines {
            machine.tidy();
        }
        for machine in &world.machines {
            let mut there = machine.coordinator().begin_at(r);
            assert_eq!((there.read_timestamp(), there.mode()), (r, Mode::ReadOnly));
            for addr in objects.iter().chain([&freed]) {
                assert_eq!(word(&mut there, *addr), Some(1), "{kind:?}");
            }
            assert_eq!(word(&mut there, made), None, "{kind:?}");
            commit(there);
        }
        commit(tx);
        assert_eq!(
            word(&mut world.begin(1, Mode::ReadOnly), objects[2]),
            Some(2)
        );
        world.wait_until_idle();
    }
}

#[test]
fn status_pages_hold_versions_of_remote_readers_until_their_end() {
    for kind in KINDS {
        let world = World::new(kind, 2, 1);
        let mut tx = world.begin(0, Mode::ReadOnly);
        let r = shared(&mut tx);
        // Readers of the other machine have passed R. A reader that begins there at R does not
        // change that.
        drop(world.begin(1, Mode::ReadOnly));
        for machine in &world.machines {
            assert!(machine.oldest() <= r);
        }
        let there = world.machines[1].coordinator().begin_at(r);
        assert!(world.machines[1].oldest() <= r);
        drop(tx);
        assert!(world.machines[1].oldest() <= r, "one that was left behind");
        drop(there);
        world.wait("the bound moves on", || {
            let oldest = |machine: &std::sync::Arc<fencepost_txn::Machine>| machine.oldest();
            world.machines.iter().map(oldest).all(|oldest| oldest > r)
        });
    }
}

#[test]
fn movable_snapshot_is_not_shared() {
    let world = World::new(KINDS[0], 2, 1);
    let mut tx = world.begin(0, Mode::ReadWrite);
    assert_eq!(block_on(tx.share_snapshot()), Err(Stop::ReadOnly));
}
