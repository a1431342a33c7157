//! New objects whose primary is another machine than the coordinator.

mod evidence;
mod handover;
mod race;
mod ranges;
mod regions;
mod snapshot;
mod sums;
mod validate;
mod world;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fencepost_txn::{Addr, LockFree, Mode, ObjectLocation, Outcome, Stop, View};
use pollster::block_on;
use sums::SUMS;
use world::{KINDS, Kind, LOG_WORDS, World, commit, place, word};

#[test]
fn new_object_is_at_its_location_and_invisible_before_commit() {
    for kind in KINDS {
        let world = World::new(kind, 3, 3);
        let beside = world.object(1, 1, 3, 7).addr;
        let mut tx = world.begin(0, Mode::ReadWrite);
        for (near, at) in [
            (ObjectLocation::Own, 0),
            (ObjectLocation::OwnBeside(beside), 0),
            (place(0), 0),
            (place(2), 2),
            (ObjectLocation::Object(beside), 1),
        ] {
            let ptr = block_on(tx.alloc(20, near)).expect("memory");
            assert!(world.machines[at].regions().is_own(ptr.addr), "{near:?}");
            assert!(tx.owns(ptr.addr) && tx.has_image(ptr.addr));
            assert_eq!(word(&mut tx, ptr.addr), Some(0));
            tx.write_new(ptr, &[9; 20]).expect("its own");
            block_on(tx.update(ptr.addr, |image| image[0] = 8)).expect("its own");
            block_on(tx.write(ptr.addr, &[5])).expect("its own");
            let mut words = Vec::new();
            assert_eq!(block_on(tx.read(ptr.addr, &mut words)), Ok(true));
            assert_eq!((words[0], words[1], words[19]), (5, 9, 9));
            for machine in 0..3 {
                assert_eq!(world.word(machine, ptr.addr), None);
            }
        }
        commit(tx);
        world.wait_until_idle();
        assert_eq!(world.objects(), 6);
    }
}

#[test]
fn object_created_remotely_behaves_as_any_object() {
    for kind in KINDS {
        let world = World::new(kind, 2, 2);
        let first = world.object(0, 1, 3, 1);
        let lockfree = |machine: usize| {
            let mut words = Vec::new();
            let found = world.machines[machine].read_lockfree(first, &mut words);
            block_on(found).expect("reached")
        };
        assert_eq!(
            (lockfree(0), lockfree(1)),
            (LockFree::Found, LockFree::Found)
        );
        let mut past = world.begin(0, Mode::ReadOnly);
        for machine in [1, 0] {
            let mut tx = world.begin(machine, Mode::ReadWrite);
            block_on(tx.update(first.addr, |image| image[0] += 1)).expect("there");
            commit(tx);
        }
        assert_eq!(world.word(1, first.addr), Some(3));
        assert_eq!(word(&mut past, first.addr), Some(1));
        past.abort();
        let mut tx = world.begin(0, Mode::ReadWrite);
        block_on(tx.free(first.addr)).expect("there");
        commit(tx);
        assert_eq!(
            (lockfree(0), lockfree(1)),
            (LockFree::Freed, LockFree::Freed)
        );
        world.wait_until_idle();
        assert_eq!(world.objects(), 0);
    }
}

#[test]
fn slots_of_uncommitted_objects_are_reused() {
    for kind in KINDS {
        let world = World::new(kind, 2, 2);
        let mut slots = Vec::new();
        for round in 0..6 {
            let mut tx = world.begin(0, Mode::ReadWrite);
            let new = block_on(tx.alloc(3, place(1))).expect("memory");
            tx.write_new(new, &[1, 2, 3]).expect("its own");
            slots.push(new);
            match round % 3 {
                0 => tx.abort(),
                1 => drop(tx),
                _ => {
                    // Freed before it was committed.
                    block_on(tx.free(new.addr)).expect("its own");
                    assert!(!tx.owns(new.addr));
                    assert_eq!(word(&mut tx, new.addr), None);
                    commit(tx);
                }
            }
            assert!(world.machines[0].reserved().stock.contains(&new.addr));
        }
        assert!(slots.iter().all(|slot| *slot == slots[0]), "{slots:?}");
        world.wait_until_idle();
        assert_eq!(world.objects(), 0);
        // The earlier contents of the image must not appear.
        let mut tx = world.begin(0, Mode::ReadWrite);
        let new = block_on(tx.alloc(3, place(1))).expect("memory");
        assert_eq!(new, slots[0]);
        commit(tx);
        assert_eq!(world.word(1, new.addr), Some(0));
        world.wait_until_idle();
    }
}

