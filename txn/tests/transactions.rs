//! Single transactions, step by step.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use fencepost_txn::{
    AbortReason, Addr, FatPtr, LockFree, Machine, MachineOptions, Mode, ObjectLocation, Outcome,
    Stop, Strength, Transaction, View,
};
use pollster::block_on;

fn machine() -> Arc<Machine> {
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        ..MachineOptions::default()
    })
    .expect("memory tier opens")
}

fn begin(machine: &Arc<Machine>, mode: Mode) -> Transaction {
    machine.coordinator().begin(mode)
}

/// Commits a new object with this payload and returns its address.
fn object(machine: &Arc<Machine>, payload: &[u64]) -> Addr {
    let mut tx = begin(machine, Mode::ReadWrite);
    let ptr = block_on(tx.alloc(payload.len(), ObjectLocation::Own)).expect("memory");
    block_on(tx.write(ptr.addr, payload)).expect("own object");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    ptr.addr
}

fn read(tx: &mut Transaction, addr: Addr) -> Result<Option<u64>, Stop> {
    let mut out = Vec::new();
    Ok(block_on(tx.read(addr, &mut out))?.then(|| out[0]))
}

fn put(tx: &mut Transaction, addr: Addr, value: u64) -> Result<(), Stop> {
    block_on(tx.write(addr, &[value]))
}

fn commit(tx: Transaction) -> Outcome {
    block_on(tx.commit()).expect("nothing fails in the memory tier")
}

fn set(machine: &Arc<Machine>, addr: Addr, value: u64) {
    let mut tx = begin(machine, Mode::ReadWrite);
    put(&mut tx, addr, value).expect("no conflict");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
}

#[test]
fn reader_keeps_snapshot_during_writes_and_frees() {
    let machine = machine();
    let addrs: Vec<Addr> = (0..5).map(|i| object(&machine, &[i, i, i])).collect();
    let mut reader = begin(&machine, Mode::ReadOnly);
    for round in 1..=3u64 {
        for addr in &addrs {
            set(&machine, *addr, 100 * round);
        }
    }
    let mut tx = begin(&machine, Mode::ReadWrite);
    block_on(tx.free(addrs[0])).expect("exists");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    for (i, addr) in addrs.iter().enumerate() {
        assert_eq!(read(&mut reader, *addr), Ok(Some(i as u64)));
    }
    assert!(matches!(commit(reader), Outcome::Committed(_)));
    let mut now = begin(&machine, Mode::ReadOnly);
    assert_eq!(read(&mut now, addrs[0]), Ok(None));
    assert_eq!(read(&mut now, addrs[1]), Ok(Some(300)));
}

#[test]
fn own_writes_are_visible_only_to_own_transaction_before_commit() {
    let machine = machine();
    let addr = object(&machine, &[1]);
    let mut tx = begin(&machine, Mode::ReadWrite);
    put(&mut tx, addr, 2).expect("no conflict");
    let new = block_on(tx.alloc(3, ObjectLocation::Object(addr))).expect("memory");
    tx.write_new(new, &[7, 8, 9]).expect("own object");
    assert_eq!(
        (read(&mut tx, addr), read(&mut tx, new.addr)),
        (Ok(Some(2)), Ok(Some(7)))
    );
    let mut other = begin(&machine, Mode::ReadOnly);
    assert_eq!(
        (read(&mut other, addr), read(&mut other, new.addr)),
        (Ok(Some(1)), Ok(None))
    );
    drop(tx);
    let mut other = begin(&machine, Mode::ReadOnly);
    assert_eq!(read(&mut other, addr), Ok(Some(1)));
}

#[test]
fn second_writer_of_one_version_aborts() {
    let machine = machine();
    let addr = object(&machine, &[1]);
    let (mut a, mut b) = (
        begin(&machine, Mode::ReadWrite),
        begin(&machine, Mode::ReadWrite),
    );
    put(&mut a, addr, 2).expect("first look");
    put(&mut b, addr, 3).expect("first look");
    assert!(matches!(commit(b), Outcome::Committed(_)));
    assert_eq!(commit(a), Outcome::Aborted(AbortReason::WriteConflict));
    assert_eq!(
        machine.counters().totals().aborts[AbortReason::WriteConflict as usize],
        1
    );
}

