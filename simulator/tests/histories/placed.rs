//! Indexes whose root is on another machine than the one that fills them.

use std::collections::BTreeMap;
use std::ops::Bound;

use fencepost_btree::{BTree, Bulk, Direction, Insert, ScanBatch, TreeOptions};
use fencepost_hashtable::{HashOptions, HashTable, Insert as Put};
use fencepost_txn::{Coordinator, MachineId, Mode, ObjectLocation, Outcome, Stop, Transaction};
use pollster::block_on;

use crate::kind::Kind;
use crate::world::World;

const KINDS: [Kind; 3] = [Kind::Local, Kind::Shm, Kind::Tcp];
/// The machine that has the indexes.
const THERE: MachineId = MachineId(2);

fn commit(tx: Transaction) {
    let outcome = block_on(tx.commit());
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
}

fn small(together: bool) -> TreeOptions {
    TreeOptions {
        node_words: 48,
        near: ObjectLocation::Machine(THERE),
        together,
    }
}

fn tree(world: &World, together: bool) -> BTree {
    let mut tx = world.machine(0).coordinator().begin(Mode::ReadWrite);
    let tree = block_on(BTree::create_with(&mut tx, small(together))).expect("memory");
    commit(tx);
    tree
}

/// Changes one key in its own transaction, with retries.
fn change(session: &mut Coordinator, tree: BTree, key: u64, value: Option<u64>) {
    loop {
        let mut tx = session.begin(Mode::ReadWrite);
        let bytes = key.to_be_bytes();
        let done = block_on(async {
            tree.remove(&mut tx, &bytes).await?;
            if let Some(value) = value {
                let done = tree.insert(&mut tx, &bytes, [value, key]).await;
                assert_eq!(done, Ok(Insert::Done));
            }
            tx.commit().await
        });
        match done {
            Ok(Outcome::Committed(_)) => return,
            Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_)) => {}
            Err(stop) => panic!("{stop}"),
        }
    }
}

fn all(tx: &mut Transaction, tree: BTree) -> BTreeMap<u64, u64> {
    let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    let (mut batch, mut all) = (ScanBatch::new(), BTreeMap::new());
    while block_on(cursor.next_batch(tx, &mut batch, 10)).expect("readable") {
        for (key, value) in batch.iter() {
            let key = key.try_into().map(u64::from_be_bytes).expect("8 bytes");
            all.insert(key, value[0]);
        }
    }
    all
}

/// Checks a tree on every machine; returns the number of its nodes on each.
fn nodes(world: &World, tree: BTree) -> Vec<usize> {
    let mut counts = vec![0; world.machines.len()];
    for machine in &world.machines {
        counts.fill(0);
        let mut tx = machine.coordinator().begin(Mode::ReadOnly);
        let report = block_on(tree.check(&mut tx)).expect("readable");
        assert_eq!(report.problems, []);
        for node in report.addresses {
            let primary = machine.primary_of(node).expect("it was read");
            counts[primary.0 as usize - 1] += 1;
        }
    }
    counts
}

#[test]
fn co_located_tree_stays_on_machine_and_keeps_old_versions() {
    const KEYS: u64 = 150;
    for kind in KINDS {
        let world = World::over(kind, 2, 2, 0);
        let tree = tree(&world, true);
        let mut sessions = [0, 1].map(|machine| world.machine(machine).coordinator());
        for key in 0..10 {
            change(&mut sessions[0], tree, key * 16, Some(1));
        }
        let mut past = [0, 1].map(|m| world.machine(m).coordinator().begin(Mode::ReadOnly));
        let then = all(&mut past[0], tree);
        assert_eq!(then.len(), 10);
        for key in 0..KEYS {
            change(&mut sessions[key as usize % 2], tree, key, Some(2));
        }
        let full = nodes(&world, tree);
        assert!(full[0] == 0 && full[1] > 10, "{full:?}");
        for past in &mut past {
            assert_eq!(all(past, tree), then, "{kind:?}");
        }
        for key in 0..KEYS - 5 {
            change(&mut sessions[key as usize / 3 % 2], tree, key, None);
        }
        for past in past {
            past.abort();
        }
        let left = nodes(&world, tree);
        assert!(left[0] == 0 && left[1] < full[1], "{full:?} {left:?}");
        let mut tx = world.machine(0).coordinator().begin(Mode::ReadOnly);
        assert_eq!(all(&mut tx, tree).len(), 5);
        tx.abort();
        world.wait_until_idle_unchecked();
    }
}

