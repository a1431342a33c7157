//! Filling a tree that others see empty: they go on seeing that until the commit, and it is all or
//! nothing against those who insert meanwhile.

mod common;

use std::ops::Bound;

use common::{Numbers, check, commit, machine, rest, tree};
use fencepost_btree::{BTree, Bulk, Direction, Insert};
use fencepost_txn::{Mode, ObjectLocation, Transaction};
use pollster::block_on;

const KEYS: u64 = 3000;

fn key(n: u64) -> Vec<u8> {
    (n * 2).to_be_bytes().to_vec()
}

fn fill(tx: &mut Transaction, tree: BTree) {
    block_on(async {
        let mut bulk = Bulk::into(tx, tree)
            .await
            .expect("readable")
            .expect("it is empty");
        for n in 0..KEYS {
            assert!(bulk.push(tx, &key(n), [n, 1]).await.expect("it fits"));
        }
        assert_eq!(bulk.finish(tx).await.expect("memory"), tree);
    });
}

fn count(tx: &mut Transaction, tree: BTree) -> usize {
    let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    block_on(rest(&mut cursor, tx, 100))
        .expect("readable")
        .len()
}

#[test]
fn bulk_load_is_invisible_to_old_snapshots_and_stays_writable() {
    let machine = machine();
    let (mut session, mut reader) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut session, 64);
    let mut past = reader.begin(Mode::ReadOnly);
    let mut tx = session.begin(Mode::ReadWrite);
    fill(&mut tx, tree);
    assert_eq!(count(&mut tx, tree), KEYS as usize);
    let (mut numbers, mut left) = (Numbers(7), KEYS * 2);
    block_on(async {
        for n in 0..KEYS {
            let odd = (n * 2 + 1).to_be_bytes();
            let new = tree.insert(&mut tx, &odd, [n, 2]).await.expect("it fits");
            assert_eq!(new, Insert::Done);
            if n != 1 && numbers.below(3) == 0 {
                assert!(tree.remove(&mut tx, &key(n)).await.expect("readable"));
                left -= 1;
            }
        }
        let there = tree.insert(&mut tx, &key(1), [0, 0]).await;
        assert_eq!(there.expect("it fits"), Insert::Exists([1, 1]));
    });
    assert_eq!(count(&mut tx, tree), left as usize);
    assert_eq!(count(&mut past, tree), 0);
    assert!(commit(tx));
    assert_eq!(count(&mut past, tree), 0, "a reader of the past");
    for n in 0..KEYS * 2 {
        assert_eq!(
            block_on(tree.get(&mut past, &n.to_be_bytes())).expect("readable"),
            None
        );
    }
    assert_eq!(check(&mut session, tree).entries, left);
}

#[test]
fn abort_or_rollback_of_bulk_load_leaves_tree_empty() {
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 64);
    let mut tx = session.begin(Mode::ReadWrite);
    fill(&mut tx, tree);
    tx.abort();
    assert_eq!(check(&mut session, tree).entries, 0);
    let mut tx = session.begin(Mode::ReadWrite);
    let savepoint = tx.savepoint();
    fill(&mut tx, tree);
    tx.rollback_to(&savepoint);
    assert_eq!(count(&mut tx, tree), 0);
    block_on(tree.insert(&mut tx, b"one", [1, 1])).expect("it fits");
    assert!(commit(tx));
    assert_eq!(check(&mut session, tree).entries, 1);
    let mut tx = session.begin(Mode::ReadWrite);
    let bulk = block_on(Bulk::into(&mut tx, tree)).expect("readable");
    assert!(bulk.is_none(), "it is not empty any more");
}

#[test]
fn concurrent_insert_aborts_bulk_load_or_uses_new_leaves() {
    let machine = machine();
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut one, 64);

    // An insert that commits first: the fill cannot.
    let mut filling = one.begin(Mode::ReadWrite);
    fill(&mut filling, tree);
    let mut tx = two.begin(Mode::ReadWrite);
    block_on(tree.insert(&mut tx, &key(7), [0, 0])).expect("it fits");
    assert!(commit(tx));
    assert!(!commit(filling));
    let mut tx = two.begin(Mode::ReadWrite);
    assert!(block_on(tree.remove(&mut tx, &key(7))).expect("readable"));
    assert!(commit(tx));

    // Transactions that run while the fill commits. An insert of another key arrives at its place;
    // an insert of the same key fails, and so does a transaction that found the tree empty.
    let mut filling = one.begin(Mode::ReadWrite);
    fill(&mut filling, tree);
    let mut other = two.begin(Mode::ReadWrite);
    let odd = (KEYS + 1).to_be_bytes();
    block_on(tree.insert(&mut other, &odd, [9, 9])).expect("it fits");
    let mut three = machine.coordinator();
    let mut same = three.begin(Mode::ReadWrite);
    block_on(tree.insert(&mut same, &key(7), [9, 9])).expect("it fits");
    let mut four = machine.coordinator();
    let mut saw = four.begin(Mode::ReadWrite);
    assert_eq!(count(&mut saw, tree), 0);
    let note = block_on(saw.alloc(1, ObjectLocation::Own)).expect("memory");
    saw.write_new(note, &[1]).expect("its own");
    assert!(commit(filling));
    assert!(commit(other));
    assert!(!commit(same));
    assert!(!commit(saw));
    assert_eq!(check(&mut one, tree).entries, KEYS + 1);
}

#[test]
fn split_of_bulk_loaded_root_is_invisible_to_old_snapshots() {
    let machine = machine();
    let (mut session, mut reader) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut session, 64);
    let mut past = reader.begin(Mode::ReadOnly);
    let mut tx = session.begin(Mode::ReadWrite);
    block_on(async {
        let bulk = Bulk::into(&mut tx, tree).await.expect("readable");
        let mut bulk = bulk.expect("it is empty");
        // So few that they fit the root.
        for n in 0..3 {
            assert!(bulk.push(&mut tx, &key(n), [n, 1]).await.expect("it fits"));
        }
        bulk.finish(&mut tx).await.expect("memory");
        for n in 3..60 {
            let new = tree.insert(&mut tx, &key(n), [n, 2]).await;
            assert_eq!(new.expect("it fits"), Insert::Done);
        }
    });
    assert!(commit(tx));
    assert_eq!(count(&mut past, tree), 0);
    for n in 0..60 {
        let found = block_on(tree.get(&mut past, &key(n))).expect("readable");
        assert_eq!(found, None, "{n}");
    }
    assert_eq!(check(&mut session, tree).entries, 60);
}

#[test]
fn concurrent_inserts_during_bulk_load_are_kept() {
    let machine = machine();
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut one, 64);
    let mut filling = one.begin(Mode::ReadWrite);
    let filled = block_on(async {
        let bulk = Bulk::into(&mut filling, tree).await?;
        let mut bulk = bulk.expect("it is empty");
        for n in 0..KEYS {
            let pushed = bulk.push(&mut filling, &key(n), [n, 1]).await;
            assert!(pushed.expect("it fits"));
        }
        let mut other = two.begin(Mode::ReadWrite);
        let odd = (KEYS + 1).to_be_bytes();
        let new = tree.insert(&mut other, &odd, [9, 9]).await;
        assert_eq!(new.expect("it fits"), Insert::Done);
        assert!(commit(other));
        bulk.finish(&mut filling).await
    });
    assert!(filled.is_err() || !commit(filling));
    assert_eq!(check(&mut two, tree).entries, 1);
}
