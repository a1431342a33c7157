//! The cost of VALIDATE and of a refresh; and equal results of asking a primary and of one-sided
//! reads.

use fencepost_txn::network::PostKind;
use fencepost_txn::{AbortReason, Addr, Mode, Outcome, Transaction};
use pollster::block_on;

use crate::world::{Kind, World, commit, unless_conflict, word};

/// Returns the headers that a machine has read, and the messages that asked for headers.
fn looked(world: &World) -> (u64, u64) {
    let posted = world.machines[0].traffic();
    (posted.of(PostKind::Header), posted.of(PostKind::Validate))
}

/// Creates objects on the second machine, and one on the third.
fn objects(world: &World, count: usize) -> (Vec<Addr>, Addr) {
    let many = (0..count).map(|_| world.object(1, 1, 3, 1).addr);
    (many.collect(), world.object(2, 2, 3, 1).addr)
}

fn read(tx: &mut Transaction, addr: Addr) {
    assert_eq!(block_on(tx.read(addr, &mut Vec::new())), Ok(true));
}

/// Reads all objects, and overwrites one.
fn begin(world: &World, all: &[Addr], one: Addr) -> Transaction {
    let mut tx = world.begin(0, Mode::ReadWrite);
    all.iter().for_each(|addr| read(&mut tx, *addr));
    block_on(tx.write(one, &[2])).expect("there");
    tx
}

/// Overwrites an object, and waits until it is unlocked.
fn overwrite(world: &World, machine: usize, addr: Addr) {
    let mut tx = world.begin(machine, Mode::ReadWrite);
    block_on(tx.write(addr, &[7])).expect("there");
    commit(tx);
    world.wait_until_idle();
}

#[test]
fn validation_asks_primary_above_four_objects_else_reads_headers() {
    for (kind, count, cost) in [
        (Kind::Tcp, 1, (1, 0)),
        (Kind::Tcp, 4, (4, 0)),
        (Kind::Tcp, 5, (0, 1)),
        (Kind::Tcp, 512, (0, 1)),
        (Kind::Tcp, 513, (0, 2)),
        // Reading mapped memory costs neither.
        (Kind::Local, 5, (0, 0)),
    ] {
        let world = World::new(kind, 3, 1);
        let (all, one) = objects(&world, count);
        let before = looked(&world);
        commit(begin(&world, &all, one));
        let after = looked(&world);
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            cost,
            "{kind:?}, {count}"
        );
        world.wait_until_idle();
    }
}

#[test]
fn validation_skips_locked_objects() {
    let world = World::new(Kind::Tcp, 3, 2);
    let (all, one) = objects(&world, 8);
    let mut tx = begin(&world, &all, one);
    read(&mut tx, one);
    // Of the eight, four were only read.
    for addr in &all[4..] {
        block_on(tx.write(*addr, &[3])).expect("there");
    }
    let before = looked(&world);
    commit(tx);
    let after = looked(&world);
    assert_eq!((after.0 - before.0, after.1 - before.1), (4, 0));
    world.wait_until_idle();
}

#[test]
fn more_than_a_message_takes_is_asked_in_several() {
    let world = World::new(Kind::Tcp, 3, 1);
    let (some, one) = objects(&world, 600);
    // An object that is read several times is validated several times.
    let all: Vec<Addr> = some.iter().cycle().take(3000).copied().collect();
    let before = looked(&world);
    commit(begin(&world, &all, one));
    let after = looked(&world);
    // At most 2048 at a time: 4 messages, and 2 for the rest.
    assert_eq!((after.0 - before.0, after.1 - before.1), (0, 6));
    let tx = begin(&world, &all, one);
    overwrite(&world, 1, some[599]);
    let outcome = block_on(tx.commit());
    assert_eq!(outcome, Ok(Outcome::Aborted(AbortReason::ReadConflict)));
    world.wait_until_idle();
}

#[test]
fn validate_message_finds_each_changed_object() {
    for count in [4, 6] {
        for changed in 0..count {
            let world = World::new(Kind::Tcp, 3, 2);
            let (all, one) = objects(&world, count);
            let tx = begin(&world, &all, one);
            match changed % 2 {
                0 => overwrite(&world, 1, all[changed]),
                _ => {
                    let mut tx = world.begin(2, Mode::ReadWrite);
                    block_on(tx.free(all[changed])).expect("there");
                    commit(tx);
                    world.wait_until_idle();
                }
            }
            let outcome = block_on(tx.commit());
            assert_eq!(outcome, Ok(Outcome::Aborted(AbortReason::ReadConflict)));
            assert_eq!(world.word(0, one), Some(1));
            world.wait_until_idle();
        }
    }
}

#[test]
fn refresh_validates_reads_and_pending_writes() {
    let world = World::new(Kind::Tcp, 3, 1);
    let (all, one) = objects(&world, 5);
    let (owned, _) = objects(&world, 5);
    for moved in [false, true] {
        let mut tx = world.begin(0, Mode::ReadWrite);
        all.iter().for_each(|addr| read(&mut tx, *addr));
        for addr in &owned {
            block_on(tx.write(*addr, &[5])).expect("there");
        }
        let (snapshot, before) = (tx.read_timestamp(), looked(&world));
        overwrite(&world, 2, one);
        if moved {
            overwrite(&world, 2, owned[3]);
        }
        let seen = unless_conflict(block_on(tx.read(one, &mut Vec::new())));
        assert_eq!(seen, (!moved).then_some(true));
        let after = looked(&world);
        let messages = if moved { 1 } else { 2 };
        assert_eq!((after.0 - before.0, after.1 - before.1), (0, messages));
        if !moved {
            assert!(tx.read_timestamp() > snapshot);
            assert_eq!(word(&mut tx, one), Some(7));
            commit(tx);
        }
    }
    world.wait_until_idle();
}

#[test]
fn crossed_read_and_write_sets_do_not_both_commit() {
    let world = World::new(Kind::Tcp, 3, 2);
    let (many, one) = objects(&world, 6);
    for round in 0..40 {
        let first = begin(&world, &many, one);
        let mut second = world.begin(2, Mode::ReadWrite);
        read(&mut second, one);
        block_on(second.write(many[round % 6], &[3])).expect("there");
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| block_on(second.commit()).expect("an outcome"));
            let first = block_on(first.commit()).expect("an outcome");
            (first, second.join().expect("no panic"))
        });
        let both = [first, second].map(|outcome| matches!(outcome, Outcome::Committed(_)));
        assert!(both != [true, true], "write skew in round {round}");
    }
    world.wait_until_idle();
}

#[test]
fn validate_to_closing_machine_aborts_commit() {
    let world = World::new(Kind::Tcp, 3, 1);
    let (all, one) = objects(&world, 6);
    let tx = begin(&world, &all, one);
    world.wait_until_idle();
    world.machines[1].close().expect("no log");
    let before = looked(&world);
    let outcome = block_on(tx.commit());
    assert_eq!(outcome, Ok(Outcome::Aborted(AbortReason::Unreachable)));
    assert_eq!(looked(&world), (before.0, before.1 + 1));
    world.wait("the end of the wait", || world.machines[0].is_at_rest());
}
