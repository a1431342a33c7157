//! The tree against a `BTreeMap`: random operations in several transactions, with tiny nodes,
//! aborts and savepoints, scans both ways, and readers of the past.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use common::{Numbers, check, commit, machine, rest, tree};
use fencepost_btree::{BTree, Direction, Insert, TreeOptions};
use fencepost_txn::{Mode, Transaction};

type Model = BTreeMap<Vec<u8>, [u64; 2]>;

fn key(numbers: &mut Numbers, space: u64) -> Vec<u8> {
    let n = numbers.below(space);
    match numbers.below(4) {
        0 => format!("user-{:05}-{}", n, "x".repeat(n as usize % 12)).into_bytes(),
        1 => vec![0; (n % 24) as usize],
        _ => (n << 7).to_be_bytes().to_vec(),
    }
}

async fn step(
    tree: BTree,
    tx: &mut Transaction,
    model: &mut Model,
    numbers: &mut Numbers,
    space: u64,
) {
    let key = key(numbers, space);
    let value = [numbers.below(1 << 40), 3];
    match numbers.below(11) {
        10 => remove_many(tree, tx, model, numbers).await,
        0..5 => {
            let found = tree.insert(tx, &key, value).await.expect("it fits");
            match model.get(&key) {
                Some(there) => assert_eq!(found, Insert::Exists(*there)),
                None => {
                    assert_eq!(found, Insert::Done);
                    model.insert(key, value);
                }
            }
        }
        5..7 => assert_eq!(
            tree.remove(tx, &key).await.expect("one transaction"),
            model.remove(&key).is_some()
        ),
        7 => {
            let replaced = tree
                .replace(tx, &key, value)
                .await
                .expect("one transaction");
            assert_eq!(replaced, model.contains_key(&key));
            if let Some(there) = model.get_mut(&key) {
                *there = value;
            }
        }
        8 => assert_eq!(
            tree.get(tx, &key).await.expect("one transaction"),
            model.get(&key).copied()
        ),
        _ => compare_range(tree, tx, model, numbers, space).await,
    }
}

/// Removes some of the keys between two random ones, and sometimes meets an absent key.
async fn remove_many(tree: BTree, tx: &mut Transaction, model: &mut Model, numbers: &mut Numbers) {
    let share = 1 + numbers.below(3);
    let first = numbers.below(1 + model.len() as u64) as usize;
    let some = model.keys().skip(first).take(numbers.below(80) as usize);
    let mut keys: Vec<Vec<u8>> = some
        .filter(|_| numbers.below(share) == 0)
        .cloned()
        .collect();
    let absent = if numbers.below(4) == 0 && !keys.is_empty() {
        let at = numbers.below(keys.len() as u64) as usize;
        let key = [&keys[at][..], &[0]].concat();
        keys.insert(at + 1, key.clone());
        (!model.contains_key(&key)).then_some(at + 1)
    } else {
        None
    };
    keys.dedup();
    let removed = tree.remove_ascending(tx, keys.len(), |at| &keys[at][..]);
    assert_eq!(removed.await.expect("one transaction"), absent);
    for key in &keys[..absent.unwrap_or(keys.len())] {
        assert!(model.remove(key).is_some());
    }
}

async fn compare_range(
    tree: BTree,
    tx: &mut Transaction,
    model: &Model,
    numbers: &mut Numbers,
    space: u64,
) {
    let (mut low, mut high) = (key(numbers, space), key(numbers, space));
    if low > high {
        std::mem::swap(&mut low, &mut high);
    }
    let bound = |key: Vec<u8>, how: u64| match how {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    let (low, high) = (bound(low, numbers.below(4)), bound(high, numbers.below(4)));
    let as_ref = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Excluded(key) => Bound::Excluded(key.clone()),
        Bound::Included(key) => Bound::Included(key.clone()),
    };
    let empty = matches!((&low, &high), (Bound::Excluded(a), Bound::Excluded(b)) if a == b);
    let expected: Vec<_> = if empty {
        Vec::new()
    } else {
        model
            .range::<Vec<u8>, _>((as_ref(&low), as_ref(&high)))
            .map(|(k, v)| (k.clone(), *v))
            .collect()
    };
    let (low, high) = (
        low.as_ref().map(|k| k.as_slice()),
        high.as_ref().map(|k| k.as_slice()),
    );
    let batch = 1 + numbers.below(9) as usize;
    let mut forward = tree.scan(low, high, Direction::Forward);
    assert!(
        rest(&mut forward, tx, batch)
            .await
            .expect("one transaction")
            == expected,
        "forward"
    );
    let mut backward = tree.scan(low, high, Direction::Backward);
    let mut found = rest(&mut backward, tx, batch)
        .await
        .expect("one transaction");
    found.reverse();
    assert!(found == expected, "backward");
}

