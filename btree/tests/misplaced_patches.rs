//! A transaction finds its own pending changes after splits and merges by others have moved their
//! keys, however many nodes it has changed.

mod common;

use common::{Numbers, check, commit, machine, rest, tree};
use fencepost_btree::{BTree, Direction, Insert};
use fencepost_txn::{Isolation, Mode, ObjectLocation, Transaction};
use pollster::block_on;
use std::ops::Bound;

const KEYS: u64 = 600;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Removes the keys one by one, or together.
fn remove_all(tree: BTree, tx: &mut Transaction, keys: &[[u8; 8]], together: bool) {
    if together {
        let removed = tree.remove_ascending(tx, keys.len(), |at| &keys[at][..]);
        assert_eq!(block_on(removed).expect("readable"), None);
        return;
    }
    for key in keys {
        assert!(block_on(tree.remove(tx, key)).expect("readable"));
    }
}

#[test]
fn removals_stay_removals_while_others_split_the_leaves() {
    for seed in 0..8 {
        let machine = machine();
        let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
        let tree = tree(&mut one, 48);
        let mut tx = one.begin(Mode::ReadWrite);
        for n in 0..KEYS {
            block_on(tree.insert(&mut tx, &key(n * 16), [n, 0])).expect("it fits");
        }
        assert!(commit(tx));

        let mut tx = one.begin(Mode::ReadWrite);
        let keys: Vec<_> = (0..KEYS).map(|n| key(n * 16)).collect();
        remove_all(tree, &mut tx, &keys, seed % 2 == 0);
        // Other transactions insert and remove keys in parts of the tree. Some pieces of a split
        // leaf get new keys and others do not, and some are merged again.
        let mut numbers = Numbers(seed);
        let mut there = std::collections::BTreeSet::new();
        for _ in 0..KEYS * 3 {
            let n = numbers.below(KEYS / 8) * 128 + 1 + numbers.below(15);
            let mut other = two.begin(Mode::ReadWrite);
            if there.remove(&n) {
                assert!(block_on(tree.remove(&mut other, &key(n))).expect("readable"));
            } else {
                let new = block_on(tree.insert(&mut other, &key(n), [n, 1]));
                assert_eq!(new.expect("it fits"), Insert::Done);
                there.insert(n);
            }
            assert!(commit(other));
        }
        for n in 0..KEYS {
            let found = block_on(tree.get(&mut tx, &key(n * 16))).expect("readable");
            assert_eq!(found, None, "seed {seed} key {n}");
        }
        for n in 0..KEYS {
            let new = block_on(tree.insert(&mut tx, &key(n * 16), [n, 2])).expect("it fits");
            assert_eq!(new, Insert::Done, "seed {seed} key {n}");
        }
        let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let seen = block_on(rest(&mut cursor, &mut tx, 50)).expect("readable");
        assert_eq!(
            seen.iter().filter(|(_, value)| value[1] == 2).count(),
            KEYS as usize
        );
        assert!(commit(tx), "no conflict: the keys differ; seed {seed}");
        assert_eq!(check(&mut one, tree).entries, KEYS + there.len() as u64);
    }
}

#[test]
fn changes_are_found_in_the_leaf_that_theirs_was_merged_into() {
    let machine = machine();
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut one, 48);
    let mut tx = one.begin(Mode::ReadWrite);
    for n in 0..KEYS {
        block_on(tree.insert(&mut tx, &key(n), [n, 0])).expect("it fits");
    }
    assert!(commit(tx));
    // Three keys of ten stay, so neighbours may be merged, and no transaction has merged them yet.
    let kept = |n: &u64| matches!(n % 10, 0 | 3 | 6);
    let mut tx = one.begin(Mode::ReadWrite);
    for n in (0..KEYS).filter(|n| !kept(n)) {
        assert!(block_on(tree.remove(&mut tx, &key(n))).expect("readable"));
    }
    assert!(commit(tx));

    let mut tx = one.begin(Mode::ReadWrite);
    let changed = |n: &u64| kept(n) && n / 10 % 2 == 1;
    for n in (0..KEYS).filter(changed) {
        assert!(block_on(tree.replace(&mut tx, &key(n), [n, 1])).expect("readable"));
    }
    for _ in 0..200 {
        block_on(tx.alloc(1, ObjectLocation::Own)).expect("memory");
    }
    let merges = fencepost_btree::counters().merges;
    let mut other = two.begin(Mode::ReadWrite);
    block_on(tree.maintain(&mut other)).expect("readable");
    other.abort();
    assert!(fencepost_btree::counters().merges > merges + 10);
    for n in (0..KEYS).filter(kept) {
        let value = block_on(tree.get(&mut tx, &key(n))).expect("readable");
        assert_eq!(value, Some([n, u64::from(changed(&n))]), "key {n}");
    }
    assert!(commit(tx));
    let mut tx = two.begin(Mode::ReadOnly);
    for n in (0..KEYS).filter(kept) {
        let value = block_on(tree.get(&mut tx, &key(n))).expect("readable");
        assert_eq!(value, Some([n, u64::from(changed(&n))]), "key {n}");
    }
}

