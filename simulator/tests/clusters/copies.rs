//! Copies that a machine keeps of another machine's inner nodes, when the slot of such a node
//! serves another tree.

use std::collections::BTreeSet;

use fencepost_btree::{BTree, Bulk, TreeOptions};
use fencepost_simulator::plan::{Plan, terms};
use fencepost_txn::{Addr, Coordinator, Mode, Outcome, Transaction};

use crate::driven::with;

const KEYS: u64 = 400;
/// Trees that are made until one has the slot that is wanted.
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

/// Fills an empty tree; the addresses of all its nodes but the root.
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

#[test]
fn tree_whose_root_has_the_slot_of_a_dropped_node_is_found_from_elsewhere() {
    let plan = Plan {
        machines: 2,
        hosts: 1,
        replicas: 1,
        leases: terms(50),
        few_blocks: false,
        ..Plan::draw(1)
    };
    with(&plan, |world| async move {
        let (mut here, mut there) = (
            world.machines[0].coordinator(),
            world.machines[1].coordinator(),
        );
        // An object that stays keeps the block from being given to objects of another size.
        create(&mut here).await;
        let dropped = create(&mut here).await;
        let nodes = fill(&mut here, dropped).await;
        // Every inner node is copied on the way.
        for key in 0..KEYS {
            let mut tx = there.begin(Mode::ReadOnly);
            let found = dropped.get(&mut tx, &key.to_be_bytes()).await;
            assert_eq!(found, Ok(Some([key, 0])));
        }
        let mut tx = here.begin(Mode::ReadWrite);
        dropped.drop_tree(&mut tx).await.expect("is there");
        commit(tx).await;
        let mut reused = 0;
        for _ in 0..TREES {
            world.sim.nap(1_000_000).await;
            world.machines[0].tidy();
            let tree = create(&mut here).await;
            reused += usize::from(nodes.contains(&tree.root()));
            let mut tx = there.begin(Mode::ReadWrite);
            let key = 7u64.to_be_bytes();
            assert_eq!(tree.get(&mut tx, &key).await, Ok(None));
            let inserted = tree.insert(&mut tx, &key, [7, 0]).await;
            assert_eq!(inserted, Ok(fencepost_btree::Insert::Done));
            commit(tx).await;
        }
        assert!(reused > 10, "{reused} of {}", nodes.len());
    });
}