#[test]
fn write_skew_is_prevented() {
    let machine = machine();
    let (x, y) = (object(&machine, &[1]), object(&machine, &[1]));
    let (mut a, mut b) = (
        begin(&machine, Mode::ReadWrite),
        begin(&machine, Mode::ReadWrite),
    );
    for tx in [&mut a, &mut b] {
        assert_eq!((read(tx, x), read(tx, y)), (Ok(Some(1)), Ok(Some(1))));
    }
    put(&mut a, x, 0).expect("no conflict yet");
    put(&mut b, y, 0).expect("no conflict yet");
    assert!(matches!(commit(a), Outcome::Committed(_)));
    assert_eq!(commit(b), Outcome::Aborted(AbortReason::ReadConflict));
}

#[test]
fn newer_version_refreshes_snapshot_if_reads_are_unchanged() {
    let machine = machine();
    let (x, y, z) = (
        object(&machine, &[1]),
        object(&machine, &[1]),
        object(&machine, &[1]),
    );
    let mut tx = begin(&machine, Mode::ReadWrite);
    assert_eq!(read(&mut tx, x), Ok(Some(1)));
    set(&machine, y, 2);
    assert_eq!(
        read(&mut tx, y),
        Ok(Some(2)),
        "x is unchanged, so now is as good as then"
    );
    put(&mut tx, z, 5).expect("no conflict");
    set(&machine, x, 9);
    set(&machine, y, 9);
    assert_eq!(
        read(&mut tx, y),
        Err(Stop::Retry(AbortReason::RefreshFailed)),
        "a writer never acts on the past"
    );
    assert_eq!(machine.counters().totals().refreshes, 1);
}

#[test]
fn read_only_transaction_keeps_old_snapshot() {
    let machine = machine();
    let (x, y) = (object(&machine, &[1]), object(&machine, &[1]));
    let mut tx = begin(&machine, Mode::ReadWrite);
    assert_eq!(read(&mut tx, x), Ok(Some(1)));
    set(&machine, x, 2);
    set(&machine, y, 2);
    assert_eq!(
        (read(&mut tx, x), read(&mut tx, y)),
        (Ok(Some(1)), Ok(Some(1)))
    );
    assert!(matches!(commit(tx), Outcome::Committed(_)));
}

#[test]
fn savepoints_take_back_writes_allocations_and_frees() {
    let machine = machine();
    let (x, y) = (object(&machine, &[1]), object(&machine, &[1]));
    let mut tx = begin(&machine, Mode::ReadWrite);
    put(&mut tx, x, 2).expect("no conflict");
    let new = block_on(tx.alloc(1, ObjectLocation::Own)).expect("memory");
    tx.write_new(new, &[10]).expect("own");
    let first = tx.savepoint();
    put(&mut tx, x, 3).expect("no conflict");
    tx.write_new(new, &[11]).expect("own");
    let second = tx.savepoint();
    block_on(tx.free(y)).expect("exists");
    let undone = block_on(tx.alloc(1, ObjectLocation::Own)).expect("memory");
    assert_eq!(read(&mut tx, y), Ok(None));
    tx.rollback_to(&second);
    assert_eq!(
        (read(&mut tx, y), read(&mut tx, x)),
        (Ok(Some(1)), Ok(Some(3)))
    );
    assert!(!tx.owns(undone.addr));
    tx.rollback_to(&first);
    assert_eq!(
        (read(&mut tx, x), read(&mut tx, new.addr)),
        (Ok(Some(2)), Ok(Some(10)))
    );
    tx.release(first);
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    let mut now = begin(&machine, Mode::ReadOnly);
    assert_eq!(
        (
            read(&mut now, x),
            read(&mut now, y),
            read(&mut now, new.addr)
        ),
        (Ok(Some(2)), Ok(Some(1)), Ok(Some(10)))
    );
}