#[test]
fn failed_commit_leaves_slot_to_next_transaction() {
    for kind in KINDS {
        let world = World::new(kind, 3, 2);
        let other = world.object(2, 2, 3, 1).addr;
        let mut tx = world.begin(0, Mode::ReadWrite);
        assert_eq!(word(&mut tx, other), Some(1));
        block_on(tx.read(other, &mut Vec::new())).expect("there");
        let new = block_on(tx.alloc(3, place(1))).expect("memory");
        let mut faster = world.begin(2, Mode::ReadWrite);
        block_on(faster.write(other, &[2])).expect("there");
        commit(faster);
        let outcome = block_on(tx.commit()).expect("an outcome");
        assert!(matches!(outcome, Outcome::Aborted(_)), "{outcome:?}");
        // The same slot; the order of the log ensures that its lock was released first.
        let mut tx = world.begin(0, Mode::ReadWrite);
        let again = block_on(tx.alloc(3, place(1))).expect("memory");
        assert_eq!(again, new);
        tx.write_new(again, &[4; 3]).expect("its own");
        commit(tx);
        assert_eq!(world.word(1, again.addr), Some(4));
        world.wait_until_idle();
    }
}

#[test]
fn rollback_to_savepoint_removes_new_objects() {
    for kind in KINDS {
        let world = World::new(kind, 2, 1);
        let mut tx = world.begin(0, Mode::ReadWrite);
        let kept = block_on(tx.alloc(3, place(1))).expect("memory");
        tx.write_new(kept, &[1, 2, 3]).expect("its own");
        let savepoint = tx.savepoint();
        block_on(tx.write(kept.addr, &[7])).expect("its own");
        let undone = block_on(tx.alloc(3, place(1))).expect("memory");
        tx.write_new(undone, &[9]).expect("its own");
        tx.rollback_to(&savepoint);
        assert!(!tx.owns(undone.addr) && tx.owns(kept.addr));
        assert_eq!(word(&mut tx, kept.addr), Some(1));
        block_on(tx.free(kept.addr)).expect("its own");
        assert_eq!(word(&mut tx, kept.addr), None);
        tx.rollback_to(&savepoint);
        assert_eq!(word(&mut tx, kept.addr), Some(1));
        tx.release(savepoint);
        commit(tx);
        assert_eq!(world.word(1, kept.addr), Some(1));
        world.wait_until_idle();
        assert_eq!(world.objects(), 1);
    }
}

#[test]
fn run_of_slots_is_contiguous() {
    for kind in KINDS {
        let world = World::new(kind, 2, 2);
        // More slots than one message can return.
        const COUNT: usize = 600;
        let stride = fencepost_txn::slot_bytes(1).expect("small") as u64;
        let mut tx = world.begin(0, Mode::ReadWrite);
        let run = block_on(tx.alloc_run(1, COUNT, place(1))).expect("memory");
        let at = |i: usize| Addr::from_raw(run.addr.raw() + i as u64 * stride);
        assert!(world.machines[1].regions().is_own(run.addr));
        assert!((0..COUNT).all(|i| tx.owns(at(i))));
        // Slots beyond the limit of reserved slots go back.
        tx.abort();
        world.wait_until_idle();
        world.wait("a smaller stock", || world.reserved().0.len() <= 32);
        let mut tx = world.begin(0, Mode::ReadWrite);
        let run = block_on(tx.alloc_run(1, 10, place(1))).expect("memory");
        for i in 0..10 {
            let addr = Addr::from_raw(run.addr.raw() + i * stride);
            let ptr = fencepost_txn::FatPtr { addr, ..run };
            tx.write_new(ptr, &[i]).expect("its own");
        }
        commit(tx);
        for i in 0..10 {
            let addr = Addr::from_raw(run.addr.raw() + i * stride);
            assert_eq!(world.word(1, addr), Some(i));
        }
        let mut tx = world.begin(0, Mode::ReadWrite);
        let too_many = block_on(tx.alloc_run(100, 100_000, place(1)));
        assert!(matches!(too_many, Err(Stop::TooLarge(_))));
        tx.abort();
        world.wait_until_idle();
    }
}