fn everything(tree: BTree, tx: &mut Transaction) -> Model {
    let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    pollster::block_on(rest(&mut cursor, tx, 7))
        .expect("a snapshot can be read")
        .into_iter()
        .collect()
}

#[test]
fn transactions_aborts_and_savepoints_agree_with_a_model() {
    for seed in 0..24 {
        let mut numbers = Numbers(seed);
        let machine = machine();
        let mut session = machine.coordinator();
        let tree = tree(&mut session, 40 + 20 * (seed as usize % 4));
        let mut committed = Model::new();
        let mut past: Vec<(Transaction, Model)> = Vec::new();
        let mut reader = machine.coordinator();
        for round in 0..40 {
            let mut tx = session.begin(Mode::ReadWrite);
            let mut model = committed.clone();
            let space = 20 + numbers.below(300);
            pollster::block_on(async {
                for _ in 0..numbers.below(120) {
                    step(tree, &mut tx, &mut model, &mut numbers, space).await;
                }
                if numbers.below(2) == 0 {
                    let savepoint = tx.savepoint();
                    let mut inside = model.clone();
                    for _ in 0..numbers.below(120) {
                        step(tree, &mut tx, &mut inside, &mut numbers, space).await;
                    }
                    if numbers.below(2) == 0 {
                        tx.rollback_to(&savepoint);
                    } else {
                        model = inside;
                    }
                    tx.release(savepoint);
                    for _ in 0..numbers.below(40) {
                        step(tree, &mut tx, &mut model, &mut numbers, space).await;
                    }
                }
            });
            assert!(
                everything(tree, &mut tx) == model,
                "seed {seed} round {round}"
            );
            if numbers.below(4) == 0 {
                tx.abort();
            } else {
                assert!(commit(tx), "one writer; seed {seed} round {round}");
                committed = model;
            }
            if round % 10 == 0 {
                past.push((reader.begin(Mode::ReadOnly), committed.clone()));
            }
        }
        for (mut tx, model) in past {
            assert!(
                everything(tree, &mut tx) == model,
                "a reader of the past; seed {seed}"
            );
        }
        let report = check(&mut session, tree);
        assert_eq!(report.entries, committed.len() as u64);
    }
}

#[test]
fn nested_savepoints_agree_with_a_model() {
    for seed in 100..116 {
        let mut numbers = Numbers(seed);
        let machine = machine();
        let mut session = machine.coordinator();
        let tree = tree(&mut session, 40 + 20 * (seed as usize % 4));
        let mut committed = Model::new();
        for round in 0..20 {
            let mut tx = session.begin(Mode::ReadWrite);
            let mut model = committed.clone();
            let mut open = Vec::new();
            let space = 20 + numbers.below(100);
            for _ in 0..numbers.below(300) {
                match numbers.below(12) {
                    0 if open.len() < 4 => open.push((tx.savepoint(), model.clone())),
                    // Rolls back to any open savepoint, and closes the later ones.
                    1 if !open.is_empty() => {
                        open.truncate(1 + numbers.below(open.len() as u64) as usize);
                        let (savepoint, before) = &open[open.len() - 1];
                        tx.rollback_to(savepoint);
                        model = before.clone();
                    }
                    2 if !open.is_empty() => {
                        let (savepoint, _) = open.swap_remove(open.len() - 1);
                        tx.release(savepoint);
                    }
                    _ => {
                        let steps = step(tree, &mut tx, &mut model, &mut numbers, space);
                        pollster::block_on(steps);
                    }
                }
            }
            assert!(
                everything(tree, &mut tx) == model,
                "seed {seed} round {round}"
            );
            assert!(commit(tx), "one writer; seed {seed} round {round}");
            committed = model;
        }
        let report = check(&mut session, tree);
        assert_eq!(report.entries, committed.len() as u64);
    }
}