#[test]
fn other_trees_grow_on_writing_machine() {
    let world = World::over(Kind::Local, 2, 1, 0);
    let tree = tree(&world, false);
    for key in 0..100 {
        change(&mut world.machine(0).coordinator(), tree, key, Some(1));
    }
    let nodes = nodes(&world, tree);
    assert!(nodes[0] > 5 && nodes[1] == 1, "{nodes:?}");
    world.wait_until_idle_unchecked();
}

#[test]
fn remote_tree_creation_and_load_is_atomic() {
    const KEYS: u64 = 60;
    for kind in KINDS {
        let world = World::over(kind, 2, 2, 0);
        for commits in [false, true] {
            let before = world.machines[1].inventory().objects.len();
            let mut tx = world.machine(0).coordinator().begin(Mode::ReadWrite);
            let tree = block_on(async {
                let tree = BTree::create_with(&mut tx, small(true)).await?;
                for key in 0..KEYS / 2 {
                    let done = tree.insert(&mut tx, &key.to_be_bytes(), [key, 0]).await;
                    assert_eq!(done, Ok(Insert::Done));
                }
                let savepoint = tx.savepoint();
                for key in KEYS / 2..KEYS {
                    let done = tree.insert(&mut tx, &key.to_be_bytes(), [key, 0]).await;
                    assert_eq!(done, Ok(Insert::Done));
                }
                tx.rollback_to(&savepoint);
                tx.release(savepoint);
                Ok::<_, Stop>(tree)
            });
            let tree = tree.expect("memory");
            assert_eq!(all(&mut tx, tree).len() as u64, KEYS / 2);
            if commits {
                commit(tx);
                let nodes = nodes(&world, tree);
                assert!(nodes[0] == 0 && nodes[1] > 3, "{nodes:?}");
                let mut tx = world.machine(1).coordinator().begin(Mode::ReadOnly);
                assert_eq!(all(&mut tx, tree).len() as u64, KEYS / 2);
            } else {
                tx.abort();
                world.wait_until_idle_unchecked();
                assert_eq!(world.machines[1].inventory().objects.len(), before);
            }
        }
        world.wait_until_idle_unchecked();
    }
}

#[test]
fn remote_empty_tree_is_bulk_loaded() {
    const KEYS: u64 = 60;
    for kind in KINDS {
        let world = World::over(kind, 2, 2, 0);
        let tree = tree(&world, true);
        let mut past = world.machine(1).coordinator().begin(Mode::ReadOnly);
        for commits in [false, true] {
            let mut tx = world.machine(0).coordinator().begin(Mode::ReadWrite);
            block_on(async {
                let bulk = Bulk::into(&mut tx, tree).await.expect("readable");
                let mut bulk = bulk.expect("empty");
                for key in 0..KEYS {
                    let done = bulk.push(&mut tx, &key.to_be_bytes(), [key, 0]).await;
                    assert!(done.expect("memory"));
                }
                bulk.finish(&mut tx).await.expect("memory");
            });
            assert_eq!(all(&mut tx, tree).len() as u64, KEYS);
            match commits {
                true => commit(tx),
                false => tx.abort(),
            }
        }
        let nodes = nodes(&world, tree);
        assert!(nodes[0] == 0 && nodes[1] > 5, "{nodes:?}");
        assert_eq!(all(&mut past, tree).len(), 0);
        past.abort();
        // The placement that the root requests is kept.
        for key in KEYS..2 * KEYS {
            change(&mut world.machine(0).coordinator(), tree, key, Some(1));
        }
        assert_eq!(self::nodes(&world, tree)[0], 0);
        world.wait_until_idle_unchecked();
    }
}

fn put(session: &mut Coordinator, table: HashTable, key: u64) -> Result<(), Stop> {
    loop {
        let mut tx = session.begin(Mode::ReadWrite);
        let bytes = key.to_be_bytes();
        let done = block_on(async {
            match table.insert(&mut tx, &bytes, &[key, 1]).await {
                Ok(done) => assert_eq!(done, Put::Done),
                Err(fencepost_hashtable::IndexError::Stop(stop)) => return Err(stop),
                Err(error) => panic!("{error}"),
            }
            tx.commit().await
        });
        match done {
            Ok(Outcome::Committed(_)) => return Ok(()),
            Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_)) => {}
            Err(stop) => return Err(stop),
        }
    }
}

fn table(world: &World, shard_buckets: usize) -> HashTable {
    let options = HashOptions {
        key_bytes: 8,
        slots: 2,
        shard_buckets,
        near: ObjectLocation::Machine(THERE),
        ..HashOptions::default()
    };
    let mut tx = world.machine(0).coordinator().begin(Mode::ReadWrite);
    let table = block_on(HashTable::create_with(&mut tx, &options)).expect("memory");
    commit(tx);
    table
}

