//! A tree whose nodes are in memory of another machine that is not mapped here.

use std::sync::Arc;
use std::time::Duration;

use fencepost_btree::{BTree, Insert, TreeOptions};
use fencepost_fabric::{Fabric, MachineId, Member, TcpConfig, TcpFabric};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::{Coordinator, Machine, MachineOptions, Mode, Outcome, Transaction};
use pollster::block_on;

fn commit(tx: Transaction) -> bool {
    let outcome = block_on(tx.commit()).expect("commits or aborts");
    matches!(outcome, Outcome::Committed(_))
}

/// Two machines that read each other's memory over connections.
fn machines() -> Vec<Arc<Machine>> {
    let ids = [MachineId(1), MachineId(2)];
    let fabrics = ids.map(|me| {
        let config = TcpConfig {
            me,
            cluster: 1,
            secret: b"of a tree".to_vec(),
            listen: "127.0.0.1:0".into(),
            tls: None,
            silence: None,
        };
        Arc::new(TcpFabric::start(&config).expect("a free port"))
    });
    let member = |at: usize| Member {
        id: ids[at],
        address: fabrics[at].address().to_string(),
    };
    let members = [member(0), member(1)];
    let machines = fabrics.iter().map(|fabric| {
        fabric.set_members(&members).expect("a member");
        Machine::open(MachineOptions {
            region_bytes: 16 << 20,
            network: Some(NetworkOptions {
                log_words: 1 << 14,
                ..NetworkOptions::of(
                    Arc::clone(fabric) as Arc<dyn Fabric>,
                    Configuration::of_process(2).expect("machines"),
                    Replication::exactly(1),
                )
            }),
            ..MachineOptions::default()
        })
        .expect("opens")
    });
    let machines: Vec<_> = machines.collect();
    while !machines.iter().all(|m| block_on(m.is_complete())) {
        std::thread::yield_now();
    }
    machines
}

fn key(number: u32) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(1000, 7);
    key
}

fn get(session: &mut Coordinator, tree: BTree, number: u32) -> Option<[u64; 2]> {
    let mut tx = session.begin(Mode::ReadWrite);
    block_on(tree.get(&mut tx, &key(number))).expect("is looked for")
}

#[test]
fn cached_copies_of_freed_blocks_are_not_used() {
    const KEYS: u32 = 1600;
    let machines = machines();
    let (mut local, mut remote) = (machines[0].coordinator(), machines[1].coordinator());
    let mut tx = remote.begin(Mode::ReadWrite);
    let tree = pollster::block_on(BTree::create_with(
        &mut tx,
        TreeOptions {
            node_words: 1000,
            ..TreeOptions::default()
        },
    ))
    .expect("there is memory");
    assert!(commit(tx));
    for number in 0..KEYS {
        let mut tx = remote.begin(Mode::ReadWrite);
        let done = block_on(tree.insert(&mut tx, &key(number), [1, 2]));
        assert_eq!(done.expect("there is room"), Insert::Done);
        assert!(commit(tx));
    }
    for number in (0..KEYS).step_by(2) {
        assert_eq!(get(&mut local, tree, number), Some([1, 2]));
    }
    let blocks = || machines[1].regions().blocks().len();
    let before = blocks();
    for number in 0..KEYS {
        let mut tx = remote.begin(Mode::ReadWrite);
        assert_eq!(block_on(tree.remove(&mut tx, &key(number))), Ok(true));
        assert!(commit(tx));
    }
    for round in 0.. {
        // Every reader passes the tombstones.
        std::thread::sleep(Duration::from_millis(50));
        machines[1].tidy();
        if blocks() + 2 <= before {
            break;
        }
        assert!(round < 100, "no block is released");
    }
    // The pause is long enough for this machine to forget the cached blocks.
    std::thread::sleep(Duration::from_millis(300));
    for number in (0..KEYS).step_by(2) {
        assert_eq!(get(&mut local, tree, number), None);
    }
    for number in (0..KEYS).step_by(7) {
        let mut tx = local.begin(Mode::ReadWrite);
        let done = block_on(tree.insert(&mut tx, &key(number), [3, 4]));
        assert_eq!(done.expect("there is room"), Insert::Done);
        assert!(commit(tx));
    }
}