#[test]
fn old_snapshot_finds_keys_through_splits_and_merges() {
    let machine = machine();
    let (mut session, mut reader) = (machine.coordinator(), machine.coordinator());
    let tree = tree(&mut session, 48);
    let mut model = Model::new();
    let mut snapshots = Vec::new();
    let mut numbers = Numbers(7);
    pollster::block_on(async {
        for wave in 0..6u64 {
            for n in 0..150u64 {
                let mut tx = session.begin(Mode::ReadWrite);
                let key = (numbers.below(400) << 8).to_be_bytes().to_vec();
                if wave % 2 == 0 {
                    if tree
                        .insert(&mut tx, &key, [n, wave])
                        .await
                        .expect("it fits")
                        == Insert::Done
                    {
                        model.insert(key, [n, wave]);
                    }
                } else if tree.remove(&mut tx, &key).await.expect("one writer") {
                    model.remove(&key);
                }
                assert!(commit(tx));
                if n % 50 == 0 {
                    snapshots.push((reader.begin(Mode::ReadOnly), model.clone()));
                }
            }
        }
        for (tx, model) in &mut snapshots {
            for n in 0..400u64 {
                let key = (n << 8).to_be_bytes().to_vec();
                assert_eq!(
                    tree.get(tx, &key).await.expect("the past is kept"),
                    model.get(&key).copied()
                );
            }
            assert_eq!(&everything(tree, tx), model);
        }
    });
    check(&mut session, tree);
}

#[test]
fn removing_everything_makes_the_tree_small_again() {
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 48);
    let key = |n: u64| n.to_be_bytes().to_vec();
    pollster::block_on(async {
        for n in 0..2000 {
            let mut tx = session.begin(Mode::ReadWrite);
            tree.insert(&mut tx, &key(n), [n, 0])
                .await
                .expect("it fits");
            assert!(commit(tx));
        }
        let full = check(&mut session, tree);
        assert!(full.height >= 3, "{full:?}");
        assert!(
            full.leaf_fill_percent >= 70,
            "an ascending load leaves full leaves: {}",
            full.leaf_fill_percent
        );
        for n in 0..1990 {
            let mut tx = session.begin(Mode::ReadWrite);
            assert!(tree.remove(&mut tx, &key(n)).await.expect("one writer"));
            assert!(commit(tx));
        }
        let mut tx = session.begin(Mode::ReadWrite);
        tree.maintain(&mut tx).await.expect("no conflict");
        tx.abort();
    });
    let empty = check(&mut session, tree);
    assert_eq!(empty.entries, 10);
    assert!(empty.leaves <= 4, "{empty:?}");
}

#[test]
fn one_transaction_loads_a_committed_tree_far_beyond_a_node() {
    for descending in [false, true] {
        let machine = machine();
        let mut session = machine.coordinator();
        let tree = tree(&mut session, 64);
        let mut tx = session.begin(Mode::ReadWrite);
        let count = 20_000u64;
        pollster::block_on(async {
            for n in 0..count {
                let n = if descending { count - n } else { n };
                assert_eq!(
                    tree.insert(&mut tx, &n.to_be_bytes(), [n, 0])
                        .await
                        .expect("it fits"),
                    Insert::Done
                );
            }
            assert_eq!(
                tree.get(&mut tx, &77u64.to_be_bytes()).await.expect("own"),
                Some([77, 0])
            );
        });
        assert_eq!(everything(tree, &mut tx).len() as u64, count);
        assert!(commit(tx));
        let report = check(&mut session, tree);
        assert_eq!(report.entries, count);
        let least = if descending { 50 } else { 70 };
        assert!(
            report.leaf_fill_percent >= least,
            "{}",
            report.leaf_fill_percent
        );
    }
}

