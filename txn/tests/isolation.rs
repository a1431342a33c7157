//! Isolation levels: the versions that a transaction sees and the conflicts that it meets, at each
//! level.

use std::sync::Arc;

use fencepost_txn::{
    AbortReason, Addr, Isolation, Machine, MachineOptions, Mode, ObjectLocation, Outcome, Stop,
    Transaction,
};
use pollster::block_on;

fn machine() -> Arc<Machine> {
    Machine::open(MachineOptions::default()).expect("a machine in memory")
}

/// Creates two objects with the value 10 each.
fn two_objects(machine: &Arc<Machine>) -> [Addr; 2] {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let made = [(); 2].map(|()| {
        let place = block_on(tx.alloc(2, ObjectLocation::Own)).expect("memory");
        tx.write_new(place, &[10, 0]).expect("its own");
        place.addr
    });
    commit(tx);
    made
}

fn begin(machine: &Arc<Machine>, isolation: Isolation) -> Transaction {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    tx.set_isolation(isolation);
    tx
}

/// Returns the first word of an object, as a scan reads it.
fn scan(tx: &mut Transaction, addr: Addr) -> u64 {
    let mut words = Vec::new();
    let there = block_on(tx.seen_at(None).read(addr, &mut words)).expect("readable");
    assert!(there);
    words[0]
}

fn commit(tx: Transaction) {
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
}

/// Sets an object in another transaction, and commits.
fn set_by_another(machine: &Arc<Machine>, addr: Addr, value: u64) {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    block_on(tx.write(addr, &[value])).expect("free");
    commit(tx);
}

#[test]
fn scan_keeps_snapshot_of_statement_at_read_committed() {
    let machine = machine();
    let [a, b] = two_objects(&machine);
    let mut tx = begin(&machine, Isolation::ReadCommitted);
    assert_eq!(scan(&mut tx, a), 10);
    set_by_another(&machine, a, 11);
    set_by_another(&machine, b, 12);
    assert_eq!(
        (scan(&mut tx, a), scan(&mut tx, b)),
        (10, 10),
        "one statement"
    );
    block_on(tx.refresh()).expect("reads are not checked");
    assert_eq!(
        (scan(&mut tx, a), scan(&mut tx, b)),
        (11, 12),
        "the next statement"
    );
    block_on(tx.write(b, &[13])).expect("the snapshot has the newest version");
    set_by_another(&machine, a, 14);
    commit(tx);
}

#[test]
fn write_of_changed_object_conflicts_until_snapshot_moves() {
    let machine = machine();
    let [a, _] = two_objects(&machine);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let mut tx = begin(&machine, isolation);
        let seen = scan(&mut tx, a);
        set_by_another(&machine, a, seen + 1);
        assert!(matches!(block_on(tx.write(a, &[0])), Err(Stop::Retry(_))));
        assert_eq!(scan(&mut tx, a), seen, "the snapshot has not moved");
        tx.abort();
    }
    let mut tx = begin(&machine, Isolation::ReadCommitted);
    let seen = scan(&mut tx, a);
    set_by_another(&machine, a, seen + 1);
    let mut words = Vec::new();
    assert!(block_on(tx.newest().read(a, &mut words)).expect("readable"));
    assert_eq!(words[0], seen + 1);
    assert_eq!(scan(&mut tx, a), seen, "a newest read leaves the snapshot");
    block_on(tx.refresh()).expect("what was read anew is unchanged");
    block_on(tx.write(a, &[words[0] + 1])).expect("nothing is newer");
    commit(tx);
}

#[test]
fn write_skew_passes_below_serializable() {
    let machine = machine();
    for (isolation, passes) in [
        (Isolation::Serializable, false),
        (Isolation::RepeatableRead, true),
        (Isolation::ReadCommitted, true),
    ] {
        let [a, b] = two_objects(&machine);
        let mut tx = begin(&machine, isolation);
        assert_eq!(scan(&mut tx, a) + scan(&mut tx, b), 20);
        block_on(tx.write(a, &[0])).expect("free");
        set_by_another(&machine, b, 0);
        let outcome = block_on(tx.commit()).expect("an outcome");
        let conflict = Outcome::Aborted(AbortReason::ReadConflict);
        assert_eq!(outcome == conflict, !passes, "{isolation:?}: {outcome:?}");
    }
}

