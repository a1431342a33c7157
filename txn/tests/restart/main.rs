//! All machines end at the same time, and start again with the memory that they had.
//!
//! The machines run in one thread and only act when they are driven. A watched fabric takes a copy
//! of all memory before each one-sided write: the memory that is left if every process is killed at
//! that point. Machines start again from each copy.

mod bank;
mod disk;
mod host;
mod in_turn;
mod injected_faults;
mod leased;
mod met_before;

use fencepost_txn::{Addr, Mode, Outcome};
use host::{Host, Machines, place};

const OLD: u64 = 7;
const NEW: u64 = 8;
/// Words of an object that is changed in ranges, and of one that is always written whole.
const LONG: usize = 100;
const SHORT: usize = 3;

/// Creates objects on all three machines.
fn objects(machines: &Machines) -> Vec<Addr> {
    let of = |at: usize| [SHORT, LONG].map(|words| machines.object(at, words, OLD));
    (0..3).flat_map(of).collect()
}

/// Changes all objects, frees one that is written nowhere else, and creates one to which another
/// points.
fn change(machines: &Machines, coordinator: usize, objects: &[Addr], freed: Addr, link: Addr) {
    let mut tx = machines.begin(coordinator, Mode::ReadWrite);
    for addr in objects {
        // Most of a long object changes, so that it is not sent as ranges.
        let all = objects.len() > 6;
        let change = |image: &mut [u64]| match all {
            true => image.fill(NEW),
            false => image[1] = NEW,
        };
        machines.run(tx.update(*addr, change)).expect("there");
    }
    machines.run(tx.free(freed)).expect("there");
    let made = machines.run(tx.alloc(SHORT, place(2))).expect("memory");
    tx.write_new(made, &[NEW; SHORT]).expect("its own");
    let own = machines
        .run(tx.alloc(SHORT, place(coordinator)))
        .expect("memory");
    tx.write_new(own, &[NEW; SHORT]).expect("its own");
    let pointer = |image: &mut [u64]| (image[0], image[2]) = (made.addr.raw(), own.addr.raw());
    machines.run(tx.update(link, pointer)).expect("there");
    let outcome = machines.run(tx.commit());
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
}

/// Returns whether the change took effect. Checks that every machine sees it completely or not at
/// all.
fn is_there(machines: &Machines, objects: &[Addr], freed: Addr, link: Addr) -> bool {
    let seen: Vec<bool> = (0..3)
        .map(|at| {
            let words = |addr| machines.words(at, addr);
            let mut values: Vec<u64> = objects
                .iter()
                .map(|addr| words(*addr).expect("there")[1])
                .collect();
            values.dedup();
            assert_eq!(values.len(), 1, "of {values:?} some took effect");
            let there = values[0] == NEW;
            assert_eq!(words(freed).is_none(), there);
            let to = words(link).expect("there");
            for pointer in [to[0], to[2]] {
                assert_eq!(pointer != OLD, there);
                if there {
                    let made = words(Addr::from_raw(pointer)).expect("what is led to is there");
                    assert_eq!(made[..SHORT], [NEW; SHORT]);
                }
            }
            there
        })
        .collect();
    assert!(seen.iter().all(|there| *there == seen[0]));
    seen[0]
}

#[test]
fn restart_keeps_reported_commits_and_no_partial_commit() {
    for (coordinator, replicas) in [(0, 3), (2, 2)] {
        let host = Host::new(replicas);
        let machines = host.begin();
        let objects = objects(&machines);
        let (freed, link) = (
            machines.object(1, SHORT, OLD),
            machines.object(0, SHORT, OLD),
        );
        host.watch(true);
        change(&machines, coordinator, &objects, freed, link);
        host.reported();
        machines.rest();
        host.watch(false);
        drop(machines);
        let (mut lost, mut kept) = (0, 0);
        for (at, (left, reported)) in host.take_left().into_iter().enumerate() {
            // The memory of the two other machines is sufficient.
            if replicas == 3 && at % 4 == 1 {
                left.lose(at as u32 / 4 % 3 + 1);
            }
            let machines = left.begin();
            let there = is_there(&machines, &objects, freed, link);
            assert!(there || !reported, "what was reported is gone");
            *(if there { &mut kept } else { &mut lost }) += 1;
            if at % 4 > 0 {
                continue;
            }
            // The machines continue, and start again.
            let another = machines.object(1, LONG, NEW);
            machines.rest();
            drop(machines);
            let machines = left.begin();
            assert_eq!(is_there(&machines, &objects, freed, link), there);
            assert_eq!(machines.words(0, another).map(|words| words[5]), Some(NEW));
        }
        assert!(lost > 0 && kept > 0, "{lost} {kept}");
    }
}

/// The records of a transaction that is too large for the logs come in parts, which are copied out
/// of the logs at once.
#[test]
fn commit_in_parts_is_complete_or_absent_after_restart() {
    const OBJECTS: usize = 9;
    let host = Host::new(3);
    let machines = host.begin();
    let objects: Vec<Addr> = (0..OBJECTS)
        .map(|at| machines.object(at % 3, 2 * LONG, OLD))
        .collect();
    let (freed, link) = (
        machines.object(1, SHORT, OLD),
        machines.object(0, SHORT, OLD),
    );
    host.watch(true);
    change(&machines, 0, &objects, freed, link);
    host.reported();
    machines.rest();
    host.watch(false);
    drop(machines);
    let (mut lost, mut kept) = (0, 0);
    for (left, reported) in host.take_left() {
        let machines = left.begin();
        let there = is_there(&machines, &objects, freed, link);
        assert!(there || !reported, "what was reported is gone");
        *(if there { &mut kept } else { &mut lost }) += 1;
    }
    assert!(lost > 0 && kept > 0, "{lost} {kept}");
}

#[test]
fn machine_without_memory_restarts_from_replicas() {
    for lost in 1..=3 {
        let host = Host::new(3);
        let machines = host.begin();
        let objects = objects(&machines);
        let (freed, link) = (
            machines.object(1, SHORT, OLD),
            machines.object(0, SHORT, OLD),
        );
        change(&machines, 0, &objects, freed, link);
        machines.rest();
        drop(machines);
        host.lose(lost);
        for _ in 0..2 {
            let machines = host.begin();
            assert!(is_there(&machines, &objects, freed, link));
            machines.object(lost as usize - 1, LONG, OLD);
            machines.rest();
        }
    }
}

#[test]
fn incomplete_regions_are_reported_and_nothing_changes() {
    let host = Host::new(2);
    let machines = host.begin();
    let objects = objects(&machines);
    // All machines know the locations of the objects.
    for at in 0..3 {
        let there = objects
            .iter()
            .filter(|addr| machines.words(at, **addr).is_some());
        assert_eq!(there.count(), objects.len());
    }
    let replicas = machines.replicas_of(objects[0]);
    machines.rest();
    drop(machines);
    for (lost, said) in [
        (&replicas[..1], "a single backup is left"),
        (&replicas[..], "no machine has the memory of r"),
    ] {
        let aside: Vec<_> = lost
            .iter()
            .map(|machine| host.take_away(*machine))
            .collect();
        let why = host.try_begin().err().expect("refused").to_string();
        assert!(why.contains(said), "{why}");
        aside.into_iter().for_each(|machine| machine.put_back());
    }
    let machines = host.begin();
    for addr in objects {
        assert_eq!(machines.words(2, addr).map(|words| words[1]), Some(OLD));
    }
}
