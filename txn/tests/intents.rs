//! Intents and transactions that take none: a transaction that yields does not overwrite a row on
//! which another has an intent. A rollback releases intents.

use std::future::Future;
use std::sync::Arc;

use fencepost_txn::{
    AbortReason, Addr, Machine, MachineOptions, Mode, ObjectLocation, Outcome, Stop, Strength,
    Transaction,
};
use pollster::block_on;

fn machine() -> Arc<Machine> {
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        ..MachineOptions::default()
    })
    .expect("opens")
}

fn begin(machine: &Arc<Machine>) -> Transaction {
    machine.coordinator().begin(Mode::ReadWrite)
}

fn object(machine: &Arc<Machine>, value: u64) -> Addr {
    let mut tx = begin(machine);
    let ptr = block_on(tx.alloc(1, ObjectLocation::Own)).expect("room");
    tx.write_new(ptr, &[value]).expect("its own");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    ptr.addr
}

/// Adds to the object, like an UPDATE of one row.
fn add(tx: &mut Transaction, addr: Addr, amount: u64) -> Result<(), Stop> {
    let mut words = Vec::new();
    assert!(block_on(tx.read(addr, &mut words))?);
    block_on(tx.write(addr, &[words[0] + amount]))
}

fn value(machine: &Arc<Machine>, addr: Addr) -> u64 {
    let mut words = Vec::new();
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    assert_eq!(block_on(tx.read(addr, &mut words)), Ok(true));
    words[0]
}

#[test]
fn yielding_writer_waits_for_started_change() {
    let machine = machine();
    let addr = object(&machine, 0);
    for yields in [true, false] {
        let mut statement = begin(&machine);
        statement.set_yielding(yields);
        block_on(statement.await_row_queue(addr, Strength::Update)).expect("the queue is empty");
        add(&mut statement, addr, 1).expect("no conflict");
        // The other transaction begins after the first has read, and before it commits.
        let mut block = begin(&machine);
        block_on(block.intend(addr, Strength::Update)).expect("the queue is empty");
        add(&mut block, addr, 10).expect("no conflict");
        let outcome = block_on(statement.commit()).expect("an outcome");
        let other = block_on(block.commit()).expect("an outcome");
        if yields {
            assert_eq!(outcome, Outcome::Aborted(AbortReason::IntentHeld));
            assert!(matches!(other, Outcome::Committed(_)));
        } else {
            assert!(matches!(outcome, Outcome::Committed(_)));
            assert_eq!(other, Outcome::Aborted(AbortReason::WriteConflict));
        }
    }
    assert_eq!(value(&machine, addr), 11);
}

#[test]
fn own_intent_does_not_block_its_transaction() {
    let machine = machine();
    let addr = object(&machine, 0);
    let mut tx = begin(&machine);
    tx.set_yielding(true);
    block_on(tx.intend(addr, Strength::Update)).expect("the queue is empty");
    block_on(tx.await_row_queue(addr, Strength::Update)).expect("it is its turn");
    add(&mut tx, addr, 1).expect("no conflict");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    // The yield setting of one transaction does not carry over to the coordinator's next.
    let mut coordinator = machine.coordinator();
    let mut tx = coordinator.begin(Mode::ReadWrite);
    tx.set_yielding(true);
    tx.abort();
    let mut tx = coordinator.begin(Mode::ReadWrite);
    add(&mut tx, addr, 1).expect("no conflict");
    let mut other = begin(&machine);
    block_on(other.intend(addr, Strength::Update)).expect("the queue is empty");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
}

#[test]
fn waiter_continues_with_committed_value() {
    let machine = machine();
    let addr = object(&machine, 0);
    let mut block = begin(&machine);
    block_on(block.intend(addr, Strength::Update)).expect("the queue is empty");
    add(&mut block, addr, 10).expect("no conflict");
    let statement = std::thread::spawn({
        let machine = Arc::clone(&machine);
        move || {
            let mut tx = begin(&machine);
            tx.set_yielding(true);
            block_on(tx.await_row_queue(addr, Strength::Update)).expect("no circle");
            add(&mut tx, addr, 1).expect("the snapshot moves");
            block_on(tx.commit())
        }
    });
    while machine.counters().totals().intent_waits == 0 {
        assert!(!statement.is_finished(), "it overtakes");
        std::thread::yield_now();
    }
    assert!(matches!(
        block_on(block.commit()),
        Ok(Outcome::Committed(_))
    ));
    let outcome = statement.join().expect("no panic");
    assert!(matches!(outcome, Ok(Outcome::Committed(_))));
    assert_eq!(value(&machine, addr), 11);
}

#[test]
fn retried_transaction_keeps_its_intent() {
    let machine = machine();
    let addr = object(&machine, 0);
    let mut coordinator = machine.coordinator();
    let tx = coordinator.begin(Mode::ReadWrite);
    tx.abort_to_run_again();
    let mut tx = coordinator.begin(Mode::ReadWrite);
    block_on(tx.intend(addr, Strength::Update)).expect("the queue is empty");
    tx.abort_to_run_again();
    let is_free = || {
        let mut other = begin(&machine);
        let mut wait = std::pin::pin!(other.intend(addr, Strength::Update));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        wait.as_mut().poll(&mut cx).is_ready()
    };
    assert!(!is_free());
    // Passed on once more; then it ends with the transaction that has it.
    coordinator.begin(Mode::ReadWrite).abort_to_run_again();
    assert!(!is_free());
    coordinator.begin(Mode::ReadWrite).abort();
    assert!(is_free());
    let mut tx = coordinator.begin(Mode::ReadWrite);
    block_on(tx.intend(addr, Strength::Update)).expect("the queue is empty");
    tx.abort_to_run_again();
    drop(coordinator);
    assert!(is_free(), "the coordinator has ended");
}

#[test]
fn rollback_gives_back_intents_taken_since_the_savepoint() {
    let machine = machine();
    let [kept, weakened, taken] = [(); 3].map(|()| object(&machine, 0));
    let mut tx = begin(&machine);
    let intend = |tx: &mut Transaction, addr, strength| {
        block_on(tx.intend(addr, strength)).expect("no other transaction has it");
    };
    intend(&mut tx, kept, Strength::Update);
    intend(&mut tx, weakened, Strength::KeyShare);
    let before = tx.savepoint();
    for addr in [kept, weakened, taken] {
        intend(&mut tx, addr, Strength::Update);
    }
    tx.rollback_to(&before);
    let mut other = begin(&machine);
    let free = |other: &mut Transaction, addr, strength| {
        block_on(other.try_intend(addr, strength)).expect("an answer")
    };
    assert!(!free(&mut other, kept, Strength::KeyShare));
    assert!(!free(&mut other, weakened, Strength::Update));
    assert!(free(&mut other, weakened, Strength::NoKeyUpdate));
    assert!(free(&mut other, taken, Strength::Update));
}