#[test]
fn slots_returned_before_reservation_are_available() {
    for kind in KINDS {
        let world = World::limited(kind, 2, 1, 2 << 20);
        let mut made = Vec::new();
        for _ in 0..40 {
            let mut tx = world.begin(0, Mode::ReadWrite);
            let new = || block_on(tx.alloc(1000, place(1)));
            made.push(
                std::iter::repeat_with(new)
                    .take_while(Result::is_ok)
                    .count(),
            );
            // Most slots go back while the next transaction reserves them.
            tx.abort();
        }
        assert!(
            made[0] > 50 && made.iter().all(|n| *n == made[0]),
            "{made:?}"
        );
        world.wait_until_idle();
    }
}

#[test]
fn allocation_without_remote_memory_fails_without_leak() {
    for kind in KINDS {
        let world = World::limited(kind, 2, 1, 2 << 20);
        let before = world.machines[1].account().used();
        for run in [8, 1] {
            let mut tx = world.begin(0, Mode::ReadWrite);
            let mut made = 0;
            let refused = loop {
                let new = match run {
                    1 => block_on(tx.alloc(1000, place(1))),
                    run => block_on(tx.alloc_run(1000, run, place(1))),
                };
                match new {
                    Ok(_) => made += run,
                    Err(stop) => break stop,
                }
            };
            assert_eq!(refused, Stop::OutOfMemory);
            assert!(made > 50, "{made}");
            // This machine still has memory.
            block_on(tx.alloc(10, ObjectLocation::Own)).expect("memory");
            tx.abort();
            world.wait_until_idle();
        }
        world.machines[0].close().expect("no log");
        world.wait("all slots to go back", || world.reserved().1.is_empty());
        world.machines[1].tidy();
        assert_eq!(world.machines[1].account().used(), before);
    }
}

#[test]
fn idle_slots_return_and_closing_machine_returns_all() {
    for kind in KINDS {
        let world = World::new(kind, 3, 1);
        let began = Instant::now();
        world.object(0, 1, 3, 1);
        world.object(2, 1, 3, 1);
        world.wait_until_idle();
        let leased = world.machines[1].reserved().leased.len();
        // If the host was slow, the slots were idle and have gone back.
        assert!(
            leased == 2 * 15 || began.elapsed() > Duration::from_millis(500),
            "{leased}"
        );
        world.wait("idle stocks to go back", || world.reserved().1.is_empty());
        world.wait_until_idle();
        world.object(0, 1, 300, 1);
        world.machines[0].close().expect("no log");
        world.wait("all slots to go back", || world.reserved().1.is_empty());
        assert_eq!(world.reserved().0.len(), 0);
    }
}

#[test]
fn slots_of_abandoned_request_are_not_lost() {
    for kind in KINDS {
        let world = World::new(kind, 2, 1);
        let mut cx = Context::from_waker(Waker::noop());
        for words in [3, 300] {
            let mut tx = world.begin(0, Mode::ReadWrite);
            let many = [1, 5][usize::from(words == 300)];
            {
                let mut alloc = pin!(tx.alloc_run(words, many, place(1)));
                let _: Poll<_> = alloc.as_mut().poll(&mut cx);
            }
            tx.abort();
            world.wait_until_idle();
            world.object(0, 1, words, 5);
        }
        world.wait_until_idle();
        assert_eq!(world.objects(), 2);
    }
}