#[test]
fn hash_table_grows_on_its_machine() {
    const KEYS: u64 = 120;
    for kind in KINDS {
        let world = World::over(kind, 2, 2, 0);
        let table = table(&world, 2);
        let mut sessions = [0, 1].map(|machine| world.machine(machine).coordinator());
        for key in 0..KEYS {
            put(&mut sessions[key as usize % 2], table, key).expect("memory");
        }
        for machine in &world.machines {
            let mut tx = machine.coordinator().begin(Mode::ReadOnly);
            let report = block_on(table.check(&mut tx)).expect("readable");
            assert_eq!(report.problems, []);
            assert!(report.entries == KEYS && report.shards > 4, "{report:?}");
            for key in 0..KEYS {
                let found = block_on(table.get(&mut tx, &key.to_be_bytes()));
                assert_eq!(found, Ok(Some([key, 1])));
            }
            tx.abort();
        }
        world.wait_until_idle_unchecked();
        let mut tx = world.machine(0).coordinator().begin(Mode::ReadWrite);
        block_on(table.drop_table(&mut tx)).expect("readable");
        match block_on(tx.commit()) {
            // All changes together may exceed the capacity of a log.
            Ok(Outcome::Committed(_)) | Err(Stop::TooLarge(_)) => {}
            other => panic!("{other:?}"),
        }
        world.wait_until_idle_unchecked();
    }
}

#[test]
fn shard_too_large_for_remote_split_gets_chains() {
    const KEYS: u64 = 80;
    let world = World::over(Kind::Local, 2, 1, 0);
    let mut tx = world.machine(1).coordinator().begin(Mode::ReadWrite);
    let options = HashOptions {
        key_bytes: 8,
        slots: 2,
        shard_buckets: 30,
        ..HashOptions::default()
    };
    let table = block_on(HashTable::create_with(&mut tx, &options)).expect("memory");
    commit(tx);
    let mut session = world.machine(0).coordinator();
    for key in 0..KEYS {
        put(&mut session, table, key).expect("there is room");
    }
    let mut tx = session.begin(Mode::ReadOnly);
    let report = block_on(table.check(&mut tx)).expect("readable");
    assert_eq!(report.problems, []);
    assert!(report.shards == 1 && report.blocks > 0, "{report:?}");
    tx.abort();
    // The table can grow on its machine.
    let mut session = world.machine(1).coordinator();
    for key in KEYS..2 * KEYS {
        put(&mut session, table, key).expect("there is room");
    }
    let mut tx = session.begin(Mode::ReadOnly);
    let report = block_on(table.check(&mut tx)).expect("readable");
    assert_eq!(report.problems, []);
    assert!(report.shards > 1, "{report:?}");
    tx.abort();
    world.wait_until_idle_unchecked();
}

#[test]
fn full_machine_refuses_index_entries_and_index_stays_whole() {
    let world = World::limited(Kind::Local, 2, 1 << 20);
    let tree = tree(&world, true);
    let table = table(&world, 2);
    let mut session = world.machine(0).coordinator();
    let mut filler = session.begin(Mode::ReadWrite);
    // Leaves only the memory that the indexes have, and a little more.
    let refused = loop {
        match block_on(filler.alloc(500, ObjectLocation::Machine(THERE))) {
            Ok(_) => {}
            Err(stop) => break stop,
        }
    };
    assert_eq!(refused, Stop::OutOfMemory);
    let mut other = world.machine(0).coordinator();
    let mut full = [false; 2];
    for key in 0..100_000u64 {
        let mut tx = other.begin(Mode::ReadWrite);
        let done = block_on(tree.insert(&mut tx, &key.to_be_bytes(), [key, 0]));
        match done {
            Ok(_) => commit(tx),
            Err(fencepost_btree::IndexError::Stop(stop)) => {
                assert_eq!(stop, Stop::OutOfMemory);
                tx.abort();
                full[0] = true;
            }
            Err(error) => panic!("{error}"),
        }
        match put(&mut other, table, key) {
            Ok(()) => {}
            Err(stop) => {
                assert_eq!(stop, Stop::OutOfMemory);
                full[1] = true;
            }
        }
        if full == [true; 2] {
            break;
        }
    }
    assert_eq!(full, [true; 2]);
    filler.abort();
    nodes(&world, tree);
    let mut tx = other.begin(Mode::ReadOnly);
    let report = block_on(table.check(&mut tx)).expect("readable");
    assert_eq!(report.problems, []);
    tx.abort();
    world.wait_until_idle_unchecked();
}