#[test]
fn lock_free_read_detects_reused_slot() {
    let machine = machine();
    let mut tx = begin(&machine, Mode::ReadWrite);
    let ptr = block_on(tx.alloc(2, ObjectLocation::Own)).expect("memory");
    tx.write_new(ptr, &[5, 6]).expect("own");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    let mut out = Vec::new();
    assert_eq!(
        block_on(machine.read_lockfree(ptr, &mut out)).expect("reached"),
        LockFree::Found
    );
    assert_eq!(out, [5, 6]);
    let mut tx = begin(&machine, Mode::ReadWrite);
    block_on(tx.free(ptr.addr)).expect("exists");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    assert_eq!(
        block_on(machine.read_lockfree(ptr, &mut out)).expect("reached"),
        LockFree::Freed
    );
    // The slot is reused once no transaction reads at the tombstone or before it.
    let again = (0..20_000).find_map(|_| {
        let mut tx = begin(&machine, Mode::ReadWrite);
        let next = block_on(tx.alloc(2, ObjectLocation::Own)).expect("memory");
        assert!(matches!(commit(tx), Outcome::Committed(_)));
        (next.addr == ptr.addr).then_some(next)
    });
    let again = again.expect("the freed slot is used again");
    assert_ne!(again.incarnation, ptr.incarnation);
    assert_eq!(
        block_on(machine.read_lockfree(ptr, &mut out)).expect("reached"),
        LockFree::Freed
    );
    assert_eq!(
        block_on(machine.read_lockfree(again, &mut out)).expect("reached"),
        LockFree::Found
    );
}

#[test]
fn single_read_suffices_without_concurrent_writer() {
    let machine = machine();
    let mut tx = begin(&machine, Mode::ReadWrite);
    let ptr = block_on(tx.alloc(2, ObjectLocation::Own)).expect("memory");
    tx.write_new(ptr, &[5, 6]).expect("own");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    let word = |view: &View<'_>| view.word(1);
    let glimpses = || {
        let linked = machine.glimpse_linked(ptr, word);
        (machine.glimpse(ptr.addr, word), linked)
    };
    assert_eq!(glimpses(), (Some(Some(6)), Some(Some(6))));
    let object = machine.regions().object(ptr.addr).expect("there");
    let header = object.header();
    let lock = || object.try_lock(header).expect("the lock is free");
    // The object is locked during the look.
    let torn = machine.glimpse(ptr.addr, |_| lock());
    assert_eq!((torn, glimpses()), (None, (None, None)));
    // A reader that looks again waits, and yields to other tasks.
    let mut out = Vec::new();
    let mut reading = Box::pin(machine.read_lockfree(ptr, &mut out));
    let mut looking = Box::pin(machine.view_current(ptr.addr, word));
    let mut tx = begin(&machine, Mode::ReadOnly);
    let mut viewing = Box::pin(tx.view(ptr.addr, None, word));
    let mut context = Context::from_waker(Waker::noop());
    assert!(reading.as_mut().poll(&mut context).is_pending());
    assert!(looking.as_mut().poll(&mut context).is_pending());
    assert!(viewing.as_mut().poll(&mut context).is_pending());
    object.unlock(header);
    assert_eq!(block_on(reading), Ok(LockFree::Found));
    assert_eq!(block_on(looking), Ok(Some(6)));
    let viewed = block_on(viewing).expect("a snapshot");
    assert_eq!(viewed.map(|(word, _)| word), Some(6));
    assert_eq!(out, [5, 6]);
    tx.abort();
    let mut tx = begin(&machine, Mode::ReadWrite);
    block_on(tx.free(ptr.addr)).expect("exists");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    assert_eq!(glimpses(), (Some(None), Some(None)));
    let nowhere = FatPtr {
        addr: Addr::from_raw(u64::MAX),
        ..ptr
    };
    assert_eq!(machine.glimpse(nowhere.addr, word), Some(None));
    assert_eq!(machine.glimpse_linked(nowhere, word), Some(None));
}

#[test]
fn split_shows_old_snapshots_the_earlier_image() {
    let machine = machine();
    let left = object(&machine, &[1, 2, 3, 4]);
    let mut past = begin(&machine, Mode::ReadOnly);
    let mut tx = begin(&machine, Mode::ReadWrite);
    let right = block_on(tx.alloc_split_of(4, ObjectLocation::Object(left), left)).expect("memory");
    tx.write_new(right, &[3, 4, 0, 0]).expect("own");
    block_on(tx.write(left, &[1, 2, 0, 0])).expect("no conflict");
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    let mut out = Vec::new();
    assert_eq!(block_on(past.read(right.addr, &mut out)), Ok(true));
    assert_eq!(out[..4], [1, 2, 3, 4]);
    let mut now = begin(&machine, Mode::ReadOnly);
    assert_eq!(block_on(now.read(right.addr, &mut out)), Ok(true));
    assert_eq!(out[..4], [3, 4, 0, 0]);
}