#[test]
fn rollback_to_savepoint_keeps_earlier_changes() {
    let machine = machine();
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut one, 48);
    let mut tx = one.begin(Mode::ReadWrite);
    for n in 0..KEYS {
        block_on(tree.insert(&mut tx, &key(n * 16), [n, 0])).expect("it fits");
    }
    assert!(commit(tx));

    let mut tx = one.begin(Mode::ReadWrite);
    for n in 0..KEYS {
        block_on(tree.insert(&mut tx, &key(n * 16 + 8), [n, 1])).expect("it fits");
    }
    let savepoint = tx.savepoint();
    for n in 0..KEYS {
        let mut other = two.begin(Mode::ReadWrite);
        block_on(tree.insert(&mut other, &key(n * 16 + 4), [n, 2])).expect("it fits");
        assert!(commit(other));
    }
    let own = |tx: &mut fencepost_txn::Transaction| {
        for n in 0..KEYS {
            let found = block_on(tree.get(tx, &key(n * 16 + 8))).expect("readable");
            assert_eq!(found, Some([n, 1]), "key {n}");
        }
    };
    own(&mut tx);
    tx.rollback_to(&savepoint);
    own(&mut tx);
    assert!(commit(tx), "no conflict: the keys differ");
}

#[test]
fn removals_commit_over_leaves_that_others_have_split() {
    let machine = machine();
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut one, 48);
    let mut tx = one.begin(Mode::ReadWrite);
    for n in 0..KEYS {
        block_on(tree.insert(&mut tx, &key(n * 16), [n, 0])).expect("it fits");
    }
    assert!(commit(tx));

    let mut tx = one.begin(Mode::ReadWrite);
    let keys: Vec<_> = (0..KEYS).step_by(2).map(|n| key(n * 16)).collect();
    remove_all(tree, &mut tx, &keys, true);
    // No read of the first transaction meets the splits before its commit.
    for n in 0..KEYS * 3 {
        let mut other = two.begin(Mode::ReadWrite);
        let new = block_on(tree.insert(&mut other, &key(n * 5 / 16 * 16 + 1 + n % 5), [n, 1]));
        new.expect("it fits");
        assert!(commit(other));
    }
    let before = check(&mut two, tree).entries;
    assert!(commit(tx), "no conflict: the keys differ");
    assert_eq!(check(&mut two, tree).entries, before - keys.len() as u64);
    let mut tx = two.begin(Mode::ReadOnly);
    for n in 0..KEYS {
        let value = block_on(tree.get(&mut tx, &key(n * 16))).expect("readable");
        assert_eq!(value, (n % 2 == 1).then_some([n, 0]), "key {n}");
    }
}

#[test]
fn removal_of_a_key_that_another_removes_conflicts() {
    let machine = machine();
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut one, 48);
    let mut tx = one.begin(Mode::ReadWrite);
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for key in &keys {
        block_on(tree.insert(&mut tx, key, [1, 0])).expect("it fits");
    }
    assert!(commit(tx));

    let mut tx = one.begin(Mode::ReadWrite);
    remove_all(tree, &mut tx, &keys[100..300], true);
    let mut other = two.begin(Mode::ReadWrite);
    remove_all(tree, &mut other, &keys[250..251], true);
    assert!(commit(other));
    assert!(!commit(tx), "both remove one key");
    assert_eq!(check(&mut two, tree).entries, KEYS - 1);
}

#[test]
fn removals_that_are_rolled_back_depend_on_their_keys_alone() {
    for (changed, commits) in [(160, false), (161, true)] {
        let machine = machine();
        let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
        let tree = tree(&mut one, 48);
        let mut tx = one.begin(Mode::ReadWrite);
        for n in 0..KEYS {
            block_on(tree.insert(&mut tx, &key(n), [n, 0])).expect("it fits");
        }
        assert!(commit(tx));

        let mut tx = one.begin(Mode::ReadWrite);
        tx.set_isolation(Isolation::Serializable);
        block_on(tree.insert(&mut tx, &key(KEYS), [0, 0])).expect("it fits");
        let savepoint = tx.savepoint();
        let keys: Vec<_> = (100..200).step_by(2).map(key).collect();
        remove_all(tree, &mut tx, &keys, true);
        tx.rollback_to(&savepoint);
        tx.release(savepoint);
        let mut other = two.begin(Mode::ReadWrite);
        assert!(block_on(tree.remove(&mut other, &key(changed))).expect("readable"));
        assert!(commit(other));
        assert_eq!(commit(tx), commits, "key {changed}");
    }
}
