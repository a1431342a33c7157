//! A change that is dropped while it waits, in the middle of moving the transaction's own keys to
//! where they belong after a split.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_btree::{BTree, Insert, TreeOptions};
use fencepost_fabric::{Disk, SimDisk};
use fencepost_storage::log::LogOptions;
use fencepost_txn::{
    AbortReason, DurableStorage, Machine, MachineOptions, Mode, ObjectLocation, Outcome, Savepoint,
    Transaction,
};
use pollster::block_on;

const NODE_WORDS: usize = 60;
/// The keys that are cut off.
const OWN: [u64; 3] = [10, 20, 30];

fn open(disk: &SimDisk) -> Arc<Machine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        durable: Some(DurableStorage {
            disk,
            log: LogOptions {
                buffer_bytes: 32 << 10,
                ..LogOptions::default()
            },
            checkpoint_bytes: u64::MAX,
        }),
        ..MachineOptions::default()
    })
    .expect("opens")
}

fn begin(machine: &Arc<Machine>) -> Transaction {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    tx.set_synchronous(false);
    tx
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn commit(tx: Transaction) {
    let done = block_on(tx.commit());
    assert!(matches!(done, Ok(Outcome::Committed(_))), "{done:?}");
}

fn insert(tx: &mut Transaction, tree: BTree, key: u64) {
    let done = block_on(tree.insert(tx, &key.to_be_bytes(), [key, 0]));
    assert_eq!(done.expect("no conflict"), Insert::Done);
}

fn keys(machine: &Arc<Machine>, tree: BTree) -> Vec<u64> {
    let mut tx = begin(machine);
    let found = (0..100).filter(|key: &u64| {
        block_on(tree.get(&mut tx, &key.to_be_bytes()))
            .expect("readable")
            .is_some()
    });
    found.collect()
}

/// How many keys fill a leaf.
fn keys_of_a_leaf(machine: &Arc<Machine>) -> u64 {
    let mut tx = begin(machine);
    let tree = pollster::block_on(BTree::create_with(
        &mut tx,
        TreeOptions {
            node_words: NODE_WORDS,
            ..TreeOptions::default()
        },
    ))
    .expect("memory");
    for key in 0.. {
        insert(&mut tx, tree, key);
        let report = block_on(tree.check(&mut tx)).expect("readable");
        if report.nodes > 1 {
            return key;
        }
    }
    0
}

/// A transaction that has put three keys into the one leaf of a tree, which others have filled up
/// since; its next change was dropped while it waited for room in the log to split the leaf.
struct InterruptedWrite {
    machine: Arc<Machine>,
    tree: BTree,
    tx: Transaction,
    /// From before the change that was dropped.
    savepoint: Savepoint,
    /// Keys of others.
    others: Vec<u64>,
}

impl InterruptedWrite {
    fn new() -> InterruptedWrite {
        let disk = SimDisk::new(1);
        let machine = open(&disk);
        let mut tx = begin(&machine);
        let tree = pollster::block_on(BTree::create_with(
            &mut tx,
            TreeOptions {
                node_words: NODE_WORDS,
                ..TreeOptions::default()
            },
        ))
        .expect("memory");
        let filler = block_on(tx.alloc(400, ObjectLocation::Own))
            .expect("memory")
            .addr;
        commit(tx);
        let mut own = begin(&machine);
        for key in OWN {
            insert(&mut own, tree, key);
        }
        let savepoint = own.savepoint();
        let others: Vec<u64> = (40..40 + keys_of_a_leaf(&machine)).collect();
        for key in &others {
            let mut tx = begin(&machine);
            insert(&mut tx, tree, *key);
            commit(tx);
        }
        // The log takes no more.
        let held = disk.hold_syncs();
        let stuck = loop {
            let mut tx = begin(&machine);
            block_on(tx.update(filler, |image| image[0] += 1)).expect("no conflict");
            let mut commit = Box::pin(tx.commit());
            let mut looks = 0;
            // The write that was under way when the disk was stopped may still free a little space.
            while looks < 100 && poll(commit.as_mut()).is_pending() {
                std::thread::sleep(Duration::from_millis(1));
                looks += 1;
            }
            if looks == 100 {
                break commit;
            }
        };
        let waits = poll(pin!(tree.get(&mut own, &OWN[0].to_be_bytes()))).is_pending();
        assert!(waits, "it splits the leaf, and that is logged");
        drop(held);
        assert!(matches!(block_on(stuck), Ok(Outcome::Committed(_))));
        InterruptedWrite {
            machine,
            tree,
            tx: own,
            savepoint,
            others,
        }
    }
}

#[test]
fn transaction_with_lost_keys_cannot_commit() {
    let world = InterruptedWrite::new();
    let refused = Outcome::Aborted(AbortReason::Interrupted);
    assert_eq!(block_on(world.tx.commit()), Ok(refused));
    assert_eq!(keys(&world.machine, world.tree), world.others);
}

#[test]
fn rollback_to_earlier_savepoint_restores_keys() {
    let mut world = InterruptedWrite::new();
    world.tx.rollback_to(&world.savepoint);
    let found = block_on(world.tree.get(&mut world.tx, &OWN[1].to_be_bytes()));
    assert_eq!(found, Ok(Some([OWN[1], 0])));
    commit(world.tx);
    let all: Vec<u64> = OWN.into_iter().chain(world.others).collect();
    assert_eq!(keys(&world.machine, world.tree), all);
}
