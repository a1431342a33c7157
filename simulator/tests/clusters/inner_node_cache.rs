//! Cached inner nodes of another machine, when the slot of such a node is reused by another tree.

use std::collections::BTreeSet;

use fencepost_btree::{BTree, Bulk, TreeOptions};
use fencepost_hashtable::{HashOptions, HashTable};
use fencepost_simulator::plan::{Plan, terms};
use fencepost_txn::{Addr, Coordinator, Mode, Outcome, Transaction};

use crate::driven::with;

const KEYS: u64 = 400;
/// The number of trees that are made until one has the wanted slot.
const TREES: usize = 200;

async fn commit(tx: Transaction) {
    let outcome = tx.commit().await;
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
}

async fn create(coordinator: &mut Coordinator) -> BTree {
    let mut tx = coordinator.begin(Mode::ReadWrite);
    let options = TreeOptions {
        node_words: 40,
        ..TreeOptions::default()
    };
    let tree = BTree::create_with(&mut tx, options).await.expect("memory");
    commit(tx).await;
    tree
}

/// Fills an empty tree; returns the addresses of all its nodes but the root.
async fn fill(coordinator: &mut Coordinator, tree: BTree) -> BTreeSet<Addr> {
    let mut tx = coordinator.begin(Mode::ReadWrite);
    let bulk = Bulk::into(&mut tx, tree).await.expect("is there");
    let mut bulk = bulk.expect("is empty");
    for key in 0..KEYS {
        let pushed = bulk.push(&mut tx, &key.to_be_bytes(), [key, 0]).await;
        assert_eq!(pushed, Ok(true));
    }
    bulk.finish(&mut tx).await.expect("memory");
    commit(tx).await;
    let mut tx = coordinator.begin(Mode::ReadOnly);
    let report = tree.check(&mut tx).await.expect("is there");
    assert!(report.height > 2, "{report:?}");
    let nodes = report.addresses.into_iter();
    nodes.filter(|addr| *addr != tree.root()).collect()
}

/// Returns a plan of two machines on one host, without backups.
fn plan() -> Plan {
    Plan {
        machines: 2,
        hosts: 1,
        replicas: 1,
        leases: terms(50),
        few_blocks: false,
        ..Plan::draw(1)
    }
}

#[test]
fn root_in_reused_node_slot_is_found_remotely() {
    with(&plan(), |world| async move {
        let (mut local, mut remote) = (
            world.machines[0].coordinator(),
            world.machines[1].coordinator(),
        );
        // An object that stays prevents the reuse of the block for objects of another size.
        create(&mut local).await;
        let dropped = create(&mut local).await;
        let nodes = fill(&mut local, dropped).await;
        // The lookups cache every inner node.
        for key in 0..KEYS {
            let mut tx = remote.begin(Mode::ReadOnly);
            let found = dropped.get(&mut tx, &key.to_be_bytes()).await;
            assert_eq!(found, Ok(Some([key, 0])));
        }
        let mut tx = local.begin(Mode::ReadWrite);
        dropped.drop_tree(&mut tx).await.expect("is there");
        commit(tx).await;
        let mut reused = 0;
        for number in 0..TREES {
            world.sim.nap(1_000_000).await;
            world.machines[0].tidy();
            let tree = create(&mut local).await;
            reused += usize::from(nodes.contains(&tree.root()));
            if number % 2 == 0 {
                let mut tx = local.begin(Mode::ReadWrite);
                let inserted = tree.insert(&mut tx, &8u64.to_be_bytes(), [8, 0]).await;
                assert_eq!(inserted, Ok(fencepost_btree::Insert::Done));
                commit(tx).await;
                assert_eq!(tree.about(&world.machines[1]).await, Ok(1.0));
            }
            let mut tx = remote.begin(Mode::ReadWrite);
            let key = 7u64.to_be_bytes();
            assert_eq!(tree.get(&mut tx, &key).await, Ok(None));
            let inserted = tree.insert(&mut tx, &key, [7, 0]).await;
            assert_eq!(inserted, Ok(fencepost_btree::Insert::Done));
            commit(tx).await;
        }
        assert!(reused > 10, "{reused} of {}", nodes.len());
    });
}

async fn create_hash(coordinator: &mut Coordinator) -> HashTable {
    let mut tx = coordinator.begin(Mode::ReadWrite);
    let options = HashOptions {
        shard_buckets: 4,
        ..HashOptions::default()
    };
    let table = HashTable::create_with(&mut tx, &options).await;
    let table = table.expect("memory");
    commit(tx).await;
    table
}

async fn fill_hash(coordinator: &mut Coordinator, table: HashTable, keys: u64) {
    for key in 0..keys {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        let inserted = table.insert(&mut tx, &key.to_be_bytes(), &[key, 0]).await;
        assert_eq!(inserted, Ok(fencepost_hashtable::Insert::Done));
        commit(tx).await;
    }
}

/// Looks up a key; returns the number of objects of other machines that the transaction has read.
async fn reads_of_lookup(coordinator: &mut Coordinator, table: HashTable, key: u64) -> u32 {
    let mut tx = coordinator.begin(Mode::ReadOnly);
    let found = table.get(&mut tx, &key.to_be_bytes()).await;
    assert_eq!(found, Ok(Some([key, 0])));
    tx.far_counts().reads
}

#[test]
fn misled_lookup_replaces_stale_hash_table_copies() {
    with(&plan(), |world| async move {
        let (mut local, mut remote) = (
            world.machines[0].coordinator(),
            world.machines[1].coordinator(),
        );
        let grown = create_hash(&mut local).await;
        fill_hash(&mut local, grown, 1).await;
        reads_of_lookup(&mut remote, grown, 0).await;
        let mut tx = local.begin(Mode::ReadWrite);
        for key in 1..40u64 {
            let inserted = grown.insert(&mut tx, &key.to_be_bytes(), &[key, 0]).await;
            assert_eq!(inserted, Ok(fencepost_hashtable::Insert::Done));
        }
        commit(tx).await;
        let keys = 0..40;
        for key in keys.clone() {
            reads_of_lookup(&mut remote, grown, key).await;
        }
        for key in keys {
            let reads = reads_of_lookup(&mut remote, grown, key).await;
            assert!(reads <= 2, "{reads} reads for {key}");
        }
        // The root of the next table, or its directory, reuses the slot of the root.
        let mut roots = BTreeSet::new();
        let mut reused = 0;
        for _ in 0..TREES {
            let table = create_hash(&mut local).await;
            fill_hash(&mut local, table, 4).await;
            reused += usize::from(!roots.insert(table.root()));
            for key in 0..4 {
                reads_of_lookup(&mut remote, table, key).await;
            }
            for key in 0..4 {
                assert_eq!(reads_of_lookup(&mut remote, table, key).await, 1);
            }
            let mut tx = local.begin(Mode::ReadWrite);
            table.drop_table(&mut tx).await.expect("is there");
            commit(tx).await;
            world.sim.nap(1_000_000).await;
            world.machines[0].tidy();
        }
        assert!(reused > 10, "{reused}");
    });
}