#[test]
fn tree_is_loaded_and_dropped_by_its_creator() {
    let machine = machine();
    let mut session = machine.coordinator();
    let mut tx = session.begin(Mode::ReadWrite);
    let tree = pollster::block_on(BTree::create_with(
        &mut tx,
        TreeOptions {
            node_words: 48,
            ..TreeOptions::default()
        },
    ))
    .expect("there is memory");
    let mut numbers = Numbers(3);
    let mut model = Model::new();
    pollster::block_on(async {
        for _ in 0..5000 {
            step(tree, &mut tx, &mut model, &mut numbers, 3000).await;
        }
    });
    assert_eq!(everything(tree, &mut tx), model);
    assert!(commit(tx));
    assert_eq!(check(&mut session, tree).entries, model.len() as u64);
    let mut tx = session.begin(Mode::ReadWrite);
    pollster::block_on(tree.drop_tree(&mut tx)).expect("no transaction uses the tree");
    assert!(commit(tx));
    let mut tx = session.begin(Mode::ReadOnly);
    let report = pollster::block_on(tree.check(&mut tx)).expect("there is nothing to read");
    assert_eq!(report.problems.len(), 1);
}

#[test]
fn bulk_build_makes_full_nodes_in_order() {
    use fencepost_btree::Bulk;
    for count in [0u64, 1, 5, 60, 5000] {
        let machine = machine();
        let mut session = machine.coordinator();
        let mut tx = session.begin(Mode::ReadWrite);
        let tree = pollster::block_on(BTree::create_with(
            &mut tx,
            TreeOptions {
                node_words: 64,
                ..TreeOptions::default()
            },
        ))
        .expect("there is memory");
        let mut bulk = pollster::block_on(Bulk::into(&mut tx, tree))
            .expect("readable")
            .expect("it is empty");
        let mut model = Model::new();
        for n in 0..count {
            let key = format!("{:08}{}", n * 3, "y".repeat(n as usize % 9)).into_bytes();
            assert!(pollster::block_on(bulk.push(&mut tx, &key, [n, 1])).expect("it fits"));
            assert!(
                !pollster::block_on(bulk.push(&mut tx, &key, [n, 1])).expect("it is not above")
            );
            model.insert(key, [n, 1]);
        }
        let tree = pollster::block_on(bulk.finish(&mut tx)).expect("there is memory");
        assert_eq!(everything(tree, &mut tx), model);
        assert!(commit(tx));
        let report = check(&mut session, tree);
        assert_eq!(report.entries, count);
        if count > 1000 {
            assert!(
                report.leaf_fill_percent >= 85,
                "{}",
                report.leaf_fill_percent
            );
        }
        let mut tx = session.begin(Mode::ReadWrite);
        let mut numbers = Numbers(count);
        pollster::block_on(async {
            for _ in 0..500 {
                step(tree, &mut tx, &mut model, &mut numbers, 100).await;
            }
        });
        assert_eq!(everything(tree, &mut tx), model);
        assert!(commit(tx));
        check(&mut session, tree);
    }
}

#[test]
fn too_long_key_is_refused() {
    use fencepost_btree::{IndexError, longest_key};
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 64);
    let mut tx = session.begin(Mode::ReadWrite);
    let longest = vec![7; longest_key(64)];
    let longer = vec![7; longest_key(64) + 1];
    pollster::block_on(async {
        assert_eq!(
            tree.insert(&mut tx, &longest, [1, 1])
                .await
                .expect("it fits"),
            Insert::Done
        );
        let refused = tree
            .insert(&mut tx, &longer, [1, 1])
            .await
            .expect_err("it does not fit");
        assert_eq!(
            refused,
            IndexError::KeyTooLong {
                length: longer.len(),
                limit: longest.len()
            }
        );
        for n in 50..100u8 {
            let mut key = longest.clone();
            let last = key.len() - 1;
            key[usize::from(n) % 8] = n;
            key[last] = n;
            tree.insert(&mut tx, &key, [2, 2]).await.expect("it fits");
        }
    });
    assert!(commit(tx));
    assert_eq!(check(&mut session, tree).entries, 51);
}