#[test]
fn at_the_memory_limit_writes_stop_and_reads_go_on() {
    let options = MachineOptions {
        region_bytes: 16 << 20,
        memory_limit: 2 << 20,
        lanes: 1,
        ..MachineOptions::default()
    };
    let machine = Machine::open(options).expect("opens");
    let mut kept = Vec::new();
    let stop = loop {
        let mut tx = begin(&machine, Mode::ReadWrite);
        match block_on(tx.alloc(1000, ObjectLocation::Own)) {
            Ok(ptr) => {
                tx.write_new(ptr, &[kept.len() as u64]).expect("own");
                assert!(matches!(commit(tx), Outcome::Committed(_)));
                kept.push(ptr.addr);
            }
            Err(stop) => break stop,
        }
    };
    assert_eq!(stop, Stop::OutOfMemory);
    let mut tx = begin(&machine, Mode::ReadOnly);
    for (i, addr) in kept.iter().enumerate() {
        assert_eq!(read(&mut tx, *addr), Ok(Some(i as u64)));
    }
    assert!(kept.len() > 50);
}

#[test]
fn past_the_old_version_limit_the_oldest_reader_is_told() {
    let options = MachineOptions {
        region_bytes: 16 << 20,
        old_version_limit: 1 << 20,
        lanes: 1,
        ..MachineOptions::default()
    };
    let machine = Machine::open(options).expect("opens");
    let addr = object(&machine, &[0; 200]);
    let mut old = begin(&machine, Mode::ReadOnly);
    for i in 1..5000 {
        set(&machine, addr, i);
    }
    assert_eq!(
        read(&mut old, addr),
        Err(Stop::Retry(AbortReason::SnapshotTooOld))
    );
    assert!(machine.old_version_bytes() <= 1 << 20);
}

#[test]
fn second_writer_waits_for_intent_and_both_commit() {
    let machine = machine();
    let addr = object(&machine, &[1]);
    let mut first = begin(&machine, Mode::ReadWrite);
    block_on(first.intend(addr, Strength::Update)).expect("the queue is empty");
    let second = std::thread::spawn({
        let machine = Arc::clone(&machine);
        move || {
            let mut tx = machine.coordinator().begin(Mode::ReadWrite);
            block_on(tx.intend(addr, Strength::Update)).expect("no circle");
            let before = read(&mut tx, addr)
                .expect("a newer version moves the snapshot")
                .expect("exists");
            put(&mut tx, addr, before + 1).expect("no conflict");
            block_on(tx.commit())
        }
    });
    while machine.counters().totals().intent_waits == 0 {
        std::thread::yield_now();
    }
    put(&mut first, addr, 10).expect("no conflict");
    assert!(matches!(commit(first), Outcome::Committed(_)));
    assert!(matches!(
        second.join().expect("no panic"),
        Ok(Outcome::Committed(_))
    ));
    let mut now = begin(&machine, Mode::ReadOnly);
    assert_eq!(read(&mut now, addr), Ok(Some(11)));
}

#[test]
fn large_write_set_finds_entries_after_partial_rollbacks() {
    let machine = machine();
    let addrs: Vec<Addr> = (0..40).map(|i| object(&machine, &[i])).collect();
    let mut tx = begin(&machine, Mode::ReadWrite);
    for addr in &addrs[..10] {
        put(&mut tx, *addr, 100).expect("no conflict");
    }
    let savepoint = tx.savepoint();
    for addr in &addrs[5..] {
        put(&mut tx, *addr, 200).expect("no conflict");
    }
    tx.rollback_to(&savepoint);
    for addr in &addrs[8..14] {
        put(&mut tx, *addr, 300).expect("no conflict");
    }
    let expected = |i: usize| match i {
        0..8 => 100,
        8..14 => 300,
        _ => i as u64,
    };
    for (i, addr) in addrs.iter().enumerate() {
        assert_eq!(
            read(&mut tx, *addr),
            Ok(Some(expected(i))),
            "own view of {i}"
        );
    }
    assert!(matches!(commit(tx), Outcome::Committed(_)));
    let mut now = begin(&machine, Mode::ReadOnly);
    for (i, addr) in addrs.iter().enumerate() {
        assert_eq!(
            read(&mut now, *addr),
            Ok(Some(expected(i))),
            "committed {i}"
        );
    }
}
