//! Patches step by step, while their nodes are freed, split and reused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fencepost_txn::{
    AbortReason, Addr, Machine, MachineOptions, Mode, NodeKind, ObjectLocation, Outcome, Refusal,
    RerouteFuture, Revalidate, Stop, Timestamp, Transaction, View,
};
use pollster::block_on;

use crate::set::{self, SET, Set};

fn machine() -> Arc<Machine> {
    let options = MachineOptions {
        region_bytes: 16 << 20,
        lanes: 1,
        ..MachineOptions::default()
    };
    Machine::open(options).expect("memory tier opens")
}

fn begin(machine: &Arc<Machine>) -> Transaction {
    machine.coordinator().begin(Mode::ReadWrite)
}

fn commit(tx: Transaction) -> Timestamp {
    match block_on(tx.commit()) {
        Ok(Outcome::Committed(w)) => w,
        other => panic!("{other:?}"),
    }
}

fn new_set(machine: &Arc<Machine>) -> Set {
    let mut tx = begin(machine);
    let set = Set::create(&mut tx).expect("memory");
    commit(tx);
    set
}

fn insert(machine: &Arc<Machine>, set: Set, key: u64) {
    let mut tx = begin(machine);
    assert_eq!(block_on(set.insert(&mut tx, key)), Ok(true));
    commit(tx);
}

fn free(machine: &Arc<Machine>, addr: Addr) {
    let mut tx = begin(machine);
    block_on(tx.free(addr)).expect("exists");
    commit(tx);
}

/// Patches a lone node on behalf of `set`: the patch is re-routed to `set` when the node is gone.
fn patch_elsewhere(tx: &mut Transaction, lone: Set, key: u64, set: Set) {
    let op = [1, key, set.first().raw()];
    assert_eq!(block_on(tx.patch(lone.first(), &SET, &op)), Ok(Ok(())));
}

fn scan(tx: &mut Transaction, set: Set) -> Result<Vec<u64>, Stop> {
    block_on(set.scan(tx, 0, 1000))
}

#[test]
fn slot_of_node_freed_under_patches_is_freed_once() {
    let machine = machine();
    let (lone, set) = (new_set(&machine), new_set(&machine));
    let mut tx = begin(&machine);
    patch_elsewhere(&mut tx, lone, 5, set);
    free(&machine, lone.first());
    commit(tx);
    assert_eq!(set::at_rest(&machine, set.first()), [5]);
    let mut all = std::collections::HashSet::new();
    for _ in 0..30 {
        let mut tx = begin(&machine);
        for _ in 0..1000 {
            let ptr = block_on(tx.alloc(set::WORDS, ObjectLocation::Own)).expect("memory");
            assert!(all.insert(ptr.addr), "{} is handed out twice", ptr.addr);
        }
        commit(tx);
    }
    assert!(all.contains(&lone.first()), "the slot came round");
}

#[test]
fn patch_keeps_patches_that_its_refresh_re_routed() {
    let machine = machine();
    let (lone, set) = (new_set(&machine), new_set(&machine));
    let mut tx = begin(&machine);
    patch_elsewhere(&mut tx, lone, 5, set);
    free(&machine, lone.first());
    insert(&machine, set, 100);
    patch_elsewhere(&mut tx, set, 50, set);
    commit(tx);
    assert_eq!(set::at_rest(&machine, set.first()), [5, 50, 100]);
}

#[test]
fn view_sees_patches_that_its_refresh_re_routed() {
    let machine = machine();
    let (lone, set) = (new_set(&machine), new_set(&machine));
    let mut tx = begin(&machine);
    patch_elsewhere(&mut tx, lone, 5, set);
    free(&machine, lone.first());
    insert(&machine, set, 100);
    assert_eq!(scan(&mut tx, set), Ok(vec![5, 100]));
}

#[test]
fn rollback_past_re_routing_keeps_earlier_patches() {
    for look in [false, true] {
        let machine = machine();
        let (lone, set) = (new_set(&machine), new_set(&machine));
        let mut tx = begin(&machine);
        patch_elsewhere(&mut tx, lone, 5, set);
        let savepoint = tx.savepoint();
        free(&machine, lone.first());
        block_on(tx.refresh()).expect("nothing was read");
        tx.rollback_to(&savepoint);
        tx.release(savepoint);
        if look {
            assert_eq!(scan(&mut tx, set), Ok(vec![5]));
        }
        commit(tx);
        assert_eq!(set::at_rest(&machine, set.first()), [5]);
        let mut now = begin(&machine);
        assert_eq!(
            block_on(now.read(lone.first(), &mut Vec::new())),
            Ok(false),
            "it stays freed"
        );
    }
}