#[test]
fn new_objects_commit_up_to_log_size() {
    for kind in KINDS {
        let world = World::new(kind, 3, 3);
        let many = |count: usize| {
            let mut tx = world.begin(0, Mode::ReadWrite);
            let mut made = Vec::new();
            for value in 0..count {
                let new = block_on(tx.alloc(20, place(1))).expect("memory");
                tx.write_new(new, &[value as u64; 20]).expect("its own");
                made.push(new.addr);
            }
            (made, block_on(tx.commit()))
        };
        // With the records to their backups they exceed the space of a log.
        let (made, outcome) = many(LOG_WORDS / 160);
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        for (value, addr) in made.iter().enumerate() {
            assert_eq!(world.word(2, *addr), Some(value as u64));
        }
        let (_, refused) = many(LOG_WORDS / 20);
        assert!(matches!(refused, Err(Stop::TooLarge(_))), "{refused:?}");
        world.wait_until_idle();
        assert_eq!(world.objects(), made.len());
    }
}

#[test]
fn stamped_new_objects_carry_commit_timestamp() {
    for kind in KINDS {
        let world = World::new(kind, 2, 2);
        let mut tx = world.begin(0, Mode::ReadWrite);
        let stamped = block_on(tx.alloc(3, place(1))).expect("memory");
        tx.write_new(stamped, &[1, 2, 3]).expect("its own");
        tx.stamp_with(stamped.addr, &SUMS).expect("its own");
        assert!(tx.stamps(stamped.addr));
        let patched = block_on(tx.alloc(3, place(1))).expect("memory");
        let done = block_on(tx.patch(patched.addr, &SUMS, &[1, 6]));
        assert_eq!(done, Ok(Ok(())));
        let Ok(Outcome::Committed(w)) = block_on(tx.commit()) else {
            panic!("the commit has a conflict");
        };
        let mut tx = world.begin(1, Mode::ReadOnly);
        for (addr, then) in [(stamped.addr, 2), (patched.addr, 6)] {
            let look = |view: &View<'_>| (view.word(0), view.word(1));
            let seen = block_on(tx.view(addr, None, look)).expect("readable");
            assert_eq!(seen.map(|(words, _)| words), Some((w.raw(), then)));
        }
        tx.abort();
        world.wait_until_idle();
    }
}

#[test]
fn split_on_other_machine_keeps_old_versions() {
    for kind in KINDS {
        let world = World::new(kind, 3, 2);
        let left = world.object(1, 1, 4, 1).addr;
        let mut past = world.begin(2, Mode::ReadOnly);
        let mut before = world.begin(0, Mode::ReadOnly);
        let mut tx = world.begin(0, Mode::ReadWrite);
        // Old versions can be found only from an object beside the one that it is split from.
        let right = tx.alloc_split_of(4, place(2), left);
        let right = block_on(right).expect("memory").addr;
        assert!(world.machines[1].regions().is_own(right));
        let further = tx.alloc_split_of(4, ObjectLocation::Object(right), right);
        let further = block_on(further).expect("memory").addr;
        for (addr, value) in [(right, 3), (further, 4), (left, 2)] {
            block_on(tx.write(addr, &[value; 4])).expect("no conflict");
        }
        commit(tx);
        for addr in [left, right, further] {
            assert_eq!(word(&mut past, addr), Some(1), "{kind:?}");
            assert_eq!(word(&mut before, addr), Some(1), "{kind:?}");
        }
        let now = [left, right, further].map(|addr| world.word(0, addr));
        assert_eq!(now, [Some(2), Some(3), Some(4)]);
        past.abort();
        before.abort();
        world.wait_until_idle();
    }
}

#[test]
fn single_machine_holds_all_objects() {
    let machine = fencepost_txn::Machine::open(fencepost_txn::MachineOptions::default());
    let machine = machine.expect("opens");
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let mut cx = Context::from_waker(Waker::noop());
    for near in [
        ObjectLocation::Own,
        place(4),
        ObjectLocation::Object(machine.root()),
    ] {
        // Ready at once.
        let alloc = pin!(tx.alloc(3, near)).as_mut().poll(&mut cx);
        let Poll::Ready(Ok(ptr)) = alloc else {
            panic!("{near:?}: {alloc:?}");
        };
        assert!(machine.regions().is_own(ptr.addr));
    }
    tx.abort();
    let world = World::new(Kind::Local, 2, 1);
    let mut tx = world.begin(0, Mode::ReadWrite);
    let refused = block_on(tx.alloc(3, place(7)));
    assert!(matches!(refused, Err(Stop::Retry(_))), "{refused:?}");
}
