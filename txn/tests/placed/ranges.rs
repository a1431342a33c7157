//! The records that replicas receive for small changes of large objects, and the equality of
//! replicas and primary.

use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_txn::network::PostKind;
use fencepost_txn::{Addr, Mode, Outcome};
use pollster::block_on;

use crate::sums::{PLAIN, SUMS};
use crate::world::{KINDS, Kind, LOG_WORDS, World, commit, unless_conflict};

const WORDS: usize = 300;

fn contents(world: &World, machine: usize, addr: Addr) -> Vec<u64> {
    let mut words = Vec::new();
    let mut tx = world.begin(machine, Mode::ReadOnly);
    assert_eq!(block_on(tx.read(addr, &mut words)), Ok(true));
    words.truncate(WORDS);
    words
}

/// Returns the number of words that a machine has written to others.
fn posted(world: &World, machine: usize) -> u64 {
    world.machines[machine]
        .fabric_counts()
        .expect("a fabric")
        .words
}

#[test]
fn small_change_of_large_object_sends_only_ranges() {
    let world = World::new(Kind::Local, 3, 3);
    for at in [0, 1] {
        let addr = world.object(0, at, WORDS, 1).addr;
        let mut expected = vec![1; WORDS];
        world.wait_until_idle();
        let before = posted(&world, 0);
        let mut tx = world.begin(0, Mode::ReadWrite);
        let change = |image: &mut [u64]| (image[3], image[260]) = (5, 6);
        block_on(tx.update(addr, change)).expect("there");
        commit(tx);
        world.wait_until_idle();
        // To the primary and two backups, or to two backups.
        assert!(posted(&world, 0) - before < 150);
        (expected[3], expected[260]) = (5, 6);
        assert_eq!(contents(&world, 2, addr), expected);
        // An object that changes completely is sent whole.
        let before = posted(&world, 0);
        let mut tx = world.begin(0, Mode::ReadWrite);
        block_on(tx.write(addr, &[7; WORDS])).expect("there");
        commit(tx);
        world.wait_until_idle();
        assert!(posted(&world, 0) - before > 2 * WORDS as u64);
        assert_eq!(contents(&world, 2, addr), [7; WORDS]);
    }
}

#[test]
fn replicas_are_alike_after_changes_of_all_sizes_by_all_machines() {
    for (kind, replicas) in [(KINDS[0], 3), (KINDS[1], 3), (KINDS[1], 1)] {
        let world = World::new(kind, 3, replicas);
        for at in 0..3 {
            let addr = world.object(2, at, WORDS, 0).addr;
            let mut expected = vec![0; WORDS];
            for step in 1..40u64 {
                let (from, count) = (step as usize * 97 % WORDS, 1 << (step % 9));
                let words = from..(from + count).min(WORDS);
                let machine = step as usize % 3;
                // The previous commit has released its locks.
                world.wait_until_idle();
                let mut tx = world.begin(machine, Mode::ReadWrite);
                let savepoint = tx.savepoint();
                if step % 5 == 0 {
                    block_on(tx.update(addr, |image| image.fill(99))).expect("there");
                    tx.rollback_to(&savepoint);
                }
                block_on(tx.update(addr, |image| image[words.clone()].fill(step))).expect("there");
                tx.release(savepoint);
                commit(tx);
                expected[words].fill(step);
                let reader = (machine + 1) % 3;
                assert_eq!(contents(&world, reader, addr), expected, "{kind:?}");
            }
        }
        world.wait_until_idle();
    }
}