#[test]
fn after_a_rollback_past_a_refresh_the_node_is_seen_as_of_the_new_snapshot() {
    let machine = machine();
    let set = new_set(&machine);
    let mut tx = begin(&machine);
    assert_eq!(block_on(set.insert(&mut tx, 5)), Ok(true));
    let savepoint = tx.savepoint();
    assert_eq!(block_on(set.insert(&mut tx, 6)), Ok(true));
    insert(&machine, set, 100);
    block_on(tx.refresh()).expect("nothing was read");
    assert_eq!(scan(&mut tx, set), Ok(vec![5, 6, 100]));
    tx.rollback_to(&savepoint);
    assert_eq!(scan(&mut tx, set), Ok(vec![5, 100]));
    commit(tx);
    assert_eq!(set::at_rest(&machine, set.first()), [5, 100]);
}

#[test]
fn patches_that_an_exact_write_swallows_still_stamp_the_node() {
    let machine = machine();
    let set = new_set(&machine);
    let stamp = |machine: &Arc<Machine>| {
        block_on(machine.view_current(set.first(), |view| view.word(0))).expect("reached")
    };
    for patch_first in [true, false] {
        let key = if patch_first { 5 } else { 6 };
        let mut tx = begin(&machine);
        if patch_first {
            assert_eq!(block_on(set.insert(&mut tx, key)), Ok(true));
        }
        block_on(tx.update(set.first(), |_| ())).expect("exists");
        if !patch_first {
            assert_eq!(block_on(set.insert(&mut tx, key)), Ok(true));
        }
        let w = commit(tx);
        assert_eq!(stamp(&machine), Some(w.raw()), "keys have come");
    }
}

#[test]
fn exact_write_prevents_snapshot_refresh() {
    let machine = machine();
    let (x, y) = (new_set(&machine).first(), new_set(&machine).first());
    let mut tx = begin(&machine);
    block_on(tx.update(x, |_| ())).expect("exists");
    for addr in [x, y] {
        let mut other = begin(&machine);
        block_on(other.update(addr, |_| ())).expect("exists");
        commit(other);
    }
    let failed = block_on(tx.read(y, &mut Vec::new()));
    assert_eq!(failed, Err(Stop::Retry(AbortReason::RefreshFailed)));
}

#[test]
fn split_of_new_right_half_keeps_old_versions() {
    let machine = machine();
    let left = new_set(&machine).first();
    let mut past = machine.coordinator().begin(Mode::ReadOnly);
    let mut tx = begin(&machine);
    let right = block_on(tx.alloc_split_of(set::WORDS, ObjectLocation::Object(left), left))
        .expect("memory");
    let further = tx.alloc_split_of(set::WORDS, ObjectLocation::Object(left), right.addr);
    let further = block_on(further).expect("memory");
    block_on(tx.update(left, |_| ())).expect("exists");
    commit(tx);
    for addr in [right.addr, further.addr] {
        assert_eq!(block_on(past.read(addr, &mut Vec::new())), Ok(true));
    }
}

/// A node kind that panics when a patch is applied to a node that has moved.
struct PanickingKind;

static BRITTLE: PanickingKind = PanickingKind;

impl NodeKind for PanickingKind {
    fn id(&self) -> u8 {
        78
    }

    fn admits(&self, _: &View<'_>, _: Timestamp) -> bool {
        false
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        assert!(image[0] != 13, "injected panic");
        image[1] = op[0];
        Ok(())
    }

    fn revalidate(&self, _: &[u64], _: &View<'_>) -> Revalidate {
        Revalidate::Invalid
    }

    fn reroute<'a>(&'static self, _: &'a mut Transaction, _: Addr) -> RerouteFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn panic_during_commit_releases_locks() {
    let machine = machine();
    let (x, y) = (new_set(&machine).first(), new_set(&machine).first());
    let mut tx = begin(&machine);
    for addr in [x.min(y), x.max(y)] {
        assert_eq!(block_on(tx.patch(addr, &BRITTLE, &[1])), Ok(Ok(())));
    }
    let mut other = begin(&machine);
    block_on(other.write(x.max(y), &[13])).expect("exists");
    commit(other);
    assert!(catch_unwind(AssertUnwindSafe(|| block_on(tx.commit()))).is_err());
    assert!(machine.inventory().locked.is_empty());
    let mut next = begin(&machine);
    for addr in [x, y] {
        block_on(next.write(addr, &[7])).expect("exists");
    }
    commit(next);
}
