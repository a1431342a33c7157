//! Leases of machines with threads, over real fabrics. Durations depend on the host; the simulated
//! machines of `tests/clusters/leases.rs` test the order of events.

use std::time::{Duration, Instant};

use fencepost_txn::network::LeaseCounts;

use crate::kind::Kind;
use crate::run;
use crate::world::World;

const KINDS: [Kind; 3] = [Kind::Local, Kind::Shm, Kind::Tcp];
/// The time limit of each wait.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn counts(world: &World, at: usize) -> LeaseCounts {
    world.machines[at].lease_counts().expect("it has leases")
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < TIME_LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn loaded_machines_renew_leases() {
    for kind in KINDS {
        let world = World::over(kind, 3, 2, 20);
        for machine in &world.machines {
            until("a lease", || machine.holds_lease());
        }
        run(&world, 6, 400);
        for (at, machine) in world.machines.iter().enumerate() {
            let before = counts(&world, at).renewals;
            assert!(before > 0);
            until("a renewal", || counts(&world, at).renewals > before);
            until("a lease", || machine.holds_lease());
        }
        world.wait_until_idle();
    }
}

#[test]
fn ended_machine_is_suspected_by_cm_alone() {
    for kind in KINDS {
        let mut world = World::over(kind, 3, 2, 20);
        until("a lease", || {
            world.machines.iter().all(|machine| machine.holds_lease())
        });
        drop(world.machines.pop());
        until("suspicion", || counts(&world, 0).suspected.contains(&3));
        assert!(!counts(&world, 1).suspected.contains(&3));
        let renewals = [0, 1].map(|at| counts(&world, at).renewals);
        for at in [0, 1] {
            until("the others' renewals", || {
                counts(&world, at).renewals > renewals[at]
            });
        }
    }
}

#[test]
fn ended_cm_is_suspected_by_all() {
    for kind in KINDS {
        let mut world = World::over(kind, 3, 2, 20);
        until("a lease", || {
            world.machines.iter().all(|machine| machine.holds_lease())
        });
        drop(world.machines.remove(0));
        until("suspicion", || {
            (0..2).all(|at| counts(&world, at).suspected == [1])
        });
        assert!(world.machines.iter().all(|machine| !machine.holds_lease()));
    }
}

#[test]
fn closed_machine_has_no_lease() {
    for kind in KINDS {
        let world = World::over(kind, 3, 2, 20);
        let last = &world.machines[2];
        until("a lease", || last.holds_lease());
        last.close().expect("nothing to flush");
        assert!(!last.holds_lease());
    }
}

#[test]
#[ignore = "takes ten minutes, and a host that has nothing else to do"]
fn ten_minutes_of_load_cause_no_suspicion() {
    for kind in KINDS {
        let world = World::over(kind, 3, 2, 20);
        let (world, began) = (&world, Instant::now());
        std::thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || {
                    let mut coordinator = world.machine(thread).coordinator();
                    let mut random = thread as u64 + 1;
                    while began.elapsed() < Duration::from_secs(200) {
                        let _ = world.attempt(&mut coordinator, &mut random);
                    }
                });
            }
        });
        for at in 0..3 {
            let found = counts(world, at);
            println!("{kind:?} m{}: {found:?}", at + 1);
            assert_eq!(found.expired, 0, "{kind:?}");
        }
    }
}