#[test]
fn concurrent_changes_reach_all_replicas() {
    const EACH: usize = 120;
    for (kind, replicas) in [(KINDS[0], 3), (KINDS[1], 2)] {
        let world = World::new(kind, 3, replicas);
        let objects: Vec<Addr> = (0..3)
            .map(|at| world.object(0, at, WORDS, 0).addr)
            .collect();
        let committed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for machine in 0..3 {
                let (world, objects, committed) = (&world, &objects, &committed);
                scope.spawn(move || {
                    let mut coordinator = world.machines[machine].coordinator();
                    for step in 0..EACH {
                        let at = machine * 31 + step * 7;
                        let mut tx = coordinator.begin(Mode::ReadWrite);
                        let mut all = true;
                        for addr in [objects[step % 3], objects[(step + machine) % 3]] {
                            let add = |image: &mut [u64]| image[at % WORDS] += 1;
                            all &= unless_conflict(block_on(tx.update(addr, add))).is_some();
                        }
                        if !all {
                            continue;
                        }
                        let outcome = unless_conflict(block_on(tx.commit()));
                        if let Some(Outcome::Committed(_)) = outcome {
                            committed.fetch_add(2, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        world.wait_until_idle();
        let sum = |addr: &Addr| contents(&world, 1, *addr).iter().sum::<u64>();
        let sum: u64 = objects.iter().map(sum).sum();
        assert_eq!(sum, committed.into_inner() as u64, "{kind:?}");
        assert!(sum > 20, "{sum}");
    }
}

#[test]
fn patches_of_moved_node_apply_to_current_version() {
    for kind in KINDS {
        let world = World::new(kind, 3, 3);
        for at in 0..3 {
            let node = world.object(1, at, WORDS, 0).addr;
            let before = moved(&world);
            let patch = |machine: usize, word: u64| {
                let mut tx = world.begin(machine, Mode::ReadWrite);
                let done = block_on(tx.patch(node, &SUMS, &[word, 2]));
                assert_eq!(done, Ok(Ok(())));
                tx
            };
            // All are based on the same version, and none conflicts with another.
            let all = [patch(0, 5), patch(1, 150), patch(2, 5), patch(0, 299)];
            let last = all.map(|tx| {
                let Ok(Outcome::Committed(w)) = block_on(tx.commit()) else {
                    panic!("a patch conflicts with another patch");
                };
                // The next one finds no lock.
                world.wait_until_idle();
                w
            });
            let mut expected = vec![0; WORDS];
            expected[0] = last[3].raw();
            (expected[5], expected[150], expected[299]) = (4, 2, 2);
            assert_eq!(contents(&world, 2, node), expected, "{kind:?}");
            // The first node had not moved, and one commit is that of the primary itself.
            assert_eq!(moved(&world) - before, 2, "{kind:?}");
        }
        world.wait_until_idle();
    }
}

#[test]
fn patch_without_change_commits() {
    for kind in KINDS {
        let world = World::new(kind, 3, 3);
        for at in 0..3 {
            let node = world.object(1, at, WORDS, 4).addr;
            for _ in 0..3 {
                let mut tx = world.begin(0, Mode::ReadWrite);
                // The first word becomes the commit timestamp again, even without a change.
                let done = block_on(tx.patch(node, &SUMS, &[9, 0]));
                assert_eq!(done, Ok(Ok(())));
                commit(tx);
                let mut tx = world.begin(0, Mode::ReadWrite);
                let done = block_on(tx.patch(node, &PLAIN, &[9, 0]));
                assert_eq!(done, Ok(Ok(())));
                commit(tx);
                world.wait_until_idle();
            }
            assert_eq!(contents(&world, 2, node)[1..], [4; WORDS - 1], "{kind:?}");
        }
    }
}

/// Returns the number of LOCK-MOVED records, which carry values after a LOCK.
fn moved(world: &World) -> u64 {
    let machines = world.machines.iter();
    machines
        .map(|machine| machine.traffic().of(PostKind::LockMoved))
        .sum()
}

#[test]
fn values_beyond_lock_record_follow_in_lock_moved() {
    const NODE_WORDS: usize = 30;
    // Twice as many values do not fit a log.
    const NODES: usize = LOG_WORDS / 5 / NODE_WORDS;
    for kind in KINDS {
        let world = World::new(kind, 2, 1);
        let object = |_| world.object(1, 1, NODE_WORDS, 0).addr;
        let nodes: Vec<Addr> = (0..NODES).map(object).collect();
        for (many, follow) in [(NODES / 8, 0), (NODES, 1)] {
            world.wait_until_idle();
            let before = moved(&world);
            let mut tx = world.begin(0, Mode::ReadWrite);
            for node in &nodes[..many] {
                let done = block_on(tx.patch(*node, &SUMS, &[7, 3]));
                assert_eq!(done, Ok(Ok(())));
            }
            commit(tx);
            world.wait_until_idle();
            assert_eq!(moved(&world) - before, follow, "{kind:?}");
        }
        let sums = |node| contents(&world, 1, node)[7];
        let sums: u64 = nodes.into_iter().map(sums).sum();
        assert_eq!(sums as usize, 3 * (NODES + NODES / 8), "{kind:?}");
    }
}
