//! The parts that the tests of the tree share: a database in memory and a small seeded generator.

use std::sync::Arc;

use fencepost_btree::{BTree, Cursor, Report, ScanBatch, TreeOptions};
use fencepost_txn::{Coordinator, Machine, MachineOptions, Mode, Outcome, Stop, Transaction};

/// A fresh database in memory.
pub fn machine() -> Arc<Machine> {
    Machine::open(MachineOptions::default()).expect("a database in memory opens")
}

/// Commits; true if it took effect.
pub fn commit(tx: Transaction) -> bool {
    match pollster::block_on(tx.commit()) {
        Ok(Outcome::Committed(_)) => true,
        Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_)) => false,
        Err(stop) => panic!("commit stopped: {stop}"),
    }
}

/// A tree with small nodes, committed.
pub fn tree(session: &mut Coordinator, node_words: usize) -> BTree {
    let mut tx = session.begin(Mode::ReadWrite);
    let tree = pollster::block_on(BTree::create_with(
        &mut tx,
        TreeOptions {
            node_words,
            ..TreeOptions::default()
        },
    ))
    .expect("there is memory");
    assert!(commit(tx));
    tree
}

/// All that is left of a scan.
pub async fn rest(
    cursor: &mut Cursor,
    tx: &mut Transaction,
    batch: usize,
) -> Result<Vec<(Vec<u8>, [u64; 2])>, Stop> {
    let (mut all, mut out) = (Vec::new(), ScanBatch::new());
    while cursor.next_batch(tx, &mut out, batch).await? {
        all.extend(out.iter().map(|(key, value)| (key.to_vec(), value)));
    }
    Ok(all)
}

/// Verifies the whole tree and hands back what was counted.
pub fn check(session: &mut Coordinator, tree: BTree) -> Report {
    let mut tx = session.begin(Mode::ReadOnly);
    let report = pollster::block_on(tree.check(&mut tx)).expect("the tree can be read");
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    report
}

/// Numbers from a seed (splitmix).
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}