#[test]
fn repeatable_read_keeps_its_snapshot_after_a_write() {
    let machine = machine();
    let [a, b] = two_objects(&machine);
    let mut tx = begin(&machine, Isolation::RepeatableRead);
    assert_eq!(scan(&mut tx, a), 10);
    block_on(tx.write(a, &[20])).expect("free");
    set_by_another(&machine, b, 11);
    assert_eq!((scan(&mut tx, a), scan(&mut tx, b)), (20, 10));
    commit(tx);
}

#[test]
fn constraint_read_is_validated_at_every_level() {
    let machine = machine();
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let [a, b] = two_objects(&machine);
        let mut tx = begin(&machine, isolation);
        assert!(block_on(tx.read(a, &mut Vec::new())).expect("readable"));
        block_on(tx.write(b, &[1])).expect("free");
        set_by_another(&machine, a, 1);
        let outcome = block_on(tx.commit()).expect("an outcome");
        assert_eq!(outcome, Outcome::Aborted(AbortReason::ReadConflict));
    }
}

#[test]
fn rollback_at_read_committed_forgets_what_constraints_read() {
    let machine = machine();
    for (isolation, commits) in [
        (Isolation::ReadCommitted, true),
        (Isolation::Serializable, false),
    ] {
        let [a, b] = two_objects(&machine);
        let mut tx = begin(&machine, isolation);
        block_on(tx.write(b, &[1])).expect("free");
        let before = tx.savepoint();
        assert!(block_on(tx.read(a, &mut Vec::new())).expect("readable"));
        tx.rollback_to(&before);
        set_by_another(&machine, a, 1);
        let outcome = block_on(tx.commit()).expect("an outcome");
        assert_eq!(matches!(outcome, Outcome::Committed(_)), commits);
    }
}

#[test]
fn row_that_others_wrote_past_its_lock_is_a_conflict_at_read_committed() {
    let machine = machine();
    let [a, b] = two_objects(&machine);
    let mut tx = begin(&machine, Isolation::ReadCommitted);
    assert_eq!((scan(&mut tx, a), scan(&mut tx, b)), (10, 10));
    let found = tx.statement_timestamp();
    set_by_another(&machine, a, 11);
    // Another row had changed, so the snapshot moves before the statement writes.
    block_on(tx.refresh()).expect("reads are not checked");
    tx.decide_by(b, found);
    block_on(tx.write(b, &[20])).expect("the version that was found");
    tx.decide_by(a, found);
    let passed = block_on(tx.write(a, &[20]));
    assert_eq!(passed, Err(Stop::Retry(AbortReason::WriteConflict)));
}

#[test]
fn row_that_others_freed_past_its_lock_is_a_conflict_at_read_committed() {
    let machine = machine();
    for frees in [false, true] {
        let [a, _] = two_objects(&machine);
        let mut tx = begin(&machine, Isolation::ReadCommitted);
        assert_eq!(scan(&mut tx, a), 10);
        let found = tx.statement_timestamp();
        let mut other = machine.coordinator().begin(Mode::ReadWrite);
        block_on(other.free(a)).expect("there");
        commit(other);
        block_on(tx.refresh()).expect("reads are not checked");
        tx.decide_by(a, found);
        let changed = if frees {
            block_on(tx.free(a))
        } else {
            block_on(tx.write(a, &[20]))
        };
        assert_eq!(changed, Err(Stop::Retry(AbortReason::WriteConflict)));
    }
}

#[test]
fn next_statement_decides_by_its_own_snapshot() {
    let machine = machine();
    let [a, _] = two_objects(&machine);
    let mut tx = begin(&machine, Isolation::ReadCommitted);
    assert_eq!(scan(&mut tx, a), 10);
    tx.decide_by(a, tx.statement_timestamp());
    set_by_another(&machine, a, 11);
    block_on(tx.renew()).expect("a snapshot");
    block_on(tx.write(a, &[12])).expect("the statement before decided by another version");
    commit(tx);
}
