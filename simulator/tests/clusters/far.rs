//! Single steps over machines that do not map each other's memory, in a fixed order.

use std::cell::Cell;
use std::rc::Rc;

use fencepost_btree::{BTree, Insert};
use fencepost_simulator::cluster::Cluster;
use fencepost_simulator::plan::Plan;
use fencepost_txn::{Machine, Mode, ObjectLocation, Outcome, Transaction};

/// Runs a task on two machines without backups.
fn on_two_machines<T: Future<Output = ()> + 'static>(
    task: impl FnOnce(Vec<std::sync::Arc<Machine>>) -> T,
) {
    let plan = Plan {
        machines: 2,
        replicas: 1,
        ..Plan::draw(1)
    };
    let mut cluster = Cluster::start(&plan).expect("starts");
    let done = Rc::new(Cell::new(false));
    let (ended, sim) = (Rc::clone(&done), cluster.sim.clone());
    let complete = cluster.machines.clone();
    let task = task(cluster.machines.clone());
    cluster.executor.spawn("the test".into(), async move {
        for machine in complete {
            while !machine.is_complete().await {
                sim.nap(100_000).await;
            }
        }
        task.await;
        ended.set(true);
    });
    cluster.executor.run().expect("comes to its end");
    assert!(done.get());
}

async fn commit(tx: Transaction) {
    let outcome = tx.commit().await;
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
}

#[test]
fn remote_node_change_survives_refresh() {
    on_two_machines(|machines| async move {
        let mut theirs = machines[1].coordinator();
        let mut tx = theirs.begin(Mode::ReadWrite);
        let tree = BTree::create(&mut tx).await.expect("memory");
        let register = tx.alloc(1, ObjectLocation::Own).await.expect("memory").addr;
        commit(tx).await;
        let mut mine = machines[0].coordinator().begin(Mode::ReadWrite);
        let done = tree.insert(&mut mine, b"key", [7, 0]).await;
        assert_eq!(done, Ok(Insert::Done));
        let before = mine.read_timestamp();
        // The snapshot moves although the node is unchanged.
        let mut tx = theirs.begin(Mode::ReadWrite);
        tx.write(register, &[1]).await.expect("is there");
        commit(tx).await;
        assert_eq!(mine.read(register, &mut Vec::new()).await, Ok(true));
        assert!(mine.read_timestamp() > before);
        assert_eq!(tree.get(&mut mine, b"key").await, Ok(Some([7, 0])));
        commit(mine).await;
        let mut tx = theirs.begin(Mode::ReadOnly);
        assert_eq!(tree.get(&mut tx, b"key").await, Ok(Some([7, 0])));
    });
}
