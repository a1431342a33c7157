//! Slots that a transaction holds on a machine that fails belong to another primary afterwards.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use fencepost_fabric::MachineId;
use fencepost_simulator::plan::{Plan, terms};
use fencepost_txn::{Addr, Mode, ObjectLocation, Outcome, Stop};

use crate::driven::{World, with};

const MS: u64 = 1_000_000;
/// The machine that commits, and the one that fails.
const WRITES: usize = 2;
const FAILS: usize = 1;
/// The words of an object that takes a whole block.
const LARGE: usize = 70_000;
/// More such objects than the blocks of two regions.
const OBJECTS: usize = 40;

fn plan(seed: u64) -> Plan {
    Plan {
        machines: 3,
        hosts: 1,
        replicas: 2,
        // The log takes large objects.
        log_words: 1 << 19,
        leases: terms(10),
        replaces: true,
        ..Plan::draw(seed)
    }
}

/// Allocates an object on the committing machine, in its own transaction.
async fn new_object(world: &World) -> Addr {
    loop {
        let mut tx = world.machines[WRITES].coordinator().begin(Mode::ReadWrite);
        match tx.alloc(LARGE, ObjectLocation::Own).await {
            Ok(place) => match tx.commit().await {
                Ok(Outcome::Committed(_)) => return place.addr,
                Ok(Outcome::Aborted(_)) => {}
                Err(stop) => panic!("{stop:?}"),
            },
            Err(stop) => assert!(matches!(stop, Stop::Retry(_)), "{stop:?}"),
        }
        world.sim.nap(MS / 10).await;
    }
}

/// Runs a transaction that takes a slot on a machine and does not use it; it commits once that
/// machine has been replaced. Returns whether its own machine has become the slot's primary.
async fn commits_after(world: World) -> bool {
    let machine = &world.machines[WRITES];
    let own = new_object(&world).await;
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let there = ObjectLocation::Machine(MachineId(FAILS as u32 + 1));
    let Ok(spare) = tx.alloc(LARGE, there).await else {
        return false;
    };
    assert_eq!(tx.free(spare.addr).await, Ok(()));
    world.sim.net().crash(MachineId(FAILS as u32 + 1));
    let replaced = || machine.members().configuration == 2 && machine.is_answering();
    world.until(replaced).await;
    let taken_over = machine.primary_of(spare.addr) == Some(MachineId(machine.number()));
    let written = taken_over && tx.write(own, &[1; LARGE]).await.is_ok();
    if !written || !matches!(tx.commit().await, Ok(Outcome::Committed(_))) {
        return false;
    }
    let mut seen = HashSet::new();
    for _ in 0..OBJECTS {
        let new = new_object(&world).await;
        assert!(seen.insert(new), "{new:?} is an object already");
    }
    seen.contains(&spare.addr)
}

#[test]
fn unneeded_slot_is_not_returned_to_new_primary() {
    let came = Rc::new(Cell::new(0));
    for seed in 0..6 {
        let came = Rc::clone(&came);
        with(&plan(seed), move |world| async move {
            came.set(came.get() + u32::from(commits_after(world).await));
        });
    }
    assert!(came.get() > 0, "it never came to have the region");
}
